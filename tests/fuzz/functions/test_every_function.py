"""Every function with edge arguments: an answer or a clean refusal, but for those known as dangerous.

Each statement runs in a process with little memory, which is begun anew when one has ended it.
"""

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from datafusion import functions

from tests.fuzz.functions.arguments import ORDINARY, Case, iterate_edges, iterate_kinds
from tests.fuzz.functions.running import Runner

MOST_ARGUMENTS = 3
KINDS_OF_A_FUNCTION = 6
CALLS_OF_KINDS = 24
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


def list_names() -> list[str]:
    """What SHOW FUNCTIONS lists, and what has no fixed signature and is not listed there."""
    return sorted(name for name in dir(functions) if name.islower() and not name.startswith("_"))


def iterate_calls(plain: Runner, name: str, rng: random.Random) -> Iterator[Case]:
    """Yield calls of a function with arguments at the edges of kinds that it takes."""
    accepted = []
    for kinds in iterate_kinds(MOST_ARGUMENTS):
        for form in ("constant", "window"):
            outcome, text = plain.run(Case(name, tuple(ORDINARY[kind] for kind in kinds), form).sql, True)
            if outcome == "rows":
                accepted.append((kinds, form))
            if outcome == "rows" or "Invalid function" in text:
                break
        if not kinds and "Invalid function" in text:
            return
    for kinds, form in rng.sample(accepted, min(len(accepted), KINDS_OF_A_FUNCTION)):
        edges = list(iterate_edges(kinds))
        for arguments in rng.sample(edges, min(len(edges), CALLS_OF_KINDS)):
            for one in ("constant", "column") if form == "constant" else ("window",):
                yield Case(name, arguments, one)


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
        outcome, _ = runner.run("SELECT array_repeat(1, 2147483647)")
        assert outcome.startswith("died of")
        assert runner.run("SELECT 1 UNION ALL SELECT 2") == ("rows", "2")
        assert runner.run("SELECT array_repeat(1, 9223372036854775807)") == ("panic", "capacity overflow")
