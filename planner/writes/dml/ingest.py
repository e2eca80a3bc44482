"""Bulk loads: record batches of any origin, written as they come."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from memwal.errors import InvalidInputError
from memwal.writing import Changes, WriteReceipt
from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.writes.dml.statement.prepared_write import WriteResult
from planner.writes.dml.statement.target import Target, find_target
from planner.writes.dml.values.assignment import check_assignable, check_given, filled_batch
from planner.writes.dml.writing.retry_fenced import again_if_fenced
from planner.writes.dml.writing.stream import in_parts, write_parts

if TYPE_CHECKING:
    from planner.access.rights import Access

__all__ = ["PreparedIngest", "prepare_ingest"]


@dataclass(frozen=True, eq=False)
class PreparedIngest:
    """A bulk load that was checked.

    Attributes:
        into: table that it writes to.
        columns: of the stream, in its order.
        settings: of the session.
    """

    into: Target
    columns: tuple[str, ...]
    settings: SessionSettings

    @property
    def target(self) -> str:
        """Name of the table."""
        return self.into.name

    def execute(self, batches: Iterator[pa.RecordBatch], control: RunControl) -> WriteResult:
        """Write the rows of a stream in parts, each durable before the next.

        Args:
            batches: of the schema that was prepared; columns whose types are the table's are not copied.
            control: stops between two parts.

        Raises:
            LanceGatewayError: what went wrong; it says how many rows had been written before.
            Exception: what reading `batches` raises, after the part that was under way.
        """
        writer, durable = self.into.table.writer(), self.settings.durable_writes

        def write(rows: pa.Table) -> WriteReceipt:
            return again_if_fenced(lambda: writer.write(Changes(rows), durable=durable), control, self.target)

        receipt = write_parts(write, in_parts(self._rows(batches)), control)
        return WriteResult(receipt.num_rows, is_durable=receipt.is_durable and durable)

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        row = 1
        for batch in batches:
            yield filled_batch(self.into, self.columns, batch, row)
            row += batch.num_rows


def prepare_ingest(
    engine: QueryPlanner, table: str, schema: pa.Schema, settings: SessionSettings, access: Access
) -> PreparedIngest:
    """Check a bulk load; columns find the table's by their names.

    Args:
        engine: whose table is written.
        table: its name.
        schema: of the stream.
        settings: of the session.
        access: rights of the principal.

    Raises:
        LanceGatewayError: the table can't be written, or the columns don't fit it.
    """
    target = find_target(engine, (table,), access)
    columns = tuple(schema.names)
    unknown = [name for name in columns if name not in target.spelt]
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
    check_given(target, columns, "the stream")
    return PreparedIngest(target, columns, settings)
