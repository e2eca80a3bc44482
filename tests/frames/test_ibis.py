"""ibis, which writes SQL for DuckDB: the gateway answers as DuckDB does, in its dialect."""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import ibis
import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions, dbapi
from ibis import _

from tests.gateway.conftest import serving

pytestmark = pytest.mark.slow
CLIENTS = Path(__file__).parents[2] / "docs" / "clients.md"
STATEMENTS = (
    """CREATE TABLE orders (id BIGINT PRIMARY KEY, customer_id VARCHAR, status VARCHAR, amount DOUBLE,
    made TIMESTAMP, day DATE, tags VARCHAR[])""",
    """INSERT INTO orders VALUES
    (1, 'anna', 'paid', 10, '2024-01-01 09:30:00', '2024-01-01', ['a', 'b']),
    (2, 'anna', 'paid', 20, '2024-01-08 09:00:00', '2024-01-08', NULL),
    (3, 'berta', 'open', 40, '2024-02-15 12:00:00', '2024-02-15', ['c']),
    (4, NULL, 'open', NULL, NULL, NULL, NULL)""",
)
EXPRESSIONS: dict[str, Callable[[Any], Any]] = {
    "groups": lambda t: (
        t.group_by("customer_id").agg(spent=_.amount.sum(), n=_.count()).order_by(ibis.desc("spent")).limit(3)
    ),
    "conditional aggregates": lambda t: t.agg(
        mean=_.amount.mean(),
        deviation=_.amount.std(),
        median=_.amount.quantile(0.5),
        customers=_.customer_id.nunique(),
        paid=_.amount.sum(where=_.status == "paid"),
    ),
    "months": lambda t: t.group_by(month=_.made.truncate("M")).agg(n=_.count()).order_by("month"),
    "parts of times": lambda t: t.select(
        "id", year=_.made.year(), index=_.day.day_of_week.index(), name=_.made.day_of_week.full_name()
    ).order_by("id"),
    "formats of times": lambda t: t.select(
        "id", x=_.made.strftime("%Y-%m"), s=_.made.epoch_seconds()
    ).order_by("id"),
    "days between": lambda t: t.select("id", d=_.day.delta(ibis.date("2024-01-01"), unit="day")).order_by(
        "id"
    ),
    "windows": lambda t: t.select(
        "id",
        row=ibis.row_number().over(group_by="status", order_by=_.id),
        so_far=_.amount.cumsum(order_by=_.id),
        before=_.amount.lag(1).over(order_by=_.id),
    ).order_by("id"),
    "cases and text": lambda t: t.select(
        "id",
        size=ibis.cases((t.amount > 15, "big"), else_="small"),
        upper=_.customer_id.upper(),
        found=_.customer_id.contains("nn"),
        replaced=_.customer_id.re_replace("n+", "m"),
        parts=_.status.split("a"),
        filled=_.amount.fill_null(0),
    ).order_by("id"),
    "regular expressions": lambda t: t.filter(_.customer_id.re_search("^a")).select("id").order_by("id"),
    "a join": lambda t: t.join(t.view(), "customer_id").count(),
    "a semi join": lambda t: (
        t.semi_join(t.filter(_.amount > 15).view(), "customer_id").select("id").order_by("id")
    ),
    "a union": lambda t: t.select("id").union(t.select("id")).agg(total=_.id.sum()),
    "lists": lambda t: t.select("id", n=_.tags.length(), has=_.tags.contains("a")).order_by("id"),
    "rows of lists": lambda t: t.select("id", tag=_.tags.unnest()).order_by("id", "tag"),
    "lists of rows": lambda t: t.group_by("status").agg(ids=_.id.collect(order_by=_.id)).order_by("status"),
    "structs": lambda t: t.select("id", both=ibis.struct({"a": t.id, "b": t.status})).order_by("id"),
    "a pivot": lambda t: t.pivot_wider(
        id_cols="customer_id",
        names_from="status",
        names=["open", "paid"],
        values_from="amount",
        values_agg="sum",
    ).order_by("customer_id"),
    "casts": lambda t: t.select("id", s=_.amount.cast("string"), i=_.amount.cast("int32")).order_by("id"),
}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of a gateway with the orders."""
    with serving(tmp_path_factory.mktemp("ibis")) as server:
        with dbapi.connect(f"grpc://127.0.0.1:{server.port}", autocommit=True) as connection:
            for sql in STATEMENTS:
                with connection.cursor() as cursor:
                    cursor.execute(sql)
        yield server.port


@pytest.fixture(scope="module")
def connection(port: int) -> Iterator[dbapi.Connection]:
    """Whose SQL is DuckDB's."""
    header = f"{DatabaseOptions.RPC_CALL_HEADER_PREFIX.value}x-lance-gateway-dialect"
    options = {header: "duckdb"}
    with dbapi.connect(f"grpc://127.0.0.1:{port}", db_kwargs=options, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def judge() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for sql in STATEMENTS:
            connection.execute(sql)
        yield connection


def list_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows; numbers count by their value, whatever their types."""
    return [tuple(plain(value) for value in row.values()) for row in table.to_pylist()]


def plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value)
    return round(value, 9) if isinstance(value, float) else value


@pytest.mark.parametrize("title", EXPRESSIONS)
def test_an_expression_has_duckdbs_answer(
    connection: dbapi.Connection, judge: duckdb.DuckDBPyConnection, title: str
) -> None:
    schema = ibis.Schema.from_pyarrow(connection.adbc_get_table_schema("orders"))
    expression = EXPRESSIONS[title](ibis.table(schema, name="orders"))
    sql = str(ibis.to_sql(expression, dialect="duckdb"))
    with connection.cursor() as cursor:
        cursor.execute(sql)
        assert list_rows(cursor.fetch_arrow_table()) == list_rows(judge.sql(sql).to_arrow_table())


def test_the_example_runs(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    _before, _title, section = CLIENTS.read_text().partition("### ibis\n")
    example = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert example is not None
    exec(example.group(1).replace("31337", str(port)), {})
    printed = capsys.readouterr().out.split()
    assert printed[2:8] == ["0", "berta", "40.0", "1", "anna", "30.0"]
