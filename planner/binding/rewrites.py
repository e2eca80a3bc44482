"""The rewrites of a statement for DataFusion, in the order in which they are applied.

    SELECT id FROM t WHERE name = ANY (SELECT name FROM u) FETCH FIRST 3 ROWS ONLY
->  SELECT id FROM t WHERE name IN (SELECT name FROM u) LIMIT 3

Each rewrite reads the original text and yields edits; no rewrite reads the edits of another. The docstring of
each module has an example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from planner.binding.distance_operators import DISTANCE_WORDS, find_called_distances, rewrite_distances
from planner.bridge.json.functions import JSON_FUNCTIONS
from planner.sql.edits import Edit
from planner.sql.tokens import SqlText


@dataclass(frozen=True, slots=True)
class Names:
    """What the names in a statement stand for.

    Attributes:
        find_vectors: returns the columns that hold vectors.
        keep_vector: keeps a long vector, and returns the text that stands for it.
        replaced: ranges of tokens, first and last, that other text replaces.
        distances: collects the names of the distance functions that are called.
        json_functions: collects those of the functions that are called which read JSON.
    """

    find_vectors: Callable[[], frozenset[str]]
    keep_vector: Callable[[list[float]], str]
    replaced: Sequence[tuple[int, int]]
    distances: set[str]
    json_functions: set[str]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rewrite of parts of a statement.

    Attributes:
        words: a text without any of these words, quoted or not, is not rewritten.
        edits: yields the edits of a text.
    """

    words: frozenset[str]
    edits: Callable[[SqlText, Names], Iterator[Edit]]


def _rewrite_distances(text: SqlText, names: Names) -> Iterator[Edit]:
    names.distances.update(find_called_distances(text))
    return rewrite_distances(text, names.find_vectors, names.keep_vector, names.replaced)


def _note_json(text: SqlText, names: Names) -> Iterator[Edit]:
    names.json_functions.update(JSON_FUNCTIONS.intersection(text.names.values()))
    yield from ()


REWRITES: Final = (
    Rewrite(frozenset(map(str.upper, JSON_FUNCTIONS)), _note_json),
    Rewrite(
        DISTANCE_WORDS,
        _rewrite_distances,
    ),
)
