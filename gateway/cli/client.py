"""A small Flight SQL client: what the command line needs, over the wire like any other client."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Self, TypeVar

import pyarrow as pa
from google.protobuf.message import Message
from pyarrow import flight

from lance_gateway.gateway.protocol.wire import decode
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError, UnavailableError
from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA, TableName, split_name
from lance_gateway.protos import flight_pb2
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos.flight_sql import (
    CookieJar,
    FlightSqlConnection,
    build_bearer_header,
    format_error,
    read_tls_files,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Login:
    """Credentials of a client, and the certificates that it trusts.

    Args:
        user: name, with `password`.
        password: of the user.
        token: sent with every call, instead of a user and password.
        ca: PEM file of the authorities that may have signed the server's certificate; None trusts those of
            this machine.
        certificate: PEM file of the client's certificate, with `key`.
        key: PEM file of its private key.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if self.user is not None and self.token is not None:
            raise InvalidInputError("both a user and a token are given: choose one way to log in")
        if (self.user is None) != (self.password is None):
            raise InvalidInputError("a user and a password belong together: give both")
        if (self.certificate is None) != (self.key is None):
            raise InvalidInputError("a client certificate and its key belong together: give both")

    @property
    def needs_tls(self) -> bool:
        """Whether part of it requires TLS."""
        return self.ca is not None or self.certificate is not None


NO_LOGIN = Login()


