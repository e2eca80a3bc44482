"""One connection to a gateway, the calls that the data source makes, and what a user is told when one fails.

Spark shows the traceback of its Python worker. What a traceback begins with is what led to the error: so our
words become the cause of another error, and stand in front.
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

from memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
    UnsupportedError,
)
from pipeline.source.options import Login, Options
from protos import flight_pb2
from protos import flight_sql_pb2 as sql
from protos.flight_sql import FlightSqlConnection, build_bearer_header, format_error, pack, read_tls_files

_BUSY = "RESOURCE_EXHAUSTED"


class LanceGatewaySourceError(Exception):
    """A read or write failed, in the words of its cause."""

    # Spark drops the cause when it shortens a traceback; the cause is the context too, and is shown then.
    __suppress_context__ = False


@contextmanager
def told_first() -> Iterator[None]:
    """Put the words of our own errors in front of the worker's traceback."""
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


def translated(error: Exception, what: str) -> LanceGatewayError:
    """An error of ours for one of pyarrow's.

    Args:
        error: as pyarrow's Flight client raised it.
        what: was done, to whom.
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
    return UnavailableError(message) if _BUSY in str(error) else LanceGatewayError(message)


T = TypeVar("T")
M = TypeVar("M", bound=Message)
_HEADER = "x-lance-gateway-"
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0
_FLIGHT_ERRORS = (pa.ArrowException, KeyError, NotImplementedError, OSError)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one part of a result is had.

    Attributes:
        ticket: as the gateway gave it.
        expires_at: seconds since 1970; None where the ticket is good once.
    """

    ticket: bytes
    expires_at: float | None


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a gateway says of a statement without executing it.

    Attributes:
        schema: of the result; without columns where the statement changes something.
        parameters: how many it takes.
        is_update: whether it changes something.
    """

    schema: pa.Schema
    parameters: int
    is_update: bool


class Gateway:
    """One connection; every call proves who calls.

    Args:
        url: of the gateway.
        options: login, session settings, patience.

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
        """The gateway's version."""
        code = sql.SqlInfo.FLIGHT_SQL_SERVER_VERSION
        (row,) = self._rows(sql.CommandGetSqlInfo(info=[code])).to_pylist()
        return str(row["value"])

    def primary_key(self, table: str) -> tuple[str, ...]:
        """Columns of a table's primary key, in key order.

        Raises:
            NotFoundError: there is no such table.
        """
        rows = self._rows(sql.CommandGetPrimaryKeys(table=table)).to_pylist()
        return tuple(row["column_name"] for row in sorted(rows, key=lambda row: row["key_sequence"]))

    def prepare(self, statement: str) -> Prepared:
        """Ask what a statement is; nothing is executed.

        Raises:
            LanceGatewayError: what is wrong with it.
        """
        body = self._act(
            "CreatePreparedStatement", pack(sql.ActionCreatePreparedStatementRequest(query=statement))
        )
        made = sql.ActionCreatePreparedStatementResult()
        _packed(body).Unpack(made)
        close = sql.ActionClosePreparedStatementRequest(
            prepared_statement_handle=made.prepared_statement_handle
        )
        self._act("ClosePreparedStatement", pack(close))
        return Prepared(_schema(made.dataset_schema), len(_schema(made.parameter_schema)), made.is_update)

    def endpoints(self, statement: str, count: int) -> list[Endpoint]:
        """Ask for a result in parts.

        Args:
            statement: a query.
            count: how many parts are wanted; there may be fewer.
        """
        options = self._options((f"{_HEADER}endpoints".encode(), str(count).encode()))
        info = self._tried(lambda: self._connection.info(sql.CommandStatementQuery(query=statement), options))
        return [
            Endpoint(
                one.ticket.ticket,
                None
                if one.expiration_time is None
                else one.expiration_time.cast(pa.timestamp("us", "UTC")).value / 1e6,
            )
            for one in info.endpoints
        ]

    def renewed(self, endpoint: Endpoint) -> Endpoint:
        """An endpoint for the same rows that is good for longer.

        Raises:
            NotFoundError: its ticket is good once.
        """
        request = flight_pb2.RenewFlightEndpointRequest()
        request.endpoint.ticket.ticket = endpoint.ticket
        body = self._act("RenewFlightEndpoint", request.SerializeToString())
        found = flight_pb2.FlightEndpoint.FromString(body)
        return Endpoint(found.ticket.ticket, found.expiration_time.ToMilliseconds() / 1000)

    def read(self, endpoint: Endpoint) -> Iterator[pa.RecordBatch]:
        """The rows of one part.

        Until the first batch is there, calls that the gateway could not take are repeated; afterwards an
        error is the reader's: rows that were given already can't be told from those that were not.

        Raises:
            UnavailableError: the gateway can't be reached, or the snapshot is gone.
            NotFoundError: the ticket expired, or was used.
        """

        def opened() -> tuple[Any, Any]:
            reader = self._connection.read(flight.Ticket(endpoint.ticket), self._options())
            return reader, next(reader, None)

        reader, chunk = self._tried(opened)
        try:
            while chunk is not None:
                yield chunk.data
                with self._translating("the stream broke off"):
                    chunk = next(reader, None)
        finally:
            reader.cancel()

    def query(self, statement: str) -> Iterator[pa.RecordBatch]:
        """Run a query as a whole; the same retries as `read`."""
        (endpoint, *_) = self.endpoints(statement, 1)
        return self.read(endpoint)

    def append(self, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Send rows into a table that is there.

        Returns:
            How many rows the gateway acknowledged: all of them.

        Raises:
            LanceGatewayError: some rows may have been written.
        """
        definition = sql.CommandStatementIngest.TableDefinitionOptions(
            if_not_exist=sql.CommandStatementIngest.TableDefinitionOptions.TABLE_NOT_EXIST_OPTION_FAIL,
            if_exists=sql.CommandStatementIngest.TableDefinitionOptions.TABLE_EXISTS_OPTION_APPEND,
        )
        command = sql.CommandStatementIngest(table_definition_options=definition, table=table)
        with self._translating(f"writing to table {table!r}"):
            answer = self._connection.update(command, self._options(), schema, batches)
        if answer is None:
            raise LanceGatewayError(f"{self.url} did not say how many rows of table {table!r} it wrote")
        return sql.DoPutUpdateResult.FromString(answer).record_count

    def _rows(self, command: Message) -> pa.Table:
        def fetched() -> pa.Table:
            info = self._connection.info(command, self._options())
            return self._connection.read(info.endpoints[0].ticket, self._options()).read_all()

        return self._tried(fetched)

    def _act(self, name: str, body: bytes) -> bytes:
        return self._tried(lambda: self._connection.act(name, body, self._options())) or b""

    def _options(self, *headers: tuple[bytes, bytes]) -> flight.FlightCallOptions:
        return flight.FlightCallOptions(timeout=self._timeout, headers=[*self._headers, *headers])

    def _tried(self, call: Callable[[], T]) -> T:
        """Repeat what the gateway could not take, with growing pauses."""
        pause = _FIRST_PAUSE_SECONDS
        for attempt in range(self._retries + 1):
            try:
                with self._translating(""):
                    return call()
            except UnavailableError:
                if attempt == self._retries:
                    raise
            # Spread, so that the tasks of a job don't come back together.
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        raise AssertionError

    @contextmanager
    def _translating(self, what: str) -> Iterator[None]:
        try:
            yield
        except LanceGatewayError:
            raise
        except _FLIGHT_ERRORS as error:
            raise translated(error, f"gateway {self.url}{what and ', '}{what}") from None


def first_that_answers(options: Options, call: Callable[[Gateway], T], start: int = 0) -> T:
    """Make a call to one of several gateways over the same root.

    Args:
        options: with their addresses.
        call: that any of them can answer.
        start: which of them is asked first, modulo their number.

    Raises:
        UnavailableError: none of them can be reached; the last one's words.
        LanceGatewayError: the first one that answers refuses.
    """
    urls = in_turn(options.urls, start)
    for url in urls[:-1]:
        with Gateway(url, options) as gateway:
            try:
                return call(gateway)
            except UnavailableError:
                continue
    with Gateway(urls[-1], options) as gateway:
        return call(gateway)


def in_turn(urls: Sequence[str], start: int) -> tuple[str, ...]:
    """All addresses, beginning with another one."""
    first = start % len(urls)
    return (*urls[first:], *urls[:first])


def _authorization(login: Login) -> list[tuple[bytes, bytes]]:
    password, token = login.secret()
    if token is not None:
        return [build_bearer_header(token)]
    if password is None:
        return []
    # With every call: a bearer token of one gateway means nothing to another, nor after a restart.
    pair = base64.b64encode(f"{login.user}:{password}".encode()).decode()
    return [(b"authorization", f"Basic {pair}".encode())]


def _packed(body: bytes) -> Packed:
    try:
        return Packed.FromString(body)
    except DecodeError:
        raise LanceGatewayError("the answer is no message of Flight SQL: is this a gateway?") from None


def _schema(serialized: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(serialized)) if serialized else pa.schema([])
