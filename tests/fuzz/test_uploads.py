"""Rows of every wrong kind as parameters."""

from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.protos import flight_sql_pb2 as sql
from tests.fuzz.target import Target, refused
from tests.gateway import rpc

NAMED = pa.field("$1", pa.int64())
ROWS: dict[str, pa.Table] = {
    "no columns": pa.table({}),
    "no rows": pa.table({"$1": pa.array([], pa.int64())}),
    "too many columns": pa.table({f"${number}": [number] for number in range(1000)}),
    "text": pa.table({"$1": ["1; DROP TABLE orders", "\0", "9" * 5000]}),
    "a number that is too large": pa.table({"$1": pa.array([2**64 - 1], pa.uint64())}),
    "a decimal": pa.table({"$1": [Decimal("1e30")]}),
    "not a number": pa.table({"$1": [float("nan"), float("inf")]}),
    "a list": pa.table({"$1": [[1, 2], None]}),
    "a struct": pa.table({"$1": [{"a": {"b": 1}}]}),
    "a map": pa.table({"$1": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}),
    "nulls without a type": pa.table({"$1": pa.nulls(3)}),
    "a dictionary": pa.table({"$1": pa.array(["1", "2", None]).dictionary_encode()}),
    "views of text": pa.table({"$1": pa.array(["1", "a" * 100], pa.string_view())}),
    "a union": pa.table(
        [pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])],
        ["$1"],
    ),
    "run ends": pa.table([pa.RunEndEncodedArray.from_arrays([2], pa.array([7]))], ["$1"]),
    "half floats": pa.table({"$1": np.array([1, 2], np.float16)}),
    "an extension": pa.table(
        [pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16], pa.binary(16)))], ["$1"]
    ),
    "durations": pa.table({"$1": pa.array([1], pa.duration("ns"))}),
    "binary": pa.table({"$1": [b"\xff\x00"]}),
    "many rows": pa.table({"$1": range(20_000)}),
}


@pytest.fixture
def handle(fuzzed: Target) -> Iterator[bytes]:
    """A prepared statement with one parameter, closed in the end."""
    with flight.connect(fuzzed.uri) as client, fuzzed.unharmed():
        created = rpc.prepare(client, "SELECT id FROM orders WHERE id = $1").prepared_statement_handle
        yield created
        close = sql.ActionClosePreparedStatementRequest(prepared_statement_handle=created)
        rpc.act(client, "ClosePreparedStatement", rpc.packed(close))


@pytest.mark.slow
@pytest.mark.parametrize("what", ROWS)
def test_parameters(fuzzed: Target, handle: bytes, what: str) -> None:
    with flight.connect(fuzzed.uri) as client:
        try:
            bound = rpc.bind(client, handle, ROWS[what])
            # One result is enough of many.
            chunk = next(
                rpc.stream(client, sql.CommandPreparedStatementQuery(prepared_statement_handle=bound))
            )
            assert chunk.data.schema.names == ["id"]
        except StopIteration:
            pass
        except Exception as error:
            if not refused(error):
                raise


@pytest.mark.parametrize(
    "command",
    [sql.CommandStatementUpdate(query="DELETE FROM orders"), sql.CommandGetTables()],
    ids=lambda command: type(command).__name__,
)
def test_rows_for_a_command_that_takes_none(
    fuzzed: Target, command: sql.CommandStatementUpdate | sql.CommandGetTables
) -> None:
    def upload() -> None:
        writer, reader = client.do_put(rpc.descriptor(command), ROWS["many rows"].schema)
        with writer:
            writer.write_table(ROWS["many rows"])
            writer.done_writing()
            reader.read()

    with flight.connect(fuzzed.uri) as client, fuzzed.unharmed():
        with pytest.raises((NotImplementedError, pa.ArrowInvalid)) as caught:
            upload()
        assert refused(caught.value)


def test_an_upload_that_stops_in_the_middle(fuzzed: Target, handle: bytes) -> None:
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=handle)
    for _ in range(10):
        with flight.connect(fuzzed.uri) as client:
            writer, _ = client.do_put(rpc.descriptor(command), pa.schema([NAMED]))
            writer.write_table(ROWS["many rows"])
            # The connection goes away with the client; the stream is never said to be over.
            del writer
