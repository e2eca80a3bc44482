"""Statements that workers plan and run."""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import inf
from typing import Any

import pyarrow as pa

from gateway.execution.query import current_statement
from gateway.execution.workers.messages import (
    Answer,
    Answered,
    Check,
    Definition,
    Divide,
    Execute,
    Failed,
    FindRegions,
    InlineBatch,
    Request,
    RunRequest,
    Started,
    Statement,
    Unknown,
)
from gateway.execution.workers.pool import WorkerPool
from gateway.execution.workers.process import Lease, WorkerLostError, WorkerProcess
from gateway.execution.workers.segments import StoredBatch
from planner.access.visible_catalog import VisibleCatalog
from planner.binding.substrait import Bound, BoundPlan
from planner.bridge.run_control import RunControl, TableRead
from planner.plans.checked_query import Task
from planner.plans.dataframes import Frames
from planner.plans.prepared_query import PreparedQuery
from planner.plans.scan_parts import OfferedParts, ScanPart
from planner.scans.settings import SessionSettings

_ATTEMPTS = 3
"""How often a statement is run until its worker is not lost."""


@dataclass(frozen=True, slots=True)
class _RemoteScan:
    """What a worker reads of one table."""

    read: TableRead
    planned_tree: None = None


@dataclass(slots=True)
class _RemoteRun:
    """The scans of a run in a worker."""

    scans: Sequence[_RemoteScan] = ()


class RemoteQuery(PreparedQuery):
    """A statement that workers plan and run; only keys are looked up in this process.

    Args:
        pool: the workers.
        frames: for lookups of keys.
        bound: the statement.
        settings: of its session.
        catalog: with which its names were resolved.

    Raises:
        LanceGatewayError: DataFusion refuses the statement.
    """

    def __init__(
        self,
        pool: WorkerPool,
        frames: Frames,
        bound: Bound,
        settings: SessionSettings,
        catalog: VisibleCatalog,
    ) -> None:
        self._pool = pool
        self._number = pool.next_number()
        self._name = blake2b(f"{catalog.access.user}\0{bound.sql}".encode(), digest_size=16).digest()
        self._knowing: weakref.WeakSet[WorkerProcess] = weakref.WeakSet()
        self._favourite: WorkerProcess | None = None
        pool.statements[self._number] = self
        super().__init__(frames, bound, settings, catalog)

    def _check(self) -> tuple[pa.Schema, pa.Schema]:
        serving = current_statement()
        control = RunControl() if serving is None else serving.control
        checked = self._ask_for_value(Check, control)
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
        found: frozenset[str] = self._ask_for_value(
            lambda statement: FindRegions(statement, run, table), control
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
        offer = self._ask_for_value(lambda statement: Divide(statement, run, count), RunControl())
        return None if offer is None else OfferedParts(offer[0], self._favourite, offer[1])

    def reopen(self, part: ScanPart) -> object:  # noqa: ARG002 - any worker opens it when it reads the part
        """Return the worker that is asked for the part."""
        return self._favourite

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
            self._favourite = snapshot
        return pa.RecordBatchReader.from_batches(self.schema, self._run(task, part))

    def _run(self, task: Task, part: ScanPart | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a run; if its worker is lost before the first one, run it again."""
        request, control, run = self._describe_run(task), task.control, _RemoteRun()
        control.runs.append(run)
        for attempt in range(_ATTEMPTS):
            has_begun = False
            try:
                for batch in self._run_once(request, control, run, part):
                    has_begun = True
                    yield batch
            except WorkerLostError:
                if has_begun or attempt + 1 == _ATTEMPTS:
                    raise
            else:
                return

    def _run_once(
        self, request: RunRequest, control: RunControl, run: _RemoteRun, part: ScanPart | None
    ) -> Iterator[pa.RecordBatch]:
        with self._pool.lease(self._name, self._favourite, is_bound=part is not None) as (worker, lease):
            self._favourite = worker
            for answer in self._ask(
                worker, lease, lambda statement: Execute(statement, request, part), control
            ):
                match answer:
                    case Started(reads):
                        run.scans = tuple(map(_RemoteScan, reads))
                    case InlineBatch(data):
                        yield pa.ipc.read_record_batch(pa.py_buffer(data), self.schema)
                    case StoredBatch():
                        yield lease.read(answer, self.schema)
                    case Answered(reads):
                        run.scans = tuple(map(_RemoteScan, reads))

    def _ask_for_value(self, create: Callable[[Statement], Request], control: RunControl) -> Any:  # noqa: ANN401 - depends on the request
        """Return the answer to a request; if its worker is lost, ask again."""
        for attempt in range(_ATTEMPTS):
            with (
                suppress(WorkerLostError) if attempt + 1 < _ATTEMPTS else nullcontext(),
                self._pool.lease(self._name, self._favourite) as (worker, lease),
            ):
                self._favourite = worker
                for answer in self._ask(worker, lease, create, control):
                    if isinstance(answer, Answered):
                        return answer.value
        raise AssertionError

    def _ask(
        self,
        worker: WorkerProcess,
        lease: Lease,
        create: Callable[[Statement], Request],
        control: RunControl,
    ) -> Iterator[Answer]:
        """Yield the answers of a worker; define the statement if the worker does not know it.

        Raises:
            LanceGatewayError: the statement failed, or was stopped.
            WorkerFailedError: something went wrong that nobody expected.
        """
        definition = None if worker in self._knowing else self._define()
        while True:
            for answer in lease.ask(create(Statement(self._number, definition)), control):
                if isinstance(answer, Failed):
                    raise answer.to_error()
                if isinstance(answer, Unknown):
                    definition = self._define()
                    break
                self._knowing.add(worker)
                yield answer
            else:
                return

    def _define(self) -> Definition:
        # Whether it looks up keys is decided here.
        bound = self._bound if isinstance(self._bound, BoundPlan) else replace(self._bound, key_query=None)
        system: dict[str, pa.Schema] = {}
        if bound.system_tables or bound.lists_tables:
            system = {name: self.catalog.system_table(name).schema for name in self.catalog.system_tables()}
        return Definition(bound, self._settings, self.access, system)

    def _describe_run(self, task: Task) -> RunRequest:
        values = tuple(pa.repeat(value, 1) for value in task.parameters)
        return RunRequest(values, task.settings, self._settle(task.catalog))

    def _settle(self, catalog: VisibleCatalog) -> Mapping[str, float]:
        """Wait until workers read what was acknowledged here; return when tables were written last."""
        written_at = {}
        for name in _find_tables(self._bound):
            moment = catalog.table(name).table.settle()
            if moment > -inf:
                written_at[name] = moment
        return written_at


def _find_tables(bound: Bound) -> set[str]:
    """Return the tables that a statement reads."""
    if isinstance(bound, BoundPlan):
        return set().union(*map(_find_tables, bound.relations.values()))
    names: set[str] = set()
    for reference in bound.references:
        names.add(reference.table)
        if reference.vectors is not None:
            names |= _find_tables(reference.vectors.statement)
    return names
