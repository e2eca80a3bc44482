"""Table as a transaction sees it: one snapshot, with the rows on top that the transaction has written."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_gateway.memwal.regions.manifest import FlushedGeneration
from lance_gateway.planner.bridge.types.plain_types import conform
from lance_gateway.planner.predicates.pruning import RegionAssignments
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.generations import GenerationDataset
from lance_gateway.planner.tables.sources.log_tail import TailRows, tail_schema
from lance_gateway.planner.tables.sources.snapshot import (
    Consistency,
    RegionSnapshot,
    SnapshotDescription,
    TableSnapshot,
)
from lance_gateway.planner.tables.state.table import Table

OwnRows = Mapping[str, Sequence[pa.Table]]
"""Region id -> rows with `_tombstone` that a transaction has written, oldest first."""


@dataclass(frozen=True, eq=False)
class DescribedTable:
    """Everything that another process needs to see a table as a transaction does.

    Attributes:
        number: of the table's state in the transaction: while it is the same, rows are only added.
        snapshot: without the transaction's rows.
        rows: region id -> rows that the transaction has written, as IPC streams, oldest first.
    """

    number: bytes
    snapshot: SnapshotDescription
    rows: Mapping[str, tuple[bytes, ...]]


class TransactionTable(Table):
    """One snapshot of a table with a transaction's own rows, whatever is written meanwhile.

    Attributes:
        snapshot: without the transaction's rows.

    Args:
        shared: the table of the catalog.
        snapshot: of all its regions.
    """

    def __init__(self, shared: Table, snapshot: TableSnapshot) -> None:
        super().__init__(
            shared.name, shared.storage, shared.cache, shared.columns, shared.places, shared.session
        )
        self.snapshot = snapshot
        self._shared = shared
        self._lock = threading.Lock()
        self._own: dict[str, tuple[int, TailRows]] = {}

    @staticmethod
    def take(shared: Table) -> TransactionTable:
        """Take a snapshot of all regions, at consistency "strong".

        Raises:
            LanceGatewayError: something can't be read.
        """
        shared.settle()
        regions = shared.assignments(shared.base(), "strong").region_ids
        return TransactionTable(shared, shared.take_snapshot(regions, "strong"))

    @staticmethod
    def open_described(shared: Table, description: SnapshotDescription) -> TransactionTable:
        """Open the snapshot that another process has taken.

        Raises:
            SnapshotGoneError: part of it was merged and cleaned up since.
            LanceGatewayError: something can't be read.
        """
        return TransactionTable(shared, shared.reopen(description))

    def show_rows(self, own: OwnRows) -> None:
        """Show these rows of the transaction from now on, of which those that were shown are the first."""
        with self._lock:
            for region_id, tables in own.items():
                count, rows = self._own.get(region_id, (0, None))
                if rows is None:
                    rows = self._copy_tail(region_id)
                for table in tables[count:]:
                    rows.append_own(table)
                self._own[region_id] = max(count, len(tables)), rows

    def _copy_tail(self, region_id: str) -> TailRows:
        region = self.snapshot.regions.get(region_id)
        if region is None or region.tail is None:
            return TailRows(region_id, self.snapshot.base)
        tail = region.tail
        copied = TailRows(region_id, self.snapshot.base)
        copied.append_own(tail.rows)
        return copied

    def replace_with(self, other: Table) -> Table:  # noqa: ARG002 - which would read newer rows
        """See `Table.replace_with`."""
        return self

    @property
    def described_time(self) -> str:
        """See `Table.described_time`."""
        return "in a transaction"

    @property
    def has_own_rows(self) -> bool:
        """See `Table.has_own_rows`."""
        return bool(self._own)

    def base(self) -> BaseTable:
        """Return the version of the snapshot."""
        return self.snapshot.base

    def find_recent_base(self) -> BaseTable:
        """Return the version of the snapshot."""
        return self.snapshot.base

    def assignments(self, base: BaseTable, consistency: Consistency) -> RegionAssignments:  # noqa: ARG002
        """Return all regions that there are now; those that came later have no rows but the transaction's."""
        return self._shared.assignments(base, "strong")

    def take_snapshot(
        self,
        regions: Iterable[str],
        consistency: Consistency = "strong",  # noqa: ARG002
        max_staleness_ms: int = 0,  # noqa: ARG002
    ) -> TableSnapshot:
        """Return the snapshot with the rows that the transaction has written so far."""
        with self._lock:
            return TableSnapshot(self.snapshot.base, {one: self._region(one) for one in regions})

    def _region(self, region_id: str) -> RegionSnapshot:
        region = self.snapshot.regions.get(region_id) or RegionSnapshot(region_id, (), None)
        _, own = self._own.get(region_id, (0, None))
        return region if own is None else replace(region, tail=own.tail())

    def open_generations(
        self, base: BaseTable, region_id: str, flushed: Iterable[FlushedGeneration]
    ) -> tuple[GenerationDataset, ...]:
        """See `Table.open_generations`."""
        return self._shared.open_generations(base, region_id, flushed)

    def describe(self) -> SnapshotDescription:
        """Describe the snapshot without the transaction's rows."""
        return SnapshotDescription.of(self.snapshot, frozenset(self.snapshot.regions))


def build_own_rows(base: BaseTable, upserts: pa.Table | None, deletes: pa.Table | None) -> pa.Table:
    """Return written rows and keys of one region as rows of a log tail."""
    schema = tail_schema(base)
    parts = [schema.empty_table()]
    if upserts is not None:
        batches = [conform(one, base.schema) for one in upserts.select(base.schema.names).to_batches()]
        rows = pa.Table.from_batches(batches, base.schema)
        dead = pa.repeat(pa.scalar(value=False), rows.num_rows)
        parts.append(pa.Table.from_arrays([*rows.columns, pa.chunked_array([dead])], schema=schema))
    if deletes is not None:
        columns = [
            deletes.column(field.name).cast(field.type)
            if field.name in deletes.column_names
            else pa.nulls(deletes.num_rows, field.type)
            for field in base.schema
        ]
        dead = pa.repeat(pa.scalar(value=True), deletes.num_rows)
        parts.append(pa.Table.from_arrays([*columns, dead], schema=schema))
    return pa.concat_tables(parts)


def encode_own_rows(rows: pa.Table) -> bytes:
    """Return rows as an IPC stream."""
    sink = pa.BufferOutputStream()
    plain = rows.cast(_nullable(rows.schema))
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    return bytes(sink.getvalue())


def decode_own_rows(base: BaseTable, data: bytes) -> pa.Table:
    """Return the rows of an IPC stream of `encode_own_rows`."""
    rows = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
    return pa.Table.from_arrays(rows.columns, schema=tail_schema(base))


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Return the columns without NOT NULL, which deleted rows don't keep to."""
    return pa.schema([field.with_nullable(nullable=True) for field in schema])
