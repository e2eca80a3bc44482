"""The connection of the data source to a gateway, and its errors.

Spark shows the traceback of its Python worker, which begins with the cause of an error. So a gateway's error
is raised as the cause of another one, and its message comes first.
"""

import base64
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import pyarrow as pa
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import DecodeError, Message
from pyarrow import flight

from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
    UnsupportedError,
)
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.pipeline.source.options import Login, Options
from lance_gateway.protos import flight_pb2
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos.flight_sql import (
    FlightSqlConnection,
    build_bearer_header,
    format_error,
    pack,
    read_tls_files,
)


class LanceGatewaySourceError(Exception):
    """A read or write failed; has the message of its cause."""

    # Spark drops the cause when it shortens a traceback; the cause is the context too, and is shown then.
    __suppress_context__ = False


@contextmanager
def raise_first() -> Iterator[None]:
    """Put the messages of our errors in front of the worker's traceback."""
    try:
        yield
    except LanceGatewayError as error:
        cause = error.with_traceback(None)
        cause.__cause__ = None
        cause.__suppress_context__ = True
    else:
        return
    failure = LanceGatewaySourceError(str(cause))
    failure.__context__ = cause
    raise failure from cause


def translate_error(error: Exception, what: str) -> LanceGatewayError:
    """Translate an error of pyarrow's Flight client.

    Args:
        error: the error.
        what: description of the failed call.
    """
    message = f"{what}: {format_error(error)}"
    if isinstance(error, flight.FlightUnavailableError | flight.FlightTimedOutError):
        return UnavailableError(message)
    if isinstance(error, flight.FlightUnauthenticatedError | flight.FlightUnauthorizedError):
        return PermissionDeniedError(message)
    if isinstance(error, KeyError):
        return NotFoundError(message)
    if isinstance(error, NotImplementedError | pa.ArrowNotImplementedError):
        return UnsupportedError(message)
    if isinstance(error, pa.ArrowInvalid):
        return InvalidInputError(message)
    return LanceGatewayError(message)


