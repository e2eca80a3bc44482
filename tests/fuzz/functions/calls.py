"""Calls of every function: of kinds that it takes, with arguments at their edges."""

import random
from collections.abc import Iterator

from datafusion import functions

from tests.fuzz.functions.arguments import ORDINARY, Case, iterate_edges, iterate_kinds
from tests.fuzz.functions.running import Runner

MOST_ARGUMENTS = 3
KINDS_OF_A_FUNCTION = 6
CALLS_OF_KINDS = 24


def list_names() -> list[str]:
    """What SHOW FUNCTIONS lists, and what has no fixed signature and is not listed there."""
    return sorted(name for name in dir(functions) if name.islower() and not name.startswith("_"))


def iterate_calls(
    plain: Runner,
    name: str,
    rng: random.Random,
    *,
    kinds_of_a_function: int = KINDS_OF_A_FUNCTION,
    calls_of_kinds: int = CALLS_OF_KINDS,
) -> Iterator[Case]:
    """Yield calls of a function with arguments at the edges of kinds that it takes.

    Args:
        plain: tells which kinds it takes.
        name: of the function.
        rng: draws among the calls.
        kinds_of_a_function: the largest number of combinations of kinds.
        calls_of_kinds: the largest number of calls for each of them, half as many as statements.
    """
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
    for kinds, form in rng.sample(accepted, min(len(accepted), kinds_of_a_function)):
        edges = list(iterate_edges(kinds))
        for arguments in rng.sample(edges, min(len(edges), calls_of_kinds)):
            for one in ("constant", "column") if form == "constant" else ("window",):
                yield Case(name, arguments, one)
