"""Uploads of few bytes that stand for many, against a server that may have little memory."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import Message
from pyarrow import flight

from lance_gateway.gateway.execution.batches import decode_rows, encode_rows
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos import gateway_pb2 as own
from lance_gateway.protos.flight_sql import pack
from tests.gateway import rpc
from tests.gateway.conftest import orders
from tests.support.processes.servers import GatewayProcess, open_connection

MIB, GIB = 1 << 20, 1 << 30
ROWS = 2000
TEXT = pa.array(["x" * MIB])
ZEROS = pa.array([0] * MIB, pa.int8())


def _views() -> pa.Array:
    # Length, first bytes, buffer and place of each.
    views = np.array([[MIB, int.from_bytes(b"xxxx", "little"), 0, 0]] * ROWS, np.int32)
    return pa.Array.from_buffers(pa.string_view(), ROWS, [None, pa.py_buffer(views), TEXT.buffers()[2]])


def _list_views() -> pa.Array:
    starts, lengths = pa.array([0] * ROWS, pa.int32()), pa.array([MIB] * ROWS, pa.int32())
    return pa.ListViewArray.from_arrays(starts, lengths, ZEROS)


def _union() -> pa.Array:
    kinds, places = pa.array([0] * ROWS, pa.int8()), pa.array([0] * ROWS, pa.int32())
    return pa.UnionArray.from_dense(kinds, places, [TEXT])


# Each stands for 2 GB, or for more rows than a number of 32 bits counts.
EXPANDING: dict[str, Callable[[], pa.Array]] = {
    "run ends": lambda: pa.RunEndEncodedArray.from_arrays([ROWS], TEXT),
    "a dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([0] * ROWS), TEXT),
    "views": _views,
    "list views": _list_views,
}
EMPTY: dict[str, Callable[[], pa.Array]] = {
    "nulls": lambda: pa.nulls(2**31 - 1),
    "long runs": lambda: pa.RunEndEncodedArray.from_arrays([2**31 - 1], pa.array([7])),
}


def _read_status(pid: int, key: str) -> int:
    """Return bytes from what Linux tells about a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{key}:"))
    return int(line.split()[1]) * 1024


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bounded")


@pytest.fixture(scope="module")
def gateway(root: Path) -> Iterator[GatewayProcess]:
    """A server that can allocate 2 GiB more than it has, and no byte more."""
    lance.write_dataset(orders(), root / "orders.lance")
    with GatewayProcess(root) as process, flight.connect(process.uri) as client:
        rpc.query(client, "SELECT count(*) FROM orders")
        create = "CREATE TABLE notes (id BIGINT PRIMARY KEY, text VARCHAR)"
        rpc.put(client, sql.CommandStatementUpdate(query=create))
        limit = _read_status(process.pid, "VmData") + 2 * GIB
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (limit, limit))
        yield process


@pytest.fixture
def client(gateway: GatewayProcess) -> Iterator[flight.FlightClient]:
    """A client of a server that serves afterwards as well, and never took much memory."""
    # What it was at its largest, for this test.
    Path(f"/proc/{gateway.pid}/clear_refs").write_text("5")
    before = _read_status(gateway.pid, "VmHWM")
    with flight.connect(gateway.uri) as client:
        yield client
        assert rpc.query(client, "SELECT 1 AS one").to_pylist() == [{"one": 1}]
    assert _read_status(gateway.pid, "VmHWM") - before < 600 * MIB


def _send(
    client: flight.FlightClient, command: Message, column: pa.Array, compression: str | None = None
) -> bytes:
    """Send one batch of one column; return the answer."""
    options = flight.FlightCallOptions(write_options=pa.ipc.IpcWriteOptions(compression=compression))
    batch = pa.record_batch([column], ["text"])
    writer, reader = client.do_put(rpc.descriptor(command), batch.schema, options)
    with writer:
        writer.write_batch(batch)
        writer.done_writing()
        answer: bytes = reader.read().to_pybytes()
    return answer


