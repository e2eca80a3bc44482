"""Checks rows, and converts them to a table's columns and regions, on executors before the shuffle.

All errors in rows are found here, so no row is written if one does not fit.
"""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    PreconditionError,
    UnavailableError,
)
from lance_gateway.memwal.rules import RowRules, list_defaults
from lance_gateway.memwal.rules.defaults import Change
from lance_gateway.memwal.writing import OpenTable
from lance_gateway.pipeline.ingesting.options import IngestOptions
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.spark.runner import Versions, carry_errors


@dataclass(frozen=True)
class Columns:
    """The mapping of columns of rows to columns of a table; sent to executors.

    Attributes:
        table: name of the table, for messages.
        schema: schema of the table.
        key: key columns.
        required: columns that must not be NULL.
        given: columns of the table that the rows have.
        deleted: Boolean column of the rows that marks keys to delete.
        rules: what else rows must meet.
        defaults: column that the rows don't have -> its default, an array of one value.
    """

    table: str
    schema: pa.Schema
    key: tuple[str, ...]
    required: tuple[str, ...]
    given: tuple[str, ...]
    deleted: str | None
    rules: RowRules
    defaults: Mapping[str, pa.Array]

    @staticmethod
    def match_schema(rows: pa.Schema, table: OpenTable, options: IngestOptions) -> Columns:
        """Match columns by name.

        Raises:
            PreconditionError: the table has no key.
            InvalidInputError: a column is unknown, missing, duplicate, or of a type that does not fit.
        """
        name, schema = table.name, table.schema
        if not table.key:
            raise PreconditionError(
                f"table {name!r} has no primary key, so rows that Spark writes twice would be there twice: "
                "declare a key, or insert through a gateway"
            )
        if len(set(rows.names)) != len(rows.names):
            twice = next(name for name in rows.names if rows.names.count(name) > 1)
            raise InvalidInputError(
                f"table {name!r}: the rows have column {twice!r} twice: columns are found by name"
            )
        _check_extras(rows, table, options)
        extras = {*options.order_by, options.deleted_column} - set(schema.names)
        for one in rows.names:
            if one not in extras and one not in schema.names:
                close = difflib.get_close_matches(one.lower(), schema.names, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(schema.names)}"
                raise InvalidInputError(f"table {name!r} has no column {one!r}: {hint}")
        defaults = _evaluate_defaults(rows, table)
        for one in table.required:
            if one not in rows.names and (one in table.key or one not in defaults):
                what = "belongs to its key" if one in table.key else "must not be NULL"
                raise InvalidInputError(
                    f"table {name!r}: column {one!r} {what}, but the rows have {', '.join(rows.names)}"
                )
        given = tuple(name for name in rows.names if name in schema.names)
        for one in given:
            _check_type(name, one, rows.field(one).type, schema.field(one).type)
        return Columns(
            name, schema, table.key, table.required, given, options.deleted_column, table.rules, defaults
        )

    def split(self, rows: pa.Table) -> tuple[pa.Table, pa.Table | None]:
        """Split rows into rows to upsert and rows whose keys are deleted; drops extra columns."""
        if self.deleted is None:
            return rows.select(list(self.given)), None
        dead = pc.fill_null(rows.column(self.deleted), fill_value=False)
        rows = rows.select(list(self.given))
        return rows.filter(pc.invert(dead)), rows.filter(dead)

    def conform(self, rows: pa.Table) -> pa.Table:
        """Convert rows to the table's columns and types; missing columns have their defaults, or NULL.

        Raises:
            InvalidInputError: a value does not fit; names table, column and the row's key.
        """
        columns = []
        for field in self.schema:
            if field.name not in self.given:
                default = self.defaults.get(field.name, pa.nulls(1, field.type))
                places = pa.array(np.zeros(rows.num_rows, np.int64))
                columns.append(pa.chunked_array([default.take(places)]))
                continue
            column = rows.column(field.name)
            columns.append(column if column.type == field.type else self._cast(rows, field))
        return pa.Table.from_arrays(columns, schema=self.schema)

    def check(self, rows: pa.Table) -> None:
        """Check that required columns have no NULL.

        Raises:
            InvalidInputError: a column has a NULL; names table, column and the row's key.
        """
        if self.deleted is None:
            self._check_values(rows, self.required)
            return
        self._check_values(rows, self.key)
        self._check_values(self.split(rows)[0], self.required)

    def check_rules(self, rows: pa.Table, conformed: pa.Table) -> None:
        """Check that rows meet the rules of the table.

        Args:
            rows: the rows.
            conformed: the same as `conform` returns them.

        Raises:
            InvalidInputError: a row violates one; names the rule and the row's key.
        """
        if self.deleted is not None:
            dead = pc.fill_null(rows.column(self.deleted), fill_value=False)
            conformed = conformed.filter(pc.invert(dead))
        self.rules.check(conformed)

    def describe_row(self, rows: pa.Table, at: int) -> str:
        """Describe a row by its key, for messages."""
        values = (
            f"{name} = {rows.column(name)[at].as_py()!r}" for name in self.key if name in rows.column_names
        )
        return f"the row with {', '.join(values)}"

    def _check_values(self, rows: pa.Table, names: tuple[str, ...]) -> None:
        for name in names:
            if name in self.defaults:
                continue
            column = rows.column(name)
            if column.null_count:
                at = int(np.flatnonzero(column.is_null().to_numpy())[0])
                raise InvalidInputError(
                    f"table {self.table!r}: column {name!r} can't be NULL, but {self.describe_row(rows, at)} "
                    "has no value there; give one"
                )

    def _cast(self, rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
        column = rows.column(field.name)
        try:
            return column.cast(field.type)
        except pa.ArrowException as error:
            at = find_failing_row(
                rows.num_rows, lambda start, length: column.slice(start, length).cast(field.type)
            )
            reason = str(error).split("\n")[0]
            raise InvalidInputError(
                f"table {self.table!r}: column {field.name!r} is {field.type}, which "
                f"{self.describe_row(rows, at)} does not fit: {reason}"
            ) from error


def find_failing_row(rows: int, attempt: Callable[[int, int], object]) -> int:
    """Find a row for which a function fails that fails for all rows together, by binary search.

    Args:
        rows: number of rows.
        attempt: function that takes start and length of a range of rows.
    """
    start, length = 0, rows
    while length > 1:
        half = length // 2
        try:
            attempt(start, half)
        except Exception:  # noqa: BLE001 - whatever it is, the row is looked for
            length = half
        else:
            start, length = start + half, length - half
    return start


def _evaluate_defaults(rows: pa.Schema, table: OpenTable) -> dict[str, pa.Array]:
    """Evaluate the defaults of columns that rows don't have, once for all rows.

    Raises:
        InvalidInputError: a default has another value for each row, so that repeated tasks would disagree.
    """
    missing = {
        name: default for name, default in list_defaults(table.schema).items() if name not in rows.names
    }
    for name, default in missing.items():
        if default.change is Change.BY_ROW:
            raise InvalidInputError(
                f"table {table.name!r}: column {name!r} has the default {default.expression}, which Spark "
                "would evaluate again for each attempt of a task: give the column"
            )
    return {name: default.evaluate(1) for name, default in missing.items()}


def _check_extras(rows: pa.Schema, table: OpenTable, options: IngestOptions) -> None:
    for name in options.order_by:
        if name not in rows.names:
            raise InvalidInputError(
                f"table {table.name!r}: rows can't be ordered by {name!r}: they have {', '.join(rows.names)}"
            )
    deleted = options.deleted_column
    if deleted is None:
        return
    if deleted in table.schema.names:
        raise InvalidInputError(
            f"column {deleted!r} is one of table {table.name!r}: what deletes keys must be a column that the "
            "table has not"
        )
    if deleted not in rows.names or not kinds.is_boolean(rows.field(deleted).type):
        found = "none" if deleted not in rows.names else str(rows.field(deleted).type)
        raise InvalidInputError(
            f"table {table.name!r}: column {deleted!r} must be a boolean of the rows, but it is {found}"
        )


def _check_type(table: str, name: str, given: pa.DataType, wanted: pa.DataType) -> None:
    if given == wanted:
        return
    fits = not (
        # Arrow would take a number for a count of some unit since 1970.
        (_is_number(given) and kinds.is_temporal(wanted)) or (kinds.is_temporal(given) and _is_number(wanted))
    )
    try:
        if fits:
            pa.array([], given).cast(wanted)
    except pa.ArrowException:
        fits = False
    if not fits:
        raise InvalidInputError(
            f"table {table!r}: column {name!r} is {wanted}, which {given} does not fit: cast it"
        )


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind) or kinds.is_boolean(kind)
    )


