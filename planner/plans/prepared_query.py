"""The runs of a checked statement."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from datafusion import DataFrame

from execnodes import KeySet, MetricsSet
from memwal.errors import LanceGatewayError
from planner.access.visible_catalog import VisibleCatalog
from planner.binding.bind import StatementKind
from planner.binding.bound_statement import BoundStatement
from planner.binding.substrait import Bound
from planner.bridge.plain_types import conform
from planner.bridge.plan_shape import direct_shape
from planner.bridge.run_control import RunControl
from planner.plans.checked_query import Task
from planner.plans.dataframes import Frames
from planner.plans.results import again_if_files_vanish, altered, streamed, translated
from planner.plans.scan_parts import DividedQuery, direct_batches
from planner.plans.system_leaf import plain_system_rows
from planner.scans.explain import explain_plans
from planner.scans.query_run import QueryRun
from planner.scans.settings import SessionSettings, Shortcut
from planner.search.search_scan import DirectSearch, build_search_leaf, read_direct_search
from planner.sql.search_call import SearchCall
from planner.tables.sources.base_table import BaseTable

MAX_CONSTANT_BYTES = 1 << 16
MAX_PLAN_SECONDS = 1.0
"""DataFusion's plans know what time it is: `now()` is a constant in them."""
_UNPLANNED = "physical_plan_error"
"""The type of plan that EXPLAIN gives where there is no physical one."""


_CONSTANTS = Shortcut.CONSTANTS
"""Asked for in microseconds, of which looking a member up in its class is a part."""


@dataclass(frozen=True, eq=False)
class Constant:
    """A result that is the same for every run.

    Attributes:
        table: all of its rows.
        nbytes: of them.
    """

    table: pa.Table
    nbytes: int


