"""``OPTIMIZE t [COMPACT | INDEXES]``, ``FLUSH TABLE t`` and ``ANALYZE t``."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
from lance.optimize import Compaction, CompactionMetrics, CompactionTask, RewriteResult

from lance_gateway.memwal.base.index_details import list_merged_generations
from lance_gateway.memwal.creating.index_types import finds_past_rows
from lance_gateway.memwal.storage.jobs import Job
from lance_gateway.memwal.writing.base_rows import remove_repeated_rows
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.indexes import build_index, list_index_names
from lance_gateway.planner.writes.ddl.statement import (
    PreparedDefinition,
    Reader,
    commit_change,
    flush_logs,
    flush_logs_if_possible,
)
from lance_gateway.planner.writes.ddl.tables.key_indexes import build_key_indexes
from lance_gateway.planner.writes.ddl.versions.cloning import build_call_like
from lance_gateway.planner.writes.dml.prepared_write import WriteResult
from lance_gateway.planner.writes.dml.statement.target import check_may_write, check_writable

_OPTIMIZED = pa.schema(
    [
        ("table_name", pa.string()),
        ("version", pa.int64()),
        ("fragments_before", pa.int64()),
        ("fragments_after", pa.int64()),
        ("files_removed", pa.int64()),
        ("files_added", pa.int64()),
        ("indexes", pa.list_(pa.string())),
    ]
)
_FLUSHED = pa.schema([("table_name", pa.string()), ("rows", pa.int64()), ("regions", pa.int64())])
_COUNTS = (
    *("rows", "base_rows", "base_bytes", "base_fragments", "regions"),
    *("generations", "generation_rows", "unflushed_rows"),
)
_ANALYZED = pa.schema([("table_name", pa.string()), *((name, pa.int64()) for name in _COUNTS)])


def prepare_optimize(
    engine: QueryPlanner,
    sql: str,
    settings: SessionSettings,
    access: Access,
) -> PreparedDefinition:
    """Prepare OPTIMIZE, which compacts a base table, updates its indexes and builds those that its key lacks.

    It does not merge generations.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    reader = Reader.of(sql, settings.schema, "OPTIMIZE")
    reader.take("TABLE")
    name = reader.table()
    parts: tuple[str, ...] = ("COMPACT", "INDEXES")
    if reader.word:
        parts = (reader.choose("COMPACT or INDEXES, or nothing for both", "COMPACT", "INDEXES"),)
    reader.expect_end()
    check_may_write(engine, name, access)
    check_writable(engine, name)

    def optimize(_control: RunControl | None) -> WriteResult:
        check_may_write(engine, name, access)
        with engine.catalog.jobs.run("optimize", name, access.user) as job:
            row = _optimize(engine.catalog.table(name), parts, job)
        return WriteResult(-1, pa.Table.from_pylist([row], _OPTIMIZED))

    return PreparedDefinition(sql, optimize, name, _OPTIMIZED)


def _optimize(table: Table, parts: tuple[str, ...], job: Job) -> dict[str, Any]:
    flush_logs_if_possible(table)
    before = table.base()
    row: dict[str, Any] = {
        "table_name": table.name,
        "fragments_before": len(before.fragments),
        "files_removed": 0,
        "files_added": 0,
        "indexes": [],
    }
    names = list_index_names(before)
    if "INDEXES" in parts and names:
        # Only fragments that the same indexes cover are compacted together.
        _optimize_indexes(table, job)
        row["indexes"] = list(names)
    if "COMPACT" in parts:
        metrics = commit_change(table, "compact files", lambda dataset: _compact_files(table, dataset, job))
        row |= {"files_removed": metrics.files_removed, "files_added": metrics.files_added}
        if names and metrics.files_removed:
            # Compaction resets how far indexes have caught up with merges.
            _optimize_indexes(table, job)
            row["indexes"] = list(names)
    if "INDEXES" in parts:
        built = build_key_indexes(table, job)
        if built:
            table.writer().flush()  # Writers that are opened from now on maintain them.
            row["indexes"] += built
    after = table.base()
    return row | {"version": after.version, "fragments_after": len(after.fragments)}


