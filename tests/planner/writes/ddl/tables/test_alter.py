"""ALTER TABLE: columns come and go while rows lie in the log, in generations and in the base table."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    PreconditionError,
    UnsupportedError,
)
from lance_gateway.planner.engine import QueryEngine
from tests.support.lake.merging import merge_flushed

Sql = Any
REGION = str(uuid.uuid4())


def lance_writer(sql: Sql) -> Any:
    """Lance's own writer of a region of table t, which keeps the columns that there are now."""
    return sql.dataset("t").mem_wal_writer(
        REGION, durable_write=True, max_wal_buffer_size=1, max_wal_flush_interval_ms=5_000
    )


@pytest.fixture
def filled(sql: Sql, root: Path) -> Sql:
    """Table t with a row in the base table, one in a generation and one in the log."""
    sql("CREATE TABLE t (id INT PRIMARY KEY, name TEXT, qty INT) WITH (region_by = 'bucket(id, 1)')")
    table = sql.engine.catalog.table("t")
    sql("INSERT INTO t VALUES (1, 'base', 10)")
    table.writer().flush()
    merge_flushed(root / "t.lance")
    sql("INSERT INTO t VALUES (2, 'flushed', 20)")
    table.writer().flush()
    sql("INSERT INTO t VALUES (3, 'log', 30)")
    return sql


def test_a_new_column_is_null_in_rows_that_were_there(filled: Sql) -> None:
    assert filled("ALTER TABLE t ADD COLUMN extra DOUBLE COMMENT 'new'") == -1
    assert filled("SELECT id, extra FROM t ORDER BY id") == [(1, None), (2, None), (3, None)]
    filled("INSERT INTO t VALUES (3, 'again', 31, 0.5)")
    assert filled("SELECT * FROM t ORDER BY id")[2] == (3, "again", 31, 0.5)
    filled("ALTER TABLE IF EXISTS t ADD COLUMN IF NOT EXISTS extra TEXT")
    filled("ALTER TABLE IF EXISTS missing ADD COLUMN extra TEXT")
    assert filled.dataset("t").schema.field("extra").metadata[b"comment"] == b"new"


def test_a_column_goes_by_its_new_name_wherever_its_rows_are(filled: Sql) -> None:
    filled("ALTER TABLE t RENAME COLUMN name TO label")
    assert filled("SELECT id, label FROM t ORDER BY id") == [(1, "base"), (2, "flushed"), (3, "log")]
    with pytest.raises(InvalidInputError, match="name"):
        filled("SELECT name FROM t")


def test_a_column_that_took_the_name_of_a_dropped_one_begins_empty(filled: Sql) -> None:
    filled("ALTER TABLE t DROP COLUMN qty")
    filled("ALTER TABLE t ADD COLUMN qty TEXT")
    assert filled("SELECT id, qty FROM t ORDER BY id") == [(1, None), (2, None), (3, None)]
    filled("INSERT INTO t VALUES (2, 'b', 'many')")
    assert filled("SELECT id FROM t WHERE qty = 'many'") == [(2,)]


def test_no_field_id_is_given_twice_even_where_nothing_was_merged(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, gone INT)")
    sql("INSERT INTO t VALUES (1, 7)")
    used = set(sql.field_ids("t").values())
    for name in ("one", "two"):
        sql(f"ALTER TABLE t DROP COLUMN {'gone' if name == 'one' else 'one'}")
        sql(f"ALTER TABLE t ADD COLUMN {name} INT")
        assert sql.field_ids("t")[name] not in used
        used |= set(sql.field_ids("t").values())
        assert sql(f"SELECT id, {name} FROM t") == [(1, None)]


def test_no_field_id_is_given_twice_where_others_dropped_a_column(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, gone INT)")
    sql("INSERT INTO t VALUES (1, 7)")
    sql.engine.catalog.table("t").writer().flush()
    sql.dataset("t").drop_columns(["gone"])
    sql("ALTER TABLE t ADD COLUMN fresh INT")
    assert sql("SELECT * FROM t") == [(1, None)]


