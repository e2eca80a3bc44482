"""Substrait plans over the wire, prepared and not."""

import pyarrow as pa
import pytest
from datafusion import SessionContext
from datafusion.substrait import Serde
from pyarrow import flight

from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc

ORDERS = pa.schema({"id": pa.int64(), "customer": pa.string(), "amount": pa.float64()})
STATEMENT = "SELECT customer, count(*) AS n FROM orders WHERE id < 500 GROUP BY customer ORDER BY customer"


def plan_of(text: str) -> sql.SubstraitPlan:
    context = SessionContext()
    context.register_record_batches("orders", [[pa.RecordBatch.from_pylist([], schema=ORDERS)]])
    return sql.SubstraitPlan(plan=bytes(Serde.serialize_bytes(text, context)), version="0.85.0")


def test_a_plan_gives_what_its_statement_gives(wire: flight.FlightClient) -> None:
    command = sql.CommandStatementSubstraitPlan(plan=plan_of(STATEMENT))
    info = rpc.info(wire, command)
    table = wire.do_get(info.endpoints[0].ticket).read_all()
    assert table.equals(rpc.query(wire, STATEMENT))
    schema = wire.get_schema(rpc.descriptor(command)).schema
    assert table.schema.equals(info.schema, check_metadata=True)
    assert table.schema.equals(schema, check_metadata=True)


def test_a_plan_can_be_prepared_and_run_often(wire: flight.FlightClient) -> None:
    request = sql.ActionCreatePreparedSubstraitPlanRequest(plan=plan_of(STATEMENT))
    (body,) = rpc.act(wire, "CreatePreparedSubstraitPlan", rpc.packed(request))
    prepared = rpc.unpacked(sql.ActionCreatePreparedStatementResult, body)
    assert rpc.schema_of(prepared.dataset_schema).names == ["customer", "n"]
    assert rpc.schema_of(prepared.parameter_schema).names == []
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=prepared.prepared_statement_handle)
    for _ in range(2):
        assert rpc.fetch(wire, command).equals(rpc.query(wire, STATEMENT))


def test_the_ticket_of_a_plan_is_good_for_once(wire: flight.FlightClient) -> None:
    ticket = (
        rpc.info(wire, sql.CommandStatementSubstraitPlan(plan=plan_of("SELECT id FROM orders")))
        .endpoints[0]
        .ticket
    )
    assert wire.do_get(ticket).read_all().num_rows == 1000
    with pytest.raises(KeyError, match="was used"):
        wire.do_get(ticket).read_all()


def test_the_server_says_which_plans_it_reads(wire: flight.FlightClient) -> None:
    codes = [
        sql.FLIGHT_SQL_SERVER_SUBSTRAIT,
        sql.FLIGHT_SQL_SERVER_SUBSTRAIT_MIN_VERSION,
        sql.FLIGHT_SQL_SERVER_SUBSTRAIT_MAX_VERSION,
    ]
    supported, least, most = rpc.fetch(wire, sql.CommandGetSqlInfo(info=codes)).column("value").to_pylist()
    assert supported is True
    assert least == most == "0.85.0"


def test_a_plan_is_no_update(wire: flight.FlightClient) -> None:
    command = sql.CommandStatementSubstraitPlan(plan=plan_of("SELECT id FROM orders"))
    with pytest.raises(NotImplementedError, match="cannot be an update"):
        rpc.put(wire, command)


@pytest.mark.parametrize("plan", [b"", b"\xff\xff"])
def test_what_is_no_plan_is_refused(wire: flight.FlightClient, plan: bytes) -> None:
    with pytest.raises((ValueError, NotImplementedError), match="Substrait plan"):
        rpc.info(wire, sql.CommandStatementSubstraitPlan(plan=sql.SubstraitPlan(plan=plan)))
