"""A plan that has run, as one tree: DataFusion's nodes, exec nodes below its leaves, and their metrics."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import pyarrow as pa
from datafusion.plan import ExecutionPlan

from lance_gateway.execnodes import CoalesceFirstExec, ExecNode, MetricsSet
from lance_gateway.planner.bridge.memory_use import count_metrics
from lance_gateway.planner.predicates.pruning import Outcome
from lance_gateway.planner.scans.explain.leaves import Leaf, find_leaf, restore_lines
from lance_gateway.planner.scans.query_run import QueryRun, TableScan
from lance_gateway.planner.scans.resident_scan import ResidentScan
from lance_gateway.planner.sql.text.tokens import quote
from lance_gateway.planner.tables.sources.base_table import BaseTable

INDEXED_FROM = 100_000
"""A lookup reads the key columns of fewer rows about as fast as an index."""
_MAX_REGIONS = 20
_OWN_FIELDS = frozenset({"output_rows", "output_bytes", "elapsed_compute"})


@dataclass(frozen=True, slots=True)
class PrunedRegions:
    """Regions that were not read.

    Attributes:
        reason: why.
        count: how many they are.
        ids: of the first of them.
    """

    reason: str
    count: int
    ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class ScannedTable:
    """The table that a leaf reads; of one that an access policy restricts, its name alone is told.

    Attributes:
        table: its name.
        is_restricted: whether an access policy applies; numbers of rows or regions would reveal hidden rows.
        version: of the base table.
        read_as: the time or version that was asked for, or the consistency.
        regions: how many the table has.
        regions_read: how many of them were read.
        region_ids: of the first of those.
        pruned: why the others were not, most frequent reasons first.
        hint: what would make the scan faster.
    """

    table: str
    is_restricted: bool
    version: int | None = None
    read_as: str | None = None
    regions: int | None = None
    regions_read: int | None = None
    region_ids: Sequence[str] = ()
    pruned: Sequence[PrunedRegions] = ()
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A node of a plan, and what it did.

    Attributes:
        name: of the operator.
        detail: what it does, in words for people.
        was_executed: false where its rows were not needed.
        rows: that it produced; None where that is not measured, as is `bytes`.
        bytes: of them.
        seconds: spent in the node itself, summed over partitions; None where that is not measured.
        counters: other numbers, by name.
        facts: what else is known, such as the statistics of a text search.
        scan: the table that a leaf reads.
        inputs: below it.
    """

    name: str
    detail: str
    was_executed: bool = True
    rows: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    counters: dict[str, int] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)
    scan: ScannedTable | None = None
    inputs: tuple[PlanNode, ...] = ()


def explain_as_json(
    schema: pa.Schema, plan: ExecutionPlan, run: QueryRun, partitions: int, seconds: float
) -> pa.Table:
    """Return one row with a tree of `PlanNode` as JSON.

    Args:
        schema: columns `plan_type` and `plan`, as EXPLAIN gives them.
        plan: a plan that has run, below the node that discards its rows.
        run: the execution whose scans the plan's leaves are.
        partitions: of every scan.
        seconds: that the plan ran.
    """
    reader = _PlanReader(run, partitions)
    roots = [asdict(reader.read(each)) for each in plan.children()]
    text = json.dumps({"seconds": round(seconds, 6), "plan": roots[0]}, ensure_ascii=False)
    return pa.table([["json"], [text]], schema=schema)


def list_reasons(scan: TableScan) -> list[tuple[str, list[str]]]:
    """Return the reasons that exclude regions with the ids of these, most frequent first."""
    if len(scan.pruning.kept) == len(scan.pruning.regions.region_ids):
        return []
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for outcome in scan.pruning.outcomes:
        if outcome.outcome is Outcome.ROWS_CANNOT_MATCH:
            by_reason[outcome.reason].append(outcome.region_id)
    return sorted(by_reason.items(), key=lambda item: -len(item[1]))


def find_hint(scan: TableScan, base: BaseTable) -> str | None:
    """Return what would make a scan faster; None where nothing is known."""
    if not isinstance(scan.tree, CoalesceFirstExec):
        return None
    if base.physical_rows < INDEXED_FROM or base.indexed_key_columns:
        return None
    column = quote(base.primary_key[0])
    return (
        "the primary key has no index, so lookups read its columns: "
        f"CREATE INDEX ON {quote(scan.table.name)} ({column})"
    )


class _PlanReader:
    """Reads the nodes of one plan."""

    def __init__(self, run: QueryRun, partitions: int) -> None:
        self._run = run
        self._partitions = partitions
        self._waiting = list(run.scans)

    def read(self, plan: ExecutionPlan) -> PlanNode:
        """Return a node of DataFusion with all below it."""
        line = restore_lines(plan.display().strip(), self._run, self._partitions)
        leaf = find_leaf(line, self._waiting, self._partitions)
        name, _, detail = (line if leaf is None else leaf.line).partition(": ")
        inputs = tuple(self.read(child) for child in plan.children())
        if leaf is not None and leaf.scan is not None and leaf.scan.policy is None:
            inputs = (self._read_tree(leaf.scan.tree, self._run.control.metrics or MetricsSet()),)
        sums = count_metrics(plan)
        nanoseconds = sums.get("elapsed_compute")
        # Times are told from counts by their names alone, and are parts of the node's own.
        counters = {
            name: count
            for name, count in sorted(sums.items())
            if count and name not in _OWN_FIELDS and "time" not in name
        }
        return PlanNode(
            name,
            detail,
            rows=sums.get("output_rows"),
            bytes=sums.get("output_bytes"),
            seconds=None if nanoseconds is None else nanoseconds / 1e9,
            counters=counters,
            scan=None if leaf is None else self._read_scan(leaf),
            inputs=inputs,
        )

    def _read_tree(self, node: ExecNode, metrics: MetricsSet) -> PlanNode:
        name, found = type(node).__name__, metrics.of(node)
        return PlanNode(
            name,
            node.describe().removeprefix(name).removeprefix(": "),
            was_executed=found is not None,
            rows=None if found is None else found.output_rows,
            seconds=None if found is None else metrics.elapsed_compute(node),
            counters={} if found is None else dict(sorted(found.counters.items())),
            facts=node.list_facts(),
            inputs=tuple(self._read_tree(child, metrics) for child in node.children()),
        )

    def _read_scan(self, leaf: Leaf) -> ScannedTable | None:
        scan = leaf.scan
        if scan is None:
            return None
        if scan.policy is not None:
            return ScannedTable(scan.table.name, is_restricted=True)
        base, kept = self._run.take_snapshot(scan.table).base, scan.pruning.kept
        read_as = scan.table.described_time or f"consistency={self._run.settings.consistency}"
        if isinstance(scan, ResidentScan):
            read_as += f", in memory: {scan.divided_rows} of {scan.rows} rows"
        return ScannedTable(
            scan.table.name,
            is_restricted=False,
            version=base.version,
            read_as=read_as,
            regions=len(scan.pruning.regions.region_ids),
            regions_read=len(kept),
            region_ids=kept[:_MAX_REGIONS],
            pruned=[
                PrunedRegions(reason, len(ids), ids[:_MAX_REGIONS])
                for reason, ids in list_reasons(scan)[:_MAX_REGIONS]
            ],
            hint=find_hint(scan, base),
        )
