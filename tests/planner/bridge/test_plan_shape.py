"""Which statements are answered without DataFusion's execution, and that all give the rows they mean."""

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from datafusion import SessionConfig, SessionContext

from lance_gateway.planner.bridge.plan_shape import DirectShape, find_direct_shape
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.results import assert_same_rows
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema(
    [
        key_field("id", pa.int64(), 1),
        ("n", pa.int32()),
        ("s", pa.string()),
        ("count(*)", pa.int64()),
        ("x, y] TableScan: z", pa.int64()),
    ]
)
ROWS = [
    {"id": i, "n": None if i % 3 == 0 else i % 5, "s": f"s{i % 2}", "count(*)": 7, "x, y] TableScan: z": -i}
    for i in range(20)
]
SCANS = [
    "SELECT * FROM t",
    "SELECT id FROM t",
    "SELECT id, s FROM t WHERE n > 1",
    "SELECT * FROM t AS o WHERE o.id IN (3, 4) AND s = 's0'",
    'SELECT "count(*)" FROM t',
    'SELECT "x, y] TableScan: z" FROM t',
    """SELECT s FROM t AS "a, projection=[b]\n  TableScan: c" WHERE s <> 'full_filters=[x]'""",
    "SELECT id FROM (SELECT id, n FROM t) AS o WHERE id > 3",
    "SELECT s FROM t WHERE s <> 'partial_filters=[x]' AND s <> 'EmptyRelation'",
]
COUNTS = [
    "SELECT count(*) FROM t",
    "SELECT count(1) FROM t",
    "SELECT count(*) AS c FROM t",
    'SELECT count(*) AS "count(*) * 42" FROM t',
    'SELECT count(*) AS "a, b\n  Filter: c" FROM t AS "x\n TableScan: y"',
    "SELECT count(*) FROM t WHERE n > 1",
    "SELECT count(*) FROM t AS o WHERE o.s = 's1' AND o.id BETWEEN 2 AND 9",
    "SELECT c FROM (SELECT count(*) AS c FROM t WHERE s <> 'EmptyRelation') AS o",
    "SELECT count(*) FROM (SELECT id, s FROM t) AS o",
]
OTHERS = [
    *(
        f"SELECT count(*) {rest} AS c FROM t{where}"
        for rest in ("* 42", "+ 1", "- 1", "/ 2", "% 2", "> 3", "+ count(*)", "|| 'x'")
        for where in ("", " WHERE n > 1")
    ),
    "SELECT -count(*) AS c FROM t",
    "SELECT CAST(count(*) AS INT) AS c FROM t",
    "SELECT count(1) + 0 AS c FROM t",
    "SELECT c + 1 AS c FROM (SELECT count(*) AS c FROM t) AS o",
    "SELECT 1 AS one FROM (SELECT count(*) AS c FROM t) AS o",
    "SELECT count(*) AS a, count(*) AS b FROM t",
    "SELECT count(*) AS a, 1 AS b FROM t",
    "SELECT count(n) AS c FROM t",
    "SELECT count(id) AS c FROM t",
    'SELECT count("count(*)") AS c FROM t',
    "SELECT count(NULL) AS c FROM t",
    "SELECT count(CASE WHEN n > 1 THEN 1 END) AS c FROM t",
    "SELECT count(DISTINCT n) AS c FROM t",
    "SELECT count(DISTINCT 1) AS c FROM t",
    "SELECT count(*) FILTER (WHERE n > 1) AS c FROM t",
    "SELECT count(*) FILTER (WHERE true) AS c FROM t",
    "SELECT count(*) FILTER (WHERE false) AS c FROM t",
    "SELECT count(*) FILTER (WHERE n < (SELECT max(n) FROM t)) AS c FROM t",
    "SELECT CAST(sum(1) AS BIGINT) AS c FROM t",
    "SELECT max(1) AS c FROM t",
    "SELECT count(*) AS c FROM t GROUP BY s",
    "SELECT count(*) AS c FROM t HAVING count(*) > 100",
    "SELECT count(*) AS c FROM t HAVING count(*) > 1",
    "SELECT count(*) AS c FROM t LIMIT 0",
    "SELECT count(*) AS c FROM t OFFSET 1",
    "SELECT count(*) AS c FROM (SELECT * FROM t LIMIT 3) AS o",
    "SELECT count(*) AS c FROM (SELECT * FROM t OFFSET 3) AS o",
    "SELECT count(*) AS c FROM (SELECT DISTINCT s FROM t) AS o",
    "SELECT count(*) AS c FROM (SELECT count(*) AS d FROM t) AS o",
    "SELECT count(*) AS c FROM t WHERE false",
    "SELECT count(*) AS c FROM t WHERE abs(n) > 1 AND id > 3",
    "SELECT count(*) AS c FROM t WHERE s LIKE '%1'",
    "SELECT count(*) AS c FROM t WHERE id IN (SELECT n FROM t)",
    "SELECT count(*) AS c FROM t, (VALUES (1), (2)) AS v(a)",
    "SELECT count(*) AS c FROM (SELECT id FROM t UNION ALL SELECT 1) AS o",
    "SELECT DISTINCT c FROM (SELECT count(*) OVER () AS c FROM t) AS o",
    "SELECT id AS n FROM t",
    "SELECT id AS n, n AS id FROM t",
    "SELECT s, id FROM t",
    "SELECT id, id AS again FROM t",
    "SELECT CAST(id AS INT) AS id FROM t",
    "SELECT id + 1 AS id FROM t",
    "SELECT id, 1 AS one FROM t",
    "SELECT id FROM t WHERE abs(n) > 1",
    "SELECT id FROM t WHERE abs(n) > 1 AND id > 3",
    "SELECT id FROM t WHERE 1 = 0",
    "SELECT DISTINCT s FROM t",
    "SELECT id FROM t WHERE id = (SELECT max(id) FROM t)",
    "SELECT id FROM t ORDER BY id LIMIT 3",
]


