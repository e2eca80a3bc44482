"""Statements that workers plan and run."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from math import inf
from typing import Any

import pyarrow as pa

from lance_gateway.gateway.execution.query import current_statement
from lance_gateway.gateway.execution.workers.messages import (
    Answer,
    Answered,
    Check,
    Checked,
    Definition,
    Divide,
    Execute,
    Failed,
    FindRegions,
    InlineBatch,
    ReadWrite,
    RemoteScan,
    Request,
    RunRequest,
    Started,
    Statement,
    Unbound,
    Unknown,
)
from lance_gateway.gateway.execution.workers.pool import WorkerPool
from lance_gateway.gateway.execution.workers.process import Lease, WorkerLostError, WorkerProcess
from lance_gateway.gateway.execution.workers.segments import StoredBatch
from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.planner.access.visible_catalog import VisibleCatalog
from lance_gateway.planner.binding.bound_statement import BoundStatement
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.checked_query import Task
from lance_gateway.planner.plans.dataframes import Frames
from lance_gateway.planner.plans.prepared_query import PreparedQuery
from lance_gateway.planner.plans.scan_parts import OfferedParts, ScanPart
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.tables.state.extended_tables import split_extension
from lance_gateway.planner.writes.dml.values.long_values import LongInsert

ATTEMPTS = 3
"""How often a statement is run until its worker is not lost."""


def find_control() -> RunControl:
    """Return the control of the statement that the calling thread serves; a new one if it serves none."""
    serving = current_statement()
    return RunControl() if serving is None else serving.control


class RemoteStatement:
    """A statement of one principal; safe to share between threads.

    Args:
        pool: the workers.
        user: name of the principal.
        text: of the statement.
        define: returns all that its plan depends on.

    Attributes:
        number: by which the workers know it.
        favourite: worker that was asked last; None at first.
    """

    def __init__(self, pool: WorkerPool, user: str, text: str, define: Callable[[], Definition]) -> None:
        self.number = pool.next_number()
        self.favourite: WorkerProcess | None = None
        self._pool = pool
        self._name = blake2b(f"{user}\0{text}".encode(), digest_size=16).digest()
        self._define = define
        self._knowing: weakref.WeakSet[WorkerProcess] = weakref.WeakSet()
        self._checked: Checked | None = None

    def check(self) -> Checked:
        """Have the statement planned, once.

        Raises:
            LanceGatewayError: it is not valid, or was stopped.
        """
        if self._checked is None:
            self._checked = self.ask_for_value(Check, find_control())
        return self._checked

    def ask_for_value(self, create: Callable[[Statement], Request], control: RunControl) -> Any:  # noqa: ANN401 - depends on the request
        """Return the answer to a request; if its worker is lost, ask again.

        Raises:
            LanceGatewayError: the statement failed, or was stopped.
        """
        for attempt in range(ATTEMPTS):
            with suppress(WorkerLostError) if attempt + 1 < ATTEMPTS else nullcontext():
                # To its end, where its worker forgets the statement.
                answers = [answer for answer, _ in self.ask(create, control)]
                assert isinstance(answers[-1], Answered)  # noqa: S101 - the last of a request that succeeds
                return answers[-1].value
        raise AssertionError

    def ask(
        self, create: Callable[[Statement], Request], control: RunControl, *, is_bound: bool = False
    ) -> Iterator[tuple[Answer, Lease]]:
        """Yield the answers of a worker; define the statement if the worker does not know it.

        Args:
            create: returns the request.
            control: stops it.
            is_bound: whether the favourite must be asked.

        Raises:
            LanceGatewayError: the statement failed, or was stopped.
            WorkerFailedError: an unexpected error occurred in the worker.
        """
        with self._pool.lease(self._name, self.favourite, is_bound=is_bound) as (worker, lease):
            self.favourite = worker
            definition = None if worker in self._knowing else self._define()
            while True:
                for answer in lease.ask(create(Statement(self.number, definition)), control):
                    if isinstance(answer, Failed):
                        raise answer.to_error()
                    if isinstance(answer, Unknown):
                        definition = self._define()
                        break
                    self._knowing.add(worker)
                    yield answer, lease
                else:
                    return


@dataclass(slots=True)
class _RemoteRun:
    """The scans of a run in a worker."""

    scans: Sequence[RemoteScan] = ()


class RemoteQuery(PreparedQuery):
    """A statement that workers plan and run; only keys are looked up in this process.

    Args:
        pool: the workers.
        frames: for lookups of keys.
        bound: the statement.
        settings: of its session.
        catalog: with which its names were resolved.
        remote: the statement as workers know it; None defines it to them.

    Raises:
        LanceGatewayError: DataFusion refuses the statement.
    """

    def __init__(
        self,
        pool: WorkerPool,
        frames: Frames,
        bound: BoundStatement,
        settings: SessionSettings,
        catalog: VisibleCatalog,
        remote: RemoteStatement | None = None,
    ) -> None:
        define = partial(_define, bound, settings, catalog)
        self._remote = remote or RemoteStatement(pool, catalog.access.user, bound.sql, define)
        pool.statements[self._remote.number] = self
        super().__init__(frames, bound, settings, catalog)

    def _check(self) -> tuple[pa.Schema, pa.Schema]:
        checked = self._remote.check()
        return checked.schema, checked.parameter_schema

    def _explain(self, task: Task) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self._run(task))

    def find_matching_regions(
        self,
        table: str,
        parameters: Sequence[pa.Scalar],
        settings: SessionSettings,
        control: RunControl,
    ) -> frozenset[str]:
        """See `PreparedQuery.find_matching_regions`."""
        run = self._describe_run(self._make_task(parameters, settings, control))
        found: frozenset[str] = self._remote.ask_for_value(
            lambda statement: FindRegions(statement, run, table, settings), control
        )
        return found

    def parts(
        self, count: int, parameters: Sequence[pa.Scalar] = (), settings: SessionSettings | None = None
    ) -> OfferedParts | None:
        """See `DividedQuery.parts`."""
        chosen = settings or self._settings
        if not self._may_divide(count, chosen):
            return None
        run = self._describe_run(self._make_task(parameters, chosen, None))
        offer = self._remote.ask_for_value(lambda statement: Divide(statement, run, count), RunControl())
        return None if offer is None else OfferedParts(offer[0], self._remote.favourite, offer[1])

    def reopen(self, part: ScanPart) -> object:  # noqa: ARG002 - any worker opens it when it reads the part
        """Return the worker that is asked for the part."""
        return self._remote.favourite

    def execute_part(
        self,
        part: ScanPart,
        parameters: Sequence[pa.Scalar] = (),
        settings: SessionSettings | None = None,
        control: RunControl | None = None,
        snapshot: object = None,
    ) -> pa.RecordBatchReader:
        """See `DividedQuery.execute_part`; the snapshot is the worker that has it open."""
        task = self._make_task(parameters, settings, control)
        if isinstance(snapshot, WorkerProcess):
            self._remote.favourite = snapshot
        return pa.RecordBatchReader.from_batches(self.schema, self._run(task, part))

    def _run(self, task: Task, part: ScanPart | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a run; if its worker is lost before the first one, run it again."""
        request, control, run = self._describe_run(task), task.control, _RemoteRun()
        control.runs.append(run)
        for attempt in range(ATTEMPTS):
            has_begun = False
            try:
                for batch in self._run_once(request, control, run, part):
                    has_begun = True
                    yield batch
            except WorkerLostError:
                if has_begun or attempt + 1 == ATTEMPTS:
                    raise
            else:
                return

    def _run_once(
        self, request: RunRequest, control: RunControl, run: _RemoteRun, part: ScanPart | None
    ) -> Iterator[pa.RecordBatch]:
        def create(statement: Statement) -> Execute:
            return Execute(statement, request, part)

        for answer, lease in self._remote.ask(create, control, is_bound=part is not None):
            match answer:
                case Started(reads):
                    run.scans = tuple(map(RemoteScan, reads))
                case InlineBatch(data, reads):
                    if reads is not None:
                        run.scans = tuple(map(RemoteScan, reads))
                    yield pa.ipc.read_record_batch(pa.py_buffer(data), self.schema)
                case StoredBatch():
                    yield lease.read(answer, self.schema)
                case Answered(scans):
                    run.scans = scans

    def _describe_run(self, task: Task) -> RunRequest:
        values = tuple(pa.repeat(value, 1) for value in task.parameters)
        is_measured = task.control.metrics is not None
        settings = None if task.settings == self._settings else task.settings
        transaction = task.control.transaction
        described = None
        if transaction is not None:
            tables = [task.catalog.table(name).table for name in sorted(_find_tables(self._bound))]
            described = transaction.describe(tables)
        return RunRequest(values, settings, self._settle(task.catalog), is_measured, described)

    def _settle(self, catalog: VisibleCatalog) -> Mapping[str, float]:
        """Wait until workers read what was acknowledged here; return when tables were written last."""
        written_at: dict[str, float] = {}
        for name in _find_tables(self._bound):
            table = catalog.table(name).table
            moment = table.settle()
            if moment > -inf:
                written_at[table.name] = moment
        return written_at


