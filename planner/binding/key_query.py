"""Recognises point lookups: SELECT of columns whose only condition is a full primary key.

SELECT id, name AS n FROM orders WHERE id = $1
SELECT * FROM orders o WHERE o.id IN (1, 2, 3)
SELECT v FROM orders WHERE tenant = 'a' AND id = 7 LIMIT 1
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.sql.tree.tree import read_name

_INT64_MAX = 2**63 - 1
_CLAUSES = frozenset({"expressions", "from_", "where", "limit"})


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """A query that a point lookup answers without DataFusion.

    Attributes:
        table: that is read.
        columns: (column, output name) in output order.
        constants: (key column, its values) in key order: literals are scalars, parameters are ordinals from
            0. Only a key of one column has several values (IN).
    """

    table: TableName
    columns: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, tuple[pa.Scalar | int, ...]], ...]

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the result, given that of the table."""
        return pa.schema([schema.field(column).with_name(name) for column, name in self.columns])

    def find_keys(
        self, parameters: Sequence[pa.Scalar], schema: pa.Schema, uuids: Collection[str] = ()
    ) -> pa.Table | None:
        """Return the keys to look up.

        Args:
            parameters: values bound to the statement.
            schema: columns of the table.
            uuids: columns of UUIDs, which are texts in small letters.

        Returns:
            Rows of key columns, without duplicates and NULLs; None if a value can't be cast exactly to the
            type of its column, so that DataFusion must coerce it.
        """
        fields = pa.schema([schema.field(name) for name, _ in self.constants])
        columns = []
        for name, constants in self.constants:
            field = fields.field(name)
            values: list[Any] = []
            for constant in constants:
                value = parameters[constant] if isinstance(constant, int) else constant
                if not value.is_valid:
                    continue
                key = _cast_exactly(value, field.type)
                if key is None:
                    return None
                values.append(pa.scalar(key.as_py().lower(), field.type) if name in uuids else key)
            if pa.types.is_integer(field.type):
                values = [value.as_py() for value in values]  # pyarrow reads these faster
            column = pa.array(values, field.type)
            columns.append(column if len(column) < 2 else pc.unique(column))
        if not all(map(len, columns)):
            return fields.empty_table()
        return pa.Table.from_arrays(columns, schema=fields)


def _cast_exactly(value: pa.Scalar, dtype: pa.DataType) -> pa.Scalar | None:
    """Cast a value to the type of a key; return None if the comparison may have another meaning."""
    types = pa.types
    if types.is_floating(dtype) or types.is_nested(dtype) or types.is_dictionary(dtype):
        return None
    if value.type == dtype:
        return value
    same_family = (types.is_integer(value.type) and types.is_integer(dtype)) or any(
        value.type in family and dtype in family for family in (_STRINGS, _BINARIES)
    )
    if not same_family:
        return None
    try:
        return value.cast(dtype)
    except pa.ArrowInvalid:
        return None


_STRINGS = frozenset({pa.string(), pa.large_string(), pa.string_view()})
_BINARIES = frozenset({pa.binary(), pa.large_binary(), pa.binary_view()})


def find_key_query(
    select: exp.Query,
    parts: tuple[str, ...],
    *,
    table: TableName,
    columns: Sequence[str],
    primary_key: tuple[str, ...],
) -> KeyQuery | None:
    """Recognise a point lookup; return None for all other statements.

    Args:
        select: the statement, in which parameters have numbers.
        parts: of the name of its only table.
        table: the base table of that name.
        columns: names of the table's columns.
        primary_key: its key columns.
    """
    if len(set(columns)) < len(columns) or not isinstance(select, exp.Select):
        return None
    if any(select.args[key] for key in select.args.keys() - _CLAUSES):
        return None
    source, where = select.args.get("from_"), select.args.get("where")
    if source is None or where is None or not isinstance(source.this, exp.Table):
        return None
    reader = _Reader(source.this, parts, columns)
    selected = reader.read_outputs(select.expressions)
    conditions: dict[str, tuple[pa.Scalar | int, ...]] = {}
    for conjunct in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        condition = reader.read_condition(conjunct)
        if condition is None or condition[0] in conditions:
            return None
        conditions[condition[0]] = condition[1]
    most = max(map(len, conditions.values()))
    if selected is None or set(conditions) != set(primary_key) or (most > 1 and len(primary_key) > 1):
        return None
    limit = select.args.get("limit")
    if limit is not None and not (_is_whole(limit.expression) and int(limit.expression.name) >= most):
        return None
    return KeyQuery(table, selected, tuple((name, conditions[name]) for name in primary_key))


