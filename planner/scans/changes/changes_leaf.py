"""The leaves of `lance_changes`: the two states that it compares, and the token of the newer one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.execnodes import ExecNode, TaskContext
from lance_gateway.execnodes.node import rows_without_columns
from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.predicates.pruning import Pruning
from lance_gateway.planner.scans.changes import POSITION, ROWS
from lance_gateway.planner.scans.changes.changed_rows import count_changed_rows, plan_changed_rows
from lance_gateway.planner.scans.changes.key_parts import KeyPart, KeyPartExec
from lance_gateway.planner.scans.query_run import QueryRun, TableScan
from lance_gateway.planner.scans.settings import Shortcut
from lance_gateway.planner.scans.table_leaf import TableLeaf
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.snapshot import TableSnapshot
from lance_gateway.planner.tables.state.past.noted_tables import write_token
from lance_gateway.planner.tables.state.table import Table

_POSITION_SCHEMA = pa.schema([pa.field(POSITION, pa.string()), pa.field(ROWS, pa.int64())])


class ChangesLeaf(TableLeaf):
    """Rows of one state, without stored rows that the other state shows.

    Args:
        run: the statement's execution.
        table: in the state that is read.
        other: in the state with which it is compared.
        partitions: fragments to offer.
        reference: the private name.
        part: the keys whose rows are wanted; None for all of them.
    """

    _added: ClassVar[Sequence[pa.Field]] = ()
    """Columns behind those of the table."""

    def __init__(
        self,
        run: QueryRun,
        table: SecuredTable,
        other: SecuredTable,
        partitions: int,
        reference: str,
        part: KeyPart | None,
    ) -> None:
        super().__init__(run, table, partitions, reference=reference)
        self._schema = pa.schema([*self._schema, *self._added])
        self._other = other
        self._part = part

    def _scan(self, conjuncts: pc.Expression | None) -> TableScan:
        table, other = self._table, self._other.table
        return self._add(
            _ChangesScan(self._run, table, other, self._columns, conjuncts, self._partitions, self._part)
        )

    def _add(self, scan: TableScan) -> TableScan:
        scan.reference = self._reference
        self._run.scans.append(scan)
        return scan


class PositionLeaf(ChangesLeaf):
    """One row: the token of a state, and how many rows `lance_changes` would compare."""

    def __init__(
        self,
        run: QueryRun,
        table: SecuredTable,
        other: SecuredTable,
        partitions: int,
        reference: str,
        part: KeyPart | None,
    ) -> None:
        super().__init__(run, table, other, partitions, reference, part)
        self._schema = _POSITION_SCHEMA

    def _scan(self, conjuncts: pc.Expression | None) -> TableScan:
        if conjuncts is not None:
            raise TypeError("a condition on a token, which DataFusion evaluates")
        return self._add(
            _PositionScan(
                self._run, self._table, self._other.table, self._columns, None, self._partitions, None
            )
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
        part: the keys whose rows are wanted; None for all of them.
    """

    def __init__(
        self,
        run: QueryRun,
        table: SecuredTable,
        other: Table,
        columns: tuple[str, ...],
        expression: pc.Expression | None,
        partitions: int,
        part: KeyPart | None,
    ) -> None:
        base = table.base
        stored = tuple(name for name in columns if name in base.schema.names)
        super().__init__(run, table.table, base, table.policy(base), stored, expression, None, partitions)
        self._other = run.table(other)
        self._part = part

    def _prune_by_predicates(self, pruned: Pruning) -> Pruning:
        """Return the regions as they are: a statement may say more of one state than of the other."""
        return pruned

    def _find_keys(self, base: BaseTable) -> None:
        """Return None: a lookup would look for keys among all rows, and not only among those that changed."""

    def _plan_rows(self, snapshot: TableSnapshot, columns: tuple[str, ...]) -> ExecNode:
        part = self._part
        # The two states are joined by their keys, so these are among the columns.
        rows = self._plan_all_rows(snapshot, columns)
        return rows if part is None else KeyPartExec(rows, snapshot.base.primary_key, part)

    def _plan_all_rows(self, snapshot: TableSnapshot, columns: tuple[str, ...]) -> ExecNode:
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
    """Scan of the token of a state, and of how far it is from the other one, in the first partition."""

    def __init__(
        self,
        run: QueryRun,
        table: SecuredTable,
        other: Table,
        columns: tuple[str, ...],
        expression: pc.Expression | None,
        partitions: int,
        part: KeyPart | None,
    ) -> None:
        super().__init__(run, table, other, columns, expression, partitions, part)
        self.columns = columns

    @property
    def output_schema(self) -> pa.Schema:
        """The token, and the number of rows."""
        return _POSITION_SCHEMA

    def _plan(self) -> ExecNode:
        snapshot = self.run.take_snapshot(self.table)
        token, rows = None, None
        if not self.table.has_own_rows:
            token = write_token(snapshot)
            # How many rows changed is nothing that a policy shows.
            if ROWS in self.columns and self.policy is None:
                rows = self._count_rows(snapshot)
        return _PositionExec(token, rows, self.columns)

    def _count_rows(self, snapshot: TableSnapshot) -> int:
        other, consistency = self._other, self.run.settings.consistency
        older = other.take_snapshot(other.assignments(other.base(), consistency).region_ids, consistency)
        visibility, cache = self.run.visibility, self.column_cache
        return sum(
            count_changed_rows(one, another, visibility, cache)
            for one, another in ((older, snapshot), (snapshot, older))
        )


@dataclass(frozen=True, eq=False)
class _PositionExec(ExecNode):
    """Gives one row in the first partition.

    Args:
        token: its value; None for a state that nobody else can read.
        rows: how many `lance_changes` would compare; None where that is not known, or not told.
        columns: to produce, in the order of the schema.
    """

    token: str | None
    rows: int | None
    columns: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns that are produced."""
        return pa.schema([_POSITION_SCHEMA.field(name) for name in self.columns])

    def describe(self) -> str:
        """Return the name of the node."""
        return "PositionExec: of the newer state"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Produce the row."""
        if partition:
            return
        values = {POSITION: self.token, ROWS: self.rows}
        if self.columns:
            yield pa.RecordBatch.from_pylist([{name: values[name] for name in self.columns}], self.schema)
        else:
            yield rows_without_columns(1)
