"""Indexes of the primary key: when a table gets them, and how it is told otherwise."""

from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.creating import key_index
from lance_gateway.memwal.creating.key_index import KEY_INDEX
from lance_gateway.memwal.errors import InvalidInputError
from tests.gateway.conftest import serving

Sql = Any
MANY = "SELECT value AS id, concat('n', value) AS name FROM generate_series(0, 199) AS s(value)"
BOTH = "SELECT value % 3 AS a, value AS id, value AS n FROM generate_series(0, 99) AS s(value)"


def indexed_columns(sql: Sql, table: str) -> list[str]:
    (row,) = sql(f"SELECT indexed_key_columns FROM system.tables WHERE table_name = '{table}'")
    return list(row[0])


def test_a_table_that_is_created_with_rows_has_an_index_on_its_key(sql: Sql) -> None:
    sql(f"CREATE TABLE t (PRIMARY KEY (id)) AS {MANY}")
    assert indexed_columns(sql, "t") == ["id"]
    stats = sql.dataset("t").stats.index_stats("id_idx")
    assert (stats["index_type"], stats["num_indexed_rows"], stats["num_unindexed_rows"]) == ("BTree", 200, 0)
    assert sql("SELECT name FROM t WHERE id = 7") == [("n7",)]


def test_an_empty_table_has_none_and_gets_it_from_upkeep_once_it_has_rows(sql: Sql) -> None:
    sql("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT)")
    assert sql.dataset("t").version == 1
    assert sql("OPTIMIZE t")[0]["indexes"] == []
    lance.write_dataset(
        pa.table({"id": [1, 2], "name": ["a", "b"]}, schema=sql.dataset("t").schema),
        sql.root / "t.lance",
        mode="append",
    )
    assert sql("OPTIMIZE t INDEXES")[0]["indexes"] == ["id_idx"]
    assert indexed_columns(sql, "t") == ["id"]
    assert sql("OPTIMIZE t")[0]["indexes"] == ["id_idx"]
    assert [one.name for one in sql.engine.catalog.table("t").base().indexes] == ["id_idx"]


def test_compacting_alone_makes_no_index(sql: Sql) -> None:
    sql(f"CREATE TABLE t (PRIMARY KEY (id)) WITH (key_index = false) AS {MANY}")
    sql("ALTER TABLE t SET (key_index = true)")
    assert sql("OPTIMIZE t COMPACT")[0]["indexes"] == []
    assert indexed_columns(sql, "t") == []


def test_writers_that_are_open_maintain_an_index_that_upkeep_makes(sql: Sql) -> None:
    sql(f"CREATE TABLE t (PRIMARY KEY (id)) WITH (key_index = false) AS {MANY}")
    sql("INSERT INTO t VALUES (1, 'newer')")
    sql("ALTER TABLE t SET (key_index = true)")
    sql("OPTIMIZE t INDEXES")
    sql("INSERT INTO t VALUES (2, 'newer')")
    sql.engine.catalog.table("t").writer().flush()
    newest = max((sql.root / "t.lance" / "_mem_wal").glob("*/*_gen_*"), key=lambda path: path.name[-3:])
    assert [one.name for one in lance.dataset(newest).describe_indices()] == ["id_idx"]
    assert sql("SELECT name FROM t WHERE id IN (1, 2, 3) ORDER BY id") == [("newer",), ("newer",), ("n3",)]


@pytest.mark.parametrize(
    ("key", "option", "expected"),
    [
        ("id", None, ["id"]),
        ("a, id", None, ["a", "id"]),
        ("a, n, id", None, ["a", "id"]),
        ("a, id", "true", ["a", "id"]),
        ("a, id", "false", []),
        ("a, id", "''", []),
        ("a, id", "'id'", ["id"]),
        ("a, n, id", "'n, a'", ["a", "n"]),
    ],
)
def test_the_first_and_the_last_column_of_a_key_or_those_that_are_named(
    sql: Sql, key: str, option: str | None, expected: list[str]
) -> None:
    clause = "" if option is None else f" WITH (key_index = {option})"
    sql(f"CREATE TABLE t (PRIMARY KEY ({key})){clause} AS {BOTH}")
    assert indexed_columns(sql, "t") == expected
    assert sql("SELECT id FROM t WHERE a = 1 AND n = 7 AND id = 7") == [(7,)]
    assert sql("SELECT count(*) FROM t WHERE a = 1") == [(33,)]


def test_a_boolean_has_none(sql: Sql) -> None:
    sql("CREATE TABLE t (PRIMARY KEY (on_sale, id)) AS SELECT true AS on_sale, 1 AS id")
    assert indexed_columns(sql, "t") == ["id"]
    sql("CREATE TABLE u (PRIMARY KEY (on_sale)) AS SELECT true AS on_sale, 1 AS id")
    assert indexed_columns(sql, "u") == []


def test_tables_without_key_or_without_memwal(sql: Sql) -> None:
    sql(f"CREATE TABLE log AS {MANY}")
    assert indexed_columns(sql, "log") == []
    sql(f"CREATE TABLE plain (PRIMARY KEY (id)) WITH (memwal = false) AS {MANY}")
    assert indexed_columns(sql, "plain") == ["id"]
    sql(f"CREATE TABLE bare (PRIMARY KEY (id)) WITH (memwal = false, key_index = false) AS {MANY}")
    assert indexed_columns(sql, "bare") == []


