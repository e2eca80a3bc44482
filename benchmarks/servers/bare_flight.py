"""A bare Flight server: no SQL, no storage, one result in memory. The ceiling for streaming.

`python -m benchmarks.servers.bare_flight SOURCE SQL` reads the result once from the Flight SQL server at
SOURCE, then serves those batches, as they came, to whoever asks, also as the answer of a prepared statement.
"""

import sys
from collections.abc import Iterator

import pyarrow as pa
from pyarrow import flight

from benchmarks.servers.flight_client import build_descriptor
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos.flight_sql import pack


class BareFlightServer(flight.FlightServerBase):  # type: ignore[misc]
    """Answers every descriptor with one endpoint, every ticket with the same batches, whatever was bound."""

    def __init__(self, schema: pa.Schema, batches: list[pa.RecordBatch]) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._schema = schema
        self._batches = batches

    def get_flight_info(
        self, _context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        """One endpoint, to be read from this server."""
        if b"CommandGetSqlInfo" in descriptor.command:
            raise NotImplementedError("a bare server has nothing to say of itself")
        endpoints = [flight.FlightEndpoint(b"result", [])]
        return flight.FlightInfo(self._schema, descriptor, endpoints, -1, -1)

    def do_get(self, _context: flight.ServerCallContext, _ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Return the batches, sent without a Python step per batch."""
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(self._schema, self._batches))

    def do_put(
        self,
        _context: flight.ServerCallContext,
        _descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        _writer: flight.FlightMetadataWriter,
    ) -> None:
        """Take parameters and forget them."""
        reader.read_all()

    def do_action(self, _context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        """Prepare any statement as one with one int64 parameter."""
        if action.type != "CreatePreparedStatement":
            return iter(())
        parameters = pa.schema([("$1", pa.int64())])
        result = sql.ActionCreatePreparedStatementResult(
            prepared_statement_handle=b"any",
            dataset_schema=self._schema.serialize().to_pybytes(),
            parameter_schema=parameters.serialize().to_pybytes(),
        )
        return iter((pack(result),))


def main(source: str, query: str) -> None:
    """Load the result, print the location, serve until terminated."""
    with flight.connect(source) as client:
        info = client.get_flight_info(build_descriptor(query))
        batches = [chunk.data for endpoint in info.endpoints for chunk in client.do_get(endpoint.ticket)]
    with BareFlightServer(info.schema, batches) as server:
        print(f"grpc://127.0.0.1:{server.port}", flush=True)
        server.serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
