"""Rules that every row of a table must meet; all writers of this package apply them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.memwal.columns.blobs import build_plain_schema
from lance_gateway.memwal.columns.kinds import is_binary, is_text
from lance_gateway.memwal.creating.columns import list_key_columns
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.rules.constraints import Constraint, ConstraintKind, list_constraints
from lance_gateway.memwal.rules.defaults import DEFAULT
from lance_gateway.memwal.rules.expressions import evaluate_expressions

MAX_LENGTH: Final = b"lance-gateway:max-length"
"""In a column's metadata: the most characters of a text, or bytes of a binary value."""
IS_UUID: Final = b"lance-gateway:uuid"
"""In a column's metadata: "true" for a text that is a UUID in its usual form."""
IS_JSON: Final = b"lance-gateway:json"
"""In a column's metadata: "true" for a text that is JSON."""
COLUMN_RULES: Final = (MAX_LENGTH, IS_UUID, IS_JSON, DEFAULT)
"""Keys of all rules in the metadata of a column."""
UUID_PATTERN: Final = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class RowRules:
    """The rules of a table's rows.

    Attributes:
        table: name, for messages; "" if there is none yet.
        key: columns of the primary key, for messages.
        lengths: column -> the most characters or bytes, in pairs.
        uuids: columns of UUIDs.
        documents: columns of JSON.
        checks: enforced CHECK constraints.
    """

    table: str
    key: tuple[str, ...] = ()
    lengths: tuple[tuple[str, int], ...] = ()
    uuids: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    checks: tuple[Constraint, ...] = ()

    def check(self, rows: pa.Table) -> None:
        """Check rows that have all columns of the table.

        Raises:
            InvalidInputError: a row violates a rule; names the rule, the row's key and the value.
        """
        if not rows.num_rows:
            return
        for name, limit in self.lengths:
            self._check_length(rows, name, limit)
        for name in self.uuids:
            self._check_uuids(rows, name)
        for name in self.documents:
            self._check_documents(rows, name)
        if self.checks:
            self._check_constraints(rows)

    def _check_length(self, rows: pa.Table, name: str, limit: int) -> None:
        column = rows.column(name)
        size = pc.binary_length(column)
        longest = pc.max(size).as_py()
        # A text has at least as many bytes as characters.
        if longest is None or longest <= limit:
            return
        unit = "bytes"
        if not is_binary(column.type):
            size, unit = pc.utf8_length(column), "characters"
            if pc.max(size).as_py() <= limit:
                return
        row = pc.index(pc.greater(size, limit), value=True).as_py()
        msg = (
            f"{self._where}column {name!r} takes at most {limit} {unit}, and "
            f"{self._describe_row(rows, row)} has {size[row].as_py()} there ({_shorten(column[row])}): "
            "shorten it, or let the column take more by ALTER COLUMN .. TYPE"
        )
        raise InvalidInputError(msg)

    def _check_uuids(self, rows: pa.Table, name: str) -> None:
        column = rows.column(name)
        row = pc.index(pc.match_substring_regex(column, UUID_PATTERN), value=False).as_py()
        if row >= 0:
            msg = (
                f"{self._where}column {name!r} takes UUIDs, in lower case with hyphens, and "
                f"{self._describe_row(rows, row)} has {_shorten(column[row])} there"
            )
            raise InvalidInputError(msg)

    def _check_documents(self, rows: pa.Table, name: str) -> None:
        for row, text in enumerate(rows.column(name).to_pylist()):
            if text is None:
                continue
            try:
                json.loads(text, parse_constant=_refuse_constant)
            except (ValueError, RecursionError) as error:
                msg = (
                    f"{self._where}column {name!r} takes JSON, and {self._describe_row(rows, row)} has "
                    f"{_shorten(rows.column(name)[row])} there ({error}): write text in double quotes, or "
                    "let the column take any text by ALTER COLUMN .. TYPE TEXT"
                )
                raise InvalidInputError(msg) from error

    def _check_constraints(self, rows: pa.Table) -> None:
        try:
            columns = evaluate_expressions([one.expression for one in self.checks], rows)
        except InvalidInputError:
            columns = [self._evaluate_alone(check, rows) for check in self.checks]
        for check, values in zip(self.checks, columns, strict=True):
            row = pc.index(values, value=False).as_py()
            if row >= 0:
                raise self._violation_error(check, rows, row)

    def _evaluate_alone(self, check: Constraint, rows: pa.Table) -> pa.ChunkedArray:
        """Evaluate a check row by row, since it can't be evaluated for all rows together.

        Raises:
            InvalidInputError: it can't be evaluated for a row; names it.
        """
        low, high = 0, rows.num_rows
        try:
            return _evaluate_check(check, rows)
        except InvalidInputError as error:
            failure = error
        while high - low > 1:
            middle = (low + high) // 2
            try:
                _evaluate_check(check, rows.slice(low, middle - low))
            except InvalidInputError as error:
                high, failure = middle, error
            else:
                low = middle
        msg = (
            f"{self._where}constraint {check.name!r} can't be checked for "
            f"{self._describe_row(rows, low)}: {failure}"
        )
        raise InvalidInputError(msg) from failure

    def _violation_error(self, check: Constraint, rows: pa.Table, row: int) -> InvalidInputError:
        values = ", ".join(
            f"{name} = {_shorten(rows.column(name)[row])}" for name in check.columns if name not in self.key
        )
        where = f" ({values})" if values else ""
        return InvalidInputError(
            f"{self._where}{self._describe_row(rows, row)} violates constraint {check.name!r}, "
            f"CHECK ({check.expression}){where}"
        )

    @property
    def _where(self) -> str:
        return f"table {self.table!r}: " if self.table else ""

    def _describe_row(self, rows: pa.Table, row: int) -> str:
        if not self.key:
            return f"row {row + 1}"
        values = (f"{name} = {_shorten(rows.column(name)[row])}" for name in self.key)
        return f"the row with {', '.join(values)}"