class PreparedQuery(DividedQuery):
    """A checked statement that can run any number of times.

    Attributes:
        constant: the whole result, where it is small, known, and the same for every run.

    Args:
        frames: plans the statement.
        bound: the statement.
        settings: of its session.
        catalog: with which its names were resolved.

    Raises:
        LanceGatewayError: DataFusion refuses the statement.
    """

    def __init__(
        self, frames: Frames, bound: Bound, settings: SessionSettings, catalog: VisibleCatalog
    ) -> None:
        super().__init__(frames, bound, settings, catalog)
        self._checked: BaseTable | None = None
        """The base version that is known to give the advertised columns."""
        self._search: DirectSearch | None = None
        """The statement as a search and nothing else, once a run has told that it is one."""
        self.constant: Constant | None = None
        self._explains = bound.kind in (StatementKind.EXPLAIN, StatementKind.EXPLAIN_ANALYZE)

    def admitted_regions(
        self,
        table: str,
        parameters: Sequence[pa.Scalar],
        settings: SessionSettings,
        control: RunControl,
    ) -> frozenset[str]:
        """Regions of a table whose rows the statement would read now; it is planned, and not run.

        Raises:
            LanceGatewayError: what is wrong with the statement or its parameters.
        """
        task = self._task(parameters, settings, None)
        run = self._frames.run(settings, task.control)
        frame = self._replanned(run, task.parameters, task.catalog)
        try:
            control.undisturbed(frame.execution_plan)
        except LanceGatewayError:
            raise
        except Exception as error:
            if run.failure is not None:
                raise run.failure from error
            frame, run = self._plan(task, pushdown=False)
            try:
                control.undisturbed(frame.execution_plan)
            except Exception as plain:
                raise translated(plain, self._bound, run.failure) from plain
            # Without pushdown nothing tells regions apart.
            found = task.catalog.table(table)
            return frozenset(found.table.assignments(found.base, settings.consistency).region_ids)
        kept = (scan.pruning.kept for scan in run.scans if scan.table.name == table)
        return frozenset(region_id for regions in kept for region_id in regions)

    def execute(
        self,
        parameters: Sequence[pa.Scalar] = (),
        settings: SessionSettings | None = None,
        control: RunControl | None = None,
    ) -> pa.RecordBatchReader:
        """Run the statement on what is true now.

        Args:
            parameters: one value per parameter.
            settings: of this run; by default those it was prepared with.
            control: stops the run, and tells what it reads.

        Returns:
            A lazy stream; dropping it cancels the statement.

        Raises:
            InvalidInputError: too few or too many parameters, or a value of the wrong type.
            PreconditionError: a table changed its columns since the statement was prepared.
        """
        task = self._task(parameters, settings, control)
        if self._explains:
            return self._explain(task)
        if self.constant is not None and _CONSTANTS in task.settings.shortcuts:
            return self.constant.table.to_reader()
        batches = again_if_files_vanish(
            self._started(task), lambda: self._started(replace(task, catalog=self.catalog.anew()))
        )
        if self._bound.is_constant and Shortcut.CONSTANTS in task.settings.shortcuts:
            batches = self._kept(batches)
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def _kept(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches; if it is one small batch, it answers every later run."""
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

    def _started(self, task: Task) -> Iterator[pa.RecordBatch]:
        """Planned, and read lazily."""
        batches = self._lookup(task)
        if batches is None:
            batches = self._searched(task)
        if batches is None:
            batches = self._batches(*self._plan(task), task)
        return batches

    def _lookup(self, task: Task) -> Iterator[pa.RecordBatch] | None:
        """Answer without DataFusion, where the statement is a point lookup and nothing else."""
        query = self._bound.key_query
        if query is None or not task.settings.shortcuts.issuperset(
            (Shortcut.KEY_QUERIES, Shortcut.KEY_LOOKUPS)
        ):
            return None
        table = task.catalog.table(query.table)
        base = table.base
        keys = query.keys(task.parameters, base.schema)
        if keys is None:
            return None
        columns = [column for column, _ in query.columns]
        if base is not self._checked:
            if not set(columns).issubset(base.schema.names):
                raise altered(self.sql)
            self._check(pa.schema([base.schema.field(one).with_name(name) for one, name in query.columns]))
            self._checked = base
        if not keys.num_rows:
            return iter(())
        run = self._frames.run(task.settings, task.control)
        scan = run.add_scan(table, base, columns, keys=KeySet(keys))
        return (conform(batch, self.schema) for batch in scan.batches(0))

    def _searched(self, task: Task) -> Iterator[pa.RecordBatch] | None:
        """Answer without DataFusion, where an earlier run has told that the statement is but a search."""
        (reference, *_) = self._bound.references or (None,)
        if self._search is None or reference is None or reference.search is None:
            return None
        if Shortcut.DIRECT_SEARCHES not in task.settings.shortcuts:
            return None
        run = self._frames.run(task.settings, task.control)
        leaf = build_search_leaf(run, reference.search, task.parameters, task.catalog)
        schema = self._search.schema(leaf.schema)
        if schema is None:
            raise altered(self.sql)
        self._check(schema)
        return (conform(batch, self.schema) for batch in self._search.batches(leaf))

    def _plan(self, task: Task, *, pushdown: bool = True) -> tuple[DataFrame, QueryRun]:
        searches = any(reference.search is not None for reference in self._bound.references)
        # Conditions that are handed to a search decide what is ranked, and so what is answered.
        pushdown = pushdown and (searches or Shortcut.PUSHDOWN in task.settings.shortcuts)
        if pushdown and Shortcut.KEPT_PLANS in task.settings.shortcuts and task.settings == self._settings:
            # Several threads may be here: taking it is one step.
            with contextlib.suppress(IndexError):
                planned_at, frame, run = self._planned.pop()
                if time.monotonic() - planned_at <= MAX_PLAN_SECONDS:
                    run.set_control(task.control)
                    return frame, run
        run = self._frames.run(task.settings, task.control)
        frame = self._replanned(run, task.parameters, task.catalog, pushdown=pushdown)
        return frame, run

    def _batches(self, frame: DataFrame, run: QueryRun, task: Task) -> Iterator[pa.RecordBatch]:
        try:
            batches, run = self._opened_either_way(frame, run, task)
            for batch in batches:
                yield conform(batch, self.schema)
        except LanceGatewayError:
            # As it is: an error that leads back to itself lives on until a garbage collection, and its
            # traceback with it.
            raise
        except Exception as error:
            raise translated(error, self._bound, run.control.error or run.failure) from error

    def _opened_either_way(
        self, frame: DataFrame, run: QueryRun, task: Task
    ) -> tuple[Iterator[pa.RecordBatch], QueryRun]:
        """Physically planned, without pushdown where it fails otherwise, and the run that reads.

        DataFusion's bindings can't combine a conjunct that folds to a constant with one that doesn't, and
        push conditions for which Arrow has no kernels. Whatever is wrong with the statement itself is wrong
        without pushdown as well, and told then.
        """
        try:
            return self._opened(frame, run, task), run
        except LanceGatewayError:
            raise
        except Exception:
            if run.failure is not None or run.control.error is not None:
                raise
        frame, run = self._plan(task, pushdown=False)
        try:
            return self._opened(frame, run, task), run
        except Exception as error:
            raise translated(error, self._bound, run.control.error or run.failure) from error

    def _opened(self, frame: DataFrame, run: QueryRun, task: Task) -> Iterator[pa.RecordBatch]:
        """Physically planned, not yet read."""
        shape = None
        if len(self._bound.references) == 1:
            (reference,) = self._bound.references
            if reference.search is not None:
                return self._opened_search(reference.search, frame, run, task)
            shape = direct_shape(frame)
            if shape is not None and shape.table != reference.private_name:
                # The optimiser has found that the table is not needed, and another one is.
                shape = None
        if shape is None:
            told = None
            if Shortcut.DIRECT_SYSTEM_SCANS in task.settings.shortcuts:
                told = plain_system_rows(self._bound, frame, run)
            return streamed(frame, run.control) if told is None else told
        shortcut = Shortcut.DIRECT_COUNTS if shape.counts else Shortcut.DIRECT_SCANS
        if shortcut not in task.settings.shortcuts:
            return streamed(frame, run.control)
        table = task.catalog.table(reference.table, reference.as_of)
        return direct_batches(shape, frame, run, table)

    def _opened_search(
        self, search: SearchCall, frame: DataFrame, run: QueryRun, task: Task
    ) -> Iterator[pa.RecordBatch]:
        """The statement's only reference is a search; if that is all, later runs need no plan."""
        batches = streamed(frame, run.control)
        is_fixed = isinstance(self._bound, BoundStatement) and self._bound.is_fixed and not search.subquery
        if self._search is None and is_fixed and Shortcut.DIRECT_SEARCHES in task.settings.shortcuts:
            self._search = read_direct_search(frame, search, run)
        return batches

    def _collected(self, batches: Iterator[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches([conform(batch, self.schema) for batch in batches], self.schema)

    def _explain(self, task: Task) -> pa.RecordBatchReader:
        if self._bound.kind is StatementKind.EXPLAIN_ANALYZE and task.control.metrics is None:
            task.control.metrics = MetricsSet()
        frame, run = self._plan(task)
        try:
            opened, run = self._opened_either_way(frame, run, task)
            plans = self._collected(opened)
            if _UNPLANNED in plans.column("plan_type").to_pylist():
                frame, run = self._plan(task, pushdown=False)
                plans = self._collected(self._opened(frame, run, task))
        except Exception as error:
            raise translated(error, self._bound, run.control.error or run.failure) from error
        table = explain_plans(plans, run, self._frames.partitions)
        return pa.RecordBatchReader.from_batches(self.schema, table.to_batches())