def test_nested_columns_come_and_go(filled: Sql) -> None:
    filled("ALTER TABLE t ADD COLUMN s STRUCT<a INT, b TEXT[]>")
    filled("INSERT INTO t VALUES (4, 'x', 1, named_struct('a', 1, 'b', ['y']))")
    assert filled("SELECT s FROM t WHERE id = 4") == [({"a": 1, "b": ["y"]},)]
    ids = filled.field_ids("t")
    filled("ALTER TABLE t DROP COLUMN s")
    filled("ALTER TABLE t ADD COLUMN after INT")
    assert filled.field_ids("t")["after"] > ids["s"] + 3


def test_a_writer_that_has_the_old_columns_goes_on(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, gone INT, kept INT)")
    writer = lance_writer(sql)
    schema = sql.dataset("t").schema
    sql("ALTER TABLE t DROP COLUMN gone")
    sql("ALTER TABLE t RENAME COLUMN kept TO stayed")
    sql("ALTER TABLE t ADD COLUMN fresh INT")
    writer.put(pa.Table.from_pylist([{"id": 1, "gone": 2, "kept": 3}], schema=schema))
    assert sql("SELECT id, stayed, fresh FROM t") == [(1, 3, None)]
    writer.close()
    assert sql("SELECT id, stayed, fresh FROM t") == [(1, 3, None)]


def test_rows_of_a_writer_that_died_are_taken_over_under_the_new_columns(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, gone INT, kept INT)")
    writer = lance_writer(sql)
    writer.put(pa.Table.from_pylist([{"id": 1, "gone": 2, "kept": 3}], schema=sql.dataset("t").schema))
    sql("ALTER TABLE t DROP COLUMN gone")
    sql("ALTER TABLE t ADD COLUMN fresh INT")
    with lance_writer(sql) as heir:
        rows = [{"id": 2, "kept": 4, "fresh": 5}]
        heir.put(pa.Table.from_pylist(rows, schema=sql.dataset("t").schema))
    assert sql("SELECT id, kept, fresh FROM t ORDER BY id") == [(1, 3, None), (2, 4, 5)]


def test_a_log_is_taken_over_when_a_column_has_come_and_gone(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    first = sql.dataset("t")
    rows = [{"id": 1, "n": 1}]
    lance_writer(sql).put(pa.Table.from_pylist(rows, schema=first.schema))  # and dies
    sql("ALTER TABLE t ADD COLUMN extra INT")
    lance_writer(sql).put(pa.Table.from_pylist([{"id": 2}], schema=sql.dataset("t").schema))
    sql("ALTER TABLE t DROP COLUMN extra")
    for dataset in (sql.dataset("t"), first, sql.dataset("t")):
        writer = dataset.mem_wal_writer(
            REGION, durable_write=True, max_wal_buffer_size=1, max_wal_flush_interval_ms=5_000
        )
        writer.put(pa.Table.from_pylist([{"id": 3, "n": 3}], schema=dataset.schema))
    assert sql("SELECT * FROM t ORDER BY id") == [(1, 1), (2, None), (3, 3)]
    assert sql.dataset("t").schema.metadata == first.schema.metadata


def test_two_gateways_add_columns_and_write(root: Path, open_gateway: Callable[..., Sql]) -> None:
    first, second = open_gateway(root), open_gateway(root)
    first("CREATE TABLE t (id INT PRIMARY KEY)")
    first("INSERT INTO t VALUES (1)")
    second("INSERT INTO t VALUES (2)")
    first("ALTER TABLE t ADD COLUMN a INT")
    second("ALTER TABLE t ADD COLUMN b INT")
    first("INSERT INTO t VALUES (3, 3, 3)")
    second("INSERT INTO t VALUES (4, 4, 4)")
    expected = [(1, None, None), (2, None, None), (3, 3, 3), (4, 4, 4)]
    assert first("SELECT * FROM t ORDER BY id") == second("SELECT * FROM t ORDER BY id") == expected


@pytest.mark.slow
def test_merging_goes_on_after_columns_have_changed(filled: Sql, root: Path) -> None:
    filled("ALTER TABLE t DROP COLUMN qty")
    filled("ALTER TABLE t ADD COLUMN qty TEXT")
    filled("INSERT INTO t VALUES (4, 'new', 'q')")
    expected = filled("SELECT * FROM t ORDER BY id")
    filled.engine.catalog.table("t").writer().flush()
    merge_flushed(root / "t.lance")
    assert filled("SELECT * FROM t ORDER BY id") == expected
    assert (
        sorted(map(tuple, (row.values() for row in filled.dataset("t").to_table().to_pylist()))) == expected
    )


@pytest.mark.slow
def test_a_column_takes_its_indexes_with_it(filled: Sql) -> None:
    filled("CREATE INDEX by_qty ON t (qty)")
    filled("ALTER TABLE t DROP COLUMN qty")
    assert filled.engine.catalog.table("t").base().indexes == ()
    assert filled("SELECT * FROM t ORDER BY id") == [(1, "base"), (2, "flushed"), (3, "log")]
    filled("INSERT INTO t VALUES (4, 'x')")
    assert filled("SELECT count(*) FROM t") == [(4,)]


def test_columns_that_regions_are_made_of_stay(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, place TEXT) "
        "WITH (region_by = 'identity(place)', keys_never_move = true)"
    )
    with pytest.raises(PreconditionError, match="regions are made of it"):
        sql("ALTER TABLE t DROP COLUMN place")
    sql("INSERT INTO t VALUES (1, 'here')")
    sql("ALTER TABLE t RENAME COLUMN place TO spot")
    sql("INSERT INTO t VALUES (2, 'here'), (3, 'there')")
    assert len(sql("SELECT region_id FROM system.regions")) == 2
    assert sql("SELECT id FROM t WHERE spot = 'here' ORDER BY id") == [(1,), (2,)]


