"""What the statements of a worker process share: its own view of the tables, plans and snapshots."""

import itertools
import logging
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

import pyarrow as pa
from cachetools import LRUCache

from lance_gateway.gateway.execution.workers.channel import Channel
from lance_gateway.gateway.execution.workers.idle_memory import IdleMemory
from lance_gateway.gateway.execution.workers.messages import (
    Checked,
    Definition,
    ReadSystemTable,
    ReadWrite,
    Statement,
    SystemRows,
    Unbound,
    WorkerOptions,
)
from lance_gateway.gateway.execution.workers.segments import KeptBytes
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.planner.access.rights import Access, SessionAccess
from lance_gateway.planner.access.visible_catalog import SystemTable, VisibleCatalog
from lance_gateway.planner.bridge.run_control import describe_panics
from lance_gateway.planner.engine import read_long_write
from lance_gateway.planner.plans.dataframes import Frames
from lance_gateway.planner.plans.plan_cache import MAX_PLANS
from lance_gateway.planner.plans.prepared_query import PreparedQuery
from lance_gateway.planner.plans.query_planner import QueryPlanner, bind_and_create
from lance_gateway.planner.scans.settings import SessionSettings, Shortcut
from lance_gateway.planner.tables.shared.cache import SharedCache
from lance_gateway.planner.tables.sources.snapshot import SnapshotDescription
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.tables.state.transaction_table import (
    DescribedTable,
    TransactionTable,
    decode_own_rows,
)
from lance_gateway.planner.writes.dml.values.long_values import LongInsert

logger = logging.getLogger(__name__)

_MAX_SNAPSHOTS = 64
_MAX_PASSING = 64
"""Plans that are not kept, for as many statements as run at a time."""
# Each holds what its transaction has written.
_MAX_TRANSACTION_TABLES = 8


class NotDefinedError(Exception):
    """The worker does not know a statement."""


class BoundHere(PreparedQuery):
    """A statement that this process has bound."""

    def describe(self) -> Checked:
        """Return what the front process must know of the statement."""
        return Checked(self.schema, self.parameter_schema, self._bound.without_text(), self.catalog.found)


@dataclass(frozen=True)
class _RemoteSystemTable:
    """A table of the schema `system`, whose rows are in the front process."""

    name: str
    schema: pa.Schema
    statement: int
    worker: "Worker"

    def read(self, access: Access) -> pa.Table:  # noqa: ARG002 - the front process knows whose statement it is
        return self.worker.read_system_table(self.statement, self.name)


class KnownQueries:
    """Plans of statements by their numbers, those that were used last. Not thread-safe.

    Statements whose plans are not worth keeping, such as the steps of followers, take no place of others: the
    front process forgets them once they have run.
    """

    def __init__(self) -> None:
        self._kept: LRUCache[int, PreparedQuery] = LRUCache(MAX_PLANS)
        self._passing: LRUCache[int, PreparedQuery] = LRUCache(_MAX_PASSING)

    def get(self, number: int) -> PreparedQuery | None:
        """Return the plan of a statement; None if it is not known."""
        found = self._kept.get(number)
        return self._passing.get(number) if found is None else found

    def put(self, number: int, query: PreparedQuery, settings: SessionSettings) -> None:
        """Keep the plan of a statement, in the place of one that was not used for long."""
        queries = self._kept if Shortcut.KEPT_PLANS in settings.shortcuts else self._passing
        queries[number] = query

    def __len__(self) -> int:
        """Return the number of plans."""
        return len(self._kept) + len(self._passing)


