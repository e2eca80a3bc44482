"""A bound value means what a literal in its place does, in the types that drivers give it."""

import datetime as dt
import decimal
import re
from ast import literal_eval
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import pyarrow as pa
import pytest

from lance_gateway.gateway.server import GatewayServer
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.sampling import sample

pytestmark = pytest.mark.slow
STATEMENTS = [
    line
    for line in (Path(__file__).parent / "data" / "bound_values.sql").read_text().splitlines()
    if not line.startswith("--") and not line.startswith("#")
]
CREATE = """
CREATE TABLE a (
    id BIGINT PRIMARY KEY, n INT, sm SMALLINT, d DECIMAL(10, 2), f DOUBLE, r REAL, s TEXT, ts TIMESTAMP,
    md TIMESTAMP(3), tz TIMESTAMPTZ, dy DATE, tm TIME, b BOOLEAN, u UUID, l INT[], j JSON, by BYTEA
)"""
INSERT = """
INSERT INTO a VALUES
    (1, 2, 3, 3.50, 1.5, 0.1, 'x', TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-01 00:00:00.5',
     '2024-01-01T00:00:00Z', DATE '2024-01-01', TIME '10:00:00', true, '00000000-0000-0000-0000-000000000001',
     ARRAY[1, 2], '{"a": 1}', X'6162'),
    (2, NULL, 7, 4.44, -2.25, 2.5, 'yx', NULL, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, NULL),
    (3, 5, NULL, NULL, NULL, NULL, NULL, TIMESTAMP '2025-01-01 00:00:00', NULL, NULL, DATE '2025-02-02', NULL,
     NULL, NULL, ARRAY[7], NULL, NULL)"""
_SLOT = re.compile(r"\{('[^']*'|b'[^']*'|\[[^\]]*\]|[^{}'\[]*)\}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def read_value(text: str) -> tuple[Any, str]:
    """What Python binds for a value of the file, and the literal of SQL."""
    if _DATE.fullmatch(text):
        return dt.date.fromisoformat(text), f"DATE '{text}'"
    if _DATE.match(text):
        time = dt.datetime.fromisoformat(text)
        return time, f"{'TIMESTAMP' if time.tzinfo is None else 'TIMESTAMPTZ'} '{text}'"
    if text.endswith(" minutes"):
        return dt.timedelta(minutes=int(text.removesuffix(" minutes"))), f"INTERVAL '{text}'"
    if text.startswith("D"):
        return decimal.Decimal(text[1:]), text[1:]
    value = literal_eval(text)
    match value:
        case None:
            return value, "NULL"
        case bytes():
            return value, f"X'{value.hex()}'"
        case list():
            return value, f"ARRAY{text}"
    return value, text


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    root = tmp_path_factory.mktemp("bound")
    engine = QueryEngine(Catalog.open(str(root), writing=WriteOptions()))
    server = GatewayServer(engine)
    uri = f"grpc://127.0.0.1:{server.port}"
    with flightsql.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(CREATE)
        cursor.execute(INSERT)
    with flightsql.connect(uri) as connection:
        yield connection
    server.shutdown()
    engine.close()


def run(connection: Any, sql: str, values: Any) -> list[Any]:
    """The rows of a query, or of the table that a statement has changed, which is as before then."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        if not sql.startswith(("SELECT", "WITH")):
            cursor.execute("SELECT * FROM a")
        rows = cursor.fetchall()
    connection.rollback()
    return sorted(rows, key=repr)


def bind_as_python(values: list[Any]) -> Any:
    return tuple(values)


def bind_as_frames(values: list[Any]) -> Any:
    """As pandas and Polars give values: long texts, times in nanoseconds, decimals with room."""
    return pa.table([make_array(value) for value in values], names=[str(at) for at in range(len(values))])


def make_array(value: Any) -> pa.Array:
    match value:
        case str():
            return pa.array([value], pa.large_string())
        case bytes():
            return pa.array([value], pa.large_binary())
        case decimal.Decimal():
            return pa.array([value], pa.decimal128(20, 5))
        case dt.datetime():
            return pa.array([value], pa.timestamp("ns", "UTC" if value.tzinfo else None))
    return pa.array([value])


@pytest.mark.parametrize("bind", [bind_as_python, bind_as_frames])
@pytest.mark.parametrize("statement", sample(STATEMENTS, 30))
def test_a_bound_value_is_as_a_literal(
    connection: Any, statement: str, bind: Callable[[list[Any]], Any]
) -> None:
    found = [read_value(slot[1]) for slot in _SLOT.finditer(statement)]
    literals = iter(literal for _, literal in found)
    written = run(connection, _SLOT.sub(lambda _: next(literals), statement), None)
    assert run(connection, _SLOT.sub("?", statement), bind([value for value, _ in found])) == written
