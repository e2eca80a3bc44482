"""The rewrites of a statement for DataFusion, in the order in which they are applied.

    SELECT id FROM t WHERE name = ANY (SELECT name FROM u) FETCH FIRST 3 ROWS ONLY
->  SELECT id FROM t WHERE name IN (SELECT name FROM u) LIMIT 3

Each rewrite reads the original text and yields edits; no rewrite reads the edits of another. The docstring of
each module has an example.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from planner.binding.distance_operators import DISTANCE_WORDS, find_called_distances, rewrite_distances
from planner.bridge.json.functions import JSON_FUNCTIONS
from planner.sql.edits import Edit
from planner.sql.rewrites.extremes import mended_extremes
from planner.sql.rewrites.outer_qualifiers import qualify_outer_names
from planner.sql.rewrites.quantified_comparisons import rewrite_quantified_comparisons
from planner.sql.rewrites.scalar_subqueries import (
    rewrite_exists_of_one_row,
    rewrite_nullable_subqueries,
    rewrite_scalar_totals,
)
from planner.sql.tokens import SqlText

NESTED: Final = "SELECT .. SELECT"
"""Among the words of a text that has several SELECTs."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the names in a statement stand for.

    Attributes:
        relations: tables and aliases.
        qualified: first tokens of names of columns that have two parts.
        find_names_among: returns the tables that are read among some tokens, and their columns.
        find_number_columns: returns the columns that are numbers in all tables, and those that may be NaN.
        find_plain: returns the columns that have no fields in any table.
        find_vectors: returns the columns that hold vectors.
        keep_vector: keeps a long vector, and returns the text that stands for it.
        replaced: ranges of tokens, first and last, that other text replaces.
        distances: collects the names of the distance functions that are called.
        json_functions: collects those of the functions that are called which read JSON.
    """

    relations: Collection[str]
    qualified: Sequence[int]
    find_names_among: Callable[[range], Collection[str]]
    find_number_columns: Callable[[], tuple[Collection[str], Collection[str]]]
    find_plain: Callable[[], Collection[str]]
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
        frozenset({"IN", "ANY", "SOME", "ALL"}),
        lambda text, names: rewrite_quantified_comparisons(text, names.relations, names.find_names_among),
    ),
    Rewrite(
        DISTANCE_WORDS,
        _rewrite_distances,
    ),
    Rewrite(frozenset({"EXISTS"}), lambda text, _: rewrite_exists_of_one_row(text)),
    Rewrite(frozenset({NESTED}), lambda text, _: rewrite_nullable_subqueries(text)),
    Rewrite(
        frozenset({NESTED}),
        lambda text, names: qualify_outer_names(text, names.qualified, names.relations, names.find_plain),
    ),
    Rewrite(
        frozenset({"COUNT", "CASE", "COALESCE", "NVL", "IFNULL", "HAVING"}),
        lambda text, _: rewrite_scalar_totals(text),
    ),
    Rewrite(
        frozenset({"MIN", "MAX", "COUNT"}),
        lambda text, names: mended_extremes(text, names.find_number_columns),
    ),
)