def bind_in_worker(
    pool: WorkerPool,
    frames: Frames,
    statement: str,
    settings: SessionSettings,
    catalog: VisibleCatalog,
    value_types: tuple[pa.DataType, ...] = (),
) -> PreparedQuery:
    """Bind and check a long statement in a worker, whose interpreter is busy with it for a while.

    Args:
        pool: the workers.
        frames: for the query.
        statement: SQL.
        settings: of its session.
        catalog: the tables of the principal.
        value_types: of its parameters, where they are those of the bound values.

    Raises:
        LanceGatewayError: the statement is not valid.
        UnavailableError: its tables or views change all the time.
    """
    for _ in range(ATTEMPTS):
        # The tables may have changed in one process, and not yet in the other one.
        catalog = catalog.reopen()
        define = partial(_define, Unbound(statement, value_types), settings, catalog)
        remote = RemoteStatement(pool, catalog.access.user, statement, define)
        checked = remote.check()
        assert checked.bound is not None  # noqa: S101 - for the worker has bound it
        assert checked.found is not None  # noqa: S101
        if catalog.find_same(checked.found):
            return RemoteQuery(pool, frames, checked.bound, settings, catalog, remote)
    raise UnavailableError("the tables or views of the statement change all the time: send it again")


def read_write_in_worker(
    pool: WorkerPool, sql: str, settings: SessionSettings, catalog: VisibleCatalog
) -> LongInsert | None:
    """Have a worker check a long statement that writes; see `planner.engine.read_long_write`.

    Raises:
        LanceGatewayError: the statement is not valid.
    """
    request = ReadWrite(sql, settings, catalog.access, _list_system_tables(catalog))
    read: LongInsert | None = pool.ask(request, find_control())
    return read


def _list_system_tables(catalog: VisibleCatalog) -> dict[str, pa.Schema]:
    return {name: catalog.system_table(name).schema for name in catalog.system_tables()}


def _define(
    bound: BoundStatement | Unbound, settings: SessionSettings, catalog: VisibleCatalog
) -> Definition:
    """Return all that the plan of a statement depends on."""
    if isinstance(bound, BoundStatement) and bound.key_query is not None:
        # Whether it looks up keys is decided here.
        bound = replace(bound, key_query=None)
    system: dict[str, pa.Schema] = {}
    if isinstance(bound, Unbound) or bound.system_tables or bound.lists_tables:
        system = _list_system_tables(catalog)
    return Definition(bound, settings, catalog.access, system)


def _find_tables(bound: BoundStatement) -> set[str]:
    """Return the tables that a statement reads."""
    names: set[str] = set()
    for reference in bound.references:
        names.add(split_extension(reference.table)[0])
        if reference.vectors is not None:
            names |= _find_tables(reference.vectors.statement)
    return names
