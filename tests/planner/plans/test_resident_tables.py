"""Resident tables: DataFusion reads what is kept in memory by itself, and answers stay those of leaves."""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.engine import PreparedQuery, QueryEngine
from lance_gateway.planner.scans.resident_scan import make_unread
from lance_gateway.planner.scans.settings import ALL_SHORTCUTS, SessionSettings, Shortcut
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.principals import create_principal
from tests.support.judging.results import rows_of
from tests.support.processes.gateways import EAGER

LEAVES = SessionSettings(shortcuts=ALL_SHORTCUTS - {Shortcut.RESIDENT_TABLES})
KEY = {"lance-schema:unenforced-primary-key": "true"}
ROWS = 3000
RESIDENT = "DataSourceExec: partitions="


def write(engine: QueryEngine, sql: str) -> None:
    prepared = engine.prepare_statement(sql)
    assert not isinstance(prepared, PreparedQuery)
    prepared.execute()


def write_tables(root: Path) -> None:
    numbers = np.arange(ROWS)
    columns = {
        "id": pa.array(numbers),
        "k": pa.array(numbers % 50),
        "s": pa.array([None if one % 11 == 0 else f"s{one % 7}" for one in numbers]),
        "f": pa.array(numbers / 8),
        "vec": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(ROWS * 4, np.float32)), 4),
        "pair": pa.array([{"a": int(one), "b": [str(one)]} for one in numbers]),
    }
    fields = [
        pa.field(name, values.type, nullable=name != "id", metadata=KEY if name == "id" else None)
        for name, values in columns.items()
    ]
    rows = pa.table(list(columns.values()), schema=pa.schema(fields))
    lance.write_dataset(rows, root / "t.lance", max_rows_per_file=1000)
    few = {"k": np.arange(60), "name": [f"n{one}" for one in range(60)], "id": np.arange(60) * 3}
    lance.write_dataset(pa.table(few), root / "u.lance")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    """One table with stale, fresh and deleted rows, flushed and not, and one that is all base."""
    root = tmp_path_factory.mktemp("resident")
    write_tables(root)
    opened = QueryEngine(Catalog.open(str(root), writing=EAGER), partitions=2, resident_rows=0)
    write(opened, "ALTER TABLE t SET (memwal = true, region_by = 'bucket(id, 3)')")
    write(opened, "UPDATE t SET s = 'new', k = k + 1 WHERE id % 10 = 3")
    opened.catalog.table("t").writer().flush()
    write(opened, "DELETE FROM t WHERE id % 100 = 7")
    write(opened, "INSERT INTO t (id, k, s) VALUES (9001, 5, 'log'), (9002, NULL, NULL)")
    yield opened
    opened.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[QueryEngine]:
    """An engine over tables of its own, all of them base."""
    write_tables(tmp_path)
    opened = QueryEngine(Catalog.open(str(tmp_path), writing=EAGER), partitions=2, resident_rows=0)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def judge(engine: QueryEngine) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name in ("t", "u"):
            connection.register("given", engine.execute(f"SELECT * FROM {name}", LEAVES).read_all())
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            connection.unregister("given")
        yield connection


def explain(engine: QueryEngine, sql: str, settings: SessionSettings | None = None) -> str:
    plans = engine.prepare(f"EXPLAIN {sql}", settings or SessionSettings()).execute().read_all()
    return str(plans["plan"][-1].as_py())


def ask(engine: QueryEngine, sql: str) -> list[tuple[object, ...]]:
    """Ask often enough that all columns are kept."""
    for _ in range(2):
        engine.execute(sql).read_all()
    return rows_of(engine.execute(sql).read_all())