def _prepare(client: flight.FlightClient, text: str) -> bytes:
    handle: bytes = rpc.prepare(client, text).prepared_statement_handle
    return handle


def _query(client: flight.FlightClient) -> sql.CommandPreparedStatementQuery:
    handle = _prepare(client, "SELECT id FROM orders WHERE customer = ?")
    return sql.CommandPreparedStatementQuery(prepared_statement_handle=handle)


def _update(client: flight.FlightClient) -> sql.CommandPreparedStatementUpdate:
    handle = _prepare(client, "DELETE FROM notes WHERE text = ?")
    return sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)


def _ingest(table: str) -> sql.CommandStatementIngest:
    options = sql.CommandStatementIngest.TableDefinitionOptions
    made = options(
        if_not_exist=options.TABLE_NOT_EXIST_OPTION_CREATE, if_exists=options.TABLE_EXISTS_OPTION_FAIL
    )
    return sql.CommandStatementIngest(table=table, table_definition_options=made)


@pytest.mark.slow
@pytest.mark.parametrize("what", [*EXPANDING, "a dense union"])
def test_bound_values_that_stand_for_too_much_are_refused(client: flight.FlightClient, what: str) -> None:
    column = {**EXPANDING, "a dense union": _union}[what]()
    refused = r"exceed 67108864 bytes: parameter 1 \(.* stands for .*; bind and execute them in parts"
    with pytest.raises(pa.ArrowInvalid, match=refused):
        _send(client, _query(client), column)


@pytest.mark.slow
@pytest.mark.parametrize("what", EMPTY)
def test_rows_without_values_are_counted(client: flight.FlightClient, what: str) -> None:
    column = EMPTY[what]()
    with pytest.raises(pa.ArrowInvalid, match="more than 1000000 rows of parameters are bound"):
        _send(client, _query(client), column)
    for command in (_update(client), _ingest("many")):
        with pytest.raises(
            (pa.ArrowInvalid, NotImplementedError), match=r"claims 2147483647 rows|always NULL"
        ):
            _send(client, command, column)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["run ends", "a dictionary", "views"])