def _optimize_indexes(table: Table, job: Job) -> None:
    """Bring one index after the other up to date, so that the job can tell how many are."""
    base = table.base()
    job.begin("bring indexes up to date", len(base.indexes), "index")
    for index in base.indexes:
        if base.dataset.has_stable_row_ids and finds_past_rows(index.type, len(index.segments)):
            call = build_call_like(index)
            build_index(table, call, index.columns[0], index.name, replaces=True)

        def optimize(dataset: Any, name: str = index.name) -> None:  # noqa: ANN401 - lance types
            dataset.optimize.optimize_indices(index_names=[name])

        commit_change(table, f"bring index {index.name!r} up to date", optimize)
        job.advance(1)


def _compact_files(table: Table, dataset: Any, job: Job) -> CompactionMetrics:  # noqa: ANN401 - lance types
    """Compact a base table in one commit; options of Lance are those of the table's configuration."""
    tasks = Compaction.plan(dataset, {}).tasks
    if tasks and remove_repeated_rows(table.name, table.storage, lambda: table.base().dataset):
        dataset = table.base().dataset
        tasks = Compaction.plan(dataset, {}).tasks
    job.begin("compact files", sum(len(task.fragments) for task in tasks), "fragment")

    def rewrite(task: CompactionTask) -> RewriteResult:
        result = task.execute(dataset)
        job.advance(len(task.fragments))
        return result

    with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="compact") as pool:
        return Compaction.commit(dataset, list(pool.map(rewrite, tasks)), {})


def prepare_flush(
    engine: QueryPlanner,
    sql: str,
    settings: SessionSettings,
    access: Access,
) -> PreparedDefinition:
    """Prepare FLUSH TABLE, which flushes the logs of all regions of a table, whoever wrote them.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    reader = Reader.of(sql, settings.schema, "FLUSH", "TABLE")
    name = reader.table()
    reader.expect_end()
    check_may_write(engine, name, access)
    check_writable(engine, name)

    def flush(_control: RunControl | None) -> WriteResult:
        check_may_write(engine, name, access)
        with engine.catalog.jobs.run("flush", name, access.user):
            flushed = flush_logs(engine.catalog.table(name))
        row = {"table_name": name, "rows": sum(flushed.values()), "regions": len(flushed)}
        return WriteResult(-1, pa.Table.from_pylist([row], _FLUSHED))

    return PreparedDefinition(sql, flush, name, _FLUSHED)


def prepare_analyze(
    engine: QueryPlanner,
    sql: str,
    settings: SessionSettings,
    access: Access,
) -> PreparedDefinition:
    """Prepare ANALYZE, which counts rows and files and changes nothing.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    reader = Reader.of(sql, settings.schema, "ANALYZE")
    reader.take("TABLE")
    name = reader.table()
    reader.expect_end()
    check_may_write(engine, name, access)
    # Counting computes which rows are superseded, which later scans reuse.
    count = engine.prepare(f"SELECT count(*) FROM {name.sql}", settings, access)  # noqa: S608 - quoted

    def analyze(control: RunControl | None) -> WriteResult:
        check_may_write(engine, name, access)
        rows = count.execute((), settings, control).read_all()
        row = {"rows": rows.column(0)[0].as_py(), **_collect_statistics(engine.catalog.table(name))}
        return WriteResult(-1, pa.Table.from_pylist([row], _ANALYZED))

    return PreparedDefinition(sql, analyze, name, _ANALYZED)


def _collect_statistics(table: Table) -> dict[str, Any]:
    base = table.base()
    manifests = () if base.details is None else table.read_manifests()
    merged = list_merged_generations(base.details)
    generations = [
        table.generation(manifest.region_id, flushed)
        for manifest in manifests
        for flushed in manifest.unmerged_generations(merged.get(manifest.region_id, 0))
    ]
    unflushed = [entry for manifest in manifests for entry in table.read_unflushed(manifest)]
    files = [file for fragment in base.dataset.get_fragments() for file in fragment.metadata.files]
    return {
        "table_name": table.name,
        "base_rows": base.dataset.count_rows(),
        "base_bytes": sum(file.file_size_bytes or 0 for file in files),
        "base_fragments": len(base.fragments),
        "regions": len(manifests),
        "generations": len(generations),
        "generation_rows": sum(generation.rows for generation in generations),
        "unflushed_rows": sum(0 if entry.rows is None else entry.rows.num_rows for entry in unflushed),
    }