STATEMENTS = {
    "groups": "SELECT s, count(*) AS n, sum(k) AS k FROM t GROUP BY s ORDER BY s",
    "groups of some": "SELECT s, max(f) AS f FROM t WHERE k > 7 AND s <> 's3' GROUP BY s ORDER BY s",
    "a condition on a column that is not selected": "SELECT count(f) AS n FROM t WHERE s = 'new'",
    "a condition with NULL": (
        "SELECT k, count(*) AS n FROM t WHERE s IS NULL GROUP BY k ORDER BY k NULLS FIRST"
    ),
    "a join": (
        "SELECT u.name, count(*) AS n FROM t JOIN u ON t.k = u.k WHERE u.name LIKE 'n1%' GROUP BY u.name "
        "ORDER BY u.name"
    ),
    "a table twice": "SELECT count(*) AS n FROM t a JOIN t b ON a.id = b.k WHERE a.s <> 's1'",
    "a CTE that is read twice": (
        "WITH c AS (SELECT id, k, s FROM t WHERE k < 9) "
        "SELECT count(*) AS n, max(a.s) AS s FROM c a JOIN c b ON a.id = b.id WHERE b.s IS NOT NULL"
    ),
    "a volatile condition": "SELECT count(*) AS n FROM t JOIN u ON t.k = u.k WHERE t.f + random() < 0",
    "a condition that leaves can't apply": (
        "SELECT count(*) AS n, sum(t.id) AS i FROM t JOIN u ON t.k = u.k WHERE u.name LIKE '%7'"
    ),
    "a left join": (
        "SELECT t.id, u.name FROM t LEFT JOIN u ON t.id = u.id AND u.name LIKE 'n1%' WHERE t.k = 3 "
        "ORDER BY t.id"
    ),
    "a right join": (
        "SELECT u.k, u.name FROM t RIGHT JOIN u ON t.id = u.id AND t.s = 's1' WHERE t.k IS NULL ORDER BY u.k"
    ),
    "a full join": (
        "SELECT t.id, u.k FROM t FULL JOIN u ON t.id = u.k AND u.id > 9 WHERE t.k = 3 OR t.id IS NULL "
        "ORDER BY t.id, u.k"
    ),
    "a subquery that becomes a left join": (
        "SELECT id, k, (SELECT count(*) FROM u WHERE u.id = t.id AND u.name <> 'n2') AS n FROM t "
        "WHERE s = 's4' ORDER BY id"
    ),
    "a CTE under several conditions": (
        "WITH c AS (SELECT t.id, t.s, u.name, u.k FROM t JOIN u ON t.k = u.k) "
        "SELECT a.id, b.name FROM c a JOIN c b ON a.id = b.id + 1 WHERE a.name = 'n4' AND b.k = 3 "
        "ORDER BY a.id"
    ),
    "EXISTS": (
        "SELECT count(*) AS n FROM t WHERE EXISTS (SELECT * FROM u WHERE u.id = t.id AND u.name <> 'n4')"
    ),
    "NOT IN": "SELECT count(k) AS n FROM t WHERE id NOT IN (SELECT id FROM u WHERE name < 'n3')",
    "a subquery as a value": "SELECT count(s) AS n FROM t WHERE k > (SELECT avg(k) FROM u WHERE id < 50)",
    "a correlated subquery": (
        "SELECT count(*) AS n, sum(t.id) AS i FROM t WHERE k = (SELECT max(u.k) FROM u WHERE u.id = t.id)"
    ),
    "a union": (
        "SELECT k, count(*) AS n FROM (SELECT k FROM t WHERE s = 's2' UNION ALL SELECT k FROM u) GROUP BY k "
        "ORDER BY k NULLS FIRST"
    ),
    "a window": (
        "SELECT id, row_number() OVER (PARTITION BY s ORDER BY id) AS n FROM t WHERE k = 4 ORDER BY id"
    ),
    "DISTINCT": "SELECT DISTINCT s, k % 3 AS m FROM t ORDER BY s NULLS FIRST, m NULLS FIRST",
    "the largest": "SELECT id, f FROM t WHERE s = 's5' ORDER BY f DESC NULLS LAST, id LIMIT 5",
    "a product": "SELECT count(*) AS n, sum(u.k) AS k FROM t, u WHERE t.id < 10",
    "an order by what a condition makes constant below a left join": (
        "SELECT u.name, count(*) AS n FROM t LEFT JOIN (SELECT * FROM u WHERE k = 7) u ON t.id = u.id "
        "GROUP BY u.name, u.k ORDER BY u.k, u.name NULLS FIRST"
    ),
    "all columns": "SELECT count(*) AS n FROM (SELECT DISTINCT * EXCLUDE (vec, pair) FROM t)",
}


