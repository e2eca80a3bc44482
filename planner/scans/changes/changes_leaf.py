"""The leaves of `lance_changes`: the two states that it compares, and the token of the newer one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from execnodes import ExecNode, TaskContext
from execnodes.node import rows_without_columns
from planner.access.secured_table import SecuredTable
from planner.predicates.pruning import Pruning
from planner.scans.changes import POSITION
from planner.scans.changes.changed_rows import plan_changed_rows
from planner.scans.query_run import QueryRun, TableScan
from planner.scans.settings import Shortcut
from planner.scans.table_leaf import TableLeaf
from planner.tables.sources.base_table import BaseTable
from planner.tables.sources.snapshot import TableSnapshot
from planner.tables.state.noted_tables import write_token
from planner.tables.state.table import Table

_POSITION_SCHEMA = pa.schema([pa.field(POSITION, pa.string())])


class ChangesLeaf(TableLeaf):
    """Rows of one state, without stored rows that the other state shows.

    Args:
        run: the statement's execution.
        table: in the state that is read.
        other: in the state with which it is compared.
        partitions: fragments to offer.
        reference: the private name.
    """

    def __init__(
        self, run: QueryRun, table: SecuredTable, other: SecuredTable, partitions: int, reference: str
    ) -> None:
        super().__init__(run, table, partitions, reference=reference)
        self._other = other

    def _scan(self, conjuncts: pc.Expression | None) -> TableScan:
        return self._add(
            _ChangesScan(
                self._run, self._table, self._other.table, self._columns, conjuncts, self._partitions
            )
        )

    def _add(self, scan: TableScan) -> TableScan:
        scan.reference = self._reference
        self._run.scans.append(scan)
        return scan


class PositionLeaf(ChangesLeaf):
    """One row: the token of a state."""

    def __init__(
        self, run: QueryRun, table: SecuredTable, other: SecuredTable, partitions: int, reference: str
    ) -> None:
        super().__init__(run, table, other, partitions, reference)
        self._schema = _POSITION_SCHEMA

    def _scan(self, conjuncts: pc.Expression | None) -> TableScan:
        if conjuncts is not None:
            raise TypeError("a condition on a token, which DataFusion evaluates")
        return self._add(
            _PositionScan(self._run, self._table, self._other.table, self._columns, None, self._partitions)
        )


class _ChangesScan(TableScan):
    """Scan of one state, without stored rows that the other state shows.

    Args:
        run: the statement's execution.
        table: in the state that is read, with what may be seen of it.
        other: in the state with which it is compared.
        columns: to produce.
        expression: conjuncts, to be applied exactly.
        partitions: that will be asked for.
    """

    def __init__(
        self,
        run: QueryRun,
        table: SecuredTable,
        other: Table,
        columns: tuple[str, ...],
        expression: pc.Expression | None,
        partitions: int,
    ) -> None:
        base = table.base
        stored = tuple(name for name in columns if name in base.schema.names)
        super().__init__(run, table.table, base, table.policy(base), stored, expression, None, partitions)
        self._other = run.table(other)

    def _prune_by_plan(self, pruned: Pruning) -> Pruning:
        """Return the regions as they are: a plan may say more of one state than of the other."""
        return pruned

    def _find_keys(self, base: BaseTable) -> None:
        """Return None: a lookup would look for keys among all rows, and not only among those that changed."""

    def _plan_rows(self, snapshot: TableSnapshot, columns: tuple[str, ...]) -> ExecNode:
        if Shortcut.SHARED_ROWS not in self.run.settings.shortcuts:
            return super()._plan_rows(snapshot, columns)
        return plan_changed_rows(
            snapshot,
            self.run.take_snapshot(self._other),
            self.kept_regions,
            columns,
            self.conditions.below,
            self.partitions,
            self.run.visibility,
            self.column_cache,
        )


class _PositionScan(_ChangesScan):
    """Scan of the token of a state, in the first partition."""

    def __init__(
        self,
        run: QueryRun,
        table: SecuredTable,
        other: Table,
        columns: tuple[str, ...],
        expression: pc.Expression | None,
        partitions: int,
    ) -> None:
        super().__init__(run, table, other, columns, expression, partitions)
        self.columns = columns

    @property
    def output_schema(self) -> pa.Schema:
        """The token."""
        return _POSITION_SCHEMA

    def _plan(self) -> ExecNode:
        snapshot = self.run.take_snapshot(self.table)
        return _TokenExec(None if self.table.has_own_rows else write_token(snapshot), self.columns)


@dataclass(frozen=True, eq=False)
class _TokenExec(ExecNode):
    """Gives one row in the first partition.

    Args:
        token: its value; None for a state that nobody else can read.
        columns: to produce: the token, or none.
    """

    token: str | None
    columns: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """The token, if it is produced."""
        return _POSITION_SCHEMA if self.columns else pa.schema([])

    def describe(self) -> str:
        """Return the name of the node."""
        return "TokenExec: of the newer state"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Produce the row."""
        if not partition:
            values = pa.record_batch([pa.array([self.token], pa.string())], schema=_POSITION_SCHEMA)
            yield values if self.columns else rows_without_columns(1)
