"""Every function with edge arguments: an answer or a clean refusal, but for those known as dangerous.

Each statement runs in a process with little memory, which is begun again when one has ended it.
"""

import random
from collections import Counter

import pytest

from tests.fuzz.functions.calls import iterate_calls, list_names
from tests.fuzz.functions.running import Runner

# After so many deaths of a function, no more is learnt from it.
MOST_DEATHS = 3

# Values whose length or number is an argument: memory that is not there, or the time to fill what is.
SIZES = {
    "approx_percentile_cont", "approx_percentile_cont_with_weight", "array_repeat", "array_resize",
    "generate_series", "list_repeat", "list_resize", "lpad", "range", "repeat", "rpad",
}  # fmt: skip
# Work that grows with the product of the lengths of two arguments.
PRODUCTS = {"levenshtein", "regexp_like"}
DANGEROUS = SIZES | PRODUCTS
# Of the planner and the engine; INTERNAL is none.
REFUSALS = {"rows", "INVALID_ARGUMENT", "UNIMPLEMENTED", "NOT_FOUND", "RESOURCE_EXHAUSTED"}


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_function_answers_or_refuses() -> None:
    counts: Counter[str] = Counter()
    surprises = []
    with Runner("plain") as plain, Runner("engine") as engine:
        for name in list_names():
            deaths = 0
            # Seeded by the name: a function that is added changes no other's calls.
            for case in iterate_calls(plain, name, random.Random(name)):
                outcome, text = engine.run(case.sql)
                counts[outcome] += 1
                if outcome in REFUSALS:
                    continue
                deaths += outcome == "hang" or outcome.startswith("died")
                if name not in DANGEROUS:
                    surprises.append((name, case.sql, outcome, text))
                if deaths >= MOST_DEATHS:
                    break
    assert counts["rows"] > 1000, counts
    assert not surprises, surprises


def test_a_process_that_dies_is_begun_anew() -> None:
    with Runner("plain", memory=4 << 30) as runner:
        assert runner.run("SELECT 1") == ("rows", "1")
        outcome, _ = runner.run("SELECT lpad('a', n) FROM (VALUES (9223372036854775807)) AS t(n)")
        assert outcome.startswith("died of")
        assert runner.run("SELECT 1 UNION ALL SELECT 2") == ("rows", "2")
