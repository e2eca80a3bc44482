"""Which cells of the coverage a lake asks: all of them come in turn, from lake to lake."""

import random
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from functools import cache

from tests.fuzz.typed.coverage import expected_cells
from tests.fuzz.typed.expressions import Call, Leaf, leaves_of
from tests.fuzz.typed.operators import CLASS_OF, Operator
from tests.fuzz.typed.places import PLACES, Place
from tests.fuzz.typed.types import Type

_STEP = 6
"""How many places a lake asks about for a type and a class of operators in each of its turns, about."""
_PLACES_OF_TURN = 25


class Aims:
    """Draws expressions for the cells of some types; each is asked in all states.

    What a lake asks follows from its number and not from what was asked before, so that it can be run alone.

    Args:
        seed: Of the machine.
        cycle: How often all types had their turn before this lake.
        types: Of its columns.
        pairs: What is asked of its columns.
    """

    def __init__(
        self, seed: int, cycle: int, types: Sequence[Type], pairs: Sequence[tuple[Leaf, Operator]]
    ) -> None:
        self._pairs: dict[tuple[str, str], list[tuple[Leaf, Operator]]] = defaultdict(list)
        for leaf, operator in pairs:
            if leaf.of is not None and leaf.of in types:
                self._pairs[leaf.of.name, CLASS_OF.get(operator.name, "function")].append((leaf, operator))
        self._left: dict[tuple[str, str], deque[Place]] = {}
        for kind in self._pairs:
            aims = deque(_aims_of(seed, *kind))
            aims.rotate(-cycle * _STEP * _turns_of(aims))
            self._left[kind] = aims
        self._turns = deque(kind for kind, aims in self._left.items() for _ in range(_turns_of(aims)))
        random.Random(seed).shuffle(self._turns)

    def draw(self, rng: random.Random) -> tuple[Leaf, Operator] | None:
        """Return a leaf and an operator for a cell of the type and the class whose turn it is."""
        if not self._turns:
            return None
        kind = self._turns[0]
        self._turns.rotate(-1)
        place = self._left[kind][0]
        fitting = [one for one in self._pairs[kind] if place.takes(_group_of(*one))]
        if not fitting:
            self._left[kind].rotate(-1)
        return rng.choice(fitting or self._pairs[kind])

    def take(self, node: Call, most: int) -> Sequence[Place]:
        """Return the places whose turn it is for an expression."""
        is_bound = any(one.source == "parameter" for one in leaves_of(node))
        left = self._left[_cell_of(node)]
        taken = [
            place for place in left if place.takes(node.group) and not (is_bound and place.qualifier == "")
        ][:most]
        for one in taken:
            left.remove(one)
        left.extend(taken)
        return taken

    def give_back(self, node: Call, aims: Sequence[Place]) -> None:
        """Keep places for another expression, since this one is refused."""
        left = self._left[_cell_of(node)]
        for one in aims:
            left.remove(one)
        left.extendleft(reversed(aims))


def _cell_of(node: Call) -> tuple[str, str]:
    first = next(leaf for leaf in leaves_of(node) if leaf.column)
    return first.of.name if first.of else "", CLASS_OF.get(node.operator.name, "function")


def _turns_of(aims: Collection[Place]) -> int:
    """Return how often a type and a class of operators have their turn while each of them has one."""
    return -(-len(aims) // _PLACES_OF_TURN)


def _group_of(leaf: Leaf, operator: Operator) -> str:
    return leaf.group if operator.gives == "like" else operator.gives


@cache
def _aims_of(seed: int, name: str, kind: str) -> Sequence[Place]:
    """Return the places of a type and a class of operators, in random order."""
    places = {one.name: one for one in PLACES}
    aims = [places[place] for place in sorted(_places_of_cells()[name, kind]) if place in places]
    random.Random(f"{seed}/{name}/{kind}").shuffle(aims)
    return aims


@cache
def _places_of_cells() -> Mapping[tuple[str, str], Collection[str]]:
    found = defaultdict(set)
    for name, kind, place, _ in expected_cells():
        found[name, kind].add(place)
    return found
