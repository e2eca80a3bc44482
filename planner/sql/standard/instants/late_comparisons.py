"""Gives the unit of a column to late dates beside it, which DataFusion would read as nanoseconds.

    valid_to < '9999-12-31'        ->  valid_to < arrow_cast('9999-12-31', 'Timestamp(us)')
    valid_to = DATE '9999-12-31'   ->  valid_to = arrow_cast('9999-12-31', 'Timestamp(us)')
    at IN ('2024-01-01', '9999-12-31')
->  at IN (arrow_cast('2024-01-01', 'Timestamp(us)'), arrow_cast('9999-12-31', 'Timestamp(us)'))
    nullif(valid_to, '9999-12-31'), CASE valid_to WHEN '9999-12-31' THEN 1 END
->  the same
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from planner.sql.edits import Edit
from planner.sql.standard.instants.late_instants import is_late
from planner.sql.tokens import STRING, SqlText

COMPARISONS: Final = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})
_BEFORE_VALUES: Final = COMPARISONS | frozenset(
    {"(", ",", "[", "SELECT", "DISTINCT", "ALL", "WHERE", "AND", "OR", "NOT", "ON", "BY", "HAVING", "QUALIFY"}
    | {
        "WHEN",
        "THEN",
        "ELSE",
        "CASE",
        "BETWEEN",
        "IN",
        "LIKE",
        "+",
        "-",
        "*",
        "/",
        "%",
        "||",
        "FROM",
        "USING",
    }
)
"""Words before a value, or before a name in a list of names."""
_BOUNDS: Final = frozenset(
    {"", ";", ")", "(", ",", "AS", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT"}
    | {"OFFSET", "FETCH", "UNION", "EXCEPT", "INTERSECT", "MINUS", "LEFT", "RIGHT", "JOIN", "INNER", "FULL"}
    | {"CROSS", "NATURAL", "ON", "THEN", "WHEN", "ELSE", "END", "AND", "OR", "NOT", "SELECT", "BY", "CASE"}
)
"""Words beside a whole operand of a comparison."""


def compare_late_dates(
    text: SqlText, find_instants: Callable[[], Mapping[str, pa.DataType]]
) -> Iterator[Edit]:
    """Yield edits that cast literals.

    Args:
        text: the statement.
        find_instants: returns the columns that are timestamps in all tables, with their types.
    """
    if STRING not in text.words or not any(
        word == STRING and is_late(text.tokens[i].text) for i, word in enumerate(text.words)
    ):
        return
    instants = find_read_instants(text, find_instants)
    for i in text.names:
        kind = instants.get(text.name(i))
        if kind is None or text.words[i + 1] == ".":
            continue
        literals = _find_after(text, i) or _find_before(text, i)
        if any(is_late(text.tokens[literal.stop - 1].text) for literal in literals):
            for literal in literals:
                value = text.sql[text.start(literal.stop - 1) : text.end(literal.stop - 1)]
                cast = f"arrow_cast({value}, '{name_type(kind)}')"
                yield Edit.replace(text.start(literal.start), text.end(literal.stop - 1), cast)


class ReadInstants:
    """The columns of a statement that are timestamps, which are looked for where one may stand.

    Args:
        text: the statement.
        find_instants: returns the columns that are timestamps in all tables, with their types.
    """

    def __init__(self, text: SqlText, find_instants: Callable[[], Mapping[str, pa.DataType]]) -> None:
        self._text = text
        self._find_instants = find_instants
        self._found: Mapping[str, pa.DataType] | None = None

    def find_kind(self, first: int, last: int) -> pa.DataType | None:
        """Return the type of the column that some tokens are; None if they are anything else."""
        text = self._text
        if not text.is_name(last) or find_start(text, last) != first:
            return None
        if self._found is None:
            self._found = find_read_instants(text, self._find_instants)
        return self._found.get(text.name(last))


def find_read_instants(
    text: SqlText, find_instants: Callable[[], Mapping[str, pa.DataType]]
) -> Mapping[str, pa.DataType]:
    """Return the columns that are timestamps in all tables, without names that the statement gives."""
    instants = find_instants()
    given = {text.name(i) for i in text.names if text.name(i) in instants and _is_given(text, i)}
    return {name: kind for name, kind in instants.items() if name not in given}


def _is_given(text: SqlText, i: int) -> bool:
    """Return whether a name may be that of an output, or of a column of an alias, and not that of a value."""
    if not i:
        return False  # Of an expression alone: statements begin with other words.
    words = text.words
    before = words[i - 1]
    if before == "AS":
        return i < 2 or not text.is_name(i - 2) or text.name(i - 2) != text.name(i)
    if before not in _BEFORE_VALUES:
        return before != "."
    opening = i - 1
    while opening > 0 and (words[opening] == "," or text.is_name(opening)):
        opening -= 1
    if words[opening] != "(" or opening < 2 or not text.is_name(opening - 1):
        return False
    closing = text.closing(opening)
    is_common_table = words[closing + 1] == "AS" and words[closing + 2] in {"(", "MATERIALIZED", "NOT"}
    return is_common_table or words[opening - 2] in {"AS", ")"}


def name_type(kind: pa.DataType) -> str:
    """Return a type of timestamps for arrow_cast, whose instants have microseconds."""
    zone = "" if kind.tz is None else f', "{kind.tz}"'
    return f"Timestamp(us{zone})"


def _find_after(text: SqlText, column: int) -> Sequence[range]:
    """Return the literals that a column on the left is compared with."""
    words = text.words
    if words[find_start(text, column) - 1] not in _BOUNDS:
        return ()
    at = column + 1
    if words[at] == "IS":
        at += 1 + (words[at + 1] == "NOT")
        if words[at : at + 2] != ("DISTINCT", "FROM"):
            return ()
        literal = _read_literal(text, at + 2)
        return (literal,) if literal and words[literal.stop] in _BOUNDS else ()
    if words[at] == ",":
        return _find_nullified(text, column)
    if words[at] == "WHEN":
        return _find_cases(text, column)
    if words[at] in COMPARISONS:
        literal = _read_literal(text, at + 1)
        return (literal,) if literal and words[literal.stop] in _BOUNDS else ()
    at += words[at] == "NOT"
    if words[at] == "BETWEEN":
        lower = _read_literal(text, at + 1)
        upper = _read_literal(text, lower.stop + 1) if lower and words[lower.stop] == "AND" else None
        return (lower, upper) if lower and upper and words[upper.stop] in _BOUNDS else ()
    if words[at] != "IN" or words[at + 1] != "(":
        return ()
    literals, at = [], at + 2
    while (literal := _read_literal(text, at)) is not None:
        literals.append(literal)
        at = literal.stop + 1
        if words[literal.stop] != ",":
            return literals if words[literal.stop] == ")" else ()
    return ()


def _find_nullified(text: SqlText, column: int) -> Sequence[range]:
    """Return the literal behind a column in nullif(column, literal)."""
    first = find_start(text, column)
    literal = _read_literal(text, column + 2)
    if text.words[first - 2 : first] != ("NULLIF", "(") or literal is None:
        return ()
    return (literal,) if text.words[literal.stop] == ")" else ()


def _find_cases(text: SqlText, column: int) -> Sequence[range]:
    """Return the literals behind WHEN of CASE column, if they are alone there."""
    words = text.words
    if words[find_start(text, column) - 1] != "CASE":
        return ()
    literals: list[range] = []
    depth = 1
    for at in text.level(column + 1):
        depth += (words[at] == "CASE") - (words[at] == "END")
        if not depth:
            return literals
        if depth == 1 and words[at] == "WHEN":
            literal = _read_literal(text, at + 1)
            if literal is None or words[literal.stop] != "THEN":
                return ()
            literals.append(literal)
    return ()


def _find_before(text: SqlText, column: int) -> Sequence[range]:
    """Return the literal on the left that a column is compared with."""
    words = text.words
    operator = find_start(text, column) - 1
    if (
        words[operator] not in COMPARISONS
        or words[operator - 1] != STRING
        or words[column + 1] not in _BOUNDS
    ):
        return ()
    first = operator - 1 - (words[operator - 2] == "DATE")
    return (range(first, operator),) if first == 0 or words[first - 1] in _BOUNDS else ()


def find_start(text: SqlText, column: int) -> int:
    """Return the first token of a column with the names before its dots."""
    while column >= 2 and text.words[column - 1] == "." and text.is_name(column - 2):
        column -= 2
    return column


def _read_literal(text: SqlText, at: int) -> range | None:
    """Return the tokens of a text, DATE '..', TIMESTAMP '..' or TIMESTAMP(6) '..'; None for others."""
    words, value = text.words, at
    if words[at] in {"DATE", "TIMESTAMP"}:
        value += 1
        if words[at] == "TIMESTAMP" and words[value] == "(" and words[value + 2] == ")":
            if text.name(value + 1) != "6":
                return None
            value += 3
    return range(at, value + 1) if words[value] == STRING else None
