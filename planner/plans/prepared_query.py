"""The runs of a checked statement."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from datafusion import DataFrame

from lance_gateway.execnodes import KeySet, MetricsSet
from lance_gateway.memwal.errors import LanceGatewayError, UnsupportedError
from lance_gateway.planner.binding.bound_statement import BoundStatement, StatementKind
from lance_gateway.planner.bridge.run_control import RunControl, describe_panics, stream_batches
from lance_gateway.planner.bridge.types.plain_types import conform
from lance_gateway.planner.plans.checked_query import KEY_QUERY_SHORTCUTS, Task
from lance_gateway.planner.plans.errors import schema_changed_error, translate_error
from lance_gateway.planner.plans.forms.planned_frame import PlannedFrame
from lance_gateway.planner.plans.learned import Learned, forget_values, learn
from lance_gateway.planner.plans.leaves.resident_tables import (
    are_answered_right,
    load_residents,
    may_have_residents,
)
from lance_gateway.planner.plans.leaves.system_leaf import plain_system_rows
from lance_gateway.planner.plans.scan_parts import DividedQuery, read_direct_scan
from lance_gateway.planner.scans.explain.objects import explain_as_json
from lance_gateway.planner.scans.explain.texts import explain_plans
from lance_gateway.planner.scans.failures import retry_if_files_vanish
from lance_gateway.planner.scans.query_run import QueryRun
from lance_gateway.planner.scans.settings import SessionSettings, Shortcut
from lance_gateway.planner.search.search_call import SearchCall
from lance_gateway.planner.search.search_scan import DirectSearch, build_search_leaf, read_direct_search
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.state.extended_tables import split_extension

MAX_CONSTANT_BYTES = 1 << 16
_UNPLANNED = "physical_plan_error"
"""The type of plan that EXPLAIN gives if physical planning failed."""


_CONSTANTS = Shortcut.CONSTANTS
"""A constant of the module, since looking up the member of the enum would take a measurable time."""


@dataclass(frozen=True, eq=False)
class Constant:
    """A result that is the same for every run.

    Attributes:
        table: all of its rows.
        nbytes: size of the table.
    """

    table: pa.Table
    nbytes: int


class PreparedQuery(DividedQuery):
    """A checked statement that can run any number of times; see `CheckedQuery` for what it is made of."""

    constant: Constant | None = None
    """The whole result, if it is small and the same for every run; set by the first run."""
    _checked: BaseTable | None = None
    """The last base version that was checked for the advertised columns."""
    _learned: Learned | None = None
    """What a plan over leaves told of a statement that has resident tables."""
    _is_indirect: bool = False
    """Whether an earlier run has found that the statement is more than a scan or a count of one table."""
    _search: DirectSearch | None = None
    """The statement as a search without a plan, if an earlier run has found that it is one."""

    @cached_property
    def _explains(self) -> bool:
        return self._bound.kind.explains

    @property
    def tables(self) -> frozenset[str]:
        """Return the names of the tables that it reads."""
        return frozenset(split_extension(reference.table)[0] for reference in self._bound.references)

    def find_matching_regions(
        self,
        table: str,
        parameters: Sequence[pa.Scalar],
        settings: SessionSettings,
        control: RunControl,
    ) -> frozenset[str]:
        """Return the regions of a table that the statement would read; it is planned, but not run.

        Raises:
            LanceGatewayError: the statement or its parameters are not valid.
        """
        task = self._make_task(parameters, settings, None)
        run = QueryRun(settings, self._frames.visibility, task.control)
        frame = self._plan_again(run, task.parameters, task.catalog)
        try:
            control.run_uninterrupted(frame.execution_plan)
        except LanceGatewayError:
            raise
        except Exception as error:
            if run.failure is not None:
                raise run.failure from error
            frame, run = self._plan(task, pushdown=False)
            try:
                control.run_uninterrupted(frame.execution_plan)
            except Exception as plain:
                raise translate_error(plain, self._bound, run.failure) from plain
            # Without pushdown, no region can be pruned.
            secured = task.catalog.table(table)
            return frozenset(secured.table.assignments(secured.base, settings.consistency).region_ids)
        kept = (scan.pruning.kept for scan in run.scans if scan.table.name == table)
        return frozenset(region_id for regions in kept for region_id in regions)

    def execute(
        self,
        parameters: Sequence[pa.Scalar] = (),
        settings: SessionSettings | None = None,
        control: RunControl | None = None,
    ) -> pa.RecordBatchReader:
        """Run the statement over the newest state of its tables.

        Args:
            parameters: one value per parameter.
            settings: of this run; by default those it was prepared with.
            control: stops the run, and reports what it reads.

        Returns:
            A lazy stream; dropping it cancels the statement.

        Raises:
            InvalidInputError: too few or too many parameters, or a value of the wrong type.
            PreconditionError: a table changed its columns since the statement was prepared.
        """
        task = self._make_task(parameters, settings, control)
        if self._explains:
            return self._explain(task)
        if self.constant is not None and _CONSTANTS in task.settings.shortcuts:
            return self.constant.table.to_reader()
        batches = retry_if_files_vanish(
            self._start(task), lambda: self._start(replace(task, catalog=self.catalog.reopen()))
        )
        if self._bound.is_constant and Shortcut.CONSTANTS in task.settings.shortcuts:
            batches = self._keep_constant(batches)
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def _keep_constant(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches, and keep a result of one small batch for later runs."""
        first = next(batches, None)
        if first is None:
            self.constant = Constant(self.schema.empty_table(), 0)
            return
        yield first
        second = next(batches, None)
        if second is not None:
            yield second
            yield from batches
        elif first.nbytes <= MAX_CONSTANT_BYTES:
            self.constant = Constant(pa.Table.from_batches([first]), first.nbytes)

    def _start(self, task: Task) -> Iterator[pa.RecordBatch]:
        """Look up the statement's keys, or run it; return its lazy batches."""
        return self._look_up_keys(task) or self._run(task)

    def _run(self, task: Task) -> Iterator[pa.RecordBatch]:
        """Plan the statement, unless it is only a search, and return its lazy batches."""
        self._look_ahead(task)
        found = self._search_without_plan(task)
        if found is not None:
            return found
        learned = self._learned
        return self._read_batches(self._plan(task) if learned is None else learned, task)

    def _look_up_keys(self, task: Task) -> Iterator[pa.RecordBatch] | None:
        """Look up keys without DataFusion; return None if the statement is more than a point lookup."""
        query = self._bound.key_query
        if query is None or not task.settings.shortcuts >= KEY_QUERY_SHORTCUTS:
            return None
        self._look_ahead(task)
        table = task.catalog.table(query.table)
        base = table.base
        keys = query.find_keys(task.parameters, base.schema, base.uuid_columns)
        if keys is None:
            return None
        columns = [column for column, _ in query.columns]
        if base is not self._checked:
            if not set(columns).issubset(base.schema.names):
                raise schema_changed_error(self.sql)
            self._check_promise(query.output(base.schema))
            self._checked = base
        if not keys.num_rows:
            return iter(())
        key_set = KeySet(keys)
        run = QueryRun(task.settings, self._frames.visibility, task.control)
        scan = run.add_scan(table, base, columns, keys=key_set)
        return (conform(batch, self.schema) for batch in scan.batches(0))

    def _search_without_plan(self, task: Task) -> Iterator[pa.RecordBatch] | None:
        """Search without DataFusion, if an earlier run has found that the statement is only a search."""
        (reference, *_) = self._bound.references or (None,)
        if self._search is None or reference is None or reference.search is None:
            return None
        if Shortcut.DIRECT_SEARCHES not in task.settings.shortcuts:
            return None
        run = QueryRun(task.settings, self._frames.visibility, task.control)
        leaf = build_search_leaf(run, reference.search, task.parameters, task.catalog)
        schema = self._search.schema(leaf.schema)
        if schema is None:
            raise schema_changed_error(self.sql)
        self._check_promise(schema)
        return (conform(batch, self.schema) for batch in self._search.batches(leaf))

    def _plan(self, task: Task, *, pushdown: bool = True) -> tuple[PlannedFrame, QueryRun]:
        searches = any(reference.search is not None for reference in self._bound.references)
        # Conditions pushed into a search decide which rows are ranked, so pushdown changes its result.
        pushdown = pushdown and (searches or Shortcut.PUSHDOWN in task.settings.shortcuts)
        planned = self._take_idle_plan(task) if pushdown and self._keeps_plans(task) else None
        if planned is None:
            run = QueryRun(task.settings, self._frames.visibility, task.control)
            planned = self._plan_again(run, task.parameters, task.catalog, pushdown=pushdown), run
        self._frames.settle(planned[0])
        return planned

    def _take_idle_plan(self, task: Task) -> tuple[PlannedFrame, QueryRun] | None:
        """Return the kept plan of the statement with the run that uses it; None if none can be used."""
        bound = self._bound
        frame, planned_for = self._frames.idle_plans.take(self) or (None, None)
        if frame is None:
            return None
        if planned_for is not None:
            if task.control.transaction is not None:
                return None  # What was planned outside of a transaction reads other rows.
            planned_for.set_control(task.control)
            return frame, planned_for
        run = QueryRun(task.settings, self._frames.visibility, task.control)
        if self._frames.reopen(frame, bound, run, task.catalog):
            return frame, run
        return None

    def _keeps_plans(self, task: Task) -> bool:
        return Shortcut.KEPT_PLANS in task.settings.shortcuts and task.settings == self._settings

    def _read_batches(
        self, planned: tuple[PlannedFrame, QueryRun] | Learned, task: Task
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a plan; what was learned is planned here, since its tables are read for it."""
        run = None if isinstance(planned, Learned) else planned[1]
        try:
            with describe_panics(self.sql):
                if isinstance(planned, Learned):
                    opened = self._open_learned(planned, task)
                    batches, run = opened or self._open_with_fallback(*self._plan(task), task)
                else:
                    batches, run = self._open_with_fallback(*planned, task)
                for batch in batches:
                    yield conform(batch, self.schema)
            if not isinstance(planned, Learned) and run is planned[1] and self._keeps_plans(task):
                self._frames.keep(self, planned[0])
        except LanceGatewayError:
            # Raised from itself, it would be a reference cycle that keeps its traceback alive.
            raise
        except Exception as error:
            failure = None if run is None else run.failure
            raise translate_error(error, self._bound, task.control.error or failure) from error

    def _open_with_fallback(
        self, frame: PlannedFrame, run: QueryRun, task: Task
    ) -> tuple[Iterator[pa.RecordBatch], QueryRun]:
        """Make the physical plan, without pushdown if that fails; return its batches and its run.

        DataFusion's bindings can't combine a conjunct that folds to a constant with one that doesn't, and
        push conditions for which Arrow has no kernels. An error of the statement itself is raised without
        pushdown as well.
        """
        try:
            return self._open(frame, run, task), run
        except LanceGatewayError:
            raise
        except Exception:
            if run.failure is not None or run.control.error is not None:
                raise
        frame, run = self._plan(task, pushdown=False)
        try:
            return self._open(frame, run, task), run
        except Exception as error:
            raise translate_error(error, self._bound, run.control.error or run.failure) from error

    def _open(self, frame: PlannedFrame, run: QueryRun, task: Task) -> Iterator[pa.RecordBatch]:
        """Make the physical plan, and return its lazy batches."""
        shape = None
        if len(self._bound.references) == 1:
            (reference,) = self._bound.references
            if reference.search is not None:
                return self._open_search(reference.search, frame, run, task)
            is_indirect = self._is_indirect or reference.compared is not None
            shape = None if is_indirect else frame.direct_shape
            # A plan that is looked at must be optimised, which takes as long again as to plan it.
            self._is_indirect = shape is None and self._has_one_plan
            if shape is not None and shape.table != reference.private_name:
                # The optimiser has removed the table, and only a system table is left.
                shape = None
        if shape is None:
            resident = self._plan_residents(frame, run, task)
            if resident is not None:
                return _read_either(resident, lambda: frame, run, task)
            rows = None
            if Shortcut.DIRECT_SYSTEM_SCANS in task.settings.shortcuts:
                rows = plain_system_rows(self._bound, frame, run)
            return _stream(frame, task) if rows is None else rows
        shortcut = Shortcut.DIRECT_COUNTS if shape.counts else Shortcut.DIRECT_SCANS
        if shortcut not in task.settings.shortcuts:
            return _stream(frame, task)
        table = task.catalog.table(reference.table, reference.as_of)
        return read_direct_scan(shape, frame, run, table)

    def _plan_residents(self, frame: PlannedFrame, run: QueryRun, task: Task) -> DataFrame | None:
        """Plan the statement over resident tables after it was planned over leaves; None if it has none."""
        bound = self._bound
        if not may_have_residents(bound, task.catalog, run, self._frames.resident_rows):
            return None
        run.control.run_uninterrupted(frame.execution_plan)
        learned = learn(bound, run, frame.optimized_logical_plan())
        lasting = learned if bound.has_fixed_text else forget_values(learned, bound, run)
        planned = self._plan_learned(learned, run, task)
        # A leaf that is left may look keys up by its conditions, which `lasting` may lack.
        is_kept = bound.has_fixed_text or {one.reference for one in run.scans} == learned.references
        if planned is not None and is_kept and Shortcut.KEPT_PLANS in task.settings.shortcuts:
            self._learned = lasting
        return planned

    def _plan_learned(self, learned: Learned, run: QueryRun, task: Task) -> DataFrame | None:
        """Plan the statement over resident tables; return None if it has none."""
        residents = load_residents(learned, run, self._frames.partitions, self._frames.resident_rows)
        if residents is not None:
            # A plan over leaves may be right where this one is refused.
            with contextlib.suppress(UnsupportedError):
                planned = self._plan_again(run, task.parameters, task.catalog, residents=residents)
                if planned.is_checked or are_answered_right(residents, planned):
                    self._frames.settle(planned)
                    return planned
                self._answerable.pop(residents.key, None)
        run.scans.clear()  # Running the plan over leaves makes them again.
        return None

    def _open_learned(self, learned: Learned, task: Task) -> tuple[Iterator[pa.RecordBatch], QueryRun] | None:
        """Plan the statement over resident tables as in an earlier run; return None if it has none now."""
        bound = self._bound
        run = QueryRun(task.settings, self._frames.visibility, task.control)
        planned = None
        if may_have_residents(bound, task.catalog, run, self._frames.resident_rows) and learned.add_scans(
            bound, task.catalog, run
        ):
            planned = self._plan_learned(learned, run, task)
        if planned is None:
            self._learned = None
            return None
        batches = _read_either(
            planned, lambda: self._plan_again(run, task.parameters, task.catalog), run, task
        )
        return batches, run

    def _open_search(
        self, search: SearchCall, frame: PlannedFrame, run: QueryRun, task: Task
    ) -> Iterator[pa.RecordBatch]:
        """Open a statement whose only reference is a search; later runs may need no plan."""
        batches = _stream(frame, task)
        is_fixed = (
            isinstance(self._bound, BoundStatement) and self._bound.has_fixed_text and not search.subquery
        )
        if self._search is None and is_fixed and Shortcut.DIRECT_SEARCHES in task.settings.shortcuts:
            self._search = read_direct_search(frame, search, run, tuple(self.schema.names))
        return batches

    def _collect(self, batches: Iterator[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches([conform(batch, self.schema) for batch in batches], self.schema)

    def _explain(self, task: Task) -> pa.RecordBatchReader:
        if self._bound.kind.analyzes and task.control.metrics is None:
            task.control.metrics = MetricsSet()
            task = replace(task, ran=[])
        frame, run = self._plan(task)
        started = time.perf_counter()
        try:
            with describe_panics(self.sql):
                opened, run = self._open_with_fallback(frame, run, task)
                plans = self._collect(opened)
            if _UNPLANNED in plans.column("plan_type").to_pylist():
                frame, run = self._plan(task, pushdown=False)
                plans = self._collect(self._open(frame, run, task))
        except Exception as error:
            raise translate_error(error, self._bound, run.control.error or run.failure) from error
        table = self._explain_run(plans, run, task, time.perf_counter() - started)
        return pa.RecordBatchReader.from_batches(self.schema, table.to_batches())

    def _explain_run(self, plans: pa.Table, run: QueryRun, task: Task, seconds: float) -> pa.Table:
        """Return plans with the trees of exec nodes."""
        if self._bound.kind is not StatementKind.EXPLAIN_ANALYZE_JSON:
            return explain_plans(plans, run, run.partitions)
        assert task.ran  # noqa: S101 - the last plan is the one that did not fail
        plan = task.ran[-1].execution_plan()
        return explain_as_json(self.schema, plan, run, run.partitions, seconds)


def _stream(frame: DataFrame, task: Task) -> Iterator[pa.RecordBatch]:
    """Execute a plan, and return its batches."""
    if task.ran is not None:
        task.ran.append(frame)
    return stream_batches(frame, task.control)


def _read_either(
    resident: DataFrame, plan_leaves: Callable[[], DataFrame], run: QueryRun, task: Task
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a plan over resident tables, or those of the plan over leaves if it fails first.

    DataFusion evaluates conditions in another order than leaves do, and fails where a later one would have
    excluded the row.
    """
    try:
        batches = _stream(resident, task)
        first = next(batches, None)
    except LanceGatewayError:
        raise
    except Exception:
        if run.failure is not None or run.control.error is not None:
            raise
    else:
        if first is not None:
            yield first
            yield from batches
        return
    run.scans.clear()
    yield from _stream(plan_leaves(), task)
