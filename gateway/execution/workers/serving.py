"""The worker process: answers requests of the front process, and sends batches of results."""

import logging
import os
import queue
import resource
import signal
import socket
import threading
import traceback
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from lance_gateway.execnodes import MetricsSet
from lance_gateway.gateway.execution.streams import slice_batch
from lance_gateway.gateway.execution.workers.channel import Channel, ChannelClosedError
from lance_gateway.gateway.execution.workers.idle_memory import prepare_allocators
from lance_gateway.gateway.execution.workers.messages import (
    Answered,
    CallFunction,
    Cancel,
    Check,
    Checked,
    Divide,
    Execute,
    Failed,
    FindRegions,
    InlineBatch,
    MeasureMemory,
    MemoryMeasured,
    OpenChannel,
    Opened,
    ReadWrite,
    Ready,
    RemoteScan,
    Request,
    Started,
    SystemRows,
    Unknown,
    WorkerOptions,
)
from lance_gateway.gateway.execution.workers.segments import INLINE_BYTES, SegmentWriter, Trimmed
from lance_gateway.gateway.execution.workers.tables_ahead import FIRST_STATEMENT, TablesAhead
from lance_gateway.gateway.execution.workers.worker import (
    BoundHere,
    DescribedTransaction,
    NotDefinedError,
    Worker,
)
from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError, copy_error, is_panic
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.prepared_query import PreparedQuery
from lance_gateway.planner.tables.shared.recent_reads import RecentReads

logger = logging.getLogger(__name__)

_FIRST_TO_DIE = "500"


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
        except NotDefinedError:
            return Unknown()
        except LanceGatewayError as error:
            return Failed(copy_error(error))
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
            if isinstance(query, BoundHere):
                return query.describe()
            return Checked(query.schema, query.parameter_schema)
        run = request.run
        self._worker.note_writes(run.written_at)
        parameters = [array[0] for array in run.parameters]
        control.metrics = MetricsSet() if run.is_measured else None
        if run.transaction is not None:
            control.transaction = DescribedTransaction(self._worker, run.transaction)
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


def _serve(worker: Worker) -> None:
    """Answer the front process until it closes the control channel."""
    worker.control.send(Ready())
    threading.Thread(target=_warm_up, args=(worker,), name="warm-up", daemon=True).start()
    while True:
        match worker.control.receive():
            case OpenChannel():
                connected = socket.socket(fileno=worker.control.take_descriptor())
                _Conversation(worker, Channel(connected)).start()
            case SystemRows() as answer:
                worker.take_system_rows(answer)


def _warm_up(worker: Worker) -> None:
    """Plan and run a statement, since the first one takes 20 ms more, and open tables ahead."""
    planner = worker.create_planner()
    with worker.memory.work():
        planner.execute(FIRST_STATEMENT).read_all()
        if worker.options.opens_ahead:
            reads = RecentReads(worker.catalog.storage.uri, worker.catalog.shared.files)
            with suppress(Exception):  # of which the front process tells
                for _ in TablesAhead(worker.catalog, reads, threading.Event(), planner).open():
                    pass
    with suppress(ChannelClosedError):
        worker.control.send(Opened())


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
        _serve(Worker(options, Channel(control)))
    except ChannelClosedError:
        pass
    except Exception:
        logger.exception("a worker ends")
    finally:
        # Threads of DataFusion may run Python, and would abort an interpreter that shuts down.
        os._exit(0)
