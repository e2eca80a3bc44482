"""Rows of Spark's tasks, sent to a gateway."""

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from lance_gateway.gateway.cli.client import GatewayClient
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.pipeline.source.client import LanceGatewaySourceError
from lance_gateway.pipeline.source.types import arrow_schema, spark_schema
from lance_gateway.pipeline.source.writing import GatewayStreamWriter, GatewayWriter, WrittenRows
from tests.gateway.conftest import serving
from tests.support.lake.sources import get_url, open_source

CREATE = """CREATE TABLE items (id BIGINT PRIMARY KEY, u BIGINT UNSIGNED, v FLOAT[2], at TIMESTAMP,
            price DECIMAL(12, 2)) WITH (region_by = 'bucket(id, 2)')"""
ROW = {
    "id": 1,
    "u": Decimal(2**64 - 1),
    "v": [0.5, 1.0],
    "at": dt.datetime(2026, 2, 28, 1),
    "price": Decimal("1.25"),
}


@pytest.fixture
def server(root: Path) -> Iterator[GatewayServer]:
    with serving(root) as started, GatewayClient(get_url(started)) as client:
        client.execute(CREATE)
        yield started


def stored(server: GatewayServer, columns: str = "*") -> list[dict[str, Any]]:
    with GatewayClient(get_url(server)) as client:
        return client.query(f"SELECT {columns} FROM items ORDER BY id").read_all().to_pylist()


def schema_of(server: GatewayServer, *names: str) -> StructType:
    found = open_source(get_url(server), table="items").schema()
    return StructType([one for one in found.fields if not names or one.name in names])


def batches(rows: list[dict[str, Any]], schema: StructType) -> Iterator[pa.RecordBatch]:
    return iter(pa.Table.from_pylist(rows, arrow_schema(schema)).to_batches(max_chunksize=2))


def writer(
    server: GatewayServer, schema: StructType, *, overwrite: bool = False, **options: str
) -> GatewayWriter:
    made = open_source(get_url(server), **{"table": "items", **options}).writer(schema, overwrite)
    assert isinstance(made, GatewayWriter)
    return made


def test_rows_arrive_in_the_types_of_the_table(server: GatewayServer) -> None:
    schema = schema_of(server)
    made = writer(server, schema)
    assert made.write(batches([ROW, {"id": 2}], schema)) == WrittenRows(2)
    made.commit([WrittenRows(2)])
    nothing = dict.fromkeys(ROW)
    assert stored(server) == [{**ROW, "u": 2**64 - 1}, {**nothing, "id": 2}]


def test_a_task_that_is_repeated_changes_nothing(server: GatewayServer) -> None:
    schema = schema_of(server, "id", "price")
    rows = [{"id": number, "price": Decimal(number)} for number in range(5)]
    made = writer(server, schema)
    assert [made.write(batches(rows, schema)) for _ in range(2)] == [WrittenRows(5)] * 2
    made.abort([None, WrittenRows(5)])
    assert stored(server, "id, price") == rows


def test_tasks_without_rows_send_nothing(server: GatewayServer) -> None:
    schema = schema_of(server)
    assert writer(server, schema).write(iter([])) == WrittenRows(0)


def test_a_stream_writes_batch_by_batch(server: GatewayServer) -> None:
    schema = schema_of(server, "id")
    made = open_source(get_url(server), table="items", checkpointLocation="/there").streamWriter(
        schema, False
    )
    assert isinstance(made, GatewayStreamWriter)
    for batch in range(2):
        made.commit([made.write(batches([{"id": batch}], schema))], batch)
    made.abort([], 2)
    assert stored(server, "id") == [{"id": 0}, {"id": 1}]


def test_what_the_column_cannot_hold_fails_the_task(server: GatewayServer) -> None:
    schema = schema_of(server, "id", "u")
    with pytest.raises(LanceGatewaySourceError, match=r"column 'u' has a value .* can't hold exactly"):
        writer(server, schema).write(batches([{"id": 1, "u": Decimal(-1)}], schema))


def test_the_gateways_own_refusal_is_told(server: GatewayServer) -> None:
    schema = schema_of(server, "id")
    rows = pa.table({"id": pa.array([None], pa.int64())}).to_batches()
    with pytest.raises(LanceGatewaySourceError, match=r"writing to table 'items': .*id"):
        writer(server, schema).write(iter(rows))


@pytest.mark.parametrize(
    ("fields", "options", "words"),
    [
        ({"id": pa.int64()}, {"table": "itmes"}, "'itmes' does not exist; did you mean 'items'"),
        ({"id": pa.int64(), "x": pa.int8()}, {}, "a column 'x' that is not in the result"),
        ({"id": pa.string()}, {}, "gives column 'id' the type string, but it is bigint"),
        ({"price": pa.decimal128(12, 2)}, {}, "the rows lack id of the primary key of table 'items'"),
        ({"id": pa.int64()}, {"endpoints": "2"}, "option endpoints is about reading"),
        ({"id": pa.int64()}, {"table": "plain"}, "'plain' has no primary key: .* at_least_once = true"),
    ],
)
def test_what_cannot_be_written_is_refused_before_a_task_runs(
    server: GatewayServer, root: Path, fields: dict[str, pa.DataType], options: dict[str, str], words: str
) -> None:
    lance.write_dataset(pa.table({"id": pa.array([], pa.int64())}), root / "plain.lance")
    with pytest.raises(LanceGatewaySourceError, match=words):
        writer(server, spark_schema(pa.schema(fields)), **options)


def test_a_table_is_not_overwritten(server: GatewayServer) -> None:
    with pytest.raises(LanceGatewaySourceError, match="can't be overwritten by a job"):
        writer(server, schema_of(server), overwrite=True)
