"""The leaves of `lance_changes` with `mode => 'all'`: rows before and behind every single change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.execnodes import (
    DeduplicateExec,
    ExecNode,
    MemTableScanExec,
    RowMask,
    TaskContext,
    UnionExec,
)
from lance_gateway.execnodes.storage.source import MemTableSource
from lance_gateway.memwal.errors import UnavailableError, UnsupportedError
from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.access.table_policy import TablePolicy
from lance_gateway.planner.scans.changes.changes_leaf import ChangesLeaf
from lance_gateway.planner.scans.changes.every_change import States, chain_rows
from lance_gateway.planner.scans.changes.key_parts import KeyPart
from lance_gateway.planner.scans.changes.row_chains import LINKS, ChainedRows
from lance_gateway.planner.scans.query_run import QueryRun, TableScan
from lance_gateway.planner.scans.settings import Shortcut
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.snapshot import TableSnapshot
from lance_gateway.planner.tables.state.table import Table


class BeforeLeaf(ChangesLeaf):
    """Rows that a change replaced or deleted, with the number of the change."""

    _is_after: ClassVar[bool] = False
    _added: ClassVar[Sequence[pa.Field]] = LINKS

    def _scan(self, conjuncts: pc.Expression | None) -> TableScan:
        scan = _ChainedScan(
            self._run,
            self._table,
            self._other.table,
            self._columns,
            conjuncts,
            self._partitions,
            self._part,
            is_after=self._is_after,
        )
        return self._add(scan)


class AfterLeaf(BeforeLeaf):
    """Rows that came with a change, with its number."""

    _is_after: ClassVar[bool] = True


class _ChainedScan(TableScan):
    """Scan of the rows before or behind every change between two states.

    All scans of a statement number the changes alike, so conditions are applied to what was read.

    Args:
        run: the statement's execution.
        table: in the newer state, with what may be seen of it.
        older: in the older state.
        columns: to produce.
        expression: conjuncts, to be applied exactly.
        partitions: that will be asked for.
        part: the keys whose rows are wanted; None for all of them.
        is_after: whether the rows behind changes are wanted, or those before.
    """

    def __init__(
        self,
        run: QueryRun,
        table: SecuredTable,
        older: Table,
        columns: tuple[str, ...],
        expression: pc.Expression | None,
        partitions: int,
        part: KeyPart | None,
        *,
        is_after: bool,
    ) -> None:
        base = table.base
        super().__init__(
            run, table.table, base, _see_links(table.policy(base)), columns, expression, None, partitions
        )
        self.schema = pa.schema([*base.schema, *LINKS])
        self._older = run.table(older)
        self._part = part
        self._is_after = is_after

    @property
    def needed_regions(self) -> tuple[str, ...]:
        """Ids of all regions: a row of any may be the one before a change."""
        return tuple(self.pruning.regions.region_ids)

    def _find_keys(self, base: BaseTable) -> None:
        """Return None: a lookup would find the newest row of a key alone."""

    def _check_columns(self, base: BaseTable, columns: Sequence[str]) -> None:
        del columns
        if not base.schema.equals(self.base.schema) or base.field_names != self.base.field_names:
            raise UnavailableError(f"table {base.name!r} was altered just now: run the query again")

    def _plan_rows(self, snapshot: TableSnapshot, columns: tuple[str, ...]) -> ExecNode:
        chained = self.run.compute_once((self.table, self._older, self._part), lambda: self._chain(snapshot))
        rows = chained.after if self._is_after else chained.before
        label = f"{self.table.name} {'behind' if self._is_after else 'before'} each change"
        scan = MemTableScanExec(MemTableSource(label, rows), columns, self.conditions.below)
        return DeduplicateExec(UnionExec((scan,)), (RowMask(),))

    def _chain(self, newer: TableSnapshot) -> ChainedRows:
        if self.table.has_own_rows:
            msg = (
                f"table {self.table.name!r}: mode => 'all' reads the log, where the rows of this transaction "
                "come when it commits: ask outside of it, or for mode => 'net'"
            )
            raise UnsupportedError(msg)
        control, older = self.run.control, self._older
        consistency = self.run.settings.consistency
        regions = older.assignments(older.base(), consistency).region_ids
        states = States(
            older.take_snapshot(regions, consistency),
            newer,
            self.table.read_log_entry,
            self.run.visibility,
            self.column_cache,
            TaskContext(metrics=control.metrics, check=control.check),
            shares_rows=Shortcut.SHARED_ROWS in self.run.settings.shortcuts,
            part=self._part,
        )
        return chain_rows(states)


def _see_links(policy: TablePolicy | None) -> TablePolicy | None:
    """Return a policy under which the numbers and times of changes are seen."""
    return None if policy is None else replace(policy, schema=pa.schema([*policy.schema, *LINKS]))
