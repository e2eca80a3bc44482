"""A scan in parts that different readers take, each wherever and whenever it likes.

All parts read one snapshot, disjoint pieces of it, and together give the result exactly once. A part says
everything about itself: another process over the same root opens the snapshot from its description and
divides it in the same way.

    query = engine.prepare("SELECT id, n FROM t WHERE n > 5")
    for part in query.parts(8).parts:
        message = part.to_message().SerializeToString()     # to wherever it is read
        ...
        query.execute_part(ScanPart.from_message(snapshot_pb2.ScanPart.FromString(message)))

Statements that are nothing but one scan, or its row count, need DataFusion for planning only.

DataFusion would count(*) by making a column of ones as long as the table, and would pass a plain scan's
batches through one more pair of hands. Its plan says exactly when nothing else is asked for, pushed-down
conjuncts included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import pyarrow as pa
from datafusion import DataFrame

from memwal.errors import InvalidInputError, LanceGatewayError, PreconditionError, UnavailableError
from planner.access.visible_catalog import SecuredTable, VisibleCatalog
from planner.binding.bound_statement import BoundStatement, StatementKind
from planner.bridge.plain_types import conform
from planner.bridge.plan_shape import DirectShape, direct_shape
from planner.bridge.run_control import RunControl
from planner.plans.checked_query import CheckedQuery
from planner.plans.results import translated
from planner.scans.query_run import QueryRun, TableScan
from planner.scans.scan_plan import Division
from planner.scans.settings import SessionSettings, Shortcut
from planner.tables.sources.snapshot import SnapshotDescription, TableSnapshot
from protos import snapshot_pb2


def direct_batches(
    shape: DirectShape,
    frame: DataFrame,
    run: QueryRun,
    table: SecuredTable,
) -> Iterator[pa.RecordBatch]:
    """The statement's result; planned at once, read lazily.

    Args:
        shape: as `direct_shape` found it.
        frame: the planned statement.
        run: its execution; planning the leaf tells it projection and conjuncts, where there are any.
        table: the statement's only one, with what may be seen of it.
    """
    scan = direct_scan(shape, frame, run, table)
    return _counted(scan) if shape.counts else _all_batches(scan)


def direct_scan(shape: DirectShape, frame: DataFrame, run: QueryRun, table: SecuredTable) -> TableScan:
    """The one scan of such a statement; see `direct_batches`."""
    if not shape.is_filtered:
        return run.add_scan(table, table.base, shape.columns)
    frame.execution_plan()
    (scan,) = run.scans
    return scan


def _counted(scan: TableScan) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in _all_batches(scan))
    yield pa.record_batch([pa.array([rows], pa.int64())], names=["count"])


def _all_batches(scan: TableScan) -> Iterator[pa.RecordBatch]:
    for partition in range(scan.partitions):
        yield from scan.batches(partition)


MAX_PARTS = 4096


@dataclass(frozen=True, slots=True)
class ScanPart:
    """One part of a scan.

    Attributes:
        snapshot: what all parts read.
        number: from 0.
        count: of the parts that the snapshot was divided into; those that would be empty are not offered.
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
        """The message that stands for the part."""
        return snapshot_pb2.ScanPart(
            snapshot=self.snapshot.to_message(),
            number=self.number,
            count=self.count,
            statement_fingerprint=self.statement,
        )

    @staticmethod
    def from_message(message: snapshot_pb2.ScanPart) -> ScanPart:
        """The part that a message stands for; anybody may have written it.

        Raises:
            InvalidInputError: it describes what cannot be.
        """
        snapshot = SnapshotDescription.from_message(message.snapshot)
        return ScanPart(snapshot, message.number, message.count, message.statement_fingerprint)


@dataclass(frozen=True, eq=False)
class OfferedParts:
    """A scan, divided.

    Attributes:
        parts: at least one; none is known to be empty, unless it is the only one.
        snapshot: what they describe, open.
        rows: of all parts together, where that is known without reading.
    """

    parts: tuple[ScanPart, ...]
    snapshot: TableSnapshot
    rows: int | None


