"""CREATE TABLE: what it makes, as Lance, other readers and this gateway see it."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.creating import TABLE_ID, list_key_columns, list_not_null_columns
from lance_gateway.memwal.errors import AlreadyExistsError, PreconditionError

Sql = Any


def test_a_table_takes_rows_at_once(sql: Sql) -> None:
    assert sql("CREATE TABLE t (id BIGINT PRIMARY KEY, page TEXT) WITH (region_by = 'bucket(id, 4)')") == -1
    assert sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (1, 'c')") == 3
    assert sql("SELECT * FROM t ORDER BY id") == [(1, "c"), (2, "b")]


def test_it_is_one_version_of_a_lance_table_with_a_memwal(sql: Sql) -> None:
    columns = "b TEXT, a INT, n DOUBLE NOT NULL, PRIMARY KEY (a, b)"
    sql(f"CREATE TABLE t ({columns}) WITH (region_by = 'bucket(a, 8)')")
    dataset = sql.dataset("t")
    assert [one["version"] for one in dataset.versions()] == [1]
    assert list_key_columns(dataset.schema) == ("a", "b")
    assert list_not_null_columns(dataset.schema) == ("b", "a", "n")
    assert dataset.schema.field("n").nullable, "Lance deletes only where columns besides the key are nullable"
    (spec,) = dataset.mem_wal_index_details()["sharding_specs"]
    assert spec["fields"][0]["transform"] == "bucket"
    dataset.validate()


def test_what_lance_itself_would_have_set_up_is_the_same(sql: Sql, tmp_path: Path) -> None:
    cases = {
        "bucket(id, 4)": {"bucket_column": "id", "num_buckets": 4},
        "identity(id)": {"identity_column": "id"},
        "unsharded": {"unsharded": True},
    }
    for at, (region_by, options) in enumerate(cases.items()):
        sql(f"CREATE TABLE t{at} (id BIGINT PRIMARY KEY, n INT) WITH (region_by = '{region_by}')")
        dataset = lance.write_dataset(sql.dataset(f"t{at}").to_table(), tmp_path / f"{at}.lance")
        dataset.initialize_mem_wal(**options)
        theirs = lance.dataset(tmp_path / f"{at}.lance").mem_wal_index_details()
        ours = sql.dataset(f"t{at}").mem_wal_index_details()
        for one in (theirs, ours):
            one["sharding_specs"][0]["fields"][0].pop("field_id")
        assert ours == theirs


@pytest.mark.parametrize(
    "region_by", ["unsharded", "bucket(id, 2)", "truncate(id, 10)", "expression('col0 % 3', id)"]
)
def test_lances_own_writer_takes_the_table(sql: Sql, region_by: str) -> None:
    text = region_by.replace("'", "''")
    sql(f"CREATE TABLE t (id BIGINT PRIMARY KEY, n INT NOT NULL) WITH (region_by = '{text}')")
    dataset = sql.dataset("t")
    with dataset.mem_wal_writer(str(uuid.uuid4()), durable_write=True, max_wal_buffer_size=1) as writer:
        writer.put(pa.table({"id": [1, 2], "n": pa.array([1, 2], pa.int32())}, schema=dataset.schema))
        writer.delete(pa.table({"id": [1]}, schema=pa.schema([dataset.schema.field("id")])))
    assert sql("SELECT * FROM t") == [(2, 2)]
    rows = pa.table({"id": [7], "n": pa.array([7], pa.int32())}, schema=dataset.schema)
    merged = sql.dataset("t").merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merged.execute(rows)
    assert sql("SELECT * FROM t ORDER BY id") == [(2, 2), (7, 7)]


def test_a_table_without_memwal_or_key(sql: Sql) -> None:
    sql("CREATE TABLE plain (n INT) WITH (memwal = false)")
    assert sql("INSERT INTO plain VALUES (1), (2)") == 2
    assert sql("DELETE FROM plain WHERE n = 1") == 1
    sql("CREATE TABLE keyed (n INT PRIMARY KEY) WITH (memwal = false)")
    with pytest.raises(PreconditionError, match="ALTER TABLE keyed SET"):
        sql("INSERT INTO keyed VALUES (1)")
    sql("CREATE TABLE log (at TIMESTAMP, line TEXT) WITH (region_by = 'year(at)')")
    assert sql("INSERT INTO log VALUES ('2024-05-01', 'x'), ('2025-05-01', 'y'), ('2025-06-01', 'y')") == 3
    assert sql("SELECT line, count(*) FROM log GROUP BY line ORDER BY line") == [("x", 1), ("y", 2)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("region_by", "condition", "regions"),
    [
        ("bucket(id, 4)", "id = 7", 1),
        ("truncate(id, 10)", "id BETWEEN 20 AND 29", 1),
        ("identity(id)", "id IN (1, 2)", 2),
        ("bucket(id, 2), truncate(id, 20)", "id = 5", 1),
        ("multi_bucket(id, name, 4)", "id = 5 AND name = 'n5'", 1),
    ],
)
def test_regions_are_pruned(sql: Sql, region_by: str, condition: str, regions: int) -> None:
    sql(f"CREATE TABLE t (id INT, name TEXT, PRIMARY KEY (id, name)) WITH (region_by = '{region_by}')")
    sql("INSERT INTO t SELECT value, concat('n', value) FROM generate_series(0, 39) AS s(value)")
    everything = sql("SELECT DISTINCT region_id FROM system.regions")
    plan = "\n".join(text for _, text in sql(f"EXPLAIN SELECT count(*) FROM t WHERE {condition}"))
    assert f"regions={regions}/{len(everything)}" in plan
    assert sql(f"SELECT count(*) FROM t WHERE {condition}") == sql(
        f"SELECT count(*) FROM t WHERE {condition}", region_pruning=False
    )


def test_if_not_exists_and_or_replace(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    sql("INSERT INTO t VALUES (1)")
    sql("CREATE TABLE IF NOT EXISTS t (other TEXT)")
    assert sql("SELECT * FROM t") == [(1,)]
    with pytest.raises(AlreadyExistsError, match="IF NOT EXISTS"):
        sql("CREATE TABLE t (id INT)")
    sql("CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, name TEXT)")
    assert sql("SELECT * FROM t") == []
    sql("INSERT INTO t VALUES (2, 'b')")
    assert sql("SELECT * FROM t") == [(2, "b")]


@pytest.mark.slow
@pytest.mark.parametrize(("region_by", "regions"), [("truncate(id, 10)", 2), ("bucket(id, 1)", 1)])
def test_tables_differ_in_identity_and_so_do_regions_that_lancedb_has_no_id_for(
    sql: Sql, region_by: str, regions: int
) -> None:
    found = set()
    for _ in range(2):
        sql(f"CREATE OR REPLACE TABLE t (id INT PRIMARY KEY) WITH (region_by = '{region_by}')")
        sql("INSERT INTO t VALUES (1)")
        found.add((sql.dataset("t").schema.metadata[TABLE_ID], *sql("SELECT region_id FROM system.regions")))
    assert len({one for one, _ in found}) == 2
    assert len({region for _, region in found}) == regions


def test_like_takes_columns_key_and_regions(sql: Sql) -> None:
    sql(
        'CREATE TABLE t (id INT, "Name" TEXT NOT NULL, v FLOAT[2], PRIMARY KEY ("Name", id)) '
        "WITH (region_by = 'bucket(\"Name\", 4), truncate(id, 10)')"
    )
    sql("CREATE TABLE u (LIKE t)")
    assert sql.details("u").region_specs == sql.details("t").region_specs
    assert sql.dataset("u").schema.equals(sql.dataset("t").schema, check_metadata=False)
    assert list_not_null_columns(sql.dataset("u").schema) == ("id", "Name")
    assert list_key_columns(sql.dataset("u").schema) == ("Name", "id")


def test_comments_are_kept(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY COMMENT 'who') COMMENT 'people'")
    schema = sql.dataset("t").schema
    assert (schema.metadata[b"comment"], schema.field("id").metadata[b"comment"]) == (b"people", b"who")


def test_lances_defaults_for_writers_are_recorded(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY) WITH (max_memtable_rows = 500, maintained_indexes = '')")
    details = sql.details("t")
    assert dict(details.writer_config_defaults) == {"max_memtable_rows": "500"}
    assert not details.maintain_all_indexes


def test_two_gateways_create_at_once_and_one_does(root: Path, open_gateway: Callable[..., Sql]) -> None:
    first, second = open_gateway(root), open_gateway(root)
    statement = "CREATE TABLE t (id INT PRIMARY KEY)"
    # Both are prepared while there is no table.
    prepared = [one.engine.prepare_statement(statement) for one in (first, second)]
    prepared[0].execute()
    with pytest.raises(AlreadyExistsError):
        prepared[1].execute()
    first("INSERT INTO t VALUES (1)")
    assert second("SELECT * FROM t") == [(1,)]
    second("INSERT INTO t VALUES (2)")
    assert first("SELECT * FROM t ORDER BY id") == [(1,), (2,)]


def test_what_an_unfinished_creation_leaves_is_no_table(sql: Sql, root: Path) -> None:
    (root / "t.lance" / "data").mkdir(parents=True)
    (root / "t.lance" / "_transactions").mkdir(parents=True)
    assert sql("SELECT table_name FROM system.tables") == []
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    sql("INSERT INTO t VALUES (1)")
    assert sql("SELECT * FROM t") == [(1,)]


def test_nothing_is_made_on_a_gateway_that_only_reads(root: Path, open_gateway: Callable[..., Sql]) -> None:
    reader = open_gateway(root, None)
    for statement in (
        "CREATE TABLE t (id INT)",
        "CREATE VIEW t AS SELECT 1 AS one",
        "DROP TABLE IF EXISTS t",
    ):
        with pytest.raises(PreconditionError, match="read-only"):
            reader(statement)


@pytest.mark.parametrize("statement", ["CREATE TABLE t (id INT)", "CREATE OR REPLACE TABLE t (id INT)"])
def test_preparing_changes_nothing(sql: Sql, root: Path, statement: str) -> None:
    prepared = sql.engine.prepare_statement(statement)
    assert (prepared.schema, prepared.parameter_schema, prepared.target) == (
        pa.schema([]),
        pa.schema([]),
        "t",
    )
    assert list(root.iterdir()) == []


def test_tables_and_columns_may_have_the_names_of_functions(sql: Sql) -> None:
    sql('CREATE TABLE "first" (date INT PRIMARY KEY, "if" INT, mode INT)')
    sql('INSERT INTO first (date, "if", mode) VALUES (1, 2, 3)')
    sql("CREATE TABLE list (year INT PRIMARY KEY)")
    sql("INSERT INTO list (year) VALUES (2024)")
    sql(
        "MERGE INTO list USING (SELECT 2025 AS month) AS day ON list.year = day.month "
        "WHEN NOT MATCHED THEN INSERT (year) VALUES (month)"
    )
    assert sql('SELECT f.date, f."if", mode FROM first AS f (date, "if", mode)') == [(1, 2, 3)]
    assert sql("SELECT year FROM list AS mod (year) ORDER BY ALL") == [(2024,), (2025,)]
