"""The text of queries, of statements that write, and of types."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql import compiler

from sqlalchemy_lance_gateway import types

_SINGLE_DIGITS: Final = 24
"""Binary digits of the largest number format that `REAL` has."""
_DEFAULT_DECIMAL: Final = (38, 10)
"""Of a decimal without precision: SQLAlchemy means any."""


class GatewayCompiler(compiler.SQLCompiler):
    """Writes queries, and statements that write."""

    def limit_clause(self, select: Any, **kw: Any) -> str:
        """Write `OFFSET` without a limit in its place, since -1 is none."""
        text = ""
        if select._limit_clause is not None:  # noqa: SLF001 - what dialects read
            text += " \n LIMIT " + self.process(select._limit_clause, **kw)  # noqa: SLF001
        if select._offset_clause is not None:  # noqa: SLF001
            text += " \n OFFSET " + self.process(select._offset_clause, **kw)  # noqa: SLF001
        return text

    def visit_is_distinct_from_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """Write brackets: an `AND` behind it would belong to its right side."""
        return f"({self.process(binary.left, **kw)} IS DISTINCT FROM {self.process(binary.right, **kw)})"

    def visit_is_not_distinct_from_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """Write brackets, as for its opposite."""
        return f"({self.process(binary.left, **kw)} IS NOT DISTINCT FROM {self.process(binary.right, **kw)})"

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """Write a call of `regexp_like`."""
        return self._write_regexp("regexp_like", binary, **kw)

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """Write the opposite."""
        return f"NOT {self._write_regexp('regexp_like', binary, **kw)}"

    def visit_regexp_replace_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """Write a call of `regexp_replace`."""
        return self._write_regexp("regexp_replace", binary, **kw)

    def visit_empty_set_expr(self, element_types: Any, **kw: Any) -> str:
        """Write a query without rows, with columns of the types that are compared."""
        columns = (
            f"CAST(NULL AS {self.dialect.type_compiler_instance.process(one)})"
            for one in (_name_type(one) for one in element_types or [sa.Integer()])
        )
        return f"SELECT {', '.join(columns)} WHERE 1 != 1"

    def update_from_clause(
        self, update_stmt: Any, from_table: Any, extra_froms: Any, from_hints: Any, **kw: Any
    ) -> str:
        """Write the other tables of an `UPDATE`."""
        return "FROM " + self._write_others(extra_froms, from_hints, **kw)

    def delete_extra_from_clause(
        self, delete_stmt: Any, from_table: Any, extra_froms: Any, from_hints: Any, **kw: Any
    ) -> str:
        """Write the other tables of a `DELETE`."""
        return "USING " + self._write_others(extra_froms, from_hints, **kw)

    def _write_others(self, tables: Any, from_hints: Any, **kw: Any) -> str:
        kw["asfrom"] = True
        return ", ".join(table._compiler_dispatch(self, fromhints=from_hints, **kw) for table in tables)  # noqa: SLF001

    def _write_regexp(self, function: str, binary: Any, **kw: Any) -> str:
        values = [self.process(binary.left, **kw), self.process(binary.right, **kw)]
        flags = binary.modifiers["flags"]
        if flags is not None:
            values.append(self.render_literal_value(flags, sa.String()))
        return f"{function}({', '.join(values)})"


def _name_type(one: Any) -> Any:
    """Return a type that can be written in the place of one that is not known."""
    return sa.Integer() if isinstance(one, sa.types.NullType) else one


class GatewayTypeCompiler(compiler.GenericTypeCompiler):
    """Writes types; those that a table may have, and a cast."""

    def visit_FLOAT(self, type_: sa.Float[Any], **kw: Any) -> str:
        """Write 64 bits where nothing else is asked for, as Python's floats have them."""
        precision = type_.precision
        return "DOUBLE" if precision is None or precision > _SINGLE_DIGITS else "REAL"

    def visit_NUMERIC(self, type_: sa.Numeric[Any], **kw: Any) -> str:
        """Write a decimal with its precision."""
        precision, scale = (type_.precision, type_.scale or 0) if type_.precision else _DEFAULT_DECIMAL
        return f"DECIMAL({precision}, {scale})"

    def visit_DECIMAL(self, type_: sa.DECIMAL[Any], **kw: Any) -> str:
        """Write a decimal with its precision."""
        return self.visit_NUMERIC(type_, **kw)

    def visit_TIMESTAMP(self, type_: sa.TIMESTAMP, **kw: Any) -> str:
        """Write a time with its digits; six where none are given, which Python's times have."""
        digits = getattr(type_, "precision", types.TIMESTAMP().precision)
        return f"TIMESTAMP({digits})" + (" WITH TIME ZONE" if type_.timezone else "")

    def visit_DATETIME(self, type_: sa.DateTime, **kw: Any) -> str:
        """Write a time with microseconds."""
        return f"TIMESTAMP({types.TIMESTAMP().precision})" + (" WITH TIME ZONE" if type_.timezone else "")

    def visit_large_binary(self, type_: Any, **kw: Any) -> str:
        """Write bytes, with their length if there is one."""
        return "BYTEA" if type_.length is None else f"VARBINARY({type_.length})"

    def visit_BINARY(self, type_: sa.BINARY, **kw: Any) -> str:
        """Write bytes of fixed length, or of any."""
        return "BYTEA" if type_.length is None else f"BINARY({type_.length})"

    def visit_VARBINARY(self, type_: sa.VARBINARY, **kw: Any) -> str:
        """Write bytes of limited length, or of any."""
        return self.visit_large_binary(type_, **kw)

    def visit_NVARCHAR(self, type_: Any, **kw: Any) -> str:
        """Write text, which is Unicode."""
        return self.visit_VARCHAR(type_, **kw)

    def visit_NCHAR(self, type_: Any, **kw: Any) -> str:
        """Write text, which is Unicode."""
        return self.visit_CHAR(type_, **kw)

    def visit_CLOB(self, type_: sa.CLOB, **kw: Any) -> str:
        """Write text."""
        return "TEXT"

    def visit_JSON(self, type_: sa.JSON, **kw: Any) -> str:
        """Write text that must be JSON."""
        return "JSON"

    def visit_ARRAY(self, type_: sa.ARRAY[Any], **kw: Any) -> str:
        """Write a list, or lists of lists."""
        return self.process(type_.item_type, **kw) + "[]" * (type_.dimensions or 1)

    def visit_VECTOR(self, type_: types.VECTOR, **kw: Any) -> str:
        """Write a list of fixed size."""
        return f"FIXED_SIZE_LIST({self.process(type_.item_type, **kw)}, {type_.dimensions})"

    def visit_STRUCT(self, type_: types.STRUCT, **kw: Any) -> str:
        """Write names and types of the fields."""
        quote = self.dialect.identifier_preparer.quote
        return (
            f"STRUCT<{', '.join(f'{quote(name)} {self.process(one, **kw)}' for name, one in type_.fields)}>"
        )

    def visit_TINYINT(self, type_: types.TINYINT, **kw: Any) -> str:
        """Write the type."""
        return "TINYINT"

    def visit_UTINYINT(self, type_: types.UTINYINT, **kw: Any) -> str:
        """Write the type."""
        return "TINYINT UNSIGNED"

    def visit_USMALLINT(self, type_: types.USMALLINT, **kw: Any) -> str:
        """Write the type."""
        return "SMALLINT UNSIGNED"

    def visit_UINTEGER(self, type_: types.UINTEGER, **kw: Any) -> str:
        """Write the type."""
        return "INTEGER UNSIGNED"

    def visit_UBIGINT(self, type_: types.UBIGINT, **kw: Any) -> str:
        """Write the type."""
        return "BIGINT UNSIGNED"

    def visit_HALF(self, type_: types.HALF, **kw: Any) -> str:
        """Write the type."""
        return "HALF"
