"""Values of columns that a row does not give, as SQL expressions in the metadata of the columns.

DEFAULT 'new'               the same for all rows
DEFAULT now()               the same for all rows of a statement
DEFAULT uuid()              another one for each row
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, Protocol

import pyarrow as pa

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.rules.expressions import ParsedExpression, evaluate_expressions, parse_expression
from lance_gateway.memwal.transforms.determinism import list_functions

DEFAULT: Final = b"lance-gateway:default"
"""In a column's metadata: SQL expression of its default."""
_PER_STATEMENT: Final = frozenset({"now", "current_timestamp", "current_date", "current_time", "today"})
"""Functions that are not deterministic, and have one value in a statement."""
_PARTS: Final = "a default is made of constants, such as 'text', and functions"
_ROW: Final = pa.schema([pa.field("row", pa.bool_())])
"""Without a name that an expression could have: expressions are parsed without columns."""


class Change(Enum):
    """How often the value of a default changes."""

    NEVER = "never"
    BY_STATEMENT = "by statement"
    BY_ROW = "by row"


@dataclass(frozen=True, slots=True)
class ColumnDefault:
    """The default of a column.

    Attributes:
        expression: DataFusion SQL without columns.
        kind: type of the column.
    """

    expression: str
    kind: pa.DataType

    @property
    def change(self) -> Change:
        """How often its value changes.

        Raises:
            InvalidInputError: the expression is invalid, names a column, or has a subquery or the like.
        """
        return _find_change(self.expression)

    def evaluate(self, rows: int) -> pa.Array:
        """Evaluate it for each of some rows.

        Raises:
            InvalidInputError: it can't be evaluated, or is not of the column's type.
        """
        table = pa.table([pa.nulls(rows, pa.bool_())], schema=_ROW)
        (values,) = evaluate_expressions([self.expression], table, self.kind)
        combined = values.combine_chunks()
        return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


@lru_cache(maxsize=1024)
def _find_change(expression: str) -> Change:
    try:
        parsed = parse_expression(expression, pa.schema([]))
    except InvalidInputError as error:
        msg = f"{str(error).rstrip('.')}: {_PARTS}"
        raise InvalidInputError(msg) from error
    _check_parts(expression, parsed)
    if not parsed.unstable:
        return Change.NEVER
    return Change.BY_STATEMENT if _PER_STATEMENT.issuperset(parsed.unstable) else Change.BY_ROW


def _check_parts(expression: str, parsed: ParsedExpression) -> None:
    others = [one for one in parsed.unstable if one not in list_functions()]
    if others:
        msg = f"DEFAULT {expression} uses {', '.join(others)}: {_PARTS}"
        raise InvalidInputError(msg)


@lru_cache(maxsize=1024)
def _evaluate_constant(default: ColumnDefault) -> pa.Array:
    return default.evaluate(1)


class Default(Protocol):
    """The default of a column, whatever it comes from."""

    @property
    def change(self) -> Change:
        """How often its value changes."""

    def evaluate(self, rows: int) -> pa.Array:
        """Return it for each of some rows."""


class DefaultValues:
    """The defaults of a table's columns during one statement; for one thread at a time.

    Args:
        defaults: column -> default.
    """

    def __init__(self, defaults: Mapping[str, Default]) -> None:
        self._defaults = defaults
        self._values: dict[str, pa.Array] = {}

    def build(self, column: pa.Field, rows: int) -> pa.Array:
        """Return the default of a column for some rows, NULL without one.

        Raises:
            InvalidInputError: it can't be evaluated.
        """
        default = self._defaults.get(column.name)
        if default is None or not rows:
            return pa.nulls(rows, column.type)
        if default.change is Change.BY_ROW:
            return default.evaluate(rows)
        value = self._values.get(column.name)
        if value is None:
            if isinstance(default, ColumnDefault) and default.change is Change.NEVER:
                value = _evaluate_constant(default)
            else:
                value = default.evaluate(1)
            self._values[column.name] = value
        return value.take(pa.nulls(rows, pa.int64()).fill_null(0))


def drop_default(column: pa.Field) -> pa.Field:
    """Return a column of a stored schema without its default."""
    return column.with_metadata({key: one for key, one in (column.metadata or {}).items() if key != DEFAULT})


def list_defaults(schema: pa.Schema) -> dict[str, ColumnDefault]:
    """Return column -> default of a stored schema, for columns that have one."""
    return {
        field.name: ColumnDefault(field.metadata[DEFAULT].decode(), field.type)
        for field in schema
        if field.metadata and DEFAULT in field.metadata
    }
