"""SQL of other systems: what it is translated to, and that it means the same."""

import ast
import datetime as dt
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pytest
import sqlglot
from datafusion import SessionConfig, SessionContext

from benchmarks.tables import wholesale
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.sql.dialects.translate import to_native
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.titled import Case, read_titled
from tests.support.judging.results import assert_close_rows
from tests.support.lake.tables import LsmTable, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

OTHERS = ("spark", "mysql", "snowflake", "bigquery", "trino")
PARAMETERS = {"1": 1, "2": 40, "3": 1, "4": 3}
ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "a": [1, 2, None, 4],
        "b": [10, 0, 30, 40],
        "s": ["x-1", "yy", "abc", None],
        "d": pa.array([dt.date(2024, 1, 31), dt.date(2024, 2, 29), dt.date(2025, 12, 25), None]),
        "ts": pa.array(
            [
                dt.datetime(2024, 1, 31, 13, 45, 59),
                dt.datetime(2024, 2, 29),
                dt.datetime(2025, 12, 25, 1, 2, 3),
                None,
            ],
            pa.timestamp("us"),
        ),
        "arr": [[1, 2], [3], [], None],
        "st": [{"k": 1, "v": "q"}] * 4,
        "f": [1.5, 2.5, -3.5, None],
    }
)


@pytest.fixture(scope="module")
def over_rows(tmp_path_factory: pytest.TempPathFactory) -> QueryEngine:
    root = tmp_path_factory.mktemp("dialects")
    lance.write_dataset(ROWS, root / "t.lance")
    return QueryEngine(Catalog.open(str(root)), partitions=1)


