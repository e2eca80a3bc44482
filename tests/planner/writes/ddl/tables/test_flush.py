"""FLUSH TABLE: rows of the log become a generation, whoever wrote them, and so does what upkeep needs."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from lance_gateway.memwal.errors import InvalidInputError, PreconditionError, UnsupportedError
from lance_gateway.memwal.regions.wal import has_unflushed_rows, wal_entry_path
from lance_gateway.memwal.writing import NotOwnerError, OwnershipPolicy, WriteOptions
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging import merge

Sql = Any
KILLED = """
import os, sys
import lance, pyarrow as pa
dataset = lance.dataset(sys.argv[1])
writer = dataset.mem_wal_writer(sys.argv[2], durable_write=True)
writer.put(pa.table({"id": [8, 9], "s": ["h", "i"]}, schema=dataset.schema))
os._exit(9)
"""


@pytest.fixture
def table(sql: Sql) -> Sql:
    """Table t with four rows in its log."""
    sql("CREATE TABLE t (id INT PRIMARY KEY, s TEXT) WITH (region_by = 'bucket(id, 2)')")
    sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    return sql


def count_logs(sql: Sql, name: str = "t") -> int:
    """How many regions have unflushed rows."""
    table = sql.engine.catalog.table(name)
    return sum(has_unflushed_rows(table.storage, one) for one in table.read_manifests())


def test_rows_and_regions_are_told(table: Sql) -> None:
    assert count_logs(table) == 2
    assert table("FLUSH TABLE t") == [{"table_name": "t", "rows": 4, "regions": 2}]
    assert count_logs(table) == 0
    assert table("FLUSH TABLE main.t") == [{"table_name": "t", "rows": 0, "regions": 0}]
    assert table("SELECT count(*) FROM t") == [(4,)]
    # What is deleted is a row of the log, too, and of a region that has none nothing is told.
    table("DELETE FROM t WHERE id = 1")
    assert table("FLUSH TABLE t") == [{"table_name": "t", "rows": 1, "regions": 1}]
    assert table("SELECT id FROM t ORDER BY id") == [(2,), (3,), (4,)]


def test_rows_that_are_acknowledged_early_are_flushed(table: Sql) -> None:
    table("FLUSH TABLE t")
    table("INSERT INTO t VALUES (5, 'e')", durable_writes=False)
    assert table("FLUSH TABLE t")[0]["rows"] == 1


def test_a_table_without_regions_has_nothing_to_flush(sql: Sql) -> None:
    sql("CREATE TABLE u (id INT) WITH (memwal = false)")
    assert sql("FLUSH TABLE u") == [{"table_name": "u", "rows": 0, "regions": 0}]


@pytest.mark.parametrize("statement", ["FLUSH t", "FLUSH TABLE", "FLUSH TABLE t, u", "FLUSH TABLES t"])
def test_other_forms_are_no_syntax(table: Sql, statement: str) -> None:
    with pytest.raises(InvalidInputError):
        table(statement)


def test_what_another_process_left_is_taken_over(table: Sql, open_gateway: Callable[..., Sql]) -> None:
    other = open_gateway(table.root)
    assert other("FLUSH TABLE t") == [{"table_name": "t", "rows": 4, "regions": 2}]
    table("INSERT INTO t VALUES (5, 'e')")
    assert other("SELECT count(*) FROM t") == [(5,)]


def test_a_region_that_is_left_to_its_owner_is_named_and_upkeep_goes_on(
    table: Sql, open_gateway: Callable[..., Sql]
) -> None:
    other = open_gateway(table.root, WriteOptions(ownership=OwnershipPolicy.REFUSE))
    with pytest.raises(NotOwnerError, match="leaves it so"):
        other("FLUSH TABLE t")
    other("OPTIMIZE t")
    assert count_logs(table) == 2


@pytest.mark.slow
def test_rows_of_a_writer_of_lance_that_was_killed_are_flushed_and_merged(table: Sql) -> None:
    table("FLUSH TABLE t")
    catalog = table.engine.catalog.table("t")
    region = catalog.read_manifests()[0].region_id
    done = subprocess.run([sys.executable, "-c", KILLED, catalog.storage.uri, region], check=False)
    assert done.returncode == 9
    expected = table("SELECT id FROM t ORDER BY id")
    assert table("FLUSH TABLE t") == [{"table_name": "t", "rows": 2, "regions": 1}]
    merge(LakeTable.at(catalog.storage.uri))
    assert sorted(table.dataset("t").to_table()["id"].to_pylist()) == [1, 2, 3, 4, 8, 9]
    assert table("SELECT id FROM t ORDER BY id") == expected


@pytest.mark.parametrize("statement", ["OPTIMIZE t", "CREATE INDEX ON t (s)"])
def test_upkeep_flushes_first(table: Sql, statement: str) -> None:
    table(statement)
    assert count_logs(table) == 0


def test_a_fresh_table_gets_a_trained_index_on_demand(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, v FLOAT[2]) WITH (region_by = 'bucket(id, 1)')")
    sql("INSERT INTO t SELECT value, [CAST(value AS FLOAT), 1] FROM range(300)")
    create = "CREATE INDEX v_idx ON t (v) USING IVF_FLAT WITH (num_partitions = 2)"
    with pytest.raises(PreconditionError, match="Its rows are flushed: merge them"):
        sql(create)
    merge(LakeTable.at(str(sql.root / "t.lance")))
    sql(create)
    assert sql.dataset("t").describe_indices()
    nearest = "SELECT id FROM lance_vector_search('t', 'v', [7, 1], k => 1)"
    assert sql(nearest) == [(7,)]


def test_entries_that_cannot_be_read_are_not_flushed_past(table: Sql) -> None:
    catalog = table.engine.catalog.table("t")
    region = catalog.read_manifests()[0].region_id
    catalog.storage.put(wal_entry_path(region, 0), catalog.storage.read(wal_entry_path(region, 1)))
    with pytest.raises(UnsupportedError, match="position 0"):
        table("FLUSH TABLE t")
