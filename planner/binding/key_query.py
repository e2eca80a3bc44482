"""Recognises point lookups: SELECT of columns whose only condition is a full primary key.

SELECT id, name AS n FROM orders WHERE id = $1
SELECT * FROM orders o WHERE o.id IN (1, 2, 3)
SELECT v FROM orders WHERE tenant = 'a' AND id = 7 LIMIT 1
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot.tokenizer_core import TokenType

from memwal.storage.table_names import TableName
from planner.sql.references import TableSite
from planner.sql.tokens import SqlText

_INT64_MAX = 2**63 - 1
_CLAUSE_STARTS = frozenset({"", "WHERE", "LIMIT", "FROM"})


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
    text: SqlText,
    site: TableSite,
    *,
    table: TableName,
    columns: Sequence[str],
    primary_key: tuple[str, ...],
    slots: Mapping[int, int],
) -> KeyQuery | None:
    """Recognise a point lookup; return None for all other statements.

    Args:
        text: the whole statement.
        site: its only table reference.
        table: the base table of the reference.
        columns: names of the table's columns.
        primary_key: its key columns.
        slots: token index -> ordinal of each parameter.
    """
    reader = _Reader(text, site, columns, slots)
    if text.words[0] != "SELECT" or len(set(columns)) < len(columns):
        return None
    selected = reader.read_select_list()
    if selected is None or reader.at != site.first:
        return None
    reader.at = site.last + 1
    if not reader.skip_alias() or not reader.take("WHERE"):
        return None
    conditions: dict[str, tuple[pa.Scalar | int, ...]] = {}
    while True:
        condition = reader.read_condition()
        if condition is None or condition[0] in conditions:
            return None
        conditions[condition[0]] = condition[1]
        if not reader.take("AND"):
            break
    limit = reader.read_limit()
    most = max(map(len, conditions.values()))
    if limit is None or limit < most or text.words[reader.at] or set(conditions) != set(primary_key):
        return None
    if most > 1 and len(primary_key) > 1:
        return None
    return KeyQuery(table, selected, tuple((name, conditions[name]) for name in primary_key))


class _Reader:
    """Reads the statement from left to right; None and False mean that it is no point lookup."""

    def __init__(
        self, text: SqlText, site: TableSite, columns: Sequence[str], slots: Mapping[int, int]
    ) -> None:
        self.at = 1
        self._text = text
        self._names = text.names
        self._words = text.words
        self._columns = columns
        self._slots = slots
        self._qualifiers: set[tuple[str, ...]] = {(), site.parts[-1:], site.parts, site.parts[-2:]}
        self._site = site

    def take(self, word: str) -> bool:
        """Skip a word if it is next, and return whether it was."""
        is_next = self._words[self.at] == word
        self.at += is_next
        return is_next

    def skip_alias(self) -> bool:
        """Skip the alias of the table."""
        return not self._site.has_alias or self._read_alias() is not None

    def read_select_list(self) -> tuple[tuple[str, str], ...] | None:
        """Read the selected columns, and skip FROM."""
        if self._site.has_alias:
            after = self._site.last + 1
            after += self._words[after] == "AS"
            if after not in self._names:
                return None
            self._qualifiers = {(), (self._names[after],)}
        selected: list[tuple[str, str]] = []
        while True:
            if self.take("*"):
                selected += [(name, name) for name in self._columns]
            else:
                column = self._read_column(star=True)
                if column is None:
                    return None
                if column == "*":
                    selected += [(name, name) for name in self._columns]
                else:
                    named = self._words[self.at] not in {",", "FROM"}
                    output = self._read_alias() if named else column
                    if not output:
                        return None
                    selected.append((column, output))
            if self.take("FROM"):
                break
            if not self.take(","):
                return None
        outputs = [output for _, output in selected]
        return tuple(selected) if len(set(outputs)) == len(outputs) else None

    def read_condition(self) -> tuple[str, tuple[pa.Scalar | int, ...]] | None:
        """Read `column = constant`, `constant = column` or `column IN (constants)`."""
        constant = self._read_constant()
        if constant is not None:
            column = self._read_column() if self.take("=") else None
            return None if column is None else (column, (constant,))
        column = self._read_column()
        if column is not None and self.take("="):
            constant = self._read_constant()
            return None if constant is None else (column, (constant,))
        if column is None or not self.take("IN") or not self.take("("):
            return None
        constants = []
        while (constant := self._read_constant()) is not None:
            constants.append(constant)
            if self.take(")"):
                return column, tuple(constants)
            if not self.take(","):
                return None
        return None

    def read_limit(self) -> int | None:
        """Read the LIMIT that ends the statement; without one, return a large number."""
        if not self.take("LIMIT"):
            return _INT64_MAX
        if self._words[self.at] != "0" or not self._text.tokens[self.at].text.isdecimal():
            return None
        self.at += 1
        return int(self._text.tokens[self.at - 1].text)

    def _read_alias(self) -> str | None:
        explicit = self.take("AS")
        if self.at not in self._names or (not explicit and self._words[self.at] in _CLAUSE_STARTS):
            return None
        self.at += 1
        return self._names[self.at - 1]

    def _read_column(self, *, star: bool = False) -> str | None:
        """Read a column of the table, qualified or not; with `star`, also `t.*`, returned as "*"."""
        words = self._words
        if self.at not in self._names:
            return None
        parts = [self._names[self.at]]
        i = self.at
        while words[i + 1] == "." and (i + 2 in self._names or (star and words[i + 2] == "*")):
            i += 2
            parts.append("*" if words[i] == "*" else self._names[i])
        *qualifiers, name = parts
        if tuple(qualifiers) not in self._qualifiers or (name not in self._columns and words[i] != "*"):
            return None
        self.at = i + 1
        return name

    def _read_constant(self) -> pa.Scalar | int | None:
        """Read a literal, or a parameter as its ordinal; return None if another token is next."""
        if self.at in self._slots:
            ordinal = self._slots[self.at]
            self.at += 1 + (self._words[self.at] == "$")
            return ordinal
        negative = self._words[self.at] == "-"
        i = self.at + negative
        if i >= len(self._text.tokens):
            return None
        token, word = self._text.tokens[i], self._words[i]
        value: pa.Scalar | None = None
        if token.token_type is TokenType.NUMBER and token.text.isdecimal():
            number = -int(token.text) if negative else int(token.text)
            value = pa.scalar(number) if abs(number) <= _INT64_MAX else None
        elif negative or self._words[i + 1] == ".":
            return None
        elif token.token_type is TokenType.STRING:
            value = pa.scalar(token.text)
        elif word in {"TRUE", "FALSE"}:
            value = pa.scalar(word == "TRUE")
        elif word == "NULL":
            value = pa.scalar(None)
        if value is not None:
            self.at = i + 1
        return value