class _Reader:
    """Reads the parts of a statement over one table; None means that it is not a point lookup."""

    def __init__(self, source: exp.Table, parts: tuple[str, ...], columns: Sequence[str]) -> None:
        alias = source.args.get("alias")
        self._columns = columns
        self._qualifiers: set[tuple[str, ...]] = {(), parts[-1:], parts[-2:], parts}
        if alias is not None:
            self._qualifiers = set() if alias.columns else {(), (read_name(alias.this),)}

    def read_outputs(self, outputs: Sequence[exp.Expr]) -> tuple[tuple[str, str], ...] | None:
        """Return (column, output name) of each output."""
        selected: list[tuple[str, str]] = []
        for output in outputs:
            if output.is_star:
                options = output.this if isinstance(output, exp.Column) else output
                if any(options.args.values()) or not self._is_qualified(output):
                    return None
                selected += [(name, name) for name in self._columns]
                continue
            column = self._read_column(output.unalias())
            if column is None:
                return None
            alias = output.args["alias"] if isinstance(output, exp.Alias) else None
            selected.append((column, column if alias is None else read_name(alias)))
        names = [name for _, name in selected]
        return tuple(selected) if len(set(names)) == len(names) else None

    def read_condition(self, node: exp.Expr) -> tuple[str, tuple[pa.Scalar | int, ...]] | None:
        """Read `column = constant`, `constant = column` or `column IN (constants)`."""
        sides: tuple[exp.Expr, list[exp.Expr]]
        if isinstance(node, exp.In):
            sides = node.this, node.expressions
        elif isinstance(node, exp.EQ):
            is_mirrored = not isinstance(node.this, exp.Column)
            sides = (node.expression, [node.this]) if is_mirrored else (node.this, [node.expression])
        else:
            return None
        column = self._read_column(sides[0])
        constants = [_read_constant(side) for side in sides[1]]
        known = tuple(constant for constant in constants if constant is not None)
        return (column, known) if column and known and len(known) == len(constants) else None

    def _read_column(self, node: exp.Expr) -> str | None:
        if not isinstance(node, exp.Column) or not self._is_qualified(node):
            return None
        name = read_name(node.this)
        return name if name in self._columns else None

    def _is_qualified(self, node: exp.Expr) -> bool:
        """Return whether a column, or a star, has the name of the table, or none."""
        names = [node.args.get(key) for key in ("catalog", "db", "table")]
        return tuple(read_name(name) for name in names if name is not None) in self._qualifiers


def _read_constant(node: exp.Expr) -> pa.Scalar | int | None:
    """Return a literal, or a parameter as its ordinal; None for something else."""
    match node:
        case exp.Parameter():
            return int(node.this.name) - 1
        case exp.Null():
            return pa.scalar(None)
        case exp.Boolean():
            return pa.scalar(bool(node.this))
        case exp.Literal() if node.is_string:
            return pa.scalar(node.name)
    number = node.this if isinstance(node, exp.Neg) else node
    if not _is_whole(number) or int(number.name) > _INT64_MAX:
        return None
    return pa.scalar(int(number.name) if number is node else -int(number.name))


def _is_whole(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal()