class Worker:
    """The state that the statements of a worker process share.

    Args:
        options: as the front process says.
        control: the control channel.
    """

    def __init__(self, options: WorkerOptions, control: Channel) -> None:
        catalog = Catalog.open(
            options.root,
            options.storage_options,
            cache_bytes=options.cache_bytes,
            # To check statements; nothing is written here.
            writing=WriteOptions() if options.writes else None,
            limits=options.storage_limits,
            # The front process has opened the directory before: what changed since must not end workers.
            shared=SharedCache.open(options.shared_directory, options.shared_bytes, is_required=False),
        )
        self.options = options
        self.memory = IdleMemory()
        self.kept_segments = KeptBytes()
        self.catalog = catalog
        self.control = control
        self._frames = Frames(catalog, options.partitions, options.query_memory_bytes)
        self._lock = threading.Lock()
        self._queries = KnownQueries()
        self._snapshots: LRUCache[SnapshotDescription, object] = LRUCache(_MAX_SNAPSHOTS)
        """Snapshots whose parts are being read."""
        self._transaction_tables: LRUCache[tuple[bytes, SnapshotDescription], TransactionTable] = LRUCache(
            _MAX_TRANSACTION_TABLES
        )
        """Tables as transactions saw them last."""
        self._requests = itertools.count()
        self._awaited: dict[int, Future[pa.Table]] = {}

    def create_planner(self) -> QueryPlanner:
        """Return a planner over the tables."""
        return QueryPlanner(self.catalog, partitions=self.options.partitions)

    def find_query(self, statement: Statement) -> PreparedQuery:
        """Return the plan of a statement, which is made if the statement is defined and not known.

        Raises:
            NotDefinedError: it is neither.
            LanceGatewayError: the statement is not valid.
        """
        with self._lock:
            query = self._queries.get(statement.number)
        if query is None:
            if statement.definition is None:
                raise NotDefinedError
            query = self._prepare(statement.number, statement.definition)
            with self._lock:
                self._queries.put(statement.number, query, statement.definition.settings)
        return query

    def read_system_table(self, statement: int, table: str) -> pa.Table:
        """Ask the front process for the rows of a system table.

        Raises:
            LanceGatewayError: they can't be read.
        """
        request = next(self._requests)
        answer = self._awaited[request] = Future()
        self.control.send(ReadSystemTable(request, statement, table))
        return answer.result()

    def take_system_rows(self, answer: SystemRows) -> None:
        """Take what the front process answered."""
        awaited = self._awaited.pop(answer.request)
        if isinstance(answer.rows, LanceGatewayError):
            awaited.set_exception(answer.rows)
        else:
            awaited.set_result(answer.rows)

    def note_writes(self, written_at: Mapping[str, float]) -> None:
        """Note that the front process wrote tables: older snapshots are not reused."""
        for name, moment in written_at.items():
            self.catalog.table(name).note_write(moment)

    def find_snapshot(self, description: SnapshotDescription) -> object:
        """Return a snapshot that is kept for the readers of its parts."""
        with self._lock:
            return self._snapshots.get(description)

    def keep_snapshot(self, description: SnapshotDescription, snapshot: object) -> None:
        """Keep a snapshot for the readers of its parts."""
        with self._lock:
            self._snapshots[description] = snapshot

    def open_transaction_table(self, shared: Table, described: DescribedTable) -> TransactionTable:
        """Return a table as a transaction sees it.

        Raises:
            LanceGatewayError: its snapshot can't be opened.
        """
        key = (described.number, described.snapshot)
        with self._lock:
            table = self._transaction_tables.get(key)
        if table is None:
            opened = TransactionTable.open_described(shared, described.snapshot)
            with self._lock:
                table = self._transaction_tables.setdefault(key, opened)
        base = table.base()
        table.show_rows(
            {
                region_id: [decode_own_rows(base, data) for data in tables]
                for region_id, tables in described.rows.items()
            }
        )
        return table

    def read_write(self, request: ReadWrite) -> LongInsert | None:
        """Check a long statement that writes.

        Raises:
            LanceGatewayError: it is not valid.
        """
        self._follow_temporary(request.access)
        planner = self.create_planner()
        planner.add_system_tables(*self._list_system_tables(0, request.system_tables))
        return read_long_write(planner, request.sql, request.settings, request.access)

    def _list_system_tables(self, statement: int, schemas: Mapping[str, pa.Schema]) -> Iterator[SystemTable]:
        return (_RemoteSystemTable(name, schema, statement, self) for name, schema in schemas.items())

    def _follow_temporary(self, access: Access) -> None:
        if isinstance(access, SessionAccess):
            self.catalog.temporary.follow(access.directory)

    def _prepare(self, number: int, definition: Definition) -> PreparedQuery:
        self._follow_temporary(definition.access)
        system = {one.name: one for one in self._list_system_tables(number, definition.system_tables)}
        visible = VisibleCatalog(self.catalog, definition.access, system)
        bound, settings = definition.bound, definition.settings
        if isinstance(bound, Unbound):
            return bind_and_create(
                BoundHere, self._frames, bound.statement, settings, visible, bound.value_types
            )
        with describe_panics(bound.sql):
            return PreparedQuery(self._frames, bound, settings, visible)


class DescribedTransaction:
    """A transaction for one run, in what the front process says of it."""

    def __init__(self, worker: Worker, tables: Mapping[str, DescribedTable]) -> None:
        self._worker = worker
        self._described = tables
        self._lock = threading.Lock()
        self._opened: dict[str, TransactionTable] = {}

    def table(self, shared: Table) -> Table:
        """Return a table of the catalog as the transaction sees it."""
        if shared.described_time:
            return shared
        with self._lock:
            found = self._opened.get(shared.name)
            if found is None:
                described = self._described[shared.name]
                found = self._opened[shared.name] = self._worker.open_transaction_table(shared, described)
            return found
