"""The one Flight client of the streaming families: the same code drains the gateway and the bare server."""

from google.protobuf.any_pb2 import Any
from pyarrow import flight

from lance_gateway.protos.flight_sql_pb2 import CommandStatementQuery


def build_descriptor(sql: str) -> flight.FlightDescriptor:
    """Return the Flight SQL descriptor of a query."""
    packed = Any()
    packed.Pack(CommandStatementQuery(query=sql))
    return flight.FlightDescriptor.for_command(packed.SerializeToString())


def drain(client: flight.FlightClient, descriptor: flight.FlightDescriptor) -> int:
    """Read a result batch by batch, dropping each batch, and return the number of rows."""
    rows = 0
    for endpoint in client.get_flight_info(descriptor).endpoints:
        for chunk in client.do_get(endpoint.ticket):
            rows += chunk.data.num_rows
    return rows
