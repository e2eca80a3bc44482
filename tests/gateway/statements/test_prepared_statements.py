"""Prepared statements: typed parameters, one row and many, handles."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_manager
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.config.sections.limits import LimitsSection
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.planner.plans.dataframes import Frames
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.conftest import TYPES, serving

LOOKUP = "SELECT id, customer FROM orders WHERE id = ?"


@pytest.mark.parametrize("mark", ["?", "$1"])
def test_a_parameter_is_a_question_mark_or_a_number(cursor: Any, mark: str) -> None:
    cursor.execute(f"SELECT customer FROM orders WHERE id = {mark}", (8,))
    assert cursor.fetchall() == [("customer 1",)]


def test_numbered_parameters_may_repeat_and_stand_in_any_order(cursor: Any) -> None:
    cursor.execute("SELECT id FROM orders WHERE (id = $2 OR id = $1) AND id <> $2", (5, 6))
    assert cursor.fetchall() == [(5,)]


def test_a_statement_is_executed_again_with_other_parameters(cursor: Any) -> None:
    for number in (3, 4, 5):
        cursor.execute(LOOKUP, (number,))
        assert cursor.fetchall() == [(number, f"customer {number}")]


def test_many_rows_run_the_statement_for_each_and_join_the_results(cursor: Any) -> None:
    cursor.execute(
        "SELECT id FROM orders WHERE id >= $1 AND id < $2 ORDER BY id", _rows([5, 2, 9], [7, 2, 10])
    )
    assert cursor.fetchall() == [(5,), (6,), (9,)]


def test_no_rows_give_no_results(cursor: Any) -> None:
    parameters = pa.table({"1": pa.array([], pa.int64())})
    cursor.execute(LOOKUP, parameters)
    result = cursor.fetch_arrow_table()
    assert result.num_rows == 0
    assert result.schema.names == ["id", "customer"]


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPES)
def test_a_parameter_takes_the_type_of_what_it_meets(cursor: Any, name: str) -> None:
    data_type, value = TYPES[name]
    parameters = pa.table([pa.array([value], data_type)], names=["1"])
    cursor.execute(f'SELECT id FROM typed WHERE "{name}" = ?', parameters)
    assert cursor.fetchall() == [(1,)]


@pytest.mark.parametrize("name", TYPES)
def test_a_null_parameter_equals_nothing(cursor: Any, name: str) -> None:
    data_type, _ = TYPES[name]
    cursor.execute(
        f'SELECT id FROM typed WHERE "{name}" = ?', pa.table([pa.nulls(1, data_type)], names=["1"])
    )
    assert cursor.fetchall() == []


def test_an_untyped_null_is_a_parameter_too(cursor: Any) -> None:
    cursor.execute(LOOKUP, (None,))
    assert cursor.fetchall() == []


def test_a_python_value_becomes_the_type_of_the_parameter(cursor: Any) -> None:
    cursor.execute("SELECT id FROM typed WHERE tiny = ? AND price = ?", (-8, 12.34))
    assert cursor.fetchall() == [(1,)]


def test_the_schemas_of_a_prepared_statement_are_encapsulated_messages(wire: flight.FlightClient) -> None:
    prepared = rpc.prepare(wire, "SELECT id, amount FROM orders WHERE id = ? AND customer = ?")
    assert rpc.schema_of(prepared.dataset_schema) == pa.schema([("id", pa.int64()), ("amount", pa.float64())])
    parameters = rpc.schema_of(prepared.parameter_schema)
    assert parameters == pa.schema([("$1", pa.int64()), ("$2", pa.string())])
    assert all(field.nullable for field in parameters)
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=prepared.prepared_statement_handle)
    assert wire.get_schema(rpc.descriptor(command)).schema == rpc.schema_of(prepared.dataset_schema)


def test_a_parameter_of_unknown_type_is_not_advertised_as_null(wire: flight.FlightClient) -> None:
    prepared = rpc.prepare(wire, "SELECT ? AS anything")
    assert rpc.schema_of(prepared.parameter_schema).types != [pa.null()]


def test_a_stream_keeps_its_parameters_when_others_are_bound(wire: flight.FlightClient) -> None:
    handle = rpc.prepare(wire, LOOKUP).prepared_statement_handle
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=handle)
    tickets = []
    for number in (1, 2):
        rpc.bind(wire, handle, pa.table({"1": [number]}))
        tickets.append(rpc.info(wire, command).endpoints[0].ticket)
    found = [wire.do_get(ticket).read_all().column("id").to_pylist() for ticket in tickets]
    assert found == [[1], [2]]


def test_a_ticket_whose_parameters_were_replaced_often_says_so(wire: flight.FlightClient) -> None:
    handle = rpc.prepare(wire, LOOKUP).prepared_statement_handle
    rpc.bind(wire, handle, pa.table({"1": [1]}))
    ticket = (
        rpc.info(wire, sql.CommandPreparedStatementQuery(prepared_statement_handle=handle))
        .endpoints[0]
        .ticket
    )
    for number in range(8):
        rpc.bind(wire, handle, pa.table({"1": [number]}))
    with pytest.raises(KeyError, match=r"others were bound since.* execute it again"):
        wire.do_get(ticket).read_all()


@pytest.mark.parametrize("given", [(), (1,), (1, 2, 3)])
def test_too_few_or_too_many_parameters_are_refused_with_both_numbers(
    cursor: Any, given: tuple[int, ...]
) -> None:
    with pytest.raises(
        adbc_driver_manager.ProgrammingError, match=rf"2 parameters.*{len(given) or 'none'}"
    ) as caught:
        cursor.execute("SELECT id FROM orders WHERE id BETWEEN ? AND ?", given or None)
    assert caught.value.status_code == adbc_driver_manager.AdbcStatusCode.INVALID_ARGUMENT


def test_a_value_of_the_wrong_type_is_refused_with_parameter_value_and_type(cursor: Any) -> None:
    with pytest.raises(adbc_driver_manager.ProgrammingError, match=r"\$1.*'many'.*int64") as caught:
        cursor.execute(LOOKUP, ("many",))
    assert caught.value.status_code == adbc_driver_manager.AdbcStatusCode.INVALID_ARGUMENT
    cursor.execute(LOOKUP, (1,))
    assert cursor.fetchall() == [(1, "customer 1")]


def test_closing_a_statement_twice_is_no_mistake(wire: flight.FlightClient, gateway: GatewayServer) -> None:
    before = len(gateway.prepared)
    handle = rpc.prepare(wire, LOOKUP).prepared_statement_handle
    assert len(gateway.prepared) == before + 1
    close = rpc.packed(sql.ActionClosePreparedStatementRequest(prepared_statement_handle=handle))
    assert rpc.act(wire, "ClosePreparedStatement", close) == []
    assert rpc.act(wire, "ClosePreparedStatement", close) == []
    assert len(gateway.prepared) == before


@pytest.mark.parametrize("handle", [b"", b"nobody made this", b"\x0a\x01x"])
def test_a_handle_that_no_gateway_made_is_not_found(wire: flight.FlightClient, handle: bytes) -> None:
    with pytest.raises(KeyError, match="is not known: prepare it"):
        rpc.info(wire, sql.CommandPreparedStatementQuery(prepared_statement_handle=handle))
    with pytest.raises(KeyError, match="is not known: prepare it"):
        rpc.bind(wire, handle, pa.table({"1": [1]}))


def test_another_gateway_over_the_same_root_executes_what_was_bound(
    wire: flight.FlightClient, other_wire: flight.FlightClient
) -> None:
    prepared = rpc.prepare(wire, LOOKUP)
    bound = rpc.bind(wire, prepared.prepared_statement_handle, pa.table({"1": [8, 3]}))
    info = rpc.info(other_wire, sql.CommandPreparedStatementQuery(prepared_statement_handle=bound))
    for client in (wire, other_wire):
        assert client.do_get(info.endpoints[0].ticket).read_all().column("id").to_pylist() == [8, 3]


def test_binding_can_happen_at_another_gateway(
    wire: flight.FlightClient, other_wire: flight.FlightClient
) -> None:
    handle = rpc.prepare(wire, LOOKUP).prepared_statement_handle
    bound = rpc.bind(other_wire, handle, pa.table({"1": [5]}))
    info = rpc.info(wire, sql.CommandPreparedStatementQuery(prepared_statement_handle=bound))
    assert wire.do_get(info.endpoints[0].ticket).read_all().column("id").to_pylist() == [5]
    with pytest.raises(ValueError, match="none are bound"):
        rpc.info(wire, sql.CommandPreparedStatementQuery(prepared_statement_handle=handle))


def test_parameters_too_large_for_a_handle_stay_with_the_gateway_that_got_them(
    wire: flight.FlightClient, other_wire: flight.FlightClient
) -> None:
    handle = rpc.prepare(wire, LOOKUP).prepared_statement_handle
    many = pa.table({"1": list(range(20_000))})
    bound = rpc.bind(wire, handle, many)
    info = rpc.info(wire, sql.CommandPreparedStatementQuery(prepared_statement_handle=bound))
    with pytest.raises(KeyError, match="are not known here"):
        other_wire.do_get(info.endpoints[0].ticket).read_all()
    with pytest.raises(KeyError, match="do not fit into a handle"):
        rpc.bind(other_wire, handle, many)


def test_the_ticket_of_an_execution_is_good_for_once(wire: flight.FlightClient) -> None:
    handle = rpc.prepare(wire, "SELECT 1 AS one").prepared_statement_handle
    info = rpc.info(wire, sql.CommandPreparedStatementQuery(prepared_statement_handle=handle))
    assert wire.do_get(info.endpoints[0].ticket).read_all().to_pylist() == [{"one": 1}]
    with pytest.raises(KeyError, match="good for one DoGet"):
        wire.do_get(info.endpoints[0].ticket).read_all()


def test_a_query_is_no_update(wire: flight.FlightClient) -> None:
    handle = rpc.prepare(wire, "SELECT 1").prepared_statement_handle
    for command in (
        sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle),
        sql.CommandStatementUpdate(query="SELECT 1"),
    ):
        writer, reader = wire.do_put(rpc.descriptor(command), pa.schema([]))
        writer.done_writing()
        with pytest.raises(pa.ArrowInvalid, match="changes nothing"), writer:
            reader.read()


def test_parameters_beyond_a_size_are_refused(lake: Path) -> None:
    with (
        serving(lake, limits=LimitsSection(max_bound_bytes=1000)) as server,
        flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client,
    ):
        handle = rpc.prepare(client, LOOKUP).prepared_statement_handle
        with pytest.raises(ValueError, match="exceed 1000 bytes"):
            rpc.bind(client, handle, pa.table({"1": range(1000)}))


@pytest.fixture
def other_wire(lake: Path) -> Iterator[flight.FlightClient]:
    """A client of a second gateway over the same root."""
    with serving(lake) as server, flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
        yield client


def _rows(*columns: list[int]) -> pa.Table:
    return pa.table({str(place): column for place, column in enumerate(columns, start=1)})


def test_values_may_be_bound_as_unions(wire: flight.FlightClient) -> None:
    prepared = rpc.prepare(wire, "SELECT id FROM orders WHERE customer = ? AND id < ?")
    children = [pa.array(["customer 3"]), pa.array([20], pa.int8())]
    text = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), children)
    number = pa.UnionArray.from_dense(pa.array([1], pa.int8()), pa.array([0], pa.int32()), children)
    rpc.bind(wire, prepared.prepared_statement_handle, pa.table([text, number], ["a", "b"]))
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=prepared.prepared_statement_handle)
    assert rpc.fetch(wire, command).column("id").to_pylist() == [3, 10, 17]


def test_a_statement_is_executed_with_the_shortcuts_of_its_execution(
    wire: flight.FlightClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = 0
    plan = Frames.plan

    def counting(*args: Any, **more: Any) -> Any:
        nonlocal planned
        planned += 1
        return plan(*args, **more)

    handle = rpc.prepare(wire, LOOKUP).prepared_statement_handle
    handle = rpc.bind(wire, handle, pa.table({"1": [8]}))
    command = rpc.descriptor(sql.CommandPreparedStatementQuery(prepared_statement_handle=handle))
    monkeypatch.setattr(Frames, "plan", counting)
    for shortcuts, plans in (("all", False), ("none", True)):
        options = flight.FlightCallOptions(headers=[(b"x-lance-gateway-shortcuts", shortcuts.encode())])
        ticket = wire.get_flight_info(command, options).endpoints[0].ticket
        planned = 0
        assert wire.do_get(ticket).read_all().to_pylist() == [{"id": 8, "customer": "customer 1"}]
        assert bool(planned) is plans


HALVED = "SELECT id / ? AS half FROM orders WHERE id = 5"


def test_the_types_of_bound_values_decide_on_those_of_the_result(wire: flight.FlightClient) -> None:
    prepared = rpc.prepare(wire, HALVED)
    assert rpc.schema_of(prepared.dataset_schema).types == [pa.int64()]
    handle = first = prepared.prepared_statement_handle
    # A client may go on with the new handle, or with the first one, and bind again.
    for value, kind, expected in ((2.0, pa.float64(), 2.5), (2, pa.int64(), 2), (4.0, pa.float64(), 1.25)):
        bound = rpc.bind(wire, handle, pa.table({"1": [value]}))
        for one in (bound, first):
            info = rpc.info(wire, sql.CommandPreparedStatementQuery(prepared_statement_handle=one))
            table = wire.do_get(info.endpoints[0].ticket).read_all()
            assert info.schema.types == table.schema.types == [kind]
            assert table.column("half").to_pylist() == [expected]
        handle = bound


def test_values_of_open_types_are_executed_by_another_gateway(
    wire: flight.FlightClient, other_wire: flight.FlightClient
) -> None:
    handle = rpc.prepare(wire, "SELECT abs(?) AS v").prepared_statement_handle
    bound = rpc.bind(wire, handle, pa.table({"1": [-2, -3]}))
    info = rpc.info(other_wire, sql.CommandPreparedStatementQuery(prepared_statement_handle=bound))
    for client in (wire, other_wire):
        assert client.do_get(info.endpoints[0].ticket).read_all().to_pylist() == [{"v": 2}, {"v": 3}]


def test_values_that_no_plan_takes_are_refused_when_they_are_bound(wire: flight.FlightClient) -> None:
    handle = rpc.prepare(wire, "SELECT abs(?) AS v").prepared_statement_handle
    with pytest.raises(ValueError, match="abs"):
        rpc.bind(wire, handle, pa.table({"1": ["x"]}))


def test_unions_of_open_types_are_read_as_what_was_offered(wire: flight.FlightClient) -> None:
    handle = rpc.prepare(wire, "SELECT ? AS v").prepared_statement_handle
    number = pa.UnionArray.from_dense(
        pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([20], pa.int8())], ["int8"]
    )
    bound = rpc.bind(wire, handle, pa.table([number], ["a"]))
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=bound)
    assert rpc.fetch(wire, command).to_pylist() == [{"v": "20"}]