def test_what_was_prepared_before_says_that_the_table_was_altered(filled: Sql) -> None:
    engine: QueryEngine = filled.engine
    query = engine.prepare("SELECT * FROM t")
    insert = engine.prepare_statement("INSERT INTO t VALUES (9, 'x', 1)")
    filled("ALTER TABLE t DROP COLUMN qty")
    for late in (lambda: query.execute().read_all(), insert.execute):
        with pytest.raises(LanceGatewayError, match=r"(?i)altered|column"):
            late()


def test_a_type_changes_where_there_is_no_memwal(sql: Sql, root: Path) -> None:
    lance.write_dataset(pa.table({"n": pa.array([1, 2], pa.int32())}), root / "t.lance")
    sql("ALTER TABLE t ALTER COLUMN n SET DATA TYPE BIGINT")
    assert sql.dataset("t").schema.field("n").type == pa.int64()
    assert sql("SELECT sum(n) FROM t") == [(3,)]
    for cast in ("n::INT", "(n::INT)"):
        sql(f"ALTER TABLE t ALTER n TYPE INT USING {cast}")
    assert sql.dataset("t").schema.field("n").type == pa.int32()
    for other in ("n::SMALLINT", "n + 1", "CAST(m AS INT)"):
        with pytest.raises(UnsupportedError, match="USING n::type, and by nothing else"):
            sql(f"ALTER TABLE t ALTER n TYPE BIGINT USING {other}")


class TestSetMemWal:
    """The way out for plain Lance tables."""

    @pytest.fixture
    def plain(self, sql: Sql, root: Path) -> Sql:
        key = {"lance-schema:unenforced-primary-key": "true"}
        schema = pa.schema([pa.field("id", pa.int32(), nullable=False, metadata=key), ("name", pa.string())])
        rows = pa.Table.from_pylist([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], schema)
        lance.write_dataset(rows, root / "t.lance")
        return sql

    def test_a_plain_table_takes_writes(self, plain: Sql) -> None:
        assert plain("SELECT count(*) FROM t") == [(2,)]
        assert plain("ALTER TABLE t SET (memwal = true, region_by = 'bucket(id, 2)')") == -1
        plain("INSERT INTO t VALUES (2, 'new'), (3, 'c')")
        assert plain("SELECT * FROM t ORDER BY id") == [(1, "a"), (2, "new"), (3, "c")]
        plain("ALTER TABLE t SET (memwal = true)")  # changes nothing

    def test_of_two_gateways_one_sets_it_up(
        self, plain: Sql, root: Path, open_gateway: Callable[..., Sql]
    ) -> None:
        other = open_gateway(root)
        statement = "ALTER TABLE t SET (memwal = true, region_by = 'bucket(id, {})')"
        prepared = [
            gateway.engine.prepare_statement(statement.format(buckets))
            for gateway, buckets in ((plain, 2), (other, 4))
        ]
        prepared[0].execute()
        with pytest.raises(LanceGatewayError, match="has a MemWAL already"):
            prepared[1].execute()
        (spec,) = plain.details("t").region_specs
        assert spec.fields[0].parameters == {"num_buckets": "2"}

    def test_options_that_do_not_fit_are_refused(self, plain: Sql) -> None:
        with pytest.raises(InvalidInputError, match="not part of the primary key"):
            plain("ALTER TABLE t SET (memwal = true, region_by = 'identity(name)')")
        with pytest.raises(InvalidInputError, match="changes nothing"):
            plain("ALTER TABLE t SET (max_memtable_rows = 5)")
        assert plain.dataset("t").mem_wal_index_details() is None


