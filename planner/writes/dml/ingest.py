"""Bulk loads: rows are written in parts; one part is written while the next one is read and checked."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, copy_error
from lance_gateway.memwal.rules import DefaultValues
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.memwal.writing import Changes, PartlyWrittenError, WriteReceipt
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.bridge.types.value_sizes import MAX_MEASURED, split_batch
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.writes.base_writes import BaseWrite
from lance_gateway.planner.writes.dml.prepared_write import WriteResult
from lance_gateway.planner.writes.dml.statement.target import Target, find_target
from lance_gateway.planner.writes.dml.statement.text import ReadSession
from lance_gateway.planner.writes.dml.values.assignment import (
    check_assignable,
    check_required_columns,
    fill_batch,
)
from lance_gateway.planner.writes.dml.writing_step import retry_if_fenced, write_rows

PART_ROWS = 65_536
PART_BYTES = 32 << 20
_SHOWN_REGIONS = 8

Write = Callable[[pa.Table], WriteReceipt]


def split_into_parts(
    tables: Iterable[pa.Table], rows: int | None = None, nbytes: int | None = None
) -> Iterator[pa.Table]:
    """Combine and split tables of one schema into tables of at most `rows` rows and about `nbytes` bytes."""
    rows, nbytes = rows or PART_ROWS, nbytes or PART_BYTES
    held: list[pa.Table] = []
    held_rows = held_bytes = 0
    for table in tables:
        if held and (held_rows + table.num_rows > rows or held_bytes + table.nbytes > nbytes):
            yield pa.concat_tables(held)
            held, held_rows, held_bytes = [], 0, 0
        pieces = max(-(-table.num_rows // rows), -(-table.nbytes // nbytes)) or 1
        size = max(-(-table.num_rows // pieces), 1)
        while table.num_rows > size:
            yield table.slice(0, size)
            table = table.slice(size)  # noqa: PLW2901 - the rest of it
        if table.num_rows:
            held.append(table)
            held_rows += table.num_rows
            held_bytes += table.nbytes
    if held:
        yield pa.concat_tables(held)


def write_parts(write: Write, parts: Iterator[pa.Table], control: RunControl) -> WriteReceipt:
    """Write parts one after another.

    Args:
        write: writes one part, atomically in each region.
        parts: checked rows.
        control: cancels the execution between two parts.

    Raises:
        LanceGatewayError: writing failed; the message says what had been written before.
    """
    if control.transaction is not None:
        kept = _WrittenParts()
        for rows in parts:
            kept.add(write(rows))
        return kept.receipt  # A statement that fails is taken back whole, so there is no progress to tell.
    first = next(parts, None)
    if first is None:
        return WriteReceipt()
    second = next(parts, None)
    if second is None:
        return write(first)
    written = _WrittenParts()
    with ThreadPoolExecutor(1, thread_name_prefix="write") as pool:
        pending: Future[WriteReceipt] | None = pool.submit(write, first)
        part: pa.Table | None = second
        try:
            while part is not None:
                control.check()
                assert pending is not None  # noqa: S101 - a part is always being written here
                done, pending = pending, None
                written.add(done.result())
                pending = pool.submit(write, part)
                part = next(parts, None)
            if pending is not None:
                written.add(pending.result())
        except BaseException as error:
            if pending is not None and pending.done() and pending.exception() is error:
                pending = None
            if pending is not None:
                try:
                    written.add(pending.result())
                except LanceGatewayError as later:
                    # The part that was being written failed too.
                    raise written.add_progress(later) from error
            if isinstance(error, LanceGatewayError):
                raise written.add_progress(error) from error
            raise
    return written.receipt


class _WrittenParts:
    """Counts the rows that were acknowledged so far."""

    def __init__(self) -> None:
        self._regions: dict[str, int] = {}
        self._is_durable = True

    @property
    def receipt(self) -> WriteReceipt:
        """Receipt of all parts together."""
        return WriteReceipt(self._regions, self._is_durable)

    def add(self, receipt: WriteReceipt) -> None:
        """Add the receipt of a part."""
        for region_id, rows in receipt.regions.items():
            self._regions[region_id] = self._regions.get(region_id, 0) + rows
        self._is_durable = self._is_durable and receipt.is_durable

    def add_progress(self, error: LanceGatewayError) -> LanceGatewayError:
        """Return the error with the rows that were written before it in its message."""
        if not self._regions:
            return error
        rows = self.receipt.num_rows
        counts = [f"{region_id[:8]}: {count}" for region_id, count in self._regions.items()]
        listed = ", ".join(counts[:_SHOWN_REGIONS]) + (", .." if len(counts) > _SHOWN_REGIONS else "")
        msg = f"{error}; {rows} rows had been written before that (by region: {listed}), and stay"
        if isinstance(error, PartlyWrittenError):
            self.add(error.receipt)
            return PartlyWrittenError(msg, self.receipt)
        return copy_error(error, msg)


@dataclass(frozen=True, eq=False)
class PreparedIngest:
    """A checked bulk load.

    Attributes:
        write_target: table that is written.
        columns: target column of each column of the stream.
        settings: session settings.
    """

    write_target: Target
    columns: tuple[str, ...]
    settings: SessionSettings

    @property
    def target(self) -> TableName:
        """Name of the table."""
        return self.write_target.name

    def execute(self, batches: Iterator[pa.RecordBatch], control: RunControl) -> WriteResult:
        """Write the rows of a stream in parts, each durable before the next.

        Args:
            batches: batches of the prepared schema; columns of the table's types are not copied.
            control: cancels the execution between two parts.

        Raises:
            LanceGatewayError: writing failed; the message says how many rows had been written before.
            Exception: reading `batches` failed; parts read before are written.
        """
        if self.write_target.is_plain:
            return self._append(batches, control)
        durable = self.settings.durable_writes

        def write_once(rows: pa.Table) -> WriteReceipt:
            return write_rows(self.write_target, Changes(rows), control, durable=durable)

        def write(rows: pa.Table) -> WriteReceipt:
            return retry_if_fenced(lambda: write_once(rows), self.target)

        receipt = write_parts(write, split_into_parts(self._read_rows(batches)), control)
        return WriteResult(receipt.num_rows, is_durable=receipt.is_durable and durable)

    def _append(self, batches: Iterator[pa.RecordBatch], control: RunControl) -> WriteResult:
        """Append all rows in one commit of the base table."""
        affected = 0

        def count_rows() -> Iterator[pa.Table]:
            nonlocal affected
            for rows in split_into_parts(self._read_rows(batches)):
                control.check()
                affected += rows.num_rows
                yield rows

        BaseWrite.begin(self.write_target.table, control).write(count_rows())
        return WriteResult(affected)

    def _read_rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        row, defaults = 1, DefaultValues(self.write_target.defaults)
        schema = self.write_target.schema
        kinds = [schema.field(name).type for name in self.columns]
        missing = [field.type for field in schema if field.name not in self.columns]
        for batch in batches:
            pieces = iter((batch,))
            if missing or batch.schema.types != kinds:
                # A row of the table may be much wider than one of the stream, as that of a NULL vector.
                pieces = split_batch(batch, kinds, PART_BYTES, row_bytes=MAX_MEASURED, missing=missing)
            for piece in pieces:
                yield fill_batch(self.write_target, self.columns, piece, defaults, row)
                row += piece.num_rows


def prepare_ingest(
    engine: QueryPlanner, table: TableName, schema: pa.Schema, settings: SessionSettings, access: Access
) -> PreparedIngest:
    """Prepare a bulk load; columns of the stream match the table's by name.

    Args:
        engine: engine of the table.
        table: name of the table.
        schema: schema of the stream.
        settings: session settings.
        access: rights of the principal.

    Raises:
        LanceGatewayError: the table can't be written, or the columns don't fit it.
    """
    target = find_target(ReadSession(engine, settings, access), (table.schema, table.table))
    columns, known = tuple(schema.names), frozenset(target.schema.names)
    unknown = [name for name in columns if name not in known]
    if unknown:
        near = difflib.get_close_matches(unknown[0], target.schema.names, n=3)
        hint = (
            f"did you mean {' or '.join(map(repr, near))}?"
            if near
            else "leave it out, or add it to the table"
        )
        msg = f"column {unknown[0]!r} of the stream is none of table {table!r}: {hint}"
        raise InvalidInputError(msg)
    for name in columns:
        if columns.count(name) > 1:
            msg = f"the stream has column {name!r} twice"
            raise InvalidInputError(msg)
        check_assignable(schema.field(name).type, target.schema.field(name))
    target.check_numbers(columns, "leave it out of the stream")
    check_required_columns(target, columns, "the stream")
    return PreparedIngest(target, columns, settings)