REGION = "__lance_gateway_region"
"""Column with the number of a row's region."""


@dataclass(frozen=True)
class Router:
    """For `DataFrame.mapInArrow`: rows as they came, in part cast, with the number of their region.

    Attributes:
        table: where they go.
        columns: how rows fit it.
        output: schema of what comes out.
        numbers: region id -> number, of regions that were there when the job began.
        versions: of the driver.
    """

    table: LakeTable
    columns: Columns
    output: pa.Schema
    numbers: Mapping[str, int]
    versions: Versions

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Route batches.

        Raises:
            CarriedError: rows don't fit, or storage failed.
        """
        with carry_errors():
            self.versions.check()
            table = OpenTable.open(self.table.name, self.table.storage)
            for batch in batches:
                if batch.num_rows:
                    yield from self.route(table, pa.Table.from_batches([batch])).to_batches()

    def route(self, table: OpenTable, rows: pa.Table) -> pa.Table:
        """Convert a batch, and add the region of each row.

        Raises:
            InvalidInputError: a row does not fit, or its region can't be computed.
            LanceGatewayError: the table can't be written, or storage failed.
        """
        self.columns.check(rows)
        conform = self.columns.conform(rows)
        self.columns.check_rules(rows, conform)
        numbers = self._find_region_numbers(table, conform)
        arrays = []
        for field in self.output:
            if field.name == REGION:
                arrays.append(pa.chunked_array([numbers]))
            elif field.name in self.columns.given and rows.schema.field(field.name).type != field.type:
                arrays.append(conform.column(field.name).cast(field.type))
            else:
                arrays.append(rows.column(field.name))
        return pa.Table.from_arrays(arrays, names=self.output.names).combine_chunks()

    def _find_region_numbers(self, table: OpenTable, rows: pa.Table) -> pa.Array:
        try:
            found = table.route(rows)
        except UnavailableError:
            raise
        except Exception as error:  # a free expression fails as it likes
            at = find_failing_row(rows.num_rows, lambda start, length: table.route(rows.slice(start, length)))
            alone = _find_failure(table, rows.slice(at, 1))
            is_ours = isinstance(error, LanceGatewayError) and error.status != InvalidInputError.status
            if alone is None or is_ours:
                raise
            sources = ", ".join(
                f"{column} = {rows.column(column)[at].as_py()!r}"
                for column in _list_source_columns(table)
                if column in rows.schema.names
            )
            reason = str(alone).strip().split("\n")[0][:300]
            raise InvalidInputError(
                f"table {table.name!r}: the region of {self.columns.describe_row(rows, at)} can't be told "
                f"from {sources}: {reason}"
            ) from error
        numbers = np.array([self._number_region(region_id) for region_id in found.region_ids], np.int64)
        if found.order is None:
            return pa.array(np.full(rows.num_rows, numbers[0]))
        placed = np.empty(rows.num_rows, np.int64)
        counts = np.diff(np.array([0, *found.bounds]))
        placed[found.order.to_numpy()] = np.repeat(numbers, counts)
        return pa.array(placed)

    def _number_region(self, region_id: str) -> int:
        known = self.numbers.get(region_id)
        # Routers everywhere agree on the numbers of regions that come into being meanwhile.
        return uuid.UUID(region_id).int >> 65 if known is None else known


def _find_failure(table: OpenTable, row: pa.Table) -> Exception | None:
    try:
        table.route(row)
    except Exception as error:  # noqa: BLE001 - as above
        return error
    return None


def _list_source_columns(table: OpenTable) -> list[str]:
    names = {field_id: name for name, field_id in table.field_ids.items()}
    return [names[source_id] for source_id in table.regions.source_ids if source_id in names]
