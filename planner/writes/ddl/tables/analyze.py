"""``ANALYZE t``: what the gateway wants to know of a table before it is asked, and what that was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from planner.access.rights import Access
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.sql.tokens import quote
from planner.writes.ddl.statement.prepared_ddl import PreparedDefinition
from planner.writes.ddl.statement.reader import Reader
from planner.writes.dml.statement.prepared_write import WriteResult
from planner.writes.dml.statement.target import check_may_write

if TYPE_CHECKING:
    from planner.bridge.run_control import RunControl
    from planner.tables.state.table import Table

SCHEMA = pa.schema(
    [
        ("table_name", pa.string()),
        ("rows", pa.int64()),
        ("base_rows", pa.int64()),
        ("base_bytes", pa.int64()),
        ("base_fragments", pa.int64()),
        ("regions", pa.int64()),
        ("generations", pa.int64()),
        ("generation_rows", pa.int64()),
        ("unflushed_rows", pa.int64()),
    ]
)


def prepare_analyze(
    engine: QueryPlanner,
    sql: str,
    settings: SessionSettings,
    access: Access,
) -> PreparedDefinition:
    """Check a statement that looks at a table. Nothing of the table changes.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    reader = Reader.of(sql)
    reader.expect("ANALYZE")
    reader.accept("TABLE")
    name = reader.table()
    reader.finish()
    check_may_write(engine, name, access)
    # Counting needs to know which rows newer ones supersede, as every scan does: it is kept for them.
    count = engine.prepare(f"SELECT count(*) FROM {quote(name)}", settings, access)  # noqa: S608 - quoted

    def analyze(control: RunControl | None) -> WriteResult:
        check_may_write(engine, name, access)
        rows = count.execute((), settings, control).read_all()
        row = {"rows": rows.column(0)[0].as_py(), **_statistics(engine.catalog.table(name))}
        return WriteResult(-1, pa.Table.from_pylist([row], SCHEMA))

    return PreparedDefinition(sql, analyze, name, SCHEMA)


def _statistics(table: Table) -> dict[str, Any]:
    base = table.base()
    manifests = () if base.details is None else table.manifests()
    merged = base.merged_generations
    generations = [
        table.generation(one.region_id, flushed)
        for one in manifests
        for flushed in one.unmerged(merged.get(one.region_id, 0))
    ]
    unflushed = [entry for one in manifests for entry in table.unflushed(one)]
    files = [file for one in base.dataset.get_fragments() for file in one.metadata.files]
    return {
        "table_name": table.name,
        "base_rows": base.dataset.count_rows(),
        "base_bytes": sum(file.file_size_bytes or 0 for file in files),
        "base_fragments": len(base.fragments),
        "regions": len(manifests),
        "generations": len(generations),
        "generation_rows": sum(one.rows for one in generations),
        "unflushed_rows": sum(0 if entry.rows is None else entry.rows.num_rows for entry in unflushed),
    }
