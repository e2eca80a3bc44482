"""There are no transactions, and whoever asks for one is told so."""

from typing import Any

import pytest
from pyarrow import flight

from protos import flight_sql_pb2 as sql
from tests.gateway import rpc

ACTIONS = [
    ("BeginTransaction", sql.ActionBeginTransactionRequest(), "no transactions"),
    ("EndTransaction", sql.ActionEndTransactionRequest(transaction_id=b"t", action=1), "no transactions"),
    ("BeginSavepoint", sql.ActionBeginSavepointRequest(transaction_id=b"t", name="s"), "no savepoints"),
    ("EndSavepoint", sql.ActionEndSavepointRequest(savepoint_id=b"s", action=2), "no savepoints"),
]


@pytest.mark.parametrize(("name", "request_", "said"), ACTIONS, ids=[name for name, _, _ in ACTIONS])
def test_an_action_is_refused_with_the_way_out(
    wire: flight.FlightClient, name: str, request_: Any, said: str
) -> None:
    with pytest.raises(NotImplementedError, match=f"{name}: the gateway has {said}.*autocommit"):
        rpc.act(wire, name, rpc.packed(request_))


def test_the_server_says_that_it_has_none(wire: flight.FlightClient) -> None:
    codes = [sql.FLIGHT_SQL_SERVER_TRANSACTION, sql.SQL_TRANSACTIONS_SUPPORTED, sql.SQL_SAVEPOINTS_SUPPORTED]
    table = rpc.fetch(wire, sql.CommandGetSqlInfo(info=codes))
    assert table.column("value").to_pylist() == [0, False, False]


@pytest.mark.parametrize(
    "command",
    [
        sql.CommandStatementQuery(query="SELECT 1", transaction_id=b"t"),
        sql.CommandStatementQuery(query="SELECT 1", transaction_id=b""),
        sql.CommandStatementSubstraitPlan(transaction_id=b"t"),
    ],
)
def test_a_statement_of_a_transaction_is_refused(wire: flight.FlightClient, command: Any) -> None:
    for call in (wire.get_flight_info, wire.get_schema):
        with pytest.raises(NotImplementedError, match=f"{type(command).__name__} names a transaction"):
            call(rpc.descriptor(command))


def test_a_prepared_statement_of_a_transaction_is_refused(wire: flight.FlightClient) -> None:
    request = sql.ActionCreatePreparedStatementRequest(query="SELECT 1", transaction_id=b"t")
    with pytest.raises(NotImplementedError, match="names a transaction"):
        rpc.act(wire, "CreatePreparedStatement", rpc.packed(request))


def test_an_update_of_a_transaction_is_refused(wire: flight.FlightClient) -> None:
    command = sql.CommandStatementUpdate(query="DELETE FROM orders", transaction_id=b"t")
    with pytest.raises(NotImplementedError, match="names a transaction"):
        rpc.put(wire, command)