@pytest.mark.parametrize("sql", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_answers_are_those_of_leaves_and_of_another_engine(
    engine: QueryEngine, judge: duckdb.DuckDBPyConnection, sql: str
) -> None:
    found = ask(engine, sql)
    assert RESIDENT in explain(engine, sql)
    assert RESIDENT not in explain(engine, sql, LEAVES)
    assert found == rows_of(engine.execute(sql, LEAVES).read_all())
    assert found == [tuple(row) for row in judge.execute(sql).fetchall()]


def test_keys_are_looked_up_by_leaves(engine: QueryEngine, judge: duckdb.DuckDBPyConnection) -> None:
    sql = "SELECT max(s) AS s FROM t WHERE id IN (5, 8)"
    assert ask(engine, sql) == [tuple(row) for row in judge.execute(sql).fetchall()]
    assert RESIDENT not in explain(engine, sql)


def test_columns_that_are_read_once_are_not_kept(own: QueryEngine) -> None:
    sql = "SELECT s, sum(k) AS k FROM t WHERE f > 9 GROUP BY s"
    assert [RESIDENT in explain(own, sql) for _ in range(3)] == [False, True, True]
    assert RESIDENT not in explain(own, sql.replace("sum(k)", "sum(id)"))


def test_small_tables_and_tables_that_do_not_fit_have_leaves(tmp_path: Path) -> None:
    write_tables(tmp_path)
    sql = "SELECT s, sum(k) AS k FROM t GROUP BY s"
    for options, rows in (({}, ROWS + 1), ({"cache_bytes": 100_000}, 0)):
        engine = QueryEngine(Catalog.open(str(tmp_path), **options), partitions=2, resident_rows=rows)
        ask(engine, sql)
        assert RESIDENT not in explain(engine, sql)
        engine.close()


@pytest.mark.parametrize(("cache_bytes", "is_resident"), [(1 << 20, True), (100_000, False)])
@pytest.mark.parametrize("base_rows", [0, 100])
def test_fresh_rows_count(tmp_path: Path, base_rows: int, cache_bytes: int, *, is_resident: bool) -> None:
    numbers = np.arange(base_rows)
    fields = [pa.field("id", pa.int64(), nullable=False, metadata=KEY), pa.field("k", pa.int64())]
    lance.write_dataset(pa.table([numbers, numbers], schema=pa.schema(fields)), tmp_path / "t.lance")
    catalog = Catalog.open(str(tmp_path), writing=EAGER, cache_bytes=cache_bytes)
    own = QueryEngine(catalog, partitions=2, resident_rows=4000)
    write(own, "ALTER TABLE t SET (memwal = true)")
    write(own, "INSERT INTO t SELECT value, value % 7 FROM generate_series(50, 5049)")
    sql = "SELECT k, count(*) AS n FROM t WHERE id > 100 GROUP BY k ORDER BY k"
    assert ask(own, sql) == [(k, len(range(101 + (k - 101) % 7, 5050, 7))) for k in range(7)]
    assert (RESIDENT in explain(own, sql)) is is_resident
    own.close()


def test_conditions_on_indexed_columns_are_left_to_lance(tmp_path: Path) -> None:
    write_tables(tmp_path)
    lance.dataset(tmp_path / "t.lance").create_scalar_index("k", "BTREE")
    engine = QueryEngine(Catalog.open(str(tmp_path)), partitions=2, resident_rows=0)
    sql = "SELECT s, count(*) AS n FROM t WHERE {} GROUP BY s ORDER BY s"
    for condition, is_resident in (("k = 7", False), ("id > 7 AND k < 9", False), ("f > 7", True)):
        ask(engine, sql.format(condition))
        assert (RESIDENT in explain(engine, sql.format(condition))) is is_resident
    engine.close()


def test_a_table_without_rows(own: QueryEngine) -> None:
    write(own, "CREATE TABLE none (id BIGINT PRIMARY KEY, k BIGINT)")
    sql = "SELECT count(*) AS n, max(none.k) AS k FROM u JOIN none ON u.k = none.id WHERE u.id < 9"
    assert ask(own, sql) == [(0, None)]
    assert RESIDENT in explain(own, sql)
    write(own, "INSERT INTO none VALUES (2, 7)")
    assert ask(own, sql) == [(1, 7)]


def test_rows_are_seen_as_soon_as_they_are_written(own: QueryEngine) -> None:
    write(own, "ALTER TABLE t SET (memwal = true)")
    sql = "SELECT count(*) AS n, sum(t.k) AS k FROM t JOIN u ON t.k = u.k WHERE t.s = 'fresh'"
    assert ask(own, sql) == [(0, None)]
    for number in range(3):
        write(own, f"INSERT INTO t (id, k, s) VALUES ({number}, 7, 'fresh')")
        assert rows_of(own.execute(sql).read_all()) == [(number + 1, 7 * (number + 1))]
        assert RESIDENT in explain(own, sql)
    write(own, "DELETE FROM t WHERE id = 0")
    assert rows_of(own.execute(sql).read_all()) == [(2, 14)]


def test_what_was_learned_of_a_statement_holds_as_long_as_its_tables_are_the_same(own: QueryEngine) -> None:
    write(own, "ALTER TABLE t SET (memwal = true, region_by = 'bucket(id, 2)')")
    sql = "SELECT count(*) AS n, max(u.name) AS m FROM t JOIN u ON t.k = u.k WHERE t.s = 's1' AND u.id < 60"
    plan = own.prepare(sql)

    def check() -> None:
        expected = rows_of(own.execute(sql, LEAVES).read_all())
        for settings in (None, SessionSettings(consistency="flushed"), LEAVES, None):
            assert rows_of(plan.execute(settings=settings).read_all()) == expected
        assert rows_of(own.execute(sql).read_all()) == expected

    check()
    check()
    write(own, "UPDATE t SET s = 's1' WHERE k = 2")
    own.catalog.table("t").writer().flush()
    check()
    write(own, "ALTER TABLE t ADD COLUMN extra BIGINT")
    check()
    write(own, "DROP TABLE u")
    write(own, "CREATE TABLE u (k BIGINT PRIMARY KEY, name TEXT, id BIGINT)")
    write(own, "INSERT INTO u VALUES (2, 'new', 1)")
    own.catalog.table("u").writer().flush()
    check()


@pytest.mark.parametrize(
    "condition",
    [
        "t.k > (SELECT max(k) FROM v)",
        "t.k > coalesce((SELECT max(k) FROM v), 0)",
        "t.k IN (SELECT k FROM v) OR t.k = 3",
        "NOT EXISTS (SELECT 1 FROM v WHERE v.k = t.k)",
        "t.k = (SELECT max(v.k) FROM v WHERE v.id = u.k / u.k)",
    ],
)
def test_nothing_that_was_read_is_learned(own: QueryEngine, condition: str) -> None:
    write(own, "CREATE TABLE v (id BIGINT PRIMARY KEY, k BIGINT)")
    sql = f"SELECT count(*) AS n, sum(t.k) AS k FROM t JOIN u ON t.k = u.k WHERE u.k > 0 AND ({condition})"
    found = []
    for key in (40, 10, 45):
        write(own, f"INSERT INTO v VALUES (1, {key})")
        found.append(ask(own, sql))
        assert found[-1] == rows_of(own.execute(sql, LEAVES).read_all())
    assert found[0] != found[1] != found[2]
    assert RESIDENT in explain(own, sql)


def test_what_a_policy_hides_stays_hidden(engine: QueryEngine) -> None:
    sql = "SELECT count(*) AS n, count(DISTINCT k) AS k FROM t WHERE f >= 0 OR f IS NULL"
    ask(engine, sql)
    somebody = create_principal(t=TableAccess(row_filter="k < 9"))
    plan = engine.prepare(sql, access=somebody)
    assert rows_of(plan.execute().read_all()) == rows_of(
        engine.execute(f"{sql.replace('WHERE', 'WHERE k < 9 AND (')})").read_all()
    )
    explained = engine.prepare(f"EXPLAIN {sql}", access=somebody).execute().read_all()
    assert RESIDENT not in explained["plan"][-1].as_py()
    assert RESIDENT in explain(engine, sql)


def test_tables_that_plans_do_not_show_are_read_from_leaves(own: QueryEngine) -> None:
    write(own, "CREATE TABLE v (id BIGINT PRIMARY KEY, k BIGINT)")
    sql = (
        "SELECT count(*) FILTER (WHERE t.k > (SELECT max(k) FROM v)) AS n, count(*) AS m FROM t WHERE t.f > 2"
    )
    found = []
    for key in (40, 10):
        write(own, f"INSERT INTO v VALUES (1, {key})")
        found.append(ask(own, sql))
        assert found[-1] == rows_of(own.execute(sql, LEAVES).read_all())
    assert found[0] != found[1]


def test_explain_tells_of_regions_and_of_what_was_read(engine: QueryEngine) -> None:
    sql = "SELECT s, count(*) AS n FROM t WHERE k = 5 GROUP BY s"
    ask(engine, sql)
    told = explain(engine, sql)
    assert "t: base v" in told
    assert "DeduplicateExec" in told
    assert "regions=3/3" in told
    joined = "SELECT count(*) AS n FROM t JOIN u ON t.k = u.k WHERE u.id = 12"
    ask(engine, joined)
    assert re.search(r"in memory: 120 of 2972 rows, ", explain(engine, joined))
    ran = rows_of(engine.execute(f"EXPLAIN ANALYZE {sql}").read_all())
    assert "DeduplicateExec" in ran[-1][-1]
    assert "not executed" not in ran[-1][-1]


def test_conditions_that_fail_in_another_order_are_asked_of_leaves(engine: QueryEngine) -> None:
    sql = "SELECT count(*) AS n FROM t WHERE k <> 0 AND 100 / k > 20 AND f IS NOT NULL"
    expected = rows_of(engine.execute(sql, LEAVES).read_all())
    assert ask(engine, sql) == expected


def test_vectors_that_nobody_reads_may_be_wide(tmp_path: Path) -> None:
    wide = pa.field("vec", pa.list_(pa.float32(), 8192))
    unread = make_unread(wide, 1 << 18)
    assert (len(unread), unread.null_count) == (1 << 18, 1 << 18)
    rows = pa.table({"id": np.arange(50), "k": np.arange(50) % 3, "vec": pa.nulls(50, wide.type)})
    lance.write_dataset(rows, tmp_path / "t.lance")
    engine = QueryEngine(Catalog.open(str(tmp_path)), partitions=2, resident_rows=0)
    sql = "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY k"
    assert ask(engine, sql) == [(0, 17), (1, 17), (2, 16)]
    assert RESIDENT in explain(engine, sql)
    engine.close()


def test_errors_are_those_of_the_statement(engine: QueryEngine) -> None:
    sql = "SELECT sum(CAST(s AS INT)) AS n FROM t WHERE k >= 0"
    for _ in range(3):
        with pytest.raises(LanceGatewayError, match="Cannot cast"):
            engine.execute(sql).read_all()


TYPES = [
    pa.int8(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.large_binary(),
    pa.decimal128(20, 3),
    pa.timestamp("us", "UTC"),
    pa.date32(),
    pa.binary(7),
    pa.list_(pa.string()),
    pa.list_(pa.float32(), 768),
    pa.struct([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.list_(pa.string()))]),
]


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("nullable", [True, False], ids=["NULLs", "zeros"])
def test_columns_that_nobody_reads_are_valid(kind: pa.DataType, *, nullable: bool) -> None:
    column = make_unread(pa.field("x", kind, nullable=nullable), 1000)
    column.validate(full=True)
    assert (len(column), column.type) == (1000, kind)
    assert column.null_count == (1000 if nullable else 0)
