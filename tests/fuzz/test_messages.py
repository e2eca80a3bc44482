"""Messages with flipped bits, cut short, or made of noise: answered cleanly, and nothing stays behind."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pyarrow as pa
import pytest
from google.protobuf.message import Message
from pyarrow import flight

from lance_gateway.protos import flight_pb2
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos import gateway_pb2 as own
from tests.fuzz.target import Target, refused
from tests.gateway import rpc
from tests.gateway.protocol.test_errors import assert_clean
from tests.gateway.protocol.test_malformed import BARE_ACTIONS, COMMANDS, PACKED_ACTIONS
from tests.support.sampling import sample

GIANT = 2 << 20
METHODS = (
    "Handshake", "ListFlights", "GetFlightInfo", "PollFlightInfo", "GetSchema", "DoGet", "DoPut",
    "DoExchange", "DoAction", "ListActions",
)  # fmt: skip
STREAMED = {"Handshake", "DoPut", "DoExchange"}


def mutants(seed: int, data: bytes, count: int) -> Iterator[bytes]:
    """The bytes with bits flipped, pieces cut out or doubled, and noise put in; equal for equal seeds."""
    rng = random.Random(seed)
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            start = rng.randrange(len(changed) + 1)
            end = min(len(changed), start + rng.randint(1, 8))
            match rng.randrange(4):
                case 0 if start < len(changed):
                    changed[start] ^= 1 << rng.randrange(8)
                case 1:
                    del changed[start:end]
                case 2:
                    changed[start:start] = changed[start:end]
                case _:
                    changed[start:end] = rng.randbytes(rng.randint(0, 8))
        yield bytes(changed)


def throw(call: Callable[[bytes], Any], mutated: Iterator[bytes]) -> int:
    """Makes the calls and returns how many were refused, all of them cleanly."""
    count = 0
    for data in mutated:
        try:
            call(data)
        except Exception as error:
            if not refused(error):
                raise
            count += 1
    return count


@pytest.fixture
def client(fuzzed: Target) -> Iterator[flight.FlightClient]:
    with flight.connect(fuzzed.uri) as client, fuzzed.unharmed():
        yield client


def read(client: flight.FlightClient, ticket: bytes) -> pa.Table:
    return client.do_get(flight.Ticket(ticket)).read_all()


@pytest.mark.slow
def test_commands(client: flight.FlightClient) -> None:
    refusals = 0
    for number, message in enumerate(COMMANDS):
        mutated = mutants(number, rpc.packed(message), 25)
        refusals += throw(
            lambda data: client.get_flight_info(flight.FlightDescriptor.for_command(data)), mutated
        )
        mutated = mutants(-number, rpc.packed(message), 10)
        refusals += throw(lambda data: client.get_schema(flight.FlightDescriptor.for_command(data)), mutated)
    assert refusals > len(COMMANDS)


@pytest.mark.slow
def test_tickets(client: flight.FlightClient) -> None:
    handle = rpc.prepare(client, "SELECT * FROM orders WHERE id = $1").prepared_statement_handle
    handle = rpc.bind(client, handle, pa.table({"$1": [1]}))
    asked = (
        sql.CommandStatementQuery(query="SELECT * FROM orders"),
        sql.CommandPreparedStatementQuery(prepared_statement_handle=handle),
        sql.CommandGetTables(include_schema=True),
    )
    refusals = 0
    for number, message in enumerate(asked):
        ticket = rpc.info(client, message).endpoints[0].ticket.ticket
        refusals += throw(lambda data: read(client, data), mutants(number, ticket, 60))
    assert refusals > 0
    close = sql.ActionClosePreparedStatementRequest(prepared_statement_handle=handle)
    rpc.act(client, "ClosePreparedStatement", rpc.packed(close))


def test_tickets_of_parts(client: flight.FlightClient) -> None:
    ticket = own.PartTicket(query="SELECT * FROM orders", statement_id=bytes(16), expires_at=2**42)
    assert throw(lambda data: read(client, data), mutants(1, rpc.packed(ticket), 60)) > 0


def test_handles(client: flight.FlightClient) -> None:
    """What a client sends back, as a command, to be bound, and to be closed."""
    handle = rpc.prepare(client, "SELECT * FROM orders WHERE id = $1").prepared_statement_handle
    rows = pa.table({"$1": [1]})

    def use(data: bytes) -> None:
        rpc.info(client, sql.CommandPreparedStatementQuery(prepared_statement_handle=data))

    assert throw(use, mutants(1, handle, 60)) > 0
    assert throw(lambda data: rpc.bind(client, data, rows), mutants(2, handle, 30)) > 0
    close = sql.ActionClosePreparedStatementRequest(prepared_statement_handle=handle)
    rpc.act(client, "ClosePreparedStatement", rpc.packed(close))


@pytest.mark.slow
def test_bodies_of_actions(client: flight.FlightClient) -> None:
    # What a mutant of these creates would rightly stay.
    creating = {"CreatePreparedStatement", "SetSessionOptions"}
    bodies = [(name, rpc.packed(body)) for name, body in PACKED_ACTIONS]
    bodies += [(name, body.SerializeToString()) for name, body in BARE_ACTIONS]
    refusals = 0
    for number, (name, body) in enumerate(one for one in bodies if one[0] not in creating):
        refusals += throw(lambda data, name=name: rpc.act(client, name, data), mutants(number, body, 25))
    assert refusals > len(bodies)


GIANTS: dict[str, Callable[[], Message]] = {
    "literal": lambda: sql.CommandStatementQuery(query="SELECT '" + "x" * GIANT + "' AS x"),
    "parentheses": lambda: sql.CommandStatementQuery(query="SELECT " + "(" * 100_000),
    "sum": lambda: sql.CommandStatementQuery(query="SELECT " + "1 + " * 100_000 + "1"),
    "name": lambda: sql.CommandStatementQuery(query='SELECT * FROM "' + "n" * GIANT + '"'),
    "pattern": lambda: sql.CommandGetTables(table_name_filter_pattern="%_" * (GIANT // 2)),
    "table": lambda: sql.CommandGetPrimaryKeys(table="n" * GIANT),
    "codes": lambda: sql.CommandGetSqlInfo(info=range(GIANT // 8)),
    "handle": lambda: sql.CommandPreparedStatementQuery(prepared_statement_handle=b"\xff" * GIANT),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", sample(GIANTS, 3))
@pytest.mark.soak
def test_giants(client: flight.FlightClient, what: str) -> None:
    """Megabytes where a few bytes are usual: an answer, or a refusal that does not repeat them."""
    try:
        rpc.fetch(client, GIANTS[what]())
    except Exception as error:
        if not refused(error) or len(str(error)) > 10_000:
            raise


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_noise_below_flight(fuzzed: Target, method: str) -> None:
    """Bytes that are no message of Flight's at all, or parts of one, to every method there is."""
    rng = random.Random(method)
    command = flight_pb2.FlightDescriptor(type=2, cmd=rpc.packed(sql.CommandStatementQuery(query="SELECT 1")))
    # A descriptor is field 1 of the FlightData that DoPut streams; field 2 is the header of a batch.
    data = command.SerializeToString()
    begun = bytes([0x0A, len(data)]) + data + b"\x12\x10" + rng.randbytes(16)
    noise = [b"", b"\xff" * 64, rng.randbytes(1000), data, begun, *mutants(7, begun, 10)]
    with fuzzed.unharmed(), grpc.insecure_channel(fuzzed.uri.removeprefix("grpc://")) as channel:
        path = f"/arrow.flight.protocol.FlightService/{method}"
        for message in noise:
            if method in STREAMED:
                answers = channel.stream_stream(path)(iter((message, message)), timeout=60)
            else:
                answers = channel.unary_stream(path)(message, timeout=60)
            try:
                for _ in answers:
                    pass
            except grpc.RpcError as error:
                assert_clean(error.details())
                if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise
