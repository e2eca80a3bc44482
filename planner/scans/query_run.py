"""One execution of one statement: its scans, and the snapshots that they share."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.execnodes import (
    ExecNode,
    KeySet,
    MeasuredNode,
    MetricsSet,
    SecurityBarrierExec,
    TaskContext,
)
from lance_gateway.execnodes.node import coalesce_batches
from lance_gateway.memwal.errors import LanceGatewayError, PreconditionError, UnavailableError, is_panic
from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.access.table_policy import PolicedRows, TablePolicy
from lance_gateway.planner.bridge.run_control import RunControl, TableRead
from lance_gateway.planner.predicates.arrow_expressions import read_expression
from lance_gateway.planner.predicates.predicate import TRUE, Predicate, conjunction
from lance_gateway.planner.predicates.pruning import Outcome, Pruning, RegionAssignments, prune_regions
from lance_gateway.planner.predicates.row_filter import build_key_predicate
from lance_gateway.planner.predicates.value_sets import find_key_values
from lance_gateway.planner.scans.failures import conceal_error
from lance_gateway.planner.scans.needed_regions import find_reason_not_to_prune, list_needed_regions
from lance_gateway.planner.scans.pruning.statement_predicates import NO_PREDICATES, ScannedTable
from lance_gateway.planner.scans.run_tables import CACHE_SHORTCUTS, RunTables
from lance_gateway.planner.scans.scan_plan import (
    Conditions,
    Division,
    divide_conditions,
    is_opaque,
    plan_lookup,
    plan_scan,
)
from lance_gateway.planner.scans.settings import SessionSettings, Shortcut
from lance_gateway.planner.tables.sources.base_table import BaseTable, FilesVanishedError, build_scan_error
from lance_gateway.planner.tables.sources.decoded_columns import DecodedColumns
from lance_gateway.planner.tables.sources.generations import GenerationVanishedError
from lance_gateway.planner.tables.sources.snapshot import SnapshotGoneError, TableSnapshot
from lance_gateway.planner.tables.state.extended_tables import ExtendedTable
from lance_gateway.planner.tables.state.snapshots import SNAPSHOT_ATTEMPTS
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.tables.state.table_state import Confirmed
from lance_gateway.planner.tables.visibility.visibility import Visibility

logger = logging.getLogger(__name__)

Shared = TypeVar("Shared")


class QueryRun:
    """Hold the scans of one statement, which share one snapshot per table, taken at the first batch.

    Args:
        settings: of the statement's session.
        visibility: where masks come from.
        control: of the execution; stops it.
    """

    def __init__(self, settings: SessionSettings, visibility: Visibility, control: RunControl) -> None:
        self.settings = settings
        self._tables = (
            None if settings.shortcuts >= CACHE_SHORTCUTS else RunTables(settings.shortcuts, visibility)
        )
        self.visibility = visibility if self._tables is None else self._tables.visibility
        self.set_control(control)
        self.failure: LanceGatewayError | None = None
        """First error of this package; DataFusion only passes on its text."""
        self.scans: list[TableScan] = []
        self.system_scans: list[Callable[[], Iterator[pa.RecordBatch]]] = []
        """Readers of the planned scans of system tables."""
        self.columns: dict[tuple[str, str], pa.Schema] = {}
        """Statement and private name of a table -> its columns at planning."""
        self.lists_views = True
        """Whether information_schema has views, too."""
        self.division: Division | None = None
        """Division of the statement's only scan, if other readers share it."""
        self.partitions = 1
        """Of each scan of a leaf."""
        self.predicates = NO_PREDICATES
        """What the statement asks of the rows of its scans, where that may exclude regions."""
        self.began = time.time_ns()
        self._lock = threading.Lock()
        self._snapshots: dict[Table, TableSnapshot] = {}
        self._confirmed: dict[Table, Confirmed] = {}
        self._extended: dict[Table, Table] = {}
        self._shared_lock = threading.Lock()
        self._shared: dict[Hashable, Any] = {}

    def set_control(self, control: RunControl) -> None:
        """Run under a control other than the one that the statement was planned under."""
        self.control = control
        control.runs.append(self)

    def add_scan(
        self,
        table: SecuredTable,
        base: BaseTable,
        columns: Sequence[str],
        expression: pc.Expression | None = None,
        *,
        keys: KeySet | None = None,
        partitions: int = 1,
        reference: str = "",
    ) -> TableScan:
        """Plan the scan of one table reference.

        Args:
            table: to read, with what may be seen of it.
            base: version of the table that the statement was planned with; what is read may be newer.
            columns: to produce.
            expression: the reference's own conjuncts, to be applied exactly.
            keys: instead of an expression, the primary keys that are wanted.
            partitions: that will be asked for.
            reference: private name of the reference in the statement; "" without a leaf.
        """
        policy = table.policy(base)
        if table.confirmed is not None:
            self._confirmed[table.table] = table.confirmed
        scan = TableScan(self, table.table, base, policy, tuple(columns), expression, keys, partitions)
        scan.reference = reference
        self.scans.append(scan)
        return scan

    def table(self, shared: Table) -> Table:
        """Return a table of the catalog as this run reads it.

        In a transaction that is its snapshot with its own rows; see also `planner.scans.run_tables`.

        Raises:
            LanceGatewayError: the transaction can't read it; also kept as the run's `failure`.
        """
        if isinstance(shared, ExtendedTable):
            plain = self.table(shared.plain)
            if plain is shared.plain:
                return shared
            return self._extended.setdefault(shared, shared.of(plain))
        if self.control.transaction is not None:
            try:
                shared = self.control.transaction.table(shared)
            except LanceGatewayError as error:
                # DataFusion asks for the table, and would say so in words of its own.
                self.failure = self.failure or error
                raise
        return shared if self._tables is None else self._tables.table(shared)

    def compute_once(self, name: Hashable, compute: Callable[[], Shared]) -> Shared:
        """Return what several scans of the run share, which the first of them computes."""
        with self._shared_lock:
            if name not in self._shared:
                self._shared[name] = compute()
            found: Shared = self._shared[name]
            return found

    def find_regions(self, table: Table, base: BaseTable) -> RegionAssignments:
        """Return all regions of a table with their region values."""
        confirmed = self._confirmed.get(table)
        if confirmed is not None and confirmed.base is base:
            return confirmed.regions
        return table.assignments(base, self.settings.consistency)

    def take_snapshot(self, table: Table) -> TableSnapshot:
        """Return the snapshot of a table that all its scans share, with the regions that they need."""
        if self.division is not None:
            return self.division.snapshot
        if isinstance(table, ExtendedTable):
            return table.extend(self.take_snapshot(table.plain))
        with self._lock:
            found = self._snapshots.get(table)
            if found is None:
                found = self._take_beside_others(table)
            return found

    def _take_beside_others(self, table: Table) -> TableSnapshot:
        """Take the snapshot of a table, and at the same time those of others that lie in object stores."""
        others = {_get_plain(scan.table) for scan in self.scans if not scan.base.storage.is_local}
        others -= {table, *self._snapshots}

        def take(one: Table) -> TableSnapshot | None:
            # What fails is asked again where the other table is read, which raises the error.
            with nullcontext() if one is table else suppress(LanceGatewayError):
                return self._take_snapshot(one)

        tables = (table, *others)
        taken = zip(tables, table.storage.each_table(take, tables), strict=True)
        self._snapshots |= {one: snapshot for one, snapshot in taken if snapshot is not None}
        return self._snapshots[table]

    def _take_snapshot(self, table: Table) -> TableSnapshot:
        scans = [scan for scan in self.scans if _get_plain(scan.table) is table]
        for _ in range(SNAPSHOT_ATTEMPTS):
            needed = dict.fromkeys(region_id for scan in scans for region_id in scan.needed_regions)
            confirmed = self._confirmed.get(table)
            if confirmed is not None and confirmed.manifests.keys() >= needed.keys():
                taken = table.take_confirmed(needed, confirmed)
            else:
                settings = self.settings
                taken = table.take_snapshot(needed, settings.consistency, settings.max_staleness_ms)
            elsewhere = [scan for scan in scans if scan.base.place != taken.base.place]
            if not elsewhere:
                return taken
            for scan in elsewhere:
                scan.move_to(_extend_like(scan.table, taken.base))
        raise UnavailableError(f"table {table.name!r} is dropped and recreated while it is read; retry")


def _get_plain(table: Table) -> Table:
    return table.plain if isinstance(table, ExtendedTable) else table


def _extend_like(table: Table, base: BaseTable) -> BaseTable:
    """Return a version of a table with the columns that a scan of it reads."""
    return table.extend_base(base) if isinstance(table, ExtendedTable) else base


class TableScan:
    """Scan one table reference of a running statement."""

    def __init__(
        self,
        run: QueryRun,
        table: Table,
        base: BaseTable,
        policy: TablePolicy | None,
        columns: tuple[str, ...],
        expression: pc.Expression | None,
        keys: KeySet | None,
        partitions: int,
    ) -> None:
        if policy is not None:
            _check_requested_columns(table.name, policy, columns, keys)
        self.run = run
        self.table = run.table(table)
        self.base = base
        self.policy = policy
        self.schema = base.schema
        self.columns = columns
        self.expression = expression
        self.partitions = partitions
        self.reference = ""
        """Private name of the reference in the statement, if a leaf reads it."""
        self._keys = keys
        self._looks_up = keys is not None
        self._lock = threading.Lock()
        self._tree: ExecNode | None = None
        self._pruning: Pruning | None = None

    @property
    def output_schema(self) -> pa.Schema:
        """Schema of all columns that may be requested."""
        return self.schema

    @cached_property
    def predicate(self) -> Predicate:
        """Condition on stored rows: the decoded conjuncts of the statement and of the policy."""
        below = self.conditions.below
        known = TRUE if below is None else below.predicate
        return known if self._keys is None else conjunction([build_key_predicate(self._keys.table), known])

    @cached_property
    def conditions(self) -> Conditions:
        """Filters below and above the table's policy."""
        return divide_conditions(self.expression, self.policy, self.schema)

    @property
    def read_columns(self) -> frozenset[str] | None:
        """Columns that are produced or filtered; None if they can't be told."""
        if self.expression is None:
            return frozenset(self.columns)
        node = read_expression(self.expression)
        below = self.conditions.below
        if node is None or is_opaque(node) or below is None:
            return None
        return below.columns | frozenset(self.columns)

    @property
    def column_cache(self) -> DecodedColumns:
        """Where decoded columns are kept."""
        return self.table.columns

    @property
    def pruning(self) -> Pruning:
        """Regions of the table that may have matching rows."""
        if self._pruning is None:
            self._pruning = self._prune()
        return self._pruning

    def _prune(self) -> Pruning:
        base = self.base
        regions = self.run.find_regions(self.table, base)
        has_conditions = self.conditions.below is not None
        reason = find_reason_not_to_prune(
            self.run.settings, regions, looks_up=self._keys is not None, has_conditions=has_conditions
        )
        if base.details is None or reason:
            pruned = Pruning(regions, regions.region_ids, lambda _: (Outcome.ROWS_MIGHT_MATCH, reason))
        else:
            pruned = prune_regions(self.predicate, base.details.region_specs, regions, base.fields_by_id)
        return self._prune_by_predicates(pruned)

    def _prune_by_predicates(self, pruned: Pruning) -> Pruning:
        """Exclude more regions by the predicates of the statement, unless a policy changes its rows."""
        details = self.base.details
        if details is None or self.policy is not None:
            return pruned
        table = ScannedTable(self.reference, self.schema, details.region_specs, self.base.fields_by_id)
        return self.run.predicates.prune(pruned, table)

    @property
    def search_kind(self) -> str | None:
        """See `TableRead.search`."""
        return None

    @property
    def read(self) -> TableRead | None:
        """Summary of the scan for metrics; None for a scan that never ran."""
        pruning = self._pruning
        if pruning is None:
            return None
        regions = len(pruning.regions.region_ids)
        return TableRead(
            self.table.name,
            len(pruning.kept),
            regions,
            self.policy is not None,
            self.search_kind,
            None if self._looks_up or self.search_kind is not None else self._list_scanned(),
        )

    def _list_scanned(self) -> tuple[str, ...]:
        below = self.conditions.below
        filtered = frozenset() if below is None else below.columns
        return (*self.columns, *filtered.difference(self.columns))

    @property
    def kept_regions(self) -> frozenset[str]:
        """Ids of the regions that are read."""
        return frozenset(self.pruning.kept)

    @property
    def needed_regions(self) -> tuple[str, ...]:
        """Ids of the regions that are read, and of those that may supersede their rows."""
        return list_needed_regions(self.base, self.pruning)

    def move_to(self, base: BaseTable) -> None:
        """Read a table that was recreated after planning, which may have other regions.

        Raises:
            UnavailableError: it has other columns.
        """
        if not base.schema.equals(self.base.schema) or base.field_names != self.base.field_names:
            raise UnavailableError(f"table {base.name!r} was recreated just now: run the query again")
        self.base = base
        self._pruning = None

    @property
    def tree(self) -> ExecNode:
        """Tree of exec nodes, planned on first use."""
        with self._lock:
            if self._tree is None:
                self._tree = self._plan()
            return self._tree

    @property
    def planned_tree(self) -> ExecNode | None:
        """Tree of exec nodes if it is planned already; None for a scan that never ran."""
        return self._tree

    def measure(self, metrics: MetricsSet) -> MeasuredNode | None:
        """Return what the exec nodes did; None for a scan that never ran."""
        return None if self._tree is None else metrics.measure(self._tree)

    def batches(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Execute one partition.

        Raises:
            LanceGatewayError: something can't be read; also kept as the run's `failure`.
        """
        with self._note_failure():
            control = self.run.control
            context = TaskContext(metrics=control.metrics, check=control.check)
            yield from control.iterate_uninterrupted(lambda: self._stream(partition, context))

    @contextmanager
    def _note_failure(self) -> Iterator[None]:
        """Keep what planning or reading raises as the run's failure, with the type that it should have."""
        try:
            yield
        except LanceGatewayError as error:
            failure = self._redact_error(error)
            self.run.failure = self.run.failure or failure
            if failure is error:
                raise
            raise failure from None
        except BaseException as error:
            if not (isinstance(error, OSError | ValueError | pa.ArrowException) or is_panic(error)):
                raise
            # An error of Lance, or its panic over a broken file; DataFusion would lose its type.
            self.run.failure = self.run.failure or self._redact_error(
                build_scan_error(self.table.name, error)
            )
            raise self.run.failure from (error if self.policy is None else None)

    def _stream(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Plan the tree on first use, and execute one partition of it."""
        yield from coalesce_batches(self.tree.execute(partition, context))

    def _redact_error(self, error: LanceGatewayError) -> LanceGatewayError:
        """Return the error without what the access policy hides from the principal."""
        division = self.run.division
        if division is not None and isinstance(error, GenerationVanishedError):
            version = division.snapshot.base.version
            return SnapshotGoneError(self.table.name, version, "fresh rows were merged and cleaned up")
        if isinstance(error, FilesVanishedError | GenerationVanishedError) and self.table.described_time:
            # The newest state is read again; a past one that is gone stays gone.
            error = PreconditionError(
                f"table {self.table.name!r} {self.table.described_time}: files of this state were cleaned up "
                "(system.versions lists the versions that are left)"
            )
        return error if self.policy is None else conceal_error(error, self.table.name)

    def _plan(self) -> ExecNode:
        if self.policy is None:
            return self._plan_stored(self.columns)
        above = self.conditions.above
        wanted = frozenset(self.columns) | (frozenset() if above is None else above.columns)
        if self.policy.condition is None and above is None and wanted.isdisjoint(self.policy.masks):
            return self._plan_stored(self.columns)
        needed = self.policy.columns_for(wanted)
        # The policy's filter before the statement's functions: this order must not change (ADR 9).
        return SecurityBarrierExec(
            self._plan_stored(tuple(name for name in self.schema.names if name in needed)),
            PolicedRows(self.table.name, self.policy, wanted),
            pa.schema([self.schema.field(name) for name in self.columns]),
            above,
        )

    def _plan_stored(self, columns: tuple[str, ...]) -> ExecNode:
        """Plan the tree that produces rows as they are stored."""
        snapshot = self.run.take_snapshot(self.table)
        base = snapshot.base
        self._check_columns(base, columns)
        division = self.run.division
        keys = self._keys
        if keys is None or not keys.table.num_rows:
            keys = self._find_keys(base)
        if keys is not None and division is None:
            self._looks_up = True
            # Regions that may supersede a row are searched for its key as well.
            return plan_lookup(
                snapshot,
                frozenset(self.needed_regions),
                keys,
                columns,
                self.conditions.below,
                self.table.cache,
                self.table.columns,
                self.table.places,
            )
        return self._plan_rows(snapshot, columns)

    def _plan_rows(self, snapshot: TableSnapshot, columns: tuple[str, ...]) -> ExecNode:
        """Plan the tree that reads the kept regions."""
        division = self.run.division
        return plan_scan(
            snapshot,
            self.kept_regions if division is None else division.scanned_regions,
            columns,
            self.conditions.below,
            self.partitions if division is None else division.count,
            self.run.visibility,
            self.column_cache,
            split_fragments=division is not None,
        )

    @property
    def is_lookup(self) -> bool:
        """Whether the conjuncts admit only a few primary keys."""
        return self._find_keys(self.run.take_snapshot(self.table).base) is not None

    def _find_keys(self, base: BaseTable) -> KeySet | None:
        """Return the primary keys that the conjuncts admit, if few, in a table with a MemWAL index."""
        if Shortcut.KEY_LOOKUPS not in self.run.settings.shortcuts:
            return None
        if not base.primary_key or base.details is None or self.conditions.below is None:
            return None
        keys = find_key_values(self.predicate, base.primary_key, base.schema)
        return KeySet(keys) if keys is not None and keys.num_rows else None

    def _check_columns(self, base: BaseTable, columns: Sequence[str]) -> None:
        if self.policy is not None and not (
            base.schema.equals(self.schema) and base.field_names == self.base.field_names
        ):
            # Without the column's name, and whichever it is: names are what a policy goes by.
            raise UnavailableError(f"table {base.name!r} was altered just now: run the query again")
        for name in columns:
            index = base.schema.get_field_index(name)
            if index < 0 or not base.schema.field(index).type.equals(self.schema.field(name).type):
                msg = f"column {name!r} of table {base.name!r} was altered just now: run the query again"
                raise UnavailableError(msg)


def _check_requested_columns(
    table: str, policy: TablePolicy, columns: Sequence[str], keys: KeySet | None
) -> None:
    """Raise if a scan requests columns that the policy hides from those who resolved its names."""
    sought = () if keys is None else keys.columns
    hidden = [name for name in (*columns, *sought) if name not in policy.schema.names]
    if hidden or not policy.masks.keys().isdisjoint(sought):
        msg = f"a scan of table {table!r} asks for columns that its access policy hides"
        raise AssertionError(msg)
