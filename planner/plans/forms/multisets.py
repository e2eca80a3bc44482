"""Writes INTERSECT ALL and EXCEPT ALL, which DataFusion answers without regard to how often a row occurs.

    SELECT a FROM t EXCEPT ALL SELECT b FROM u
->  SELECT "c#1" AS "a" FROM (
        SELECT "c#1", row_number() OVER (PARTITION BY "c#1") AS "n#" FROM (SELECT a FROM t) AS "s#" ("c#1")
        EXCEPT
        SELECT "c#1", row_number() OVER (PARTITION BY "c#1") AS "n#" FROM (SELECT b FROM u) AS "s#" ("c#1")
    ) AS "m#"

Equal rows are numbered on both sides, so that each has a partner at most once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa

from memwal.errors import InvalidInputError, UnsupportedError
from planner.sql.standard.query_bodies import QueryBody, SetOperator, find_bodies
from planner.sql.tokens import SqlText, quote, tokenize

MULTISETS: Final = re.compile(r"\b(?:intersect|except|minus)\s+all\b", re.IGNORECASE)
"""Texts that may have such operations: private names and comments are not in the way."""
_PLAIN_NAME: Final = re.compile(r"\w+")
FindSchema: TypeAlias = Callable[[str], pa.Schema]
"""Plans a query, and returns the schema of its result."""


def number_equal_rows(sql: str, find_schema: FindSchema) -> tuple[str, Mapping[str, str]]:
    """Return a statement without these operations.

    Args:
        sql: for DataFusion.
        find_schema: of one of its queries.

    Returns:
        The statement, and name of an output -> the name that clients see, which is that of an expression.

    Raises:
        InvalidInputError: two sides have different numbers of columns.
        UnsupportedError: the columns of a side can't be found, or their types differ.
    """
    shown: dict[str, str] = {}
    while True:
        text = tokenize(sql)
        bodies = [body for body in find_bodies(text) if any(map(_is_multiset, body.operators))]
        if not bodies:
            return sql, shown
        # Those within its operands come later in the list.
        body = bodies[-1]
        written = _Writer(text, body, find_schema, shown).write()
        first, last = body.operands[0].start, body.operands[-1].stop - 1
        sql = f"{sql[: text.start(first)]}{written}{sql[text.end(last) :]}"


def _is_multiset(operator: SetOperator) -> bool:
    return operator.keeps_all and operator.word != "UNION"


class _Writer:
    """Writes the set operations of one query."""

    def __init__(
        self, text: SqlText, body: QueryBody, find_schema: FindSchema, shown: dict[str, str]
    ) -> None:
        self._shown = shown
        self._text = text
        self._body = body
        self._find_schema = find_schema
        self._before = _write_common_tables(text, body)

    def write(self) -> str:
        """Return the text of the operations, those of INTERSECT first, and then from the left."""
        operands = [self._copy(operand) for operand in self._body.operands]
        operators = list(self._body.operators)
        for word in ({"INTERSECT"}, {"UNION", "EXCEPT"}):
            at = 0
            while at < len(operators):
                if operators[at].word in word:
                    operands[at : at + 2] = [self._combine(operators.pop(at), operands[at], operands[at + 1])]
                else:
                    at += 1
        return operands[0]

    def _copy(self, operand: range) -> str:
        text = self._text
        return text.sql[text.start(operand.start) : text.end(operand.stop - 1)] if operand else ""

    def _combine(self, operator: SetOperator, left: str, right: str) -> str:
        if not _is_multiset(operator):
            every = " ALL" if operator.keeps_all else ""
            return f"{left} {operator.word}{every} {right}"
        schemas = [self._find_columns(side) for side in (left, right)]
        _check_types(operator, *schemas)
        names = [f'"c#{number}"' for number in range(1, len(schemas[0]) + 1)]
        columns = ", ".join(names)
        sides = [
            f'SELECT {columns}, row_number() OVER (PARTITION BY {columns}) AS "n#" '  # noqa: S608 - parsed SQL
            f"FROM {_name_columns(side, names)}"
            for side in (left, right)
        ]
        pairs = zip(names, schemas[0].names, strict=True)
        outputs = ", ".join(f"{name} AS {quote(self._name(shown))}" for name, shown in pairs)
        return f'SELECT {outputs} FROM ({f" {operator.word} ".join(sides)}) AS "m#"'  # noqa: S608 - parsed SQL

    def _name(self, name: str) -> str:
        """Return the name of an output; an expression's must not be that of another column."""
        if _PLAIN_NAME.fullmatch(name):
            return name
        unique = f"?m#{len(self._shown) + 1}"
        self._shown[unique] = self._shown.get(name, name)
        return unique

    def _find_columns(self, side: str) -> pa.Schema:
        try:
            return self._find_schema(f"{self._before}{side}")
        except Exception as error:
            self._find_schema(self._text.sql)  # raises where the statement is wrong for another reason
            msg = (
                "INTERSECT ALL and EXCEPT ALL are not offered in subqueries that read columns of the rows "
                "around them: join the subquery, or leave ALL out"
            )
            raise UnsupportedError(msg) from error


def _name_columns(side: str, names: Sequence[str]) -> str:
    """Return the relation that has the columns of a side by other names."""
    return f'({side}\n) AS "s#" ({", ".join(names)})'


def _write_common_tables(text: SqlText, body: QueryBody) -> str:
    """Return the WITH that has all common tables that a query can read."""
    definitions: list[range] = []
    for outer in find_bodies(text):
        if outer.tokens.start <= body.tokens.start and body.tokens.stop <= outer.tokens.stop:
            definitions += [one for one in outer.common_tables if one.stop <= body.operands[0].start]
    if not definitions:
        return ""
    copies = [text.sql[text.start(one.start) : text.end(one.stop - 1)] for one in definitions]
    return f"WITH RECURSIVE {', '.join(copies)} "


def _check_types(operator: SetOperator, left: pa.Schema, right: pa.Schema) -> None:
    if len(left) != len(right):
        counts = f"{len(left)} and {len(right)}"
        raise InvalidInputError(f"{operator.word} ALL takes two sides of as many columns; they have {counts}")
    for one, other in zip(left, right, strict=True):
        if not one.type.equals(other.type) and not _are_alike(one.type, other.type):
            msg = f"{operator.word} ALL takes columns of one type: {one.name!r} is {one.type} on its left"
            raise UnsupportedError(f"{msg} and {other.type} on its right; cast one of them")


def _are_alike(*kinds: pa.DataType) -> bool:
    """Return whether rows that differ in their own types differ in the common type, too."""
    families: Sequence[Callable[[pa.DataType], bool]] = (pa.types.is_integer, _is_text)
    return any(all(map(family, kinds)) for family in families) or any(map(pa.types.is_null, kinds))


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
