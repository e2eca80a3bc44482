"""What a run has asked: types by classes of operators, by places, by states of the rows."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache

from tests.fuzz.typed.functions import functions
from tests.fuzz.typed.lake import STATES
from tests.fuzz.typed.operators import CLASSES, Operator, groups_of
from tests.fuzz.typed.places import PLACES
from tests.fuzz.typed.types import TYPES, Type, iterate_parts

Cell = tuple[str, str, str, str]
"""A type, a class of operators, a place and a state."""


@cache
def expected_cells() -> frozenset[Cell]:
    """Return all cells that a run should fill."""
    return frozenset(_iterate_cells())


def _iterate_cells() -> Iterator[Cell]:
    classes: Mapping[str, tuple[Operator, ...]] = {
        **{name: tuple(operators) for name, operators in CLASSES.items()}, "function": tuple(functions()),
    }  # fmt: skip
    for one in TYPES:
        groups = {one.group, *(part.group for _, part in iterate_parts(one))}
        for name, operators in classes.items():
            given = {
                group if operator.gives == "like" else operator.gives
                for operator in operators
                for group in groups & set(groups_of(operator.takes[0]))
            }
            if given:
                places = [
                    "SELECT",
                    *(
                        place.name
                        for place in PLACES
                        if any(map(place.takes, given)) and not _is_rare(one, place.name)
                    ),
                ]
                yield from ((one.name, name, place, state) for place in places for state in STATES)


def _is_rare(one: Type, place: str) -> bool:
    """Return whether nothing is written there beside such a type."""
    return place in {"total row", "JOIN VALUES", "IN subquery", "EXCEPT", "INTERSECT"} and not one.literals


def describe(cells: Mapping[Cell, int]) -> str:
    """Return a table of the types and classes, with how many places and states were asked of how many."""
    wanted = expected_cells()
    rows: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for cell in wanted:
        counts = rows[cell[0]][cell[1]]
        counts[0] += cells.get(cell, 0) > 0
        counts[1] += 1
    classes = (*CLASSES, "function")
    lines = [f"{'type':24}" + "".join(f"{one:>12}" for one in classes)]
    for one in TYPES:
        texts = [
            "/".join(map(str, rows[one.name][name])) if name in rows[one.name] else "-" for name in classes
        ]
        lines.append(f"{one.name:24}" + "".join(f"{text:>12}" for text in texts))
    empty = sorted(cell for cell in wanted if not cells.get(cell))
    lines.append(
        f"{len(wanted) - len(empty)} of {len(wanted)} cells of type, operators, place and state; "
        f"empty: {empty[:8]}"
    )
    return "\n".join(lines)
