"""EXPLAIN and EXPLAIN ANALYZE: the tree of exec nodes under each leaf of DataFusion's plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa

from execnodes import CoalesceFirstExec, ExecNode, MetricsSet
from planner.predicates.pruning import Outcome
from planner.scans.query_run import QueryRun, TableScan
from planner.scans.resident_scan import ResidentScan
from planner.sql.tokens import quote
from planner.tables.sources.base_table import BaseTable

_LEAF = re.compile(r"^(?P<indent>\s*)DatasetExec: number_of_fragments=(?P<fragments>\d+)(?P<rest>.*)$")
_RESIDENT = re.compile(
    r"^(?P<indent>\s*)DataSourceExec: partitions=\d+, partition_sizes=\[(?P<sizes>[\d, ]+)\]"
)
_MAX_REGION_IDS = 4
INDEXED_FROM = 100_000
"""A lookup reads the key columns of fewer rows about as fast as an index."""


def explain_plans(plans: pa.Table, run: QueryRun, partitions: int) -> pa.Table:
    """Insert the trees of exec nodes below the leaves of DataFusion's plans.

    Args:
        plans: columns `plan_type` and `plan`, as EXPLAIN gives them.
        run: the execution whose scans the plan's leaves are.
        partitions: of every scan; larger numbers of fragments only distinguish tables.
    """
    texts = [_insert_trees(text, run, partitions) for text in plans.column("plan").to_pylist()]
    return plans.set_column(plans.schema.get_field_index("plan"), plans.schema.field("plan"), pa.array(texts))


def format_tree(node: ExecNode, metrics: MetricsSet | None, depth: int = 0) -> Iterator[str]:
    """Yield one line per node, with its inputs indented below it."""
    line = "  " * depth + node.describe()
    if metrics is not None:
        line += f", metrics=[{_format_metrics(node, metrics)}]"
    yield line
    for child in node.children():
        yield from format_tree(child, metrics, depth + 1)


def _format_metrics(node: ExecNode, metrics: MetricsSet) -> str:
    found = metrics.of(node)
    if found is None:
        return "not executed"
    parts = [
        f"output_rows={found.output_rows}",
        f"elapsed_compute={metrics.elapsed_compute(node) * 1000:.3f}ms",
        f"output_batches={found.output_batches}",
    ]
    parts += [f"{name}={value}" for name, value in sorted(found.counters.items())]
    return ", ".join(parts)


def _insert_trees(plan: str, run: QueryRun, partitions: int) -> str:
    lines: list[str] = []
    waiting = list(run.scans)
    for line in plan.split("\n"):
        leaf = _LEAF.match(line)
        if leaf is None:
            lines.append(line)
            lines += _format_resident(line, waiting, run)
            continue
        fragments = int(leaf["fragments"])
        shown = min(fragments, partitions)
        lines.append(f"{leaf['indent']}DatasetExec: number_of_fragments={shown}{leaf['rest']}")
        scan = next((one for one in waiting if _is_leaf_of(one, fragments, leaf["rest"])), None)
        if scan is None:
            continue
        waiting.remove(scan)
        lines += [f"{leaf['indent']}  {text}" for text in _format_scan(scan, run)]
    text = "\n".join(lines)
    for extra in range(partitions + 1, partitions + 1 + len({scan.table for scan in run.scans})):
        text = text.replace(f"input_partitions={extra}", f"input_partitions={partitions}")
    return text


def _format_resident(line: str, waiting: list[TableScan], run: QueryRun) -> Iterator[str]:
    """Yield the tree of a resident table, if a line of DataFusion's plan is one; it is no longer waiting."""
    table = _RESIDENT.match(line)
    if table is None:
        return
    sizes = tuple(map(int, table["sizes"].split(", ")))
    for scan in waiting:
        if isinstance(scan, ResidentScan) and scan.partition_sizes == sizes:
            waiting.remove(scan)
            yield from (f"{table['indent']}  {text}" for text in _format_scan(scan, run))
            return


def _is_leaf_of(scan: TableScan, fragments: int, rest: str) -> bool:
    """Return whether a line of DataFusion's plan is this scan.

    Scans that match the same line have the same tree.
    """
    projection = f"projection=[{', '.join(scan.columns)}]"
    condition = "" if scan.expression is None else f"filter_expr={scan.expression}"
    return scan.partitions == fragments and projection in rest and condition in rest


def _format_scan(scan: TableScan, run: QueryRun) -> Iterator[str]:
    if scan.policy is not None:
        # Numbers of rows, regions or files would reveal hidden rows.
        yield f"{scan.table.name}: the access policy of this table applies; how it is read is not shown"
        return
    snapshot = run.take_snapshot(scan.table)
    yield (
        f"{scan.table.name}: base v{snapshot.base.version}, "
        f"{scan.table.described_time or f'consistency={run.settings.consistency}'}, {_format_regions(scan)}"
    )
    if isinstance(scan, ResidentScan):
        yield f"  in memory: {scan.divided_rows} of {scan.rows} rows, the others fail conditions or joins"
    yield from _format_pruning(scan)
    if isinstance(scan.tree, CoalesceFirstExec) and _needs_key_index(snapshot.base):
        column = quote(snapshot.base.primary_key[0])
        yield (
            "  the primary key has no index, so lookups read its columns: "
            f"CREATE INDEX ON {quote(scan.table.name)} ({column})"
        )
    yield from format_tree(scan.tree, run.control.metrics, 1)


def _needs_key_index(base: BaseTable) -> bool:
    return base.physical_rows >= INDEXED_FROM and not base.indexed_key_columns


def _format_regions(scan: TableScan) -> str:
    kept, regions = scan.pruning.kept, scan.pruning.regions.region_ids
    if not regions:
        return "no regions"
    return f"regions={len(kept)}/{len(regions)} [{_format_region_ids(kept)}]"


def _format_pruning(scan: TableScan) -> Iterator[str]:
    """Yield the reasons that exclude regions, most frequent first."""
    if len(scan.pruning.kept) == len(scan.pruning.regions.region_ids):
        return
    by_reason: dict[str, list[str]] = {}
    for outcome in scan.pruning.outcomes:
        if outcome.outcome is Outcome.ROWS_CANNOT_MATCH:
            by_reason.setdefault(outcome.reason, []).append(outcome.region_id)
    for reason, ids in sorted(by_reason.items(), key=lambda item: -len(item[1]))[:_MAX_REGION_IDS]:
        yield f"  pruned {len(ids)} by {reason} [{_format_region_ids(ids)}]"


def _format_region_ids(region_ids: Sequence[str]) -> str:
    shown = ", ".join(region_id[:8] for region_id in region_ids[:_MAX_REGION_IDS])
    return shown + (", .." if len(region_ids) > _MAX_REGION_IDS else "")