def _evaluate_check(check: Constraint, rows: pa.Table) -> pa.ChunkedArray:
    (values,) = evaluate_expressions([check.expression], rows, alone=True)
    return values


def _refuse_constant(name: str) -> None:
    msg = f"{name} is not a number in JSON"
    raise ValueError(msg)


def _shorten(value: pa.Scalar) -> str:
    try:
        text = repr(value.as_py())
    except (ValueError, OverflowError, pa.ArrowException):
        text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def list_lengths(schema: pa.Schema) -> dict[str, int]:
    """Return column -> the most characters or bytes, for columns of a stored schema that have a limit."""
    lengths = {}
    for field in schema:
        limit = (field.metadata or {}).get(MAX_LENGTH, b"")
        if limit.isdigit() and (is_binary(field.type) or is_text(field.type)):
            lengths[field.name] = int(limit)
    return lengths


def list_uuids(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns of UUIDs, which are texts."""
    return _list_columns(schema, IS_UUID)


def _list_columns(schema: pa.Schema, rule: bytes) -> tuple[str, ...]:
    return tuple(
        field.name for field in schema if (field.metadata or {}).get(rule) == b"true" and is_text(field.type)
    )


def build_row_rules(name: str, schema: pa.Schema, constraints: Iterable[Constraint]) -> RowRules:
    """Return the rules of a table.

    Args:
        name: of the table, for messages.
        schema: as it is stored.
        constraints: of the table.
    """
    checks = [one for one in constraints if one.kind is ConstraintKind.CHECK and one.enforced]
    uuids = _list_columns(schema, IS_UUID)
    documents = _list_columns(schema, IS_JSON)
    documents += tuple(field.name for field in schema if isinstance(field.type, pa.JsonType))
    lengths = tuple(list_lengths(schema).items())
    return RowRules(name, list_key_columns(schema), lengths, tuple(uuids), tuple(documents), tuple(checks))


def read_row_rules(name: str, dataset: Any) -> RowRules:  # noqa: ANN401 - lance types
    """Read the rules of a table.

    Args:
        name: of the table, for messages.
        dataset: a `lance.LanceDataset` of it.

    Raises:
        CorruptDataError: a constraint can't be read.
    """
    return build_row_rules(name, build_plain_schema(dataset.schema), list_constraints(name, dataset.config()))
