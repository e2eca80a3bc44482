"""TPC-H-style queries over ADBC on tables with fresh rows equal DuckDB's answers on the merged tables."""

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from benchmarks.tables import wholesale
from tests.support.judging.results import assert_close_rows, rows_of
from tests.support.lake.merging import merge_generations
from tests.support.lake.tables import Layout, LsmTable, bucketed, primary_key, unpartitioned
from tests.support.processes.servers import GatewayProcess, fetch, open_connection
from tests.support.processes.writer_process import WriterProcess

pytestmark = pytest.mark.slow

SCALE = 0.01
CHANGED = 0.05
QUERIES = list(wholesale.read_queries().items())
LAYOUTS: dict[str, Layout] = {
    "customer": bucketed("c_custkey", 4, recorded=True),
    "orders": bucketed("o_orderkey", 3, recorded=True),
    "lineitem": bucketed("l_orderkey", 4, recorded=True),
    "partsupp": unpartitioned(("ps_partkey",), 2),
}


def changed(rows: pa.Table, seed: int) -> tuple[pa.Table, list[dict[str, Any]], list[dict[str, Any]]]:
    """Splits the final ``rows``: base rows (some outdated, some to be deleted), upserts, and keys to delete.

    A row that is outdated in the base borrows the values of another row; a row to be deleted borrows a key
    that no final row has.
    """
    random = np.random.default_rng(seed)
    key = primary_key(rows.schema)
    count = rows.num_rows
    shuffled = random.permutation(count)
    share = max(1, int(count * CHANGED))
    updated, inserted = np.sort(shuffled[:share]), np.sort(shuffled[share : 2 * share])
    others = rows.take(random.integers(0, count, share))
    outdated = pa.table(
        [rows.take(updated)[name] if name in key else others[name] for name in rows.column_names],
        schema=rows.schema,
    )
    last = key[-1]
    beyond = pa.array(range(1_000_000, 1_000_000 + share), rows.schema.field(last).type)
    deleted = others.set_column(rows.schema.get_field_index(last), rows.schema.field(last), beyond)
    kept = np.setdiff1d(np.arange(count), np.concatenate([updated, inserted]))
    base = pa.concat_tables([rows.take(kept), outdated, deleted])
    upserts = rows.take(np.concatenate([updated, inserted])).to_pylist()
    return base, upserts, deleted.select(list(key)).to_pylist()


def write_changes(table: LsmTable, upserts: list[dict[str, Any]], deletes: list[dict[str, Any]]) -> None:
    """A third of the changes is merged, a third flushed, a third in the log; the last third also deletes."""
    third = -(-len(upserts) // 3)
    parts = [upserts[start : start + third] for start in range(0, len(upserts), third)]
    cuts = np.array_split(np.arange(len(deletes)), len(parts))
    for number, (part, cut) in enumerate(zip(parts, cuts, strict=True)):
        table.put(part)
        if len(cut):
            table.delete([deletes[index] for index in cut])
        if number < 2:
            table.close_writers()
        if number == 0:
            for region in table.regions.values():
                merge_generations(table.path, region, up_to=1)


@pytest.fixture(scope="module")
def merged() -> dict[str, pa.Table]:
    """The eight tables as they are once every change has arrived."""
    return wholesale.generate(SCALE, seed=42)


@pytest.fixture(scope="module")
def connection(
    merged: dict[str, pa.Table], shared_writers: WriterProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    root = tmp_path_factory.mktemp("wholesale")
    for seed, (name, rows) in enumerate(merged.items()):
        base, upserts, deletes = changed(rows, seed)
        layout = LAYOUTS.get(name) or unpartitioned(primary_key(rows.schema), 2)
        table = LsmTable.create(root, name, base, layout, shared_writers)
        write_changes(table, upserts, deletes)
    with GatewayProcess(root) as server, open_connection(server.uri) as opened:
        yield opened


@pytest.fixture(scope="module")
def reference(merged: dict[str, pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as database:
        for name, rows in merged.items():
            database.register(name, rows)
        yield database


def test_there_are_twenty_two_queries():
    assert [title.partition(":")[0] for title, _ in QUERIES] == [str(number) for number in range(1, 23)]


@pytest.mark.parametrize("name", wholesale.create_schemas())
def test_every_table_reads_as_merged(connection: Any, merged: dict[str, pa.Table], name: str):
    key = ", ".join(primary_key(merged[name].schema))
    fresh = fetch(connection, f"SELECT * FROM {name} ORDER BY {key}")
    expected = merged[name].sort_by([(column, "ascending") for column in primary_key(merged[name].schema)])
    assert fresh.num_rows == expected.num_rows
    assert fresh.cast(pa.schema([field.with_metadata(None) for field in expected.schema])).equals(
        expected.replace_schema_metadata(None).cast(
            pa.schema([field.with_metadata(None) for field in expected.schema])
        )
    )


@pytest.mark.parametrize(("title", "sql"), QUERIES, ids=[title for title, _ in QUERIES])
def test_the_answer_equals_duckdb_on_the_merged_tables(
    connection: Any, reference: duckdb.DuckDBPyConnection, title: str, sql: str
):
    ours = rows_of(fetch(connection, sql))
    theirs = reference.execute(sql).fetchall()
    assert theirs, "a query that selects nothing proves nothing"
    assert any(value is not None for row in theirs for value in row)
    assert_close_rows(ours, theirs, title)
