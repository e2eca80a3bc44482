"""Light clients that insert rows: one call for each, so that the server is the one who is busy.

A text is sent as CommandStatementUpdate. A statement with parameters is prepared once, and each call binds a
row and executes it, as `executemany` of ADBC and `executeBatch` of JDBC do.
"""

from contextlib import ExitStack

import pyarrow as pa
from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message
from pyarrow import flight

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.queries import TABLE_NAME
from benchmarks.servers.load import KEY, Client, Statements
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos.flight_sql import pack

LITERAL = Statements(
    f"INSERT INTO {TABLE_NAME} VALUES ({KEY}, 1, TIMESTAMP '2026-01-01 00:00:00', 0.5, 'sector-1')"
)
BOUND = Statements(
    f"INSERT INTO {TABLE_NAME} VALUES ($1, 1, TIMESTAMP '2026-01-01 00:00:00', 0.5, 'sector-1')"
)
_FIRST_KEY = 1 << 40


class InsertingClient(Client):
    """Inserts one row at a time, with keys of its own."""

    def __init__(self, stack: ExitStack, uri: str, statements: Statements, number: int = 0) -> None:
        super().__init__(stack, uri, statements, number)
        self._client = stack.enter_context(flight.connect(uri))
        self._key = _FIRST_KEY + (number << 32)
        self._prepared: flight.FlightDescriptor | None = None
        if KEY not in statements.sql:
            request = sql.ActionCreatePreparedStatementRequest(query=statements.sql)
            action = flight.Action("CreatePreparedStatement", pack(request))
            (answer,) = self._client.do_action(action)
            result = sql.ActionCreatePreparedStatementResult()
            packed = Any()
            packed.ParseFromString(answer.body.to_pybytes())
            packed.Unpack(result)
            handle = result.prepared_statement_handle
            self._prepared = _build_descriptor(
                sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)
            )

    def execute(self) -> None:
        """Insert the next row and take the count."""
        self._key += 1
        if self._prepared is None:
            text = self._statements.sql.replace(KEY, str(self._key))
            descriptor, row = _build_descriptor(sql.CommandStatementUpdate(query=text)), None
        else:
            descriptor, row = self._prepared, pa.record_batch({"$1": pa.array([self._key])})
        schema = pa.schema([]) if row is None else row.schema
        writer, reader = self._client.do_put(descriptor, schema)
        with writer:
            if row is not None:
                writer.write_batch(row)
            writer.done_writing()
            answer = reader.read()
        result = sql.DoPutUpdateResult()
        result.ParseFromString(b"" if answer is None else answer.to_pybytes())
        if result.record_count != 1:
            raise WrongAnswerError(f"the insert of one row returned {result.record_count}")


def _build_descriptor(command: Message) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(pack(command))