def test_only_columns_of_the_key_can_be_named(sql: Sql) -> None:
    message = r"key_index names 'name', which is not a column of the primary key: its columns are id"
    with pytest.raises(InvalidInputError, match=message):
        sql("CREATE TABLE t (id INT PRIMARY KEY, name TEXT) WITH (key_index = 'name')")
    with pytest.raises(
        InvalidInputError, match="'name', which is not a column of the primary key: there is none"
    ):
        sql("CREATE TABLE t (id INT, name TEXT) WITH (key_index = 'name')")
    sql("CREATE TABLE t (id INT PRIMARY KEY, name TEXT)")
    with pytest.raises(InvalidInputError, match=message):
        sql("ALTER TABLE t SET (key_index = 'name')")
    with pytest.raises(InvalidInputError, match="key_index is set by a statement of its own"):
        sql("ALTER TABLE t SET (key_index = false, memwal = true)")


def test_an_index_that_is_dropped_is_not_made_again_until_it_is_wanted(sql: Sql) -> None:
    sql(f"CREATE TABLE t (PRIMARY KEY (a, id)) AS {BOTH}")
    sql("DROP INDEX id_idx ON t")
    assert sql("OPTIMIZE t")[0]["indexes"] == ["a_idx"]
    assert indexed_columns(sql, "t") == ["a"]
    sql("ALTER TABLE t SET (key_index = true)")
    assert sql.dataset("t").config() == {}
    assert sorted(sql("OPTIMIZE t")[0]["indexes"]) == ["a_idx", "id_idx"]


def test_dropping_an_index_of_another_kind_or_column_changes_nothing(sql: Sql) -> None:
    sql(f"CREATE TABLE t (PRIMARY KEY (name)) AS {MANY}")
    sql("CREATE INDEX words ON t USING FTS (name)")
    sql("CREATE INDEX numbers ON t (id)")
    sql("DROP INDEX words ON t")
    sql("DROP INDEX numbers ON t")
    assert sql.dataset("t").config() == {}
    assert indexed_columns(sql, "t") == ["name"]


def test_setting_what_is_so_already_commits_nothing(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    for statement in ("SET (key_index = true)", "SET (key_index = 'id')"):
        sql(f"ALTER TABLE t {statement}")
        assert sql.dataset("t").version == 1
    sql("ALTER TABLE t SET (key_index = false)")
    assert sql.dataset("t").config() == {KEY_INDEX: "[]"}


def test_an_index_that_somebody_made_is_as_good(sql: Sql) -> None:
    sql(f"CREATE TABLE t (PRIMARY KEY (id)) WITH (key_index = false) AS {MANY}")
    sql("CREATE INDEX mine ON t USING BITMAP (id)")
    sql("ALTER TABLE t SET (key_index = true)")
    assert sql("OPTIMIZE t")[0]["indexes"] == ["mine"]


def test_a_name_that_is_taken_is_left_to_its_index(sql: Sql) -> None:
    sql(f"CREATE TABLE t (PRIMARY KEY (id)) WITH (key_index = false) AS {MANY}")
    sql("CREATE INDEX id_idx ON t (name)")
    sql("ALTER TABLE t SET (key_index = true)")
    assert sorted(sql("OPTIMIZE t")[0]["indexes"]) == ["id_idx", "id_idx_2"]


def test_like_takes_what_the_other_table_wants(sql: Sql) -> None:
    sql('CREATE TABLE t ("A" INT, id INT, PRIMARY KEY ("A", id)) WITH (key_index = \'"A"\')')
    sql("CREATE TABLE u (LIKE t)")
    assert sql.dataset("u").config() == sql.dataset("t").config() == {KEY_INDEX: '["A"]'}
    sql("CREATE TABLE v (LIKE t) WITH (key_index = true)")
    assert sql.dataset("v").config() == {}


def test_a_configuration_that_nobody_understands_means_the_default(sql: Sql) -> None:
    sql(f"CREATE TABLE t (PRIMARY KEY (id)) WITH (key_index = false) AS {MANY}")
    for written in ("perhaps", '"id"'):
        sql.dataset("t").update_config({KEY_INDEX: written})
        assert key_index.list_wanted_columns(sql.dataset("t")) == ("id",)


def test_a_table_is_created_even_if_its_index_is_not(
    sql: Sql, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("storage is full")

    monkeypatch.setattr(lance.LanceDataset, "create_scalar_index", fail)
    assert sql(f"CREATE TABLE t (PRIMARY KEY (id)) AS {MANY}") == 200
    assert "table 't' was created without an index on its key" in caplog.text
    assert "storage is full" in caplog.text
    monkeypatch.undo()
    assert sql("OPTIMIZE t")[0]["indexes"] == ["id_idx"]


@pytest.mark.slow
def test_a_server_makes_the_index_as_an_engine_does(root: Path) -> None:
    with (
        serving(root) as server,
        flightsql.connect(f"grpc://127.0.0.1:{server.port}", autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"CREATE TABLE t (PRIMARY KEY (name)) AS {MANY}")
        cursor.execute("SELECT index_name, covered_fragments, is_maintained FROM system.indexes")
        assert cursor.fetchall() == [("name_idx", 1, True)]
        cursor.execute("INSERT INTO t VALUES (1000, 'n7'), (1001, 'fresh')")
        cursor.execute("SELECT id FROM t WHERE name IN ('n7', 'n8', 'fresh') ORDER BY id")
        assert cursor.fetchall() == [(8,), (1000,), (1001,)]
        cursor.execute("DROP INDEX name_idx")
        cursor.execute("OPTIMIZE t")
        assert cursor.fetch_arrow_table().column("indexes").to_pylist() == [[]]
