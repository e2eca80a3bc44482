"""Clauses that DataFusion parses, and then ignores or misreads."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.sql.text.tokens import PlacedMessage, SqlText
from lance_gateway.planner.sql.tree.dialect import PIPE
from lance_gateway.planner.sql.tree.tree import Tree

_SAMPLE: Final = "Sampling is not supported: use WHERE random() < 0.1"
_LOCK: Final = "Locking rows is not supported: leave it out"
_TOTALS: Final = "Totals are written GROUP BY ROLLUP (...), CUBE (...) or GROUPING SETS (...)"
_PIVOT: Final = (
    "PIVOT is not supported: write sum(n) FILTER (WHERE k = 'a') AS a, .. and GROUP BY for each value"
)
_UNPIVOT: Final = "UNPIVOT is not supported: write a SELECT for each column, and UNION ALL between them"
_MISREAD: Final = (
    *(exp.NullSafeEQ, exp.NullSafeNEQ, exp.TableSample, exp.Lock, exp.Group, exp.Rollup, exp.Cube),
    *(exp.Connect, exp.SimilarTo, exp.Join, exp.Star, exp.Comprehension, exp.CTE),
)
_PIPES: Final = "Pipes are not supported: use subqueries in FROM, or WITH"
_UNREAD: Final = (
    (r"\b(?:TABLE)?SAMPLE\s*[\d(]", _SAMPLE),
    (r"\bUNPIVOT\b", _UNPIVOT),
    (r"\bPIVOT\b", _PIVOT),
    (r"\bFOR\s+(?:NO\s+KEY\s+|KEY\s+)?(?:UPDATE|SHARE)\b", _LOCK),
    (
        r"\b(?:SORT|CLUSTER|DISTRIBUTE)\s+BY\b",
        "SORT BY, CLUSTER BY and DISTRIBUTE BY are not supported: use ORDER BY",
    ),
    (
        r"\bFOR\s+(?:VERSION|TIMESTAMP|SYSTEM_(?:VERSION|TIME))\b(?!\s+AS\s+OF)",
        "FOR VERSION must be followed by AS OF",
    ),
    (r"\bWITH\s+(?:ROLLUP|CUBE|TOTALS)\b", _TOTALS),
)


def misread_clauses(tree: Tree) -> None:
    """Write IS DISTINCT FROM beside AND in brackets, and refuse clauses that DataFusion leaves out.

        SELECT id FROM t WHERE a IS DISTINCT FROM b AND c = 1
    ->  SELECT id FROM t WHERE (a IS DISTINCT FROM b) AND c = 1

    DataFusion reads it as `a IS DISTINCT FROM (b AND c = 1)`.

    Raises:
        UnsupportedError: there is a clause that would be ignored.
    """
    for node in tree.find_all(*_MISREAD):
        if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ) and node.find_ancestor(exp.Connector):
            tree.note_change()  # the brackets are written with it
        refusal = _find_refusal(node)
        if refusal is not None:
            has_place = not isinstance(node, exp.TableSample) and any(
                "start" in one.meta for one in node.walk()
            )
            place = node if has_place or node.parent is None else node.parent
            raise tree.error(place, refusal, UnsupportedError)


def _find_refusal(node: exp.Expr) -> str | None:
    match node:
        case exp.TableSample():
            return _SAMPLE
        case exp.Lock():
            return _LOCK
        case exp.Group() if node.args.get("totals"):
            return _TOTALS
        case exp.Rollup() | exp.Cube() if not node.expressions:
            return _TOTALS
        case exp.Connect():
            return "CONNECT BY is not supported: use WITH RECURSIVE"
        case exp.SimilarTo():
            return "SIMILAR TO is not supported: use LIKE, or a regular expression (~ '^...$')"
        case exp.Join(method="NATURAL") if node.side:
            return (
                "NATURAL joins of one side are not supported: name the columns, as in LEFT JOIN u USING (k)"
            )
        case exp.Star() if node.args.get("ilike"):
            return "* ILIKE is not supported: name the columns"
        case exp.Comprehension():
            return "List comprehensions are not supported: unnest the list in a subquery, and use array_agg()"
        case exp.CTE() if isinstance(node.this, exp.DML | exp.Merge):
            return (
                "A statement that writes is not supported in WITH: send it by itself, with RETURNING if its "
                "rows are needed"
            )
    return None


_CONNECTED: Final = "AND and OR behind IS DISTINCT FROM would be read wrongly: write (a IS DISTINCT FROM b)"


def refuse_unread(text: SqlText) -> None:
    """Refuse a text that sqlglot does not read, if DataFusion may read it wrongly.

    Raises:
        UnsupportedError: it may.
    """
    if PIPE in text.words:
        place = text.start(text.words.index(PIPE))
        raise UnsupportedError(PlacedMessage(text.sql, place, _PIPES))
    for pattern, message in _UNREAD:
        found = re.search(pattern, text.sql, re.IGNORECASE | re.DOTALL)
        if found is not None:
            raise UnsupportedError(PlacedMessage(text.sql, found.start(), message))
    for at, pair in enumerate(pairwise(text.words)):
        is_operator = pair == ("DISTINCT", "FROM") and text.words[at - 1] in {"IS", "NOT"}
        if is_operator and any(text.words[i] in {"AND", "OR"} for i in text.level(at + 2)):
            raise UnsupportedError(PlacedMessage(text.sql, text.start(at), _CONNECTED))
