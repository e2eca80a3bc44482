"""Comparisons with ANY and ALL rows of a subquery, in words that DataFusion gets right.

    SELECT id FROM orders WHERE n = ANY (SELECT n FROM orders)
->  SELECT id FROM orders WHERE n IN (SELECT n FROM orders)
    SELECT id FROM orders WHERE n >= ALL (SELECT n FROM orders)
->  SELECT id FROM orders WHERE n >= ALL (SELECT * FROM (SELECT n FROM orders) AS "quantified#1")

DataFusion plans the second as a join and keeps the names: where the subquery reads a relation that is called
like one around it, `orders.n >= orders.n` would compare a column with itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from planner.statement import Piece, Slot
from planner.tokens import SqlText

__all__ = ["quantified_comparisons"]

_SUBQUERIES = frozenset({"SELECT", "WITH"})
_ANY = frozenset({"ANY", "SOME"})
_COMPARISONS = frozenset({"=", "<", ">", "<=", ">=", "<>", "!="})
# Comparison and quantifier -> the same as one operator.
_MEMBERSHIP: Mapping[tuple[str, bool], str] = MappingProxyType(
    {("=", True): "IN", ("<>", False): "NOT IN", ("!=", False): "NOT IN"}
)

Edit = tuple[int, int, list[Piece | Slot]]


def quantified_comparisons(text: SqlText, relations: Collection[str]) -> Iterator[Edit]:
    """Yields what stands in place of such comparisons, or around their subqueries.

    Args:
        text: the statement.
        relations: tables and aliases of it.
    """
    words = text.words
    number = 0
    for i, word in enumerate(words):
        if (word not in _ANY and word != "ALL") or words[i - 1] not in _COMPARISONS:
            continue
        if words[i + 1] != "(" or words[i + 2] not in _SUBQUERIES:
            continue
        membership = _MEMBERSHIP.get((words[i - 1], word in _ANY))
        if membership is not None:
            begin = text.start(i - 1)
            yield begin, text.end(i), [Piece(f" {membership} ", begin, verbatim=False)]
            continue
        opening, closing = i + 1, text.closing(i + 1)
        around = (*range(opening), *range(closing, len(text.tokens)))
        if _named(text, relations, range(opening, closing)) & _named(text, relations, around):
            number += 1
            begin, end = text.end(opening), text.start(closing)
            yield begin, begin, [Piece("SELECT * FROM (", begin, verbatim=False)]
            # The line break ends a comment that ends the subquery.
            yield end, end, [Piece(f'\n) AS "quantified#{number}"', end, verbatim=False)]


def _named(text: SqlText, relations: Collection[str], tokens: Collection[int]) -> set[str]:
    """Which relations stand among the tokens other than as the qualifier of a column."""
    return {
        name
        for i in tokens
        if text.is_name(i) and text.words[i + 1] != "." and (name := text.name(i)) in relations
    }
