"""A bare Flight server: no SQL, no storage, one result in memory. The ceiling for streaming.

`python -m benchmarks.bare_flight SOURCE SQL` reads the result once from the Flight SQL server at SOURCE, then
serves those batches, as they came, to whoever asks.
"""

import sys

import pyarrow as pa
from pyarrow import flight

from benchmarks.flight_client import statement


class BareFlightServer(flight.FlightServerBase):  # type: ignore[misc]
    """Answers every descriptor with one endpoint, and every ticket with the same batches."""

    def __init__(self, schema: pa.Schema, batches: list[pa.RecordBatch]) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._schema = schema
        self._batches = batches

    def get_flight_info(
        self, _context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        """One endpoint, to be read from this server."""
        endpoints = [flight.FlightEndpoint(b"result", [])]
        return flight.FlightInfo(self._schema, descriptor, endpoints, -1, -1)

    def do_get(self, _context: flight.ServerCallContext, _ticket: flight.Ticket) -> flight.RecordBatchStream:
        """The batches, sent without a Python step per batch."""
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(self._schema, self._batches))


def main(source: str, sql: str) -> None:
    """Loads the result, prints the location, serves until terminated."""
    with flight.connect(source) as client:
        info = client.get_flight_info(statement(sql))
        batches = [chunk.data for endpoint in info.endpoints for chunk in client.do_get(endpoint.ticket)]
    with BareFlightServer(info.schema, batches) as server:
        print(f"grpc://127.0.0.1:{server.port}", flush=True)
        server.serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