T = TypeVar("T")
M = TypeVar("M", bound=Message)
_HEADER = "x-lance-gateway-"
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
_FLIGHT_ERRORS = (pa.ArrowException, KeyError, NotImplementedError, OSError)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint, which gives a part of a result.

    Attributes:
        ticket: ticket of the gateway.
        expires_at: seconds since 1970; None if the ticket can be used once.
    """

    ticket: bytes
    expires_at: float | None


@dataclass(frozen=True, slots=True)
class Prepared:
    """The description of a prepared statement.

    Attributes:
        schema: schema of the result; without columns for an update.
        parameters: number of parameters.
        is_update: whether the statement changes data.
    """

    schema: pa.Schema
    parameters: int
    is_update: bool


class Gateway:
    """A connection to a gateway; every call is authenticated.

    Args:
        url: address of the gateway.
        options: login, session settings, timeout and retries.

    Raises:
        InvalidInputError: a file of the login can't be read, or a user has no password.
    """

    def __init__(self, url: str, options: Options) -> None:
        self.url = url
        self._retries = options.retries
        login = options.login
        paths = {"tls_ca": login.tls_ca, "tls_certificate": login.tls_certificate, "tls_key": login.tls_key}
        try:
            files = read_tls_files(*paths.values())
        except OSError as error:
            option = next(name for name, path in paths.items() if path and Path(path) == Path(error.filename))
            raise InvalidInputError(
                f"option {option} = {paths[option]!r} can't be read: {error.strerror}"
            ) from None
        headers = [
            *_authorization(login),
            *((f"{_HEADER}{name}".encode(), text.encode()) for name, text in options.settings.items()),
        ]
        self._headers = headers
        self._timeout = options.timeout_seconds
        self._connection = FlightSqlConnection(url, files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def version(self) -> str:
        """Return the gateway's version."""
        code = sql.SqlInfo.FLIGHT_SQL_SERVER_VERSION
        (row,) = self._rows(sql.CommandGetSqlInfo(info=[code])).to_pylist()
        return str(row["value"])

    def primary_key(self, table: TableName) -> tuple[str, ...]:
        """Return the columns of a table's primary key, in key order.

        Raises:
            NotFoundError: the table does not exist.
        """
        rows = self._rows(sql.CommandGetPrimaryKeys(table=table.table, db_schema=table.schema)).to_pylist()
        return tuple(row["column_name"] for row in sorted(rows, key=lambda row: row["key_sequence"]))

    def prepare(self, statement: str) -> Prepared:
        """Prepare a statement, and return its description.

        Raises:
            LanceGatewayError: the statement is invalid.
        """
        body = self._act(
            "CreatePreparedStatement", pack(sql.ActionCreatePreparedStatementRequest(query=statement))
        )
        made = sql.ActionCreatePreparedStatementResult()
        _unpack(body).Unpack(made)
        close = sql.ActionClosePreparedStatementRequest(
            prepared_statement_handle=made.prepared_statement_handle
        )
        self._act("ClosePreparedStatement", pack(close))
        return Prepared(_schema(made.dataset_schema), len(_schema(made.parameter_schema)), made.is_update)

    def endpoints(self, statement: str, count: int) -> list[Endpoint]:
        """Execute a query, and return the endpoints of its result.

        Args:
            statement: a query.
            count: maximum number of endpoints.
        """
        options = self._options((f"{_HEADER}endpoints".encode(), str(count).encode()))
        info = self._retry(lambda: self._connection.info(sql.CommandStatementQuery(query=statement), options))
        return [
            Endpoint(
                endpoint.ticket.ticket,
                None
                if endpoint.expiration_time is None
                else endpoint.expiration_time.cast(pa.timestamp("us", "UTC")).value / 1e6,
            )
            for endpoint in info.endpoints
        ]

    def renew(self, endpoint: Endpoint) -> Endpoint:
        """Renew an endpoint, and return it with its new expiration.

        Raises:
            NotFoundError: the ticket can be used once only.
        """
        request = flight_pb2.RenewFlightEndpointRequest()
        request.endpoint.ticket.ticket = endpoint.ticket
        body = self._act("RenewFlightEndpoint", request.SerializeToString())
        found = flight_pb2.FlightEndpoint.FromString(body)
        return Endpoint(found.ticket.ticket, found.expiration_time.ToMilliseconds() / 1000)

    def read(self, endpoint: Endpoint) -> Iterator[pa.RecordBatch]:
        """Read the rows of an endpoint.

        Calls that the gateway could not accept are repeated until the first batch arrives. Later errors are
        raised, since rows that were already returned can't be skipped.

        Raises:
            UnavailableError: the gateway can't be reached, or the snapshot is gone.
            NotFoundError: the ticket expired, or was used.
        """

        def open_stream() -> tuple[Any, Any]:
            reader = self._connection.read(flight.Ticket(endpoint.ticket), self._options())
            return reader, next(reader, None)

        reader, chunk = self._retry(open_stream)
        try:
            while chunk is not None:
                yield chunk.data
                with self._translate_errors("the stream broke off"):
                    chunk = next(reader, None)
        finally:
            reader.cancel()

    def query(self, statement: str) -> Iterator[pa.RecordBatch]:
        """Run a query with a single endpoint; retries like `read`."""
        (endpoint, *_) = self.endpoints(statement, 1)
        return self.read(endpoint)

    def append(self, table: TableName, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Append rows to an existing table.

        Returns:
            The number of rows that the gateway acknowledged, which is all of them.

        Raises:
            LanceGatewayError: some rows may have been written.
        """
        definition = sql.CommandStatementIngest.TableDefinitionOptions(
            if_not_exist=sql.CommandStatementIngest.TableDefinitionOptions.TABLE_NOT_EXIST_OPTION_FAIL,
            if_exists=sql.CommandStatementIngest.TableDefinitionOptions.TABLE_EXISTS_OPTION_APPEND,
        )
        command = sql.CommandStatementIngest(
            table_definition_options=definition, table=table.table, schema=table.schema
        )
        with self._translate_errors(f"writing to table {table!r}"):
            answer = self._connection.update(command, self._options(), schema, batches)
        if answer is None:
            raise LanceGatewayError(f"{self.url} did not say how many rows of table {table!r} it wrote")
        return sql.DoPutUpdateResult.FromString(answer).record_count

    def _rows(self, command: Message) -> pa.Table:
        def fetch() -> pa.Table:
            info = self._connection.info(command, self._options())
            return self._connection.read(info.endpoints[0].ticket, self._options()).read_all()

        return self._retry(fetch)

    def _act(self, name: str, body: bytes) -> bytes:
        return self._retry(lambda: self._connection.act(name, body, self._options())) or b""

    def _options(self, *headers: tuple[bytes, bytes]) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(timeout=self._timeout, headers=[*self._headers, *headers])

    def _retry(self, call: Callable[[], T]) -> T:
        """Make a call, and repeat it with growing pauses while the gateway is unavailable."""
        pause = _FIRST_PAUSE_SECONDS
        for attempt in range(self._retries + 1):
            try:
                with self._translate_errors(""):
                    return call()
            except UnavailableError:
                if attempt == self._retries:
                    raise
            # Random, so that the tasks of a job don't retry at the same time.
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        raise AssertionError

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except LanceGatewayError:
            raise
        except _FLIGHT_ERRORS as error:
            raise translate_error(error, f"gateway {self.url}{what and ', '}{what}") from None


def call_first_available(options: Options, call: Callable[[Gateway], T], start: int = 0) -> T:
    """Make a call to the first available gateway of several over the same root.

    Args:
        options: options with the addresses.
        call: a call that any of the gateways can answer.
        start: number of the gateway to try first, modulo the number of gateways.

    Raises:
        UnavailableError: no gateway is available; has the message of the last one.
        LanceGatewayError: the first available gateway refuses the call.
    """
    urls = rotate_urls(options.urls, start)
    for url in urls[:-1]:
        with Gateway(url, options) as gateway:
            try:
                return call(gateway)
            except UnavailableError:
                continue
    with Gateway(urls[-1], options) as gateway:
        return call(gateway)


def rotate_urls(urls: Sequence[str], start: int) -> tuple[str, ...]:
    """Rotate the addresses, so that another one comes first."""
    first = start % len(urls)
    return (*urls[first:], *urls[:first])


def _authorization(login: Login) -> list[tuple[bytes, bytes]]:
    password, token = login.secret()
    if token is not None:
        return [build_bearer_header(token)]
    if password is None:
        return []
    # Sent with every call, since a bearer token is valid for one gateway, and until its restart.
    pair = base64.b64encode(f"{login.user}:{password}".encode()).decode()
    return [(b"authorization", f"Basic {pair}".encode())]


def _unpack(body: bytes) -> Packed:
    try:
        return Packed.FromString(body)
    except DecodeError:
        raise LanceGatewayError("the answer is not a message of Flight SQL: is this a gateway?") from None


def _schema(serialized: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(serialized)) if serialized else pa.schema([])