class GatewayClient:
    """One connection with its session.

    Args:
        uri: `grpc://HOST:PORT`, or `grpc+tls://HOST:PORT`.
        login: who connects.
        chosen: session options that go with every call, whatever the session is set to later.

    Raises:
        InvalidInputError: the URI is not of that form, or a file of the login cannot be read.
        pyarrow.flight.FlightUnauthenticatedError: the server refuses the user and password.
        UnavailableError: a user is to log in, and no server answers.
    """

    def __init__(
        self, uri: str, login: Login = NO_LOGIN, chosen: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        if not re.fullmatch(r"grpc(\+tcp|\+tls)?://[^/]+:\d+/?", uri):
            raise InvalidInputError(
                f"{uri!r} is not an address of a gateway: it must look like grpc://127.0.0.1:31337"
            )
        if login.needs_tls and not uri.startswith("grpc+tls:"):
            raise InvalidInputError(f"{uri!r} is not encrypted: certificates need grpc+tls://")
        try:
            files = read_tls_files(login.ca, login.certificate, login.key)
        except OSError as error:
            raise InvalidInputError(f"{error.filename!r} cannot be read: {error.strerror}") from None
        self._uri, self._login = uri, login
        self._chosen = [
            (f"x-lance-gateway-{name}".encode(), value.encode()) for name, value in chosen.items()
        ]
        self._jar = CookieJar()
        self._connection = FlightSqlConnection(uri.rstrip("/"), files, [self._jar])
        try:
            self._options = self._log_in()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def query(self, statement: str) -> "ResultReader":
        """Run any statement and return the stream of its result."""
        return self._fetch(sql.CommandStatementQuery(query=statement))

    def execute(self, statement: str) -> int:
        """Run an update.

        Returns:
            How many rows it inserted, updated or deleted; 0 for statements that change no rows.
        """
        answer = self._call(partial(self._connection.update, sql.CommandStatementUpdate(query=statement)))
        if answer is None:
            raise LanceGatewayError("the server did not say what the statement did")
        return decode(sql.DoPutUpdateResult, answer, "the answer to the update").record_count

    def set_options(self, options: Mapping[str, str]) -> None:
        """Set session options for the queries that follow.

        Raises:
            InvalidInputError: the server refused an option; the text names it.
        """
        request = flight_pb2.SetSessionOptionsRequest()
        for name, value in options.items():
            request.session_options[name].string_value = value
        body = self._run_action("SetSessionOptions", request)
        result = decode(flight_pb2.SetSessionOptionsResult, body, "the answer to SetSessionOptions")
        for name, error in result.errors.items():
            what = flight_pb2.SetSessionOptionsResult.ErrorValue.Name(error.value).lower().replace("_", " ")
            raise InvalidInputError(f"session option {name} = {options[name]!r}: {what}")

    def get_options(self) -> dict[str, str]:
        """Return the session options, as text."""
        body = self._run_action("GetSessionOptions", flight_pb2.GetSessionOptionsRequest())
        result = decode(flight_pb2.GetSessionOptionsResult, body, "the answer to GetSessionOptions")
        return {
            name: str(getattr(value, value.WhichOneof("option_value") or "string_value")).lower()
            for name, value in sorted(result.session_options.items())
        }

    def list_tables(self, *table_types: str) -> pa.Table:
        """Return the tables and views: catalog_name, db_schema_name, table_name, table_type."""
        return self._fetch(sql.CommandGetTables(table_types=table_types)).read_all()

    def resolve_name(self, table: str) -> TableName:
        """Return the name of a table; without a schema it is in that of the session.

        Raises:
            InvalidInputError: the text is not a name.
        """
        is_whole = len(split_name(table)) > 1
        return TableName.parse(table, MAIN_SCHEMA if is_whole else self.get_options()["schema"])

    def read_schema(self, table: TableName) -> pa.Schema:
        """Return the columns of a table or view.

        Raises:
            NotFoundError: there is none of that name.
        """
        command = sql.CommandGetTables(
            db_schema_filter_pattern=_escape_pattern(table.schema),
            table_name_filter_pattern=_escape_pattern(table.table),
            include_schema=True,
        )
        tables = self._fetch(command).read_all()
        if tables.num_rows == 0:
            names = ", ".join(list_names(self.list_tables("TABLE", "VIEW")))
            raise NotFoundError(f"table or view {table!r} does not exist; there are: {names or 'none'}")
        return pa.ipc.read_schema(tables.column("table_schema")[0].as_buffer())

    def _log_in(self) -> flight.FlightCallOptions:
        """Log in, if the login is a user's; return the options of the calls that follow."""
        login, headers = self._login, list(self._chosen)
        if login.token is not None:
            headers.append(build_bearer_header(login.token))
        if login.user is not None and login.password is not None:
            try:
                headers.append(self._connection.log_in(login.user, login.password))
            except (flight.FlightInternalError, flight.FlightUnavailableError) as error:
                # Where nobody listens, pyarrow says that it "could not finish writing before closing".
                raise UnavailableError(
                    f"cannot log in at {self._uri}: {format_error(error)}; check that a gateway listens there"
                ) from None
        return flight.FlightCallOptions(headers=headers)

    def _call(self, call: Callable[[flight.FlightCallOptions], T]) -> T:
        """Make one call; if the user's login has ended, log in and make it again."""
        try:
            return call(self._options)
        except flight.FlightUnauthenticatedError:
            # The gateway refused the caller, so it did nothing of what the call asks for.
            if self._login.user is None:
                raise
            self._options = self._log_in()
            return call(self._options)

    def _fetch(self, command: Message) -> "ResultReader":
        info = self._call(partial(self._connection.info, command))
        tickets = [endpoint.ticket for endpoint in info.endpoints]
        affected = None if len(info.schema) else info.total_records
        return ResultReader(self._connection, tickets, self._options, affected)

    def _run_action(self, name: str, request: Message) -> bytes:
        body = self._call(partial(self._connection.act, name, request.SerializeToString()))
        if body is None:
            raise LanceGatewayError(f"the server did not answer {name}")
        return body


class ResultReader:
    """Reads all endpoints of one result, one after the other.

    Args:
        connection: that asked.
        tickets: at least one.
        options: of its calls.
        affected: see the attribute.

    Attributes:
        affected: rows that the statement changed, -1 where that means nothing; None where it has a result.
    """

    def __init__(
        self,
        connection: FlightSqlConnection,
        tickets: Sequence[flight.Ticket],
        options: flight.FlightCallOptions,
        affected: int | None = None,
    ) -> None:
        self.affected = affected
        self._connection = connection
        self._options = options
        self._tickets = tickets[1:]
        self._reader = connection.read(tickets[0], options)

    @property
    def schema(self) -> pa.Schema:
        """Columns of the result."""
        return self._reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for chunk in self._reader:
            yield chunk.data
        for ticket in self._tickets:
            self._reader = self._connection.read(ticket, self._options)
            for chunk in self._reader:
                yield chunk.data

    def read_all(self) -> pa.Table:
        """Return the whole result."""
        schema = self.schema
        return pa.Table.from_batches(list(self), schema)

    def cancel(self) -> None:
        """Cancel the statement at the server."""
        self._reader.cancel()


def list_names(tables: pa.Table) -> list[TableName]:
    """Return the names of listed tables."""
    schemas, names = (tables.column(column).to_pylist() for column in ("db_schema_name", "table_name"))
    return list(map(TableName, names, schemas))


def _escape_pattern(name: str) -> str:
    """Return the search pattern that matches `name` only."""
    return re.sub(r"([\\%_])", r"\\\1", name)