def test_several_columns_come_and_go_in_one_version(filled: Sql) -> None:
    filled("ALTER TABLE t ADD COLUMN note TEXT")
    filled("UPDATE t SET note = 'n'")
    filled("CREATE INDEX by_qty ON t (qty)")
    version = filled.dataset("t").version
    ids = filled.field_ids("t")
    filled("ALTER TABLE t DROP COLUMN qty, ADD COLUMN many TEXT, ADD a INT COMMENT 'new', DROP note")
    dataset = filled.dataset("t")
    assert dataset.schema.names == ["id", "name", "many", "a"]
    assert dataset.schema.field("a").metadata[b"comment"] == b"new"
    assert "by_qty" not in {index.name for index in dataset.describe_indices()}
    assert filled("SELECT id, many, a FROM t ORDER BY id") == [
        (1, None, None),
        (2, None, None),
        (3, None, None),
    ]
    added = {number for name, number in filled.field_ids("t").items() if name in ("many", "a")}
    assert added.isdisjoint(ids.values())
    # One version notes which field ids were in use, and the next one changes all columns.
    assert dataset.version == version + 2
    assert dataset.checkout_version(dataset.version - 1).schema.names == ["id", "name", "qty", "note"]
    filled("INSERT INTO t VALUES (3, 'again', 'many', 5)")
    assert filled("SELECT a FROM t WHERE many = 'many'") == [(5,)]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ("ADD COLUMN a INT, DROP COLUMN id", "can't be dropped: it is part of the primary key"),
        ("ADD COLUMN a INT, DROP COLUMN missing", "has no column 'missing'"),
        ("DROP COLUMN qty, ADD COLUMN name INT", "has a column 'name' already"),
        ("ADD COLUMN a INT, ADD COLUMN b TEXT DEFAULT uuid()", "'b' can't be added with DEFAULT uuid"),
        ("ADD COLUMN a INT, ADD COLUMN IF NOT EXISTS a TEXT", "'a' is named twice"),
        ("DROP COLUMN qty, ADD COLUMN qty TEXT", "'qty' is named twice: write one ALTER TABLE after"),
        ("ADD COLUMN a INT, RENAME COLUMN qty TO amount", "Only ADD COLUMN and DROP COLUMN"),
        ("RENAME COLUMN qty TO amount, ADD COLUMN a INT", "Only ADD COLUMN and DROP COLUMN"),
    ],
)
def test_of_several_changes_all_are_made_or_none(filled: Sql, changes: str, reason: str) -> None:
    version = filled.dataset("t").version
    with pytest.raises(LanceGatewayError, match=reason):
        filled(f"ALTER TABLE t {changes}")
    assert filled.dataset("t").version == version
    assert filled.dataset("t").schema.names == ["id", "name", "qty"]


def test_what_is_there_or_missing_is_left_among_several_changes(filled: Sql) -> None:
    filled("ALTER TABLE t ADD COLUMN IF NOT EXISTS qty TEXT, ADD a INT, DROP COLUMN IF EXISTS missing")
    assert filled.dataset("t").schema.names == ["id", "name", "qty", "a"]
    assert filled("SELECT qty, a FROM t WHERE id = 3") == [(30, None)]


def test_all_columns_of_a_table_go_only_for_others(sql: Sql) -> None:
    sql("CREATE TABLE u (a INT, b INT) WITH (memwal = false)")
    sql("INSERT INTO u VALUES (1, 2)")
    with pytest.raises(PreconditionError, match="no columns but a, b: DROP TABLE"):
        sql("ALTER TABLE u DROP COLUMN a, DROP COLUMN b")
    sql("ALTER TABLE u DROP COLUMN a, DROP COLUMN b, ADD COLUMN c INT")
    assert sql("SELECT * FROM u") == [(None,)]
