"""A small Flight SQL client: what the command line needs, over the wire like any other client."""

import re
from collections.abc import Mapping, Sequence
from typing import Self

import pyarrow as pa
from google.protobuf.message import Message
from pyarrow import flight

from gateway.wire import decode, pack
from memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError
from protos import flight_pb2
from protos import flight_sql_pb2 as sql

# What pyarrow and gRPC append to the server's own words.
_APPENDED = re.compile(r"\. (Detail: |gRPC client debug context: ).*", re.DOTALL)


def error_text(error: Exception) -> str:
    """Returns what the server said, without what the transport added."""
    # str() of a KeyError is the representation of its argument.
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return _APPENDED.sub("", text)


class GatewayClient:
    """One connection with its session.

    Args:
        uri: `grpc://HOST:PORT`.

    Raises:
        InvalidInputError: the URI is not of that form.
    """

    def __init__(self, uri: str) -> None:
        if not re.fullmatch(r"grpc(\+tcp|\+tls)?://[^/]+:\d+/?", uri):
            raise InvalidInputError(
                f"{uri!r} is no address of a gateway: it must look like grpc://127.0.0.1:31337"
            )
        self._jar = _CookieJar()
        self._client = flight.FlightClient(uri.rstrip("/"), middleware=[self._jar])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()

    def query(self, statement: str) -> flight.FlightStreamReader:
        """Runs a statement and returns the stream of its result."""
        return self._fetch(sql.CommandStatementQuery(query=statement))

    def set_options(self, options: Mapping[str, str]) -> None:
        """Sets session options for the queries that follow.

        Raises:
            InvalidInputError: the server refused an option; the text names it.
        """
        request = flight_pb2.SetSessionOptionsRequest()
        for name, value in options.items():
            request.session_options[name].string_value = value
        body = self._act("SetSessionOptions", request)
        result = decode(flight_pb2.SetSessionOptionsResult, body, "the answer to SetSessionOptions")
        for name, error in result.errors.items():
            what = flight_pb2.SetSessionOptionsResult.ErrorValue.Name(error.value).lower().replace("_", " ")
            raise InvalidInputError(f"session option {name} = {options[name]!r}: {what}")

    def options(self) -> dict[str, str]:
        """Returns the session options, as text."""
        body = self._act("GetSessionOptions", flight_pb2.GetSessionOptionsRequest())
        result = decode(flight_pb2.GetSessionOptionsResult, body, "the answer to GetSessionOptions")
        return {
            name: str(getattr(value, value.WhichOneof("option_value") or "string_value")).lower()
            for name, value in sorted(result.session_options.items())
        }

    def tables(self, *table_types: str) -> pa.Table:
        """Returns the tables and views: catalog_name, db_schema_name, table_name, table_type."""
        return self._fetch(sql.CommandGetTables(table_types=table_types)).read_all()

    def columns(self, table: str) -> pa.Schema:
        """Returns the columns of a table or view.

        Raises:
            NotFoundError: there is none of that name.
        """
        pattern = re.sub(r"([\\%_])", r"\\\1", table)
        found = self._fetch(
            sql.CommandGetTables(table_name_filter_pattern=pattern, include_schema=True)
        ).read_all()
        if found.num_rows == 0:
            names = ", ".join(self.tables().column("table_name").to_pylist())
            raise NotFoundError(f"table or view {table!r} does not exist; there are: {names or 'none'}")
        return pa.ipc.read_schema(found.column("table_schema")[0].as_buffer())

    def _fetch(self, command: Message) -> flight.FlightStreamReader:
        info = self._client.get_flight_info(flight.FlightDescriptor.for_command(pack(command)))
        return self._client.do_get(info.endpoints[0].ticket)

    def _act(self, name: str, request: Message) -> bytes:
        for result in self._client.do_action(flight.Action(name, request.SerializeToString())):
            return bytes(result.body)
        raise LanceGatewayError(f"the server did not answer {name}")


class _CookieJar(flight.ClientMiddlewareFactory):
    """Sends back the cookies that the server sets: they name the session."""

    def __init__(self) -> None:
        super().__init__()
        self.cookies: dict[str, str] = {}

    def start_call(self, info: flight.CallInfo) -> flight.ClientMiddleware:  # noqa: ARG002 - every call alike
        return _Cookies(self.cookies)


class _Cookies(flight.ClientMiddleware):
    def __init__(self, cookies: dict[str, str]) -> None:
        super().__init__()
        self._cookies = cookies

    def sending_headers(self) -> dict[str, str]:
        return (
            {"cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}
            if self._cookies
            else {}
        )

    def received_headers(self, headers: Mapping[str, Sequence[str]]) -> None:
        for cookie in headers.get("set-cookie", ()):
            name, _, value = cookie.partition(";")[0].strip().partition("=")
            if value:
                self._cookies[name] = value
            else:
                self._cookies.pop(name, None)
