"""``OPTIMIZE t [COMPACT | INDEXES]``: fewer, larger files of the base table, and indexes that cover it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner.access.rights import Access
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.tables.state.table import Table
from planner.writes.ddl.indexes.index_statements import index_names
from planner.writes.ddl.statement.prepared_ddl import PreparedDefinition, check_writable, committed
from planner.writes.ddl.statement.reader import Reader
from planner.writes.dml.statement.prepared_write import WriteResult
from planner.writes.dml.statement.target import check_may_write

if TYPE_CHECKING:
    from planner.bridge.run_control import RunControl

SCHEMA = pa.schema(
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


def prepare_optimize(
    engine: QueryPlanner,
    sql: str,
    settings: SessionSettings,  # noqa: ARG001 - a family's face
    access: Access,
) -> PreparedDefinition:
    """Check a statement that tidies a base table; it does not merge generations, which is a job of its own.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    reader = Reader.of(sql)
    reader.expect("OPTIMIZE")
    reader.accept("TABLE")
    name = reader.table()
    parts: tuple[str, ...] = ("COMPACT", "INDEXES")
    if reader.word:
        parts = (reader.choose("COMPACT or INDEXES, or nothing for both", "COMPACT", "INDEXES"),)
    reader.finish()
    check_may_write(engine, name, access)
    check_writable(engine, name)

    def optimize(_control: RunControl | None) -> WriteResult:
        check_may_write(engine, name, access)
        row = _optimized(engine.catalog.table(name), parts)
        return WriteResult(-1, pa.Table.from_pylist([row], SCHEMA))

    return PreparedDefinition(sql, optimize, name, SCHEMA)


def _optimized(table: Table, parts: tuple[str, ...]) -> dict[str, Any]:
    before = table.base()
    row: dict[str, Any] = {
        "table_name": table.name,
        "fragments_before": len(before.fragments),
        "files_removed": 0,
        "files_added": 0,
        "indexes": [],
    }
    names = index_names(before)
    if "INDEXES" in parts and names:
        _bring_up_to_date(table)  # Files are put together only where the same indexes cover them.
        row["indexes"] = list(names)
    if "COMPACT" in parts:
        metrics = committed(table, "compact files", lambda dataset: dataset.optimize.compact_files())
        row |= {"files_removed": metrics.files_removed, "files_added": metrics.files_added}
        if names and metrics.files_removed:
            # Compaction makes indexes forget how far they have caught up with merges.
            _bring_up_to_date(table)
            row["indexes"] = list(names)
    after = table.base()
    return row | {"version": after.version, "fragments_after": len(after.fragments)}


def _bring_up_to_date(table: Table) -> None:
    committed(table, "bring indexes up to date", lambda dataset: dataset.optimize.optimize_indices())
