"""Totals that stand for a value, in words whose NULL DataFusion gets right.

    SELECT (SELECT 5 + 0 * count(*) FROM items WHERE items.id = orders.id) FROM orders
->  SELECT (SELECT CASE WHEN count(*) < 0 THEN NULL ELSE (5 + 0 * count(*)) END FROM items ..) FROM orders
    SELECT coalesce((SELECT count(*) FROM items HAVING count(*) > 9), 0)
->  SELECT coalesce((SELECT CASE WHEN count(*) < 0 THEN NULL ELSE (count(*)) END FROM items HAVING ..), 0)

DataFusion 54 joins such subqueries, and computes what they give for no rows from the aggregates in it.
Those that simplifying leaves out, as in `0 * count(*)`, give NULL then. count() without the row around
it is taken to be never NULL, though HAVING or LIMIT may leave no row.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.sql.pieces import Edit, Piece
from planner.sql.tokens import SqlText

__all__ = ["scalar_totals"]

_OF_ROWS = frozenset(
    {"FROM", "JOIN", "IN", "EXISTS", "ANY", "SOME", "ALL", "AS", "UNION", "EXCEPT", "INTERSECT"}
)
"""Before subqueries that stand for rows."""
_AGGREGATES = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG", "BOOL_AND", "BOOL_OR"})
_SIMPLIFIED = frozenset({"COUNT", "CASE", "COALESCE", "NVL", "IFNULL"})
"""In expressions that may become simpler ones without aggregates."""
_ENDS = frozenset({"END", "NULL", "TRUE", "FALSE", "UNKNOWN"})
_AMID = frozenset({"IS", "NOT", "AND", "OR", "ELSE", "THEN", "LIKE", "ILIKE", "BETWEEN", "DISTINCT"})
"""Words of expressions: at their ends, and before an operand."""
_ROW_MAY_GO = frozenset({"HAVING", "LIMIT", "OFFSET", "FETCH"})


def scalar_totals(text: SqlText) -> Iterator[Edit]:
    """Yields what stands around the totals of subqueries that stand for a value."""
    words = text.words
    for i, word in enumerate(words):
        if word != "SELECT" or i < 2 or words[i - 1] != "(" or words[i - 2] in _OF_ROWS:
            continue
        end = text.closing(i - 1)
        item = _only_item(text, i + 1, end)
        calls = [] if item is None else _aggregates(text, item)
        if item is None or not calls:
            continue
        if calls == [item]:
            is_meant = words[item.start] == "COUNT" and not _ROW_MAY_GO.isdisjoint(words[item.stop : end])
        else:
            is_meant = not _SIMPLIFIED.isdisjoint(words[item.start : item.stop])
        if is_meant:
            begin, last = text.start(item.start), text.end(item.stop - 1)
            yield Edit(begin, begin, [_mend("CASE WHEN count(*) < 0 THEN NULL ELSE (", begin)])
            yield Edit(last, last, [_mend(") END", last)])


def _only_item(text: SqlText, first: int, end: int) -> range | None:
    """The tokens of the only column of a SELECT, without its name; None for DISTINCT, and without FROM."""
    words = text.words
    i = first
    while i < end and words[i] != "FROM":
        if words[i] in {",", "DISTINCT", "ALL"}:
            return None
        if words[i] == "AS":
            return range(first, i)
        i = text.closing(i) + 1 if words[i] == "(" else i + 1
    if i >= end or i == first:
        return None
    is_named = text.is_name(i - 1) and words[i - 1] not in _ENDS
    is_named = is_named and (
        words[i - 2] in {")", "0", "END"} or (text.is_name(i - 2) and words[i - 2] not in _AMID)
    )
    return range(first, i - 1 if is_named else i)


def _aggregates(text: SqlText, tokens: range) -> list[range]:
    """The calls of aggregates among some tokens, without those of subqueries."""
    words = text.words
    calls = []
    i = tokens.start
    while i < tokens.stop:
        if words[i] == "(" and words[i + 1] in {"SELECT", "WITH"}:
            i = text.closing(i)
        elif words[i] in _AGGREGATES and words[i + 1] == "(" and words[i - 1] != ".":
            last = text.closing(i + 1)
            if words[last + 1] == "FILTER" and words[last + 2] == "(":
                last = text.closing(last + 2)
            if words[last + 1] != "OVER":
                calls.append(range(i, last + 1))
            i = last
        i += 1
    return calls


def _mend(text: str, origin: int) -> Piece:
    return Piece(text, origin, verbatim=False, mend=True)
