"""The trees of exec nodes, inserted into the plans that DataFusion prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lance_gateway.execnodes import ExecNode, MetricsSet
from lance_gateway.planner.scans.explain.leaves import find_leaf, restore_lines
from lance_gateway.planner.scans.explain.objects import find_hint, list_reasons
from lance_gateway.planner.scans.query_run import QueryRun, TableScan
from lance_gateway.planner.scans.resident_scan import ResidentScan

_MAX_REGION_IDS = 4


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
    for line in restore_lines(plan, run, partitions).split("\n"):
        leaf = find_leaf(line, waiting, partitions)
        lines.append(line if leaf is None else leaf.line)
        if leaf is not None and leaf.scan is not None:
            lines += [f"{leaf.indent}  {text}" for text in _format_scan(leaf.scan, run)]
    return "\n".join(lines)


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
    for reason, ids in list_reasons(scan)[:_MAX_REGION_IDS]:
        yield f"  pruned {len(ids)} by {reason} [{_format_region_ids(ids)}]"
    hint = find_hint(scan, snapshot.base)
    if hint is not None:
        yield f"  {hint}"
    yield from format_tree(scan.tree, run.control.metrics, 1)


def _format_regions(scan: TableScan) -> str:
    kept, regions = scan.pruning.kept, scan.pruning.regions.region_ids
    if not regions:
        return "no regions"
    return f"regions={len(kept)}/{len(regions)} [{_format_region_ids(kept)}]"


def _format_region_ids(region_ids: Sequence[str]) -> str:
    shown = ", ".join(region_id[:8] for region_id in region_ids[:_MAX_REGION_IDS])
    return shown + (", .." if len(region_ids) > _MAX_REGION_IDS else "")
