"""Divides a scan into parts that several readers can read independently of each other.

All parts read one snapshot, disjoint pieces of it, and together give the result exactly once. A part is
self-contained: another process over the same root opens the snapshot from its description and divides it in
the same way.

    query = engine.prepare("SELECT id, n FROM t WHERE n > 5")
    for part in query.parts(8).parts:
        message = part.to_message().SerializeToString()     # to wherever it is read
        ...
        query.execute_part(ScanPart.from_message(snapshot_pb2.ScanPart.FromString(message)))

A statement that is only one scan, or its row count, is planned by DataFusion, but executed without it:
DataFusion would make a column of ones for count(*), and would only pass on the batches of a scan.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import pyarrow as pa

from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    PreconditionError,
    UnavailableError,
)
from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.access.visible_catalog import VisibleCatalog
from lance_gateway.planner.binding.bound_statement import BoundStatement, StatementKind
from lance_gateway.planner.bridge.plan_shape import DirectShape
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.bridge.types.plain_types import conform
from lance_gateway.planner.plans.checked_query import CheckedQuery
from lance_gateway.planner.plans.errors import translate_error
from lance_gateway.planner.plans.forms.planned_frame import PlannedFrame
from lance_gateway.planner.scans.query_run import QueryRun, TableScan
from lance_gateway.planner.scans.scan_plan import Division
from lance_gateway.planner.scans.settings import SessionSettings, Shortcut
from lance_gateway.planner.tables.sources.snapshot import SnapshotDescription, TableSnapshot
from lance_gateway.planner.tables.state.extended_tables import Extension, split_extension
from lance_gateway.protos import snapshot_pb2


def read_direct_scan(
    shape: DirectShape,
    frame: PlannedFrame,
    run: QueryRun,
    table: SecuredTable,
) -> Iterator[pa.RecordBatch]:
    """Plan the only scan of a statement, and return the lazy batches of the result.

    Args:
        shape: of the plan.
        frame: the planned statement.
        run: its execution.
        table: the only table of the statement.
    """
    scan = plan_direct_scan(shape, frame, run, table)
    return _count_rows(scan) if shape.counts else _read_all(scan)


def plan_direct_scan(
    shape: DirectShape, frame: PlannedFrame, run: QueryRun, table: SecuredTable
) -> TableScan:
    """Plan the only scan of a statement; the arguments are those of `read_direct_scan`."""
    if not shape.is_filtered:
        return run.add_scan(table, table.base, shape.columns)
    for _, leaf in frame.leaves:
        if (again := leaf.rescan()) is not None:
            return again
    frame.execution_plan()
    (scan,) = run.scans
    return scan


def _count_rows(scan: TableScan) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in _read_all(scan))
    yield pa.record_batch([pa.array([rows], pa.int64())], names=["count"])


def _read_all(scan: TableScan) -> Iterator[pa.RecordBatch]:
    for partition in range(scan.partitions):
        yield from scan.batches(partition)


MAX_PARTS = 4096


@dataclass(frozen=True, slots=True)
class ScanPart:
    """One part of a scan.

    Attributes:
        snapshot: what all parts read.
        number: from 0.
        count: of the parts that the snapshot was divided into; those that would be empty are not supported.
        statement: fingerprint of the statement as it was resolved.
    """

    snapshot: SnapshotDescription
    number: int
    count: int
    statement: bytes

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.count <= MAX_PARTS:
            msg = f"part {self.number} of {self.count}: parts count from 0, and there are at most {MAX_PARTS}"
            raise InvalidInputError(msg)

    def to_message(self) -> snapshot_pb2.ScanPart:
        """Return the part as a message."""
        return snapshot_pb2.ScanPart(
            snapshot=self.snapshot.to_message(),
            number=self.number,
            count=self.count,
            statement_fingerprint=self.statement,
        )

    @staticmethod
    def from_message(message: snapshot_pb2.ScanPart) -> ScanPart:
        """Read a part from a message, which is not trusted.

        Raises:
            InvalidInputError: the message is not valid.
        """
        snapshot = SnapshotDescription.from_message(message.snapshot)
        return ScanPart(snapshot, message.number, message.count, message.statement_fingerprint)


@dataclass(frozen=True, eq=False)
class OfferedParts:
    """The parts of a scan.

    Attributes:
        parts: at least one; only a single part may be empty.
        snapshot: what has the snapshot open that they describe, for `execute_part`.
        rows: row count of all parts; None if it is not known without reading.
    """

    parts: tuple[ScanPart, ...]
    snapshot: object
    rows: int | None


class DividedQuery(CheckedQuery):
    """A checked statement whose result several readers may share."""

    def parts(
        self, count: int, parameters: Sequence[pa.Scalar] = (), settings: SessionSettings | None = None
    ) -> OfferedParts | None:
        """Divide the result over the newest state of its table among several readers.

        Args:
            count: the largest number of parts.
            parameters: one value per parameter.
            settings: of the session; by default those it was prepared with.

        Returns:
            None if the statement is more than the scan of a table, or an access policy applies: it must be
            executed as a whole.
        """
        bound = self._bound
        chosen = settings or self._settings
        if not self._may_divide(count, chosen):
            return None
        task = self._make_task(parameters, chosen, None)
        table = task.catalog.table(bound.references[0].table)
        if not table.access.is_unrestricted:
            return None
        run = QueryRun(chosen, self._frames.visibility, task.control)
        try:
            frame = self._plan_again(run, task.parameters, task.catalog)
            return divide_scan(bound, frame, run, table, count)
        except LanceGatewayError:
            raise
        except Exception as error:
            if run.failure is not None:
                raise run.failure from error
            # The statement may succeed as a whole, without pushdown.
            return None

    def _may_divide(self, count: int, settings: SessionSettings) -> bool:
        if count < 2 or not settings.shortcuts.issuperset((Shortcut.PARTS, Shortcut.PUSHDOWN)):
            return False
        return isinstance(self._bound, BoundStatement) and is_divisible(self._bound)

    def reopen(self, part: ScanPart) -> object:
        """Open the snapshot of a part, for `execute_part`.

        Raises:
            UnavailableError: files of the snapshot no longer exist.
        """
        return self._resolve_table(part, self.catalog.reopen()).table.reopen(part.snapshot)

    def _resolve_table(self, part: ScanPart, catalog: VisibleCatalog) -> SecuredTable:
        tables = [reference.table for reference in self._bound.references]
        if tables != [part.snapshot.table]:
            msg = f"the part is of table {part.snapshot.table!r}, which the statement does not read alone"
            raise InvalidInputError(msg)
        table = catalog.table(part.snapshot.table)
        if not table.access.is_unrestricted:
            # A client could describe a snapshot that leaves out the versions that hide rows.
            msg = f"an access policy applies to table {table.name!r}, which is not read in parts then"
            raise PreconditionError(f"{msg}: run the query again")
        return table

    def execute_part(
        self,
        part: ScanPart,
        parameters: Sequence[pa.Scalar] = (),
        settings: SessionSettings | None = None,
        control: RunControl | None = None,
        snapshot: object = None,
    ) -> pa.RecordBatchReader:
        """Read one part of the result; every call reads the same rows.

        Args:
            part: from `parts` of the same statement with the same parameters.
            parameters: one value per parameter.
            settings: of this run; by default those it was prepared with.
            control: stops the run, and reports what it reads.
            snapshot: that the part describes, if it is still open.

        Raises:
            UnavailableError: the snapshot no longer exists, or the statement has another meaning now.
        """
        task = self._make_task(parameters, settings, control)
        bound, table = self._bound, self._resolve_table(part, task.catalog)
        run = QueryRun(task.settings, self._frames.visibility, task.control)
        opened = snapshot if isinstance(snapshot, TableSnapshot) else table.table.reopen(part.snapshot)
        run.division = Division(opened, part.snapshot.scanned_regions, part.count)
        frame = self._plan_again(run, task.parameters, task.catalog)
        scan = plan_part_scan(bound, frame, run, table, part)

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                for batch in scan.batches(part.number):
                    yield conform(batch, self.schema)
            except Exception as error:
                raise translate_error(error, bound, run.control.error or run.failure) from error

        return pa.RecordBatchReader.from_batches(self.schema, batches())


def is_divisible(bound: BoundStatement) -> bool:
    """Return whether a statement may be a single scan that reads the same rows whenever it is planned."""
    if bound.kind is not StatementKind.QUERY or len(bound.references) != 1:
        return False
    (reference,) = bound.references
    if reference.search is not None or reference.as_of is not None or reference.compared is not None:
        return False
    if split_extension(reference.table)[1] is not Extension.NONE:
        return False
    # Each part is planned separately, so a volatile function would make them inconsistent.
    return not bound.is_volatile


def divide_scan(
    bound: BoundStatement, frame: PlannedFrame, run: QueryRun, table: SecuredTable, count: int
) -> OfferedParts | None:
    """Take a snapshot, and divide it.

    Args:
        bound: a statement that reads one table.
        frame: its plan.
        run: its execution.
        table: that it reads.
        count: the largest number of parts.

    Returns:
        None if the statement is more than a scan, or looks up a few keys.
    """
    shape = frame.direct_shape
    if shape is None or not _is_scan(shape, bound):
        return None
    scan = plan_direct_scan(shape, frame, run, table)
    if scan.is_lookup:
        return None
    snapshot = run.take_snapshot(scan.table)
    division = Division(snapshot, scan.kept_regions, count)
    described = SnapshotDescription.of(snapshot, scan.kept_regions)
    statement = fingerprint_statement(bound, table)
    full = [
        number for number, units in enumerate(division.list_partitions()) if any(unit.rows for unit in units)
    ]
    parts = tuple(ScanPart(described, number, count, statement) for number in full or [0])
    is_whole_base = (
        not shape.is_filtered and table.access.is_unrestricted and not run.visibility.hides_rows(snapshot)
    )
    return OfferedParts(parts, snapshot, snapshot.base.dataset.count_rows() if is_whole_base else None)


def plan_part_scan(
    bound: BoundStatement, frame: PlannedFrame, run: QueryRun, table: SecuredTable, part: ScanPart
) -> TableScan:
    """Plan the scan whose partition `part.number` is the part; the run has its division already.

    Raises:
        UnavailableError: a view or table was altered since the scan was divided.
    """
    shape = frame.direct_shape
    if part.statement != fingerprint_statement(bound, table) or shape is None or not _is_scan(shape, bound):
        msg = (
            f"table {part.snapshot.table!r}, or a view on it, was altered since this part was offered: run "
            "the query again"
        )
        raise UnavailableError(msg)
    return plan_direct_scan(shape, frame, run, table)


def _is_scan(shape: DirectShape, bound: BoundStatement) -> bool:
    return not shape.counts and shape.table == bound.references[0].private_name


def fingerprint_statement(bound: BoundStatement, table: SecuredTable) -> bytes:
    """Return 16 bytes that identify the text with expanded views, and the columns of the table."""
    columns = [(field_id, name, str(kind)) for field_id, name, kind in table.base.columns.fields]
    meaning = json.dumps([bound.text, columns])
    return blake2b(meaning.encode(), digest_size=16).digest()
