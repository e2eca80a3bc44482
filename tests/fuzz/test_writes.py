"""Ingestions and updates that are broken, of every wrong kind, or giants: refused, or written whole."""

import itertools
import random
from collections.abc import Iterator
from typing import Any

import grpc
import pyarrow as pa
import pytest
from google.protobuf.message import Message
from pyarrow import flight

from lance_gateway.protos import flight_pb2
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.fuzz.target import Target, refused
from tests.fuzz.test_messages import mutants, throw
from tests.fuzz.test_uploads import ROWS
from tests.gateway import rpc
from tests.gateway.protocol.test_errors import assert_clean

Options = sql.CommandStatementIngest.TableDefinitionOptions
CREATED = Options(
    if_not_exist=Options.TABLE_NOT_EXIST_OPTION_CREATE, if_exists=Options.TABLE_EXISTS_OPTION_REPLACE
)
APPENDED = Options(
    if_not_exist=Options.TABLE_NOT_EXIST_OPTION_CREATE, if_exists=Options.TABLE_EXISTS_OPTION_APPEND
)
ONE = pa.table({"id": pa.array([1], pa.int64()), "text": ["x"]})
pytestmark = pytest.mark.slow

_NAMES = (f"thrown{number}" for number in itertools.count())


@pytest.fixture
def client(fuzzed: Target) -> Iterator[flight.FlightClient]:
    with flight.connect(fuzzed.uri) as client, fuzzed.unharmed():
        yield client


def put(client: flight.FlightClient, command: bytes, rows: pa.Table) -> None:
    writer, reader = client.do_put(flight.FlightDescriptor.for_command(command), rows.schema)
    with writer:
        writer.write_table(rows)
        writer.done_writing()
        reader.read()


def test_ingestions_with_flipped_bits(client: flight.FlightClient) -> None:
    for number, options in enumerate((CREATED, APPENDED)):
        message = sql.CommandStatementIngest(
            table=f"flipped{number}", table_definition_options=options, options={"region_by": "bucket(id, 2)"}
        )
        thrown = throw(lambda data: put(client, data, ONE), mutants(number, rpc.packed(message), 40))
        assert thrown > 0


def test_updates_with_flipped_bits(client: flight.FlightClient) -> None:
    put(
        client,
        rpc.packed(sql.CommandStatementUpdate(query="CREATE TABLE kept (id BIGINT PRIMARY KEY)")),
        pa.table({}),
    )
    handle = rpc.prepare(client, "INSERT INTO kept VALUES ($1)").prepared_statement_handle
    messages: tuple[Message, ...] = (
        sql.CommandStatementUpdate(query="INSERT INTO kept VALUES (1)"),
        sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle),
    )
    for number, message in enumerate(messages):
        assert throw(
            lambda data: put(client, data, pa.table({"$1": [2]})), mutants(number, rpc.packed(message), 40)
        )
    close = sql.ActionClosePreparedStatementRequest(prepared_statement_handle=handle)
    rpc.act(client, "ClosePreparedStatement", rpc.packed(close))


@pytest.mark.parametrize("what", ROWS)
@pytest.mark.parametrize("mode", ["made", "appended"])
def test_rows_of_every_kind(client: flight.FlightClient, what: str, mode: str) -> None:
    """What cannot be stored is refused; what can is there, all of it."""
    table, rows = next(_NAMES), ROWS[what]
    if mode == "appended":
        numbers = sql.CommandStatementIngest(table=table, table_definition_options=CREATED)
        put(client, rpc.packed(numbers), pa.table({"$1": [0]}))
    options = APPENDED if mode == "appended" else CREATED
    message = sql.CommandStatementIngest(table=table, table_definition_options=options)
    before = 1 if mode == "appended" else 0
    try:
        put(client, rpc.packed(message), rows)
    except Exception as error:
        if not refused(error):
            raise
        if not before:
            return
        expected = before
    else:
        expected = before + rows.num_rows
    assert rpc.query(client, f'SELECT count(*) AS n FROM "{table}"').to_pydict() == {"n": [expected]}


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("n" * 1_000_000, ONE),
        ("wide", pa.table({f"c{number}": [number] for number in range(3000)})),
        ("named", pa.table({"x" * 1_000_000: [1]})),
        (
            "deep",
            pa.table({"a": pa.array([None], _deep := pa.list_(pa.list_(pa.list_(pa.list_(pa.int8())))))}),
        ),
        ("texts", pa.table({"text": ["x" * 3_000_000] * 5})),
        ("twice", pa.table([[1], [2]], ["a", "a"])),
        ("", ONE),
        ("none", pa.table({})),
    ],
    ids=lambda value: value[:8] if isinstance(value, str) else None,
)
@pytest.mark.soak
def test_giants_and_oddities(client: flight.FlightClient, table: str, rows: pa.Table) -> None:
    message = sql.CommandStatementIngest(table=table, table_definition_options=CREATED)
    try:
        put(client, rpc.packed(message), rows)
    except Exception as error:
        if not refused(error) or len(str(error)) > 10_000:
            raise


def test_a_writer_that_stops_in_the_middle(client: flight.FlightClient, fuzzed: Target) -> None:
    for options in (CREATED, APPENDED):
        for _ in range(5):
            message = sql.CommandStatementIngest(table=next(_NAMES), table_definition_options=options)
            with flight.connect(fuzzed.uri) as leaving:
                writer, _ = leaving.do_put(rpc.descriptor(message), ONE.schema)
                for _ in range(20):
                    writer.write_table(ONE)
                # The connection goes away with the client; the stream is never said to be over.
                del writer
    listed = rpc.query(client, "SELECT table_name FROM information_schema.tables")["table_name"].to_pylist()
    for name in listed:
        rpc.query(client, f'SELECT count(*) FROM "{name}"' if name.startswith("thrown") else "SELECT 1")


def test_streams_whose_bytes_are_broken(fuzzed: Target) -> None:
    """Headers and bodies with flipped bits: buffers that are too short, offsets that lead out of them."""
    rng = random.Random(3)
    rows = pa.record_batch(
        {
            "id": [1, 2, 3],
            "text": ["a", "grün", None],
            "list": [[1], None, [2, 3]],
            "day": pa.array([1, 2, 3], pa.date64()),
        }
    )
    schema, _ = rpc.split_message(rows.schema.serialize())
    header, body = rpc.split_message(rows.serialize())
    with fuzzed.unharmed(), grpc.insecure_channel(fuzzed.uri.removeprefix("grpc://")) as channel:
        call: Any = channel.stream_stream("/arrow.flight.protocol.FlightService/DoPut")
        refusals = 0
        for number in range(150):
            broken = number % 3
            message = sql.CommandStatementIngest(
                table="broken", table_definition_options=(CREATED, APPENDED)[number % 2]
            )
            descriptor = flight_pb2.FlightDescriptor(type=2, cmd=rpc.packed(message)).SerializeToString()
            seed = rng.randrange(1 << 30)
            frames = [
                rpc.encode_frame(next(mutants(seed, schema, 1)) if broken == 0 else schema, b"", descriptor),
                rpc.encode_frame(
                    next(mutants(seed, header, 1)) if broken == 1 else header,
                    next(mutants(seed, body, 1)) if broken == 2 else body,
                ),
            ]
            try:
                for _ in call(iter(frames), timeout=20):
                    pass
            except grpc.RpcError as error:
                refusals += 1
                assert_clean(error.details())
                late = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
                if late or "its log describes" in error.details():
                    raise
        assert refusals > 20
