"""The worker process: plans statements and runs them over its own view of the tables."""

import itertools
import logging
import os
import queue
import resource
import signal
import socket
import threading
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from cachetools import LRUCache

from execnodes import MetricsSet
from gateway.execution.streams import slice_batch
from gateway.execution.workers.channel import Channel, ChannelClosedError
from gateway.execution.workers.idle_memory import IdleMemory, prepare_allocators
from gateway.execution.workers.messages import (
    Answered,
    CallFunction,
    Cancel,
    Check,
    Checked,
    Definition,
    Divide,
    Execute,
    Failed,
    FindRegions,
    InlineBatch,
    MeasureMemory,
    MemoryMeasured,
    OpenChannel,
    Opened,
    ReadSystemTable,
    ReadWrite,
    Ready,
    RemoteScan,
    Request,
    Started,
    Statement,
    SystemRows,
    Unbound,
    Unknown,
    WorkerOptions,
)
from gateway.execution.workers.segments import INLINE_BYTES, KeptBytes, SegmentWriter, Trimmed
from gateway.execution.workers.tables_ahead import FIRST_STATEMENT, TablesAhead
from memwal.errors import LanceGatewayError, UnavailableError, is_panic
from memwal.writing import WriteOptions
from planner.access.rights import Access, SessionAccess
from planner.access.visible_catalog import SystemTable, VisibleCatalog
from planner.bridge.run_control import RunControl, describe_panics
from planner.engine import read_long_write
from planner.plans.dataframes import Frames
from planner.plans.plan_cache import MAX_PLANS
from planner.plans.prepared_query import PreparedQuery
from planner.plans.query_planner import QueryPlanner, bind_and_create
from planner.scans.settings import SessionSettings, Shortcut
from planner.tables.shared.cache import SharedCache
from planner.tables.shared.recent_reads import RecentReads
from planner.tables.sources.snapshot import SnapshotDescription
from planner.tables.state.catalog import Catalog
from planner.tables.state.table import Table
from planner.tables.state.transaction_table import DescribedTable, TransactionTable, decode_own_rows
from planner.writes.dml.values.long_values import LongInsert

logger = logging.getLogger(__name__)

_MAX_SNAPSHOTS = 64
_MAX_PASSING = 64
"""Plans that are not kept, for as many statements as run at a time."""
# Each holds what its transaction has written.
_MAX_TRANSACTION_TABLES = 8
_FIRST_TO_DIE = "500"


class _NotDefinedError(Exception):
    """The worker does not know a statement."""


class _BoundHere(PreparedQuery):
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
        self._control = control
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

    def serve(self) -> None:
        """Answer the front process until it closes the control channel."""
        self._control.send(Ready())
        threading.Thread(target=self._warm_up, name="warm-up", daemon=True).start()
        while True:
            match self._control.receive():
                case OpenChannel():
                    connected = socket.socket(fileno=self._control.take_descriptor())
                    _Conversation(self, Channel(connected)).start()
                case SystemRows(request, rows):
                    answer = self._awaited.pop(request)
                    if isinstance(rows, LanceGatewayError):
                        answer.set_exception(rows)
                    else:
                        answer.set_result(rows)

    def _warm_up(self) -> None:
        """Plan and run a statement, since the first one takes 20 ms more, and open tables ahead."""
        planner = QueryPlanner(self.catalog, partitions=self.options.partitions)
        with self.memory.work():
            planner.execute(FIRST_STATEMENT).read_all()
            if self.options.opens_ahead:
                reads = RecentReads(self.catalog.storage.uri, self.catalog.shared.files)
                with suppress(Exception):  # of which the front process tells
                    for _ in TablesAhead(self.catalog, reads, threading.Event(), planner).open():
                        pass
        with suppress(ChannelClosedError):
            self._control.send(Opened())

    def find_query(self, statement: Statement) -> PreparedQuery:
        """Return the plan of a statement, which is made if the statement is defined and not known.

        Raises:
            _NotDefinedError: it is neither.
            LanceGatewayError: the statement is not valid.
        """
        with self._lock:
            query = self._queries.get(statement.number)
        if query is None:
            if statement.definition is None:
                raise _NotDefinedError
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
        self._control.send(ReadSystemTable(request, statement, table))
        return answer.result()

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
        planner = QueryPlanner(self.catalog, partitions=self.options.partitions)
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
                _BoundHere, self._frames, bound.statement, settings, visible, bound.value_types
            )
        with describe_panics(bound.sql):
            return PreparedQuery(self._frames, bound, settings, visible)


class _DescribedTransaction:
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