@dataclass(frozen=True)
class Lake:
    """A table with rows of every tier, and the same rows in DuckDB."""

    engine: QueryEngine
    oracle: duckdb.DuckDBPyConnection


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Iterator[Lake]:
    root = tmp_path_factory.mktemp("direct")
    stale = [row | {"n": 99} for row in ROWS[8:14]]
    base = pa.Table.from_pylist(ROWS[:8] + stale, schema=SCHEMA)
    table = LsmTable.create(root, "t", base, bucketed("id", 2, recorded=True), shared_writers)
    table.put(ROWS[8:])
    engine = QueryEngine(Catalog.open(str(root)), partitions=2)
    oracle = duckdb.connect()
    oracle.register("t", pa.Table.from_pylist(ROWS, schema=SCHEMA))
    yield Lake(engine, oracle)
    oracle.close()
    engine.close()


def shape_of(sql: str) -> DirectShape | None:
    config = SessionConfig().set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
    context = SessionContext(config)
    context.register_dataset("t", pads.dataset(pa.Table.from_pylist(ROWS, schema=SCHEMA)))
    return find_direct_shape(context.sql(sql).optimized_logical_plan())


@pytest.mark.parametrize("sql", SCANS)
def test_a_plain_scan_is_direct(sql: str) -> None:
    shape = shape_of(sql)
    assert shape is not None
    assert shape.counts is False
    assert shape.is_filtered is ("WHERE" in sql)
    assert (shape.table, shape.schema_name) == ("t", None)


def test_the_schema_is_the_one_that_the_plan_names() -> None:
    assert shape_of("SELECT id FROM public.t") == DirectShape(
        "t", "public", ("id",), counts=False, is_filtered=False
    )


@pytest.mark.parametrize("sql", COUNTS)
def test_a_row_count_is_direct(sql: str) -> None:
    assert shape_of(sql) == DirectShape("t", None, (), counts=True, is_filtered="WHERE" in sql)


@pytest.mark.parametrize("sql", OTHERS)
def test_whatever_is_more_is_left_to_datafusion(sql: str) -> None:
    assert shape_of(sql) is None


@pytest.mark.slow
@pytest.mark.parametrize("sql", [*SCANS, *COUNTS, *OTHERS])
def test_all_of_them_give_the_rows_that_they_mean(lake: Lake, sql: str) -> None:
    found = lake.engine.execute(sql).read_all()
    # "/" divides integers as integers in DataFusion, and "//" in DuckDB.
    expected = lake.oracle.sql(sql.replace(") / 2", ") // 2")).to_arrow_table()
    # Columns without an alias are named after their expression, which each engine prints in its own way.
    expected = expected.rename_columns(found.column_names)
    assert_same_rows(found, expected, ordered="ORDER BY" in sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT table_name FROM system.tables UNION ALL SELECT s FROM t WHERE false",
        "SELECT table_name FROM system.tables LEFT JOIN (SELECT s FROM t WHERE 1 = 0) ON s = table_name",
    ],
)
def test_the_table_that_is_left_in_the_plan_is_the_one_that_is_read(lake: Lake, sql: str) -> None:
    assert lake.engine.execute(sql).read_all().column(0).to_pylist() == ["t"]


def test_what_only_lists_tables_is_not_a_scan_of_a_system_table(lake: Lake) -> None:
    sql = (
        "SELECT a.table_name FROM information_schema.tables AS a LEFT JOIN "
        "(SELECT table_name FROM system.tables WHERE 1 = 0) AS b ON b.table_name = a.table_name"
    )
    assert "t" in lake.engine.execute(sql).read_all().column(0).to_pylist()
