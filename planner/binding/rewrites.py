r"""The rewrites of a statement for DataFusion, in the order in which they are made.

    SELECT id FROM t WHERE name LIKE 'a!_%' ESCAPE '!' FETCH FIRST 3 ROWS ONLY
->  SELECT id FROM t WHERE name LIKE 'a\_%' LIMIT 3

Each reads the text as it was written, and tells its edits: what one writes, no other one reads. An example of
each stands at the top of its module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from planner.binding.distance_operators import DISTANCE_WORDS, called_distances, distance_edits
from planner.sql.pieces import Edit
from planner.sql.rewrites.clauses import escaped_likes, fetched_rows, recursive_columns
from planner.sql.rewrites.extremes import mended_extremes
from planner.sql.rewrites.quantified_comparisons import quantified_comparisons
from planner.sql.rewrites.scalar_totals import scalar_totals
from planner.sql.rewrites.separate_lists import separate_lists
from planner.sql.tokens import SqlText

__all__ = ["REWRITES", "Names", "Rewrite"]


@dataclass(frozen=True, slots=True)
class Names:
    """What the names in a statement stand for.

    Attributes:
        relations: tables and aliases.
        among: tells the tables, and their columns, that are read among some tokens.
        numbers: tells the columns that are numbers in all tables, and those with NaN among them.
        vectors: tells the columns that hold vectors.
        keep: remembers a long vector, and tells what stands for it in the text.
        replaced: ranges of tokens, first and last, that something else is put in place of.
        distances: takes the names of the distance functions that are called.
    """

    relations: Collection[str]
    among: Callable[[range], Collection[str]]
    numbers: Callable[[], tuple[Collection[str], Collection[str]]]
    vectors: Callable[[], frozenset[str]]
    keep: Callable[[list[float]], str]
    replaced: Sequence[tuple[int, int]]
    distances: set[str]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A way to say a part of a statement otherwise.

    Attributes:
        words: a text without any of them, quoted or not, has no such part, and is not handed over.
        edits: tells what is said in its place.
    """

    words: frozenset[str]
    edits: Callable[[SqlText, Names], Iterator[Edit]]


def _rewrite_distances(text: SqlText, names: Names) -> Iterator[Edit]:
    names.distances.update(called_distances(text))
    return distance_edits(text, names.vectors, names.keep, names.replaced)


REWRITES: Final = (
    Rewrite(frozenset({"ESCAPE"}), lambda text, _: escaped_likes(text)),
    Rewrite(frozenset({"FETCH"}), lambda text, _: fetched_rows(text)),
    Rewrite(frozenset({"RECURSIVE"}), lambda text, _: recursive_columns(text)),
    Rewrite(
        frozenset({"IN", "ANY", "SOME", "ALL"}),
        lambda text, names: quantified_comparisons(text, names.relations, names.among),
    ),
    Rewrite(frozenset({"IN"}), lambda text, _: separate_lists(text)),
    Rewrite(
        DISTANCE_WORDS,
        _rewrite_distances,
    ),
    Rewrite(frozenset({"COUNT", "CASE", "COALESCE", "NVL", "IFNULL"}), lambda text, _: scalar_totals(text)),
    Rewrite(
        frozenset({"MIN", "MAX", "COUNT", "SUM"}), lambda text, names: mended_extremes(text, names.numbers)
    ),
)