class DividedQuery(CheckedQuery):
    """A checked statement whose result several readers may share."""

    def parts(
        self, count: int, parameters: Sequence[pa.Scalar] = (), settings: SessionSettings | None = None
    ) -> OfferedParts | None:
        """Divide the result, as it is now, among several readers; see `planner.plans.scan_parts`.

        Args:
            count: how many parts are wanted.
            parameters: one value per parameter.
            settings: of the session that asks; by default those it was prepared with.

        Returns:
            None where the statement is more than the scan of a table, or an access policy applies: it is
            executed as a whole.
        """
        bound = self._bound
        chosen = settings or self._settings
        if count < 2 or not chosen.shortcuts.issuperset((Shortcut.PARTS, Shortcut.PUSHDOWN)):
            return None
        if not isinstance(bound, BoundStatement) or not is_divisible(bound):
            return None
        task = self._task(parameters, chosen, None)
        table = task.catalog.table(bound.references[0].table)
        if not table.access.is_unrestricted:
            return None
        run = self._frames.run(chosen, task.control)
        try:
            frame = self._replanned(run, task.parameters, task.catalog)
            return offered(bound, frame, run, table, count)
        except LanceGatewayError:
            raise
        except Exception as error:
            if run.failure is not None:
                raise run.failure from error
            # Executed as a whole, it may do without pushdown, or tell what is wrong with it.
            return None

    def reopen(self, part: ScanPart) -> TableSnapshot:
        """Open what a part describes, for `execute_part`.

        Raises:
            UnavailableError: it is no longer there.
        """
        _, table = self._read_by(part, self.catalog.anew())
        return table.table.reopen(part.snapshot)

    def _read_by(self, part: ScanPart, catalog: VisibleCatalog) -> tuple[BoundStatement, SecuredTable]:
        bound = self._bound
        tables = [reference.table for reference in bound.references]
        if not isinstance(bound, BoundStatement) or tables != [part.snapshot.table]:
            msg = f"the part is of table {part.snapshot.table!r}, which the statement does not read alone"
            raise InvalidInputError(msg)
        table = catalog.table(part.snapshot.table)
        if not table.access.is_unrestricted:
            # Anybody can describe a snapshot without the versions in which rows came to be hidden.
            msg = f"an access policy applies to table {table.name!r}, which is not read in parts then"
            raise PreconditionError(f"{msg}: run the query again")
        return bound, table

    def execute_part(
        self,
        part: ScanPart,
        parameters: Sequence[pa.Scalar] = (),
        settings: SessionSettings | None = None,
        control: RunControl | None = None,
        snapshot: TableSnapshot | None = None,
    ) -> pa.RecordBatchReader:
        """Read one part of the result; the same rows every time.

        Args:
            part: as `parts` of the same statement, with the same parameters, offered it.
            parameters: one value per parameter.
            settings: of this run; by default those it was prepared with.
            control: stops the run, and tells what it reads.
            snapshot: that the part describes, where it is still open.

        Raises:
            UnavailableError: the snapshot, or what the statement meant, is no longer there.
        """
        task = self._task(parameters, settings, control)
        bound, table = self._read_by(part, task.catalog)
        run = self._frames.run(task.settings, task.control)
        run.division = Division(snapshot or self.reopen(part), part.snapshot.scanned_regions, part.count)
        frame = self._replanned(run, task.parameters, task.catalog)
        scan = part_scan(bound, frame, run, table, part)

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                for batch in scan.batches(part.number):
                    yield conform(batch, self.schema)
            except Exception as error:
                raise translated(error, bound, run.control.error or run.failure) from error

        return pa.RecordBatchReader.from_batches(self.schema, batches())


def is_divisible(bound: BoundStatement) -> bool:
    """Whether a statement may be no more than a scan, and asks for the same rows whenever it is planned."""
    if bound.kind is not StatementKind.QUERY or len(bound.references) != 1:
        return False
    (reference,) = bound.references
    if reference.search is not None or reference.as_of is not None:
        return False
    # Each part is planned on its own: what is called must not decide which rows it has.
    return not bound.changes_by_itself


def offered(
    bound: BoundStatement, frame: DataFrame, run: QueryRun, table: SecuredTable, count: int
) -> OfferedParts | None:
    """Take a snapshot, and divide it.

    Args:
        bound: a statement that reads one table.
        frame: the same, planned.
        run: for which it was planned.
        table: the one that it reads.
        count: how many parts are wanted; fewer may be offered.

    Returns:
        None where the statement is more than a scan, or looks up a few keys.
    """
    shape = direct_shape(frame)
    if shape is None or not _is_scan(shape, bound):
        return None
    scan = direct_scan(shape, frame, run, table)
    if scan.is_lookup:
        return None
    snapshot = run.take_snapshot(scan.table)
    division = Division(snapshot, scan.kept_regions, count)
    described = SnapshotDescription.of(snapshot, scan.kept_regions)
    statement = fingerprint(bound, table)
    full = [
        number for number, units in enumerate(division.list_partitions()) if any(one.rows for one in units)
    ]
    parts = tuple(ScanPart(described, number, count, statement) for number in full or [0])
    counted = not shape.is_filtered and table.access.is_unrestricted and not snapshot.has_fresh_rows
    return OfferedParts(parts, snapshot, snapshot.base.dataset.count_rows() if counted else None)


def part_scan(
    bound: BoundStatement, frame: DataFrame, run: QueryRun, table: SecuredTable, part: ScanPart
) -> TableScan:
    """The scan whose partition `part.number` is the part; the run knows the division already.

    Raises:
        UnavailableError: a view or table was altered since the parts were offered.
    """
    shape = direct_shape(frame)
    if part.statement != fingerprint(bound, table) or shape is None or not _is_scan(shape, bound):
        msg = (
            f"table {part.snapshot.table!r}, or a view on it, was altered since this part was offered: run "
            "the query again"
        )
        raise UnavailableError(msg)
    return direct_scan(shape, frame, run, table)


def _is_scan(shape: DirectShape, bound: BoundStatement) -> bool:
    return not shape.counts and shape.table == bound.references[0].private_name


def fingerprint(bound: BoundStatement, table: SecuredTable) -> bytes:
    """Of what the statement means now, 16 bytes: its text with views expanded, and the table's columns."""
    columns = [(field_id, name, str(kind)) for field_id, name, kind in table.base.columns.fields]
    said = json.dumps([bound.render(), columns])  # a column of another type has another id
    return blake2b(said.encode(), digest_size=16).digest()