def test_what_is_ingested_is_expanded_in_pieces(root: Path, client: flight.FlightClient, what: str) -> None:
    name = f"made from {what}"
    assert _send(client, _ingest(name), EXPANDING[what]()) == _pack_count(ROWS)
    made = lance.dataset(root / f"{name}.lance")
    assert made.count_rows() == ROWS
    assert made.take([0, ROWS // 2, ROWS - 1]).column("text").to_pylist() == TEXT.to_pylist() * 3


def _pack_count(rows: int) -> bytes:
    """Return the answer to an upload."""
    return sql.DoPutUpdateResult(record_count=rows).SerializeToString()


@pytest.mark.slow
def test_one_row_that_stands_for_too_much_is_named(client: flight.FlightClient) -> None:
    lists = pa.ListArray.from_arrays(pa.array([0, ROWS], pa.int32()), EXPANDING["a dictionary"]())
    refused = r"row 1 of a batch is too large: column 'text' \(list<.* may have 67108864"
    with pytest.raises(pa.ArrowInvalid, match=refused):
        _send(client, _ingest("wide"), lists)
    with pytest.raises(pa.ArrowInvalid, match=refused):
        _send(client, _update(client), lists)


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.soak
def test_a_batch_that_does_not_fit_into_memory_is_refused(client: flight.FlightClient, codec: str) -> None:
    # Pages that were never written take nothing here.
    zeros = pa.Array.from_buffers(pa.int64(), GIB // 2, [None, pa.py_buffer(np.zeros(GIB // 2, np.int64))])
    for command in (_query(client), _update(client), _ingest("zeros")):
        refused = "batch 1 of the stream is larger than the memory that is left"
        with pytest.raises(pa.ArrowInvalid, match=refused):
            _send(client, command, zeros, codec)


@pytest.mark.slow
def test_compressed_uploads_of_usual_size_are_taken(client: flight.FlightClient) -> None:
    text = pa.array([f"note {number}" for number in range(100_000)]).dictionary_encode()
    assert _send(client, _ingest("compressed"), text, "zstd") == _pack_count(100_000)


@pytest.mark.slow
def test_adbc_ingests_dictionaries_and_views(gateway: GatewayProcess, client: flight.FlightClient) -> None:
    words = pa.array([f"word {number % 100}" for number in range(200_000)])
    rows = pa.table(
        {"id": range(200_000), "code": words.dictionary_encode(), "word": words.cast(pa.string_view())}
    )
    with open_connection(gateway.uri) as connection, connection.cursor() as cursor:
        assert cursor.adbc_ingest("words", rows, mode="create") == 200_000
    counted = rpc.query(client, "SELECT count(*) AS n FROM words WHERE code = word AND code = 'word 7'")
    assert counted.to_pylist() == [{"n": 2000}]


def _nest(levels: int) -> pa.DataType:
    kind = pa.int8()
    for _ in range(levels):
        kind = pa.list_(kind)
    return kind


@pytest.mark.slow
@pytest.mark.parametrize(
    ("levels", "reason"), [(100, "has 100 levels, and at most 64"), (1000, "Invalid flatbuffers message")]
)
def test_types_of_very_many_levels_are_refused(client: flight.FlightClient, levels: int, reason: str) -> None:
    """Arrow itself refuses messages of more than about 125 levels, before it reads them."""
    for command in (_query(client), _update(client), _ingest("deep")):
        writer, reader = client.do_put(rpc.descriptor(command), pa.schema([("text", _nest(levels))]))
        writer.done_writing()
        assert reader.read() is None
        with pytest.raises((pa.ArrowException, OSError), match=reason):
            writer.close()


def _compress(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


@pytest.mark.slow
def test_parameters_of_a_handle_are_refused_before_they_are_decompressed(client: flight.FlightClient) -> None:
    zeros = pa.table({"text": pa.Array.from_buffers(pa.int64(), GIB // 8, [None, pa.py_buffer(bytes(GIB))])})
    handle = own.PreparedHandle.FromString(_query(client).prepared_statement_handle)
    for parameters, refused in (
        (_compress(zeros), "the parameters in the handle are compressed"),
        (encode_rows(pa.table({"text": pa.nulls(2**31 - 1)})), "more than 1000000 rows"),
        (encode_rows(pa.table({"text": EXPANDING["list views"]().slice(0, 100)})), "exceed 67108864 bytes"),
    ):
        handle.parameters = parameters
        command = sql.CommandPreparedStatementQuery(prepared_statement_handle=handle.SerializeToString())
        with pytest.raises(pa.ArrowInvalid, match=refused):
            rpc.fetch(client, command)


@pytest.mark.slow
def test_rows_of_a_ticket_are_refused_before_they_are_decompressed(client: flight.FlightClient) -> None:
    rows = pa.table({"a": [0] * 1000})
    ticket = own.WriteTicket(
        statement_id=bytes(16), schema=bytes(rows.schema.serialize()), rows=_compress(rows)
    )
    with pytest.raises(KeyError, match="are not known here"):
        client.do_get(flight.Ticket(pack(ticket))).read_all()


def test_compression_is_seen_in_dictionaries_as_well() -> None:
    rows = pa.table({"a": pa.array(["x" * 1000] * 1000).dictionary_encode(), "b": range(1000)})
    assert decode_rows(encode_rows(rows), "rows").equals(rows)
    with pytest.raises(InvalidInputError, match="rows are compressed"):
        decode_rows(_compress(rows), "rows")
    with pytest.raises(InvalidInputError, match="rows cannot be read"):
        decode_rows(encode_rows(rows)[:500], "rows")


@pytest.mark.slow
def test_a_message_that_quotes_a_large_value_is_cut_off(client: flight.FlightClient) -> None:
    handle = _prepare(client, "DELETE FROM notes WHERE id = ?")
    command = sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)
    with pytest.raises(
        pa.ArrowInvalid, match=r"parameter \$1 is of type int64, .* as a scalar of type int64"
    ):
        _send(client, command, pa.array(["\N{SNOWMAN}" * MIB]))