def plain(value: Any) -> Any:
    """Dates as moments at midnight, numbers to nine digits."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day)
    return round(value, 9) if isinstance(value, float) else value


def answer(engine: QueryEngine, sql: str) -> list[tuple[Any, ...]]:
    values = [pa.scalar(value) for name, value in PARAMETERS.items() if f"${name}" in sql]
    columns = engine.execute(sql, parameters=values).read_all().columns
    return [tuple(map(plain, row)) for row in zip(*map(pa.ChunkedArray.to_pylist, columns), strict=True)]


def run(context: SessionContext, sql: str) -> list[tuple[Any, ...]]:
    batches = context.sql(sql).collect()
    return [tuple(map(plain, row.values())) for batch in batches for row in batch.to_pylist()]


def ordered(rows: list[tuple[Any, ...]], sql: str) -> list[tuple[Any, ...]]:
    return rows if "order by" in sql.lower().rpartition("over")[2] else sorted(rows, key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("case", read_titled("dialect_duckdb.sql"), ids=str)
def test_duckdb_itself_answers_the_same(over_rows: QueryEngine, case: Case) -> None:
    written, native = case.parts
    assert to_native(written, "duckdb") == native
    with duckdb.connect() as connection:
        connection.register("t", ROWS)
        expected = [tuple(map(plain, row)) for row in connection.execute(written).fetchall()]
    assert ordered(answer(over_rows, native), written) == ordered(expected, written)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dialect", "case"),
    [
        pytest.param(dialect, case, id=f"{dialect}: {case}")
        for dialect in OTHERS
        for case in read_titled(f"dialect_{dialect}.sql")
    ],
)
def test_what_is_translated_gives_the_rows_of_the_dialect(
    over_rows: QueryEngine, dialect: str, case: Case
) -> None:
    written, native, rows = case.parts
    assert to_native(written, dialect) == native
    found = [
        tuple(
            str(value.date() if isinstance(value, dt.datetime) and len(str(wanted)) == 10 else value)
            if isinstance(value, dt.date | decimal.Decimal)
            else value
            for value, wanted in zip(row, expected, strict=True)
        )
        for row, expected in zip(
            answer(over_rows, native), map(ast.literal_eval, rows.splitlines()), strict=True
        )
    ]
    assert ordered(found, written) == ordered([ast.literal_eval(row) for row in rows.splitlines()], written)


@pytest.mark.parametrize("case", read_titled("dialects_refused.txt"), ids=str)
def test_what_cannot_be_said_is_refused_with_its_place(case: Case) -> None:
    statement, words = case.parts
    dialect, _, sql = statement.partition(": ")
    with pytest.raises(LanceGatewayError) as refused:
        to_native(sql, dialect)
    assert words in str(refused.value)
    assert refused.value.status in {"UNIMPLEMENTED", "INVALID_ARGUMENT"}
    assert "gateway_parameter" not in str(refused.value)


def test_the_default_dialect_is_not_touched() -> None:
    sql = "SELECT  Id -- comment\n FROM T WHERE a = ? ;"
    assert to_native(sql, "postgres") is sql


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW TABLES",
        "SHOW COLUMNS FROM t",
        "DESCRIBE t",
        "KILL QUERY 'x'",
        "INSERT INTO t VALUES (1)",
        "BEGIN",
    ],
)
@pytest.mark.parametrize("dialect", OTHERS)
def test_statements_that_are_no_queries_pass(sql: str, dialect: str) -> None:
    assert to_native(sql, dialect) == sql


@pytest.mark.parametrize("dialect", ["duckdb", *OTHERS])
@pytest.mark.parametrize(
    "asked", ["EXPLAIN", "explain Analyze", "-- why\nEXPLAIN ANALYZE VERBOSE", "DESCRIBE"]
)
def test_the_query_in_explain_is_translated(dialect: str, asked: str) -> None:
    native = to_native(f"{asked} SELECT If(ID = ?, 1, 0) AS x FROM t", dialect)
    words = asked.partition("\n")[2] or asked
    assert native == f'{words.upper()} SELECT CASE WHEN "id" = $1 THEN 1 ELSE 0 END AS "x" FROM "t"'


@pytest.mark.parametrize(
    ("dialect", "mark"), [("mysql", "#"), ("bigquery", "#"), ("snowflake", "//"), ("spark", "--")]
)
def test_comments_of_the_dialect_go(dialect: str, mark: str) -> None:
    native = to_native(f"{mark} from a tool\nEXPLAIN {mark} of\n SELECT id {mark} its own\nFROM t", dialect)
    assert native == 'EXPLAIN SELECT "id" FROM "t"'


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("snowflake", "SELECT x.$1 FROM t AS x"),
        ("bigquery", "SELECT @@version"),
        ("snowflake", "SELECT 1 AS $1"),
    ],
)
def test_a_parameter_that_can_not_be_one_is_refused(dialect: str, sql: str) -> None:
    with pytest.raises(LanceGatewayError) as refused:
        to_native(sql, dialect)
    assert "gateway_parameter" not in str(refused.value)


@pytest.mark.parametrize(
    ("dialect", "sql", "native"),
    [
        ("mysql", "SELECT id FROM t WHERE a = ? AND b = ? LIMIT ?, ?", ["$1", "$2", "$4", "$3"]),
        ("duckdb", "SELECT id FROM t WHERE a = $2 AND b = $1", ["$2", "$1"]),
        ("snowflake", "SELECT id FROM t WHERE a = :2 AND b = :1", ["$2", "$1"]),
        ("bigquery", "SELECT id FROM t WHERE a = @x AND b = @y AND id < @x", ["$1", "$2", "$1"]),
        ("trino", "SELECT id FROM t WHERE date_diff('month', ?, d) = 1", ["$1"]),
    ],
)
def test_parameters_keep_their_numbers(dialect: str, sql: str, native: list[str]) -> None:
    found = [word.strip("(),") for word in to_native(sql, dialect).split() if "$" in word]
    if dialect == "trino":  # used several times in what a difference of months is
        assert {"$1"} == {"$" + word.partition("$")[2][0] for word in found}
    else:
        assert found == native


def test_columns_are_named_as_the_client_wrote_them(over_rows: QueryEngine) -> None:
    native = to_native("SELECT date_format(d, '%Y'), count(*), count(*), id FROM t GROUP BY d, id", "mysql")
    names = over_rows.prepare(native).schema.names
    assert names == ["DATE_FORMAT(d, '%Y')", "COUNT(*)", "COUNT(*)_2", "id"]


@pytest.fixture
def engine(root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]) -> QueryEngine:
    schema = pa.schema([key_field("id", pa.int64()), pa.field("orderDate", pa.date32())])
    rows = pa.table({"id": [1, 2], "orderDate": [dt.date(2024, 1, 31)] * 2}).cast(schema)
    LsmTable.create(root, "orders", rows, unpartitioned(("id",), 1), writers)
    return open_engine(root)


def test_the_session_speaks_its_dialect(engine: QueryEngine) -> None:
    query = engine.prepare(
        "select `id`, date_format(`orderDate`, '%d.%m.%Y') as `day` from `main`.`orders` where id = ?",
        SessionSettings(dialect="mysql"),
    )
    assert query.execute([pa.scalar(2)]).read_all().to_pylist() == [{"id": 2, "day": "31.01.2024"}]
    with pytest.raises(NotFoundError, match="'ordres'"):
        engine.prepare("select * from `ordres`", SessionSettings(dialect="mysql"))


@pytest.mark.parametrize("dialect", ["spark", "duckdb", "mysql", "bigquery", "trino"])
def test_names_are_found_whatever_their_capitals(engine: QueryEngine, dialect: str) -> None:
    quote = "`" if dialect in {"spark", "mysql", "bigquery"} else '"'
    for sql in (
        "SELECT ID, ORDERDATE FROM orders",
        f"SELECT o.{quote}Id{quote}, O.orderdate FROM {quote}ORDERS{quote} AS o",
        f"SELECT id, orderDate FROM Orders ORDER BY {quote}ORDERDATE{quote}",
    ):
        query = engine.prepare(sql, SessionSettings(dialect=dialect))
        assert query.schema.names == ["id", "orderDate"], sql
    named = f"SELECT id AS {quote}The Id{quote} FROM orders ORDER BY {quote}the id{quote}"
    assert engine.prepare(named, SessionSettings(dialect=dialect)).schema.names == ["The Id"]


@pytest.mark.parametrize(
    ("dialect", "sql", "column"),
    [
        ("duckdb", "SELECT * FROM range(3)", "range"),
        ("duckdb", "SELECT * FROM generate_series(0, 2) AS g", "generate_series"),
        ("duckdb", "SELECT * FROM RANGE(0, 5, 2) AS r(n) WHERE n >= 0", "n"),
        ("spark", "SELECT * FROM range(3)", "id"),
    ],
)
def test_numbers_may_stand_in_from(engine: QueryEngine, dialect: str, sql: str, column: str) -> None:
    found = engine.prepare(sql, SessionSettings(dialect=dialect)).execute().read_all()
    assert found.schema.names == [column]
    assert len(found) == 3


@pytest.mark.parametrize("dialect", ["postgres", "duckdb", "spark", "mysql", "snowflake", "trino"])
def test_a_recursive_cte_may_name_its_columns(engine: QueryEngine, dialect: str) -> None:
    rows = "SELECT 1, 10 UNION ALL SELECT n + 1, m * 2 FROM r WHERE n < 3"
    sql = f"WITH RECURSIVE r (n, m) AS ({rows}) SELECT * FROM r"
    found = engine.prepare(sql, SessionSettings(dialect=dialect)).execute().read_all()
    assert found.to_pydict() == {"n": [1, 2, 3], "m": [10, 20, 40]}


def test_snowflake_takes_quoted_names_as_they_stand(engine: QueryEngine) -> None:
    settings = SessionSettings(dialect="snowflake")
    assert engine.prepare('SELECT ID, "orderDate" FROM ORDERS', settings).schema.names == ["id", "orderDate"]
    with pytest.raises(LanceGatewayError, match="ORDERS"):
        engine.prepare('SELECT id FROM "ORDERS"', settings)


def test_another_letter_may_escape_in_like(engine: QueryEngine) -> None:
    spoken = engine.prepare("SELECT 'a_b' LIKE 'a!_b' ESCAPE '!' AS x", SessionSettings(dialect="duckdb"))
    assert spoken.execute().read_all().to_pylist() == [{"x": True}]


def test_errors_of_datafusion_say_that_they_show_the_translation(engine: QueryEngine) -> None:
    settings = SessionSettings(dialect="snowflake")
    with pytest.raises(InvalidInputError, match="nothing"):
        engine.prepare("select nothing from orders", settings)
    with pytest.raises(LanceGatewayError) as shown:
        engine.prepare("select id from orders where id = $3", settings)
    assert "$3" in str(shown.value)


@pytest.mark.slow
def test_deep_nesting_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        to_native("SELECT " + "(" * 5000 + "1" + ")" * 5000, "spark")


TPCH = list(wholesale.read_queries().items())


@pytest.fixture(scope="module")
def business() -> tuple[SessionContext, dict[str, list[tuple[Any, ...]]]]:
    config = SessionConfig().set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
    context = SessionContext(config)
    for name, table in wholesale.generate(0.002, seed=1).items():
        context.from_arrow(table, name=name)
    return context, {title: run(context, sql) for title, sql in TPCH}


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["duckdb", *OTHERS])
@pytest.mark.parametrize(("title", "sql"), TPCH, ids=[title for title, _ in TPCH])
def test_one_query_in_every_dialect_gives_the_same_rows(
    business: tuple[SessionContext, dict[str, list[tuple[Any, ...]]]], title: str, sql: str, dialect: str
) -> None:
    context, expected = business
    (spoken,) = sqlglot.transpile(sql, read="duckdb", write=dialect)
    assert_close_rows(run(context, to_native(spoken, dialect)), expected[title], f"{title} in {dialect}")
