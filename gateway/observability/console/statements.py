"""Statements of the console: sent to the gateway's own Flight SQL port, as any client would."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from pyarrow import flight

from gateway.observability.console.answers import list_values
from protos import flight_sql_pb2 as sql
from protos.flight_sql import CookieJar, FlightSqlConnection, build_bearer_header


@dataclass(frozen=True, slots=True)
class OwnGateway:
    """Where the gateway listens for Flight SQL.

    Args:
        uri: of its own port, on an address that this machine reaches.
        is_encrypted: whether it serves with TLS.
    """

    uri: str
    is_encrypted: bool = False

    @classmethod
    def locate(cls, host: str, port: int, *, is_encrypted: bool) -> Self:
        """Return the gateway that listens on a host and port."""
        # Who listens on all addresses listens on this one.
        reached = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
        return cls(f"grpc{'+tls' if is_encrypted else ''}://{reached}:{port}", is_encrypted)

    def connect(self, token: str | None) -> "Connection":
        """Return a connection that presents a bearer token; None presents nothing."""
        # The certificate names the address that others use, and a process knows its own port.
        options: dict[str, Any] = {"disable_server_verification": True} if self.is_encrypted else {}
        headers = [] if token is None else [build_bearer_header(token)]
        return Connection(
            FlightSqlConnection(self.uri, options, [CookieJar()]), flight.FlightCallOptions(headers=headers)
        )


class Connection:
    """A connection of one user, with a session of its own; raises the errors of pyarrow."""

    def __init__(self, connection: FlightSqlConnection, options: flight.FlightCallOptions) -> None:
        self._connection = connection
        self._options = options

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def run(self, statement: str) -> "Result":
        """Run any statement."""
        info = self._connection.info(sql.CommandStatementQuery(query=statement), self._options)
        affected = None if len(info.schema) else info.total_records
        readers = (self._connection.read(endpoint.ticket, self._options) for endpoint in info.endpoints)
        return Result(readers, affected)

    def fetch(self, statement: str) -> list[dict[str, Any]]:
        """Return all rows of a small result as JSON has them."""
        result = self.run(statement)
        names = result.schema.names
        return [
            dict(zip(names, row, strict=True))
            for batch in result
            for row in zip(*map(list_values, batch.columns), strict=True)
        ]


class Result:
    """The rows of a statement.

    Args:
        readers: of its streams; at least one.
        affected: rows that the statement changed; None where it has a result.
    """

    def __init__(self, readers: Iterator[flight.FlightStreamReader], affected: int | None) -> None:
        self.affected = affected
        self._readers = readers
        self._reader = next(readers)

    @property
    def schema(self) -> pa.Schema:
        """Columns of the result."""
        return self._reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        reader: flight.FlightStreamReader | None = self._reader
        while reader is not None:
            self._reader = reader
            for chunk in reader:
                yield chunk.data
            reader = next(self._readers, None)

    def read_all(self) -> pa.Table:
        """Return all rows of a small result, with whole values."""
        return pa.Table.from_batches(list(self), self.schema)

    def cancel(self) -> None:
        """Stop the statement; does nothing where it has ended."""
        with suppress(pa.ArrowException):
            self._reader.cancel()
