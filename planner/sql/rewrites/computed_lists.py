"""Rewrites lists whose values DataFusion 55 would compute once, before it has a row.

    WHERE a + 1 IN (coalesce(b, c, 1), 5)
->  WHERE a + 1 IN (array_element(make_array(coalesce(b, c, 1)), CAST(array_length(make_array(struct(b, c)))
      AS BIGINT)), 5)

To learn whether a list is constant, DataFusion evaluates it over no rows. CASE, and the functions and
subqueries that become CASE, then give one value instead of a column of none, which is taken for that of
every row. The index is 1 in each row, but a column; an array element by a column is one as well. One such
value in a list suffices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from memwal.errors import UnsupportedError
from planner.sql.edits import Edit
from planner.sql.rewrites.truth_position import find_subject_start
from planner.sql.statement_reader import Part, StatementReader
from planner.sql.tokens import SqlText

_CONDITIONAL: Final = frozenset({"CASE", "COALESCE", "NVL", "NVL2", "IFNULL", "SELECT"})
_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
_GROUPING: Final = frozenset({"GROUP", "HAVING"})
_OF_ROWS: Final = frozenset({"WHERE", "ON"})
_CLAUSES: Final = _OF_ROWS | {"SELECT", "HAVING", "QUALIFY", "BY"}
_NO_COLUMNS_OF: Final = (exp.AggFunc, exp.Anonymous, exp.Lambda, exp.Window)
"""What may have columns that can't stand outside of it."""


def compute_lists_by_row(text: SqlText) -> Iterator[Edit]:
    """Yield edits of lists with CASE and the like.

    Raises:
        UnsupportedError: no column can be named where such a list stands.
    """
    words = text.words
    if _CONDITIONAL.isdisjoint(words):
        return
    for i, word in enumerate(words[:-2]):
        if word != "IN" or words[i + 1] != "(" or words[i + 2] in _QUERIES:
            continue
        elements = StatementReader(text, i + 1).read_bracketed_list()
        conditional = [
            element
            for element in elements
            if not _CONDITIONAL.isdisjoint(words[element.start : element.stop])
        ]
        if len(elements) > 1 and conditional:
            yield from _compute_one_by_row(text, i, conditional)


def _compute_one_by_row(text: SqlText, place: int, elements: list[Part]) -> Iterator[Edit]:
    """Yield the edits of one of the elements of the list at a token, if any reads columns."""
    last = place - 2 if text.words[place - 1] == "NOT" else place - 1
    subject = range(find_subject_start(text, last), last + 1)
    has_all_columns = (
        _GROUPING.isdisjoint(_find_query(text, place)) or _find_clause(text, subject.start) in _OF_ROWS
    )
    reads_columns = False
    for element in elements:
        begin, end = text.start(element.start), text.end(element.stop - 1)
        own, usable = _find_columns(text.sql[begin:end])
        if not own and "SELECT" not in text.words[element.start : element.stop]:
            continue
        reads_columns |= bool(own)
        usable |= _find_columns(text.sql[text.start(subject.start) : text.end(last)])[1]
        if usable and has_all_columns:
            length = f"array_length(make_array(struct({', '.join(usable)})))"
            after = f"), CAST({length} AS BIGINT))"
            yield from Edit.wrap(begin, end, "array_element(make_array(", after)
            return
    if reads_columns:
        msg = (
            "A list with CASE, coalesce or a subquery is not offered among groups, since DataFusion would "
            "compute it for one row only: write x = a OR x = b in place of x IN (a, b)"
        )
        raise UnsupportedError(msg)


def _find_columns(expression: str) -> tuple[dict[str, None], dict[str, None]]:
    """Return the columns of an expression without its subqueries: all, and those to be named beside it.

    Those of an expression that can't be parsed are "" and none.
    """
    own: dict[str, None] = {}
    usable: dict[str, None] = {}
    try:
        tree = sqlglot.parse_one(expression, dialect="postgres")
    except SqlglotError:
        return {"": None}, usable
    for column in tree.find_all(exp.Column):
        if column.find_ancestor(exp.Query) is not None:
            continue
        name = column.sql(dialect="postgres")
        own[name] = None
        if column.find_ancestor(*_NO_COLUMNS_OF) is None:
            usable[name] = None
    return own, usable


def _find_query(text: SqlText, place: int) -> Sequence[str]:
    """Return the words of the innermost query with a token, those of its subqueries, too."""
    words, depth = text.words, 0
    for i in range(place - 1, -1, -1):
        depth += (words[i] == ")") - (words[i] == "(")
        if depth < 0 and words[i + 1] in _QUERIES:
            return words[i : text.closing(i)]
        depth = max(depth, 0)
    return words


def _find_clause(text: SqlText, place: int) -> str:
    """Return the word with which the clause of a token begins; "" if the text is an expression."""
    words, depth = text.words, 0
    for i in range(place - 1, -1, -1):
        depth += (words[i] == ")") - (words[i] == "(")
        depth = max(depth, 0)
        if depth == 0 and words[i] in _CLAUSES:
            return words[i]
    return ""
