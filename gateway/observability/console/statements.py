"""Statements of the console: sent to the gateway's own Flight SQL port, as any client would."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Self

import pyarrow as pa
from google.protobuf import any_pb2
from google.protobuf.message import Message
from pyarrow import flight

from lance_gateway.gateway.observability.console.answers import list_values
from lance_gateway.gateway.sessions import REQUEST_HEADER, list_options
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos.flight_sql import CookieJar, FlightSqlConnection, build_bearer_header, pack

NO_OPTIONS: Final[Mapping[str, object]] = MappingProxyType({})
_SHOWN_CHARS: Final = 80
_OPTION_NAMES: Final = tuple(list_options(SessionSettings()))


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
        return Connection(FlightSqlConnection(self.uri, options, [CookieJar()]), headers)


class Connection:
    """A connection of one user, with a session of its own; raises the errors of pyarrow."""

    def __init__(self, connection: FlightSqlConnection, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self._connection = connection
        self._headers = headers
        self._options = flight.FlightCallOptions(headers=list(headers))

    def for_request(self, name: str) -> "Connection":
        """Return the same connection, whose statements bear the name of a request."""
        return Connection(self._connection, [*self._headers, (REQUEST_HEADER.encode(), name.encode())])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def run(
        self, statement: str, parameters: Sequence[object] = (), options: Mapping[str, object] = NO_OPTIONS
    ) -> "Result":
        """Run any statement.

        Args:
            statement: of any kind.
            parameters: values of its parameters as JSON has them.
            options: of this statement, in place of those of the session.

        Raises:
            InvalidInputError: an option or a parameter can't be.
        """
        call = self._options
        if options:
            call = flight.FlightCallOptions(headers=[*self._headers, *map(_build_header, options.items())])
        with ExitStack() as opened:
            command: Message = sql.CommandStatementQuery(query=statement)
            if parameters:
                command = opened.enter_context(self._prepare(statement, parameters, call))
            info = self._connection.info(command, call)
            affected = None if len(info.schema) else info.total_records
            return Result(self._read(info, call, opened.pop_all()), affected)

    @contextmanager
    def _prepare(
        self, statement: str, parameters: Sequence[object], call: flight.FlightCallOptions
    ) -> Iterator[Message]:
        """Prepare a statement with its parameters, and close it in the end."""
        request = sql.ActionCreatePreparedStatementRequest(query=statement)
        body = self._connection.act("CreatePreparedStatement", pack(request), call)
        prepared = sql.ActionCreatePreparedStatementResult()
        any_pb2.Any.FromString(body or b"").Unpack(prepared)
        handle = prepared.prepared_statement_handle
        try:
            row = build_row(pa.ipc.read_schema(pa.py_buffer(prepared.parameter_schema)), parameters)
            command = sql.CommandPreparedStatementQuery(prepared_statement_handle=handle)
            answer = self._connection.update(command, call, row.schema, [row])
            bound = sql.DoPutPreparedStatementResult.FromString(answer or b"")
            yield sql.CommandPreparedStatementQuery(prepared_statement_handle=bound.prepared_statement_handle)
        finally:
            # What is not closed takes the place of others in the gateway, for hours.
            with suppress(pa.ArrowException):
                close = sql.ActionClosePreparedStatementRequest(prepared_statement_handle=handle)
                self._connection.act("ClosePreparedStatement", pack(close), call)

    def _read(
        self, info: flight.FlightInfo, call: flight.FlightCallOptions, opened: ExitStack
    ) -> Iterator[flight.FlightStreamReader]:
        with opened:
            for endpoint in info.endpoints:
                yield self._connection.read(endpoint.ticket, call)

    def check(self, statement: str) -> None:
        """Check that a statement could be run now, which `_prepare` finds out; its changes are not made."""
        with self._prepare(statement, (), self._options):
            pass

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


def build_row(schema: pa.Schema, values: Sequence[object]) -> pa.RecordBatch:
    """Return values as JSON has them in the types of a statement's parameters.

    Raises:
        InvalidInputError: there are too few or too many, or one can't be of its type.
    """
    if len(schema) != len(values):
        raise InvalidInputError(f"the statement has {len(schema)} parameters, and {len(values)} were given")
    columns = [
        _convert(at + 1, value, kind)
        for at, (value, kind) in enumerate(zip(values, schema.types, strict=True))
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _convert(number: int, value: object, kind: pa.DataType) -> pa.Array:
    try:
        with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
            # What JSON lacks is a text: times, decimals, large numbers.
            return pa.array([value]).cast(kind) if isinstance(value, str) else pa.array([value], kind)
        # Where the text of the statement tells no type, the gateway takes that of the value.
        return pa.array([value])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        shown = repr(value)
        shown = shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}.."
        raise InvalidInputError(f"parameter ${number} is {shown}: give a value of the type {kind}") from error


def _build_header(option: tuple[str, object]) -> tuple[bytes, bytes]:
    """Return the header that chooses an option for one call."""
    name, value = option
    if name not in _OPTION_NAMES:
        raise InvalidInputError(f"there is no option {name!r}: there are {', '.join(_OPTION_NAMES)}")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not (text.isascii() and text.isprintable()):
        raise InvalidInputError(f"option {name} is {text!r}: give printable ASCII, or run SET {name} = ..")
    return f"x-lance-gateway-{name}".encode(), text.encode()