class _Conversation:
    """Answers the requests of one channel: one thread receives, another one does what is asked.

    Args:
        worker: whose channel it is.
        channel: of the statements.
    """

    def __init__(self, worker: Worker, channel: Channel) -> None:
        self._worker = worker
        self._channel = channel
        self._segments = SegmentWriter(worker.kept_segments)
        self._requests: queue.SimpleQueue[tuple[Request, RunControl] | None] = queue.SimpleQueue()
        self._control = RunControl()
        self._lock = threading.Lock()
        self._is_answering = False
        """Whether answers of the request that was received last may be sent: its final one was not."""

    def start(self) -> None:
        """Serve the channel in threads of its own."""
        for step in (self._receive, self._answer_all):
            threading.Thread(target=step, name="statement", daemon=True).start()

    def _receive(self) -> None:
        with suppress(ChannelClosedError):
            while True:
                match self._channel.receive():
                    case Cancel(error):
                        self._control.cancel(error)
                    case MeasureMemory():
                        self._tell_memory()
                    case request:
                        self._control = RunControl()
                        self._is_answering = True
                        self._requests.put((request, self._control))
        self._control.cancel(UnavailableError("the client has left"))
        self._requests.put(None)

    def _answer_all(self) -> None:
        with suppress(ChannelClosedError):
            while (asked := self._requests.get()) is not None:
                with self._worker.memory.work():
                    answer = self._answer(*asked)
                with self._lock:
                    self._is_answering = False
                if (use := asked[1].memory.measure()) is not None:
                    self._channel.send(MemoryMeasured(use))
                del asked
                trimmed = self._segments.trim()
                if trimmed:
                    self._channel.send(Trimmed(trimmed))
                self._channel.send(answer)
                del answer
        self._segments.close()
        self._channel.close()

    def _tell_memory(self) -> None:
        use = self._control.memory.measure()
        with self._lock:
            if use is not None and self._is_answering:
                self._channel.send(MemoryMeasured(use))

    def _answer(self, request: Request, control: RunControl) -> Answered | Failed | Unknown:
        try:
            return Answered(self._do(request, control))
        except _NotDefinedError:
            return Unknown()
        except LanceGatewayError as error:
            return Failed(type(error)(str(error)))
        except ChannelClosedError:
            raise
        except BaseException as error:  # noqa: BLE001 - DataFusion's panics are no Exceptions
            if is_panic(error):
                return Failed(None, f"DataFusion panicked: {error}")
            return Failed(None, traceback.format_exc())

    def _do(self, request: Request, control: RunControl) -> object:
        if isinstance(request, CallFunction):
            return request.function(*request.arguments)
        if isinstance(request, ReadWrite):
            return self._worker.read_write(request)
        query = self._worker.find_query(request.statement)
        if isinstance(request, Check):
            if isinstance(query, _BoundHere):
                return query.describe()
            return Checked(query.schema, query.parameter_schema)
        run = request.run
        self._worker.note_writes(run.written_at)
        parameters = [array[0] for array in run.parameters]
        control.metrics = MetricsSet() if run.is_measured else None
        if run.transaction is not None:
            control.transaction = _DescribedTransaction(self._worker, run.transaction)
        control.check()
        if isinstance(request, FindRegions):
            return query.find_matching_regions(request.table, parameters, request.settings, control)
        if isinstance(request, Divide):
            offer = query.parts(request.count, parameters, run.settings)
            if offer is None:
                return None
            self._worker.keep_snapshot(offer.parts[0].snapshot, offer.snapshot)
            return offer.parts, offer.rows
        return self._send_batches(query, request, parameters, control)

    def _send_batches(
        self, query: PreparedQuery, request: Execute, parameters: list[pa.Scalar], control: RunControl
    ) -> object:
        settings = request.run.settings
        if request.part is None:
            reader = query.execute(parameters, settings, control)
        else:
            snapshot = self._worker.find_snapshot(request.part.snapshot) or query.reopen(request.part)
            self._worker.keep_snapshot(request.part.snapshot, snapshot)
            reader = query.execute_part(request.part, parameters, settings, control, snapshot)
        schema_bytes = len(query.serialized_schema)
        is_first = True
        with reader:
            for batch in reader:
                for part in slice_batch(batch, self._worker.options.max_batch_bytes):
                    control.check()
                    self._send_batch(part, schema_bytes, control, is_first=is_first)
                    is_first = False
        metrics = control.metrics
        scans = control.end()[1]
        return tuple(RemoteScan(one.read, one.measure(metrics) if metrics else None) for one in scans)

    def _send_batch(
        self, batch: pa.RecordBatch, schema_bytes: int, control: RunControl, *, is_first: bool
    ) -> None:
        reads = control.reads if is_first else None
        if pa.ipc.get_record_batch_size(batch) <= INLINE_BYTES:
            self._channel.send(InlineBatch(batch.serialize().to_pybytes(), reads))
            return
        if reads is not None:
            self._channel.send(Started(reads))
        stored, descriptor = self._segments.write(batch, schema_bytes, control.check)
        if descriptor is None:
            self._channel.send(stored)
            return
        try:
            self._channel.send(stored, descriptor)
        finally:
            os.close(descriptor)


def limit_memory(more_bytes: int) -> None:
    """Let this process allocate so many bytes more; what asks for more fails, and may end the process."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    # Allocators have reserved much at their start that they may never touch.
    limit = int(status["VmData"].split()[0]) * 1024 + more_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def run_worker(options: WorkerOptions, control: socket.socket) -> None:
    """Serve statements until the front process ends, or closes the control channel; then end the process."""
    # The front process decides when its workers end; Ctrl-C in a terminal reaches all of them.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if options.configure_logging is not None:
        options.configure_logging()
    # The kernel's memory killer takes workers before the front process.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:  # noqa: PTH123 - no file
        score.write(_FIRST_TO_DIE)
    limit_memory(options.memory_bytes)
    prepare_allocators(max(options.partitions or 1, 2))
    try:
        Worker(options, Channel(control)).serve()
    except ChannelClosedError:
        pass
    except Exception:
        logger.exception("a worker ends")
    finally:
        # Threads of DataFusion may run Python, and would abort an interpreter that shuts down.
        os._exit(0)
