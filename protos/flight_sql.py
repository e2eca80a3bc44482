"""A Flight SQL client for the command line, forwarding gateways, and the Spark data source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message
from pyarrow import flight

# What nearly everybody writes before the name of a message's type.
TYPE_PREFIX = "type.googleapis.com/"
# What pyarrow and gRPC append to the server's own words.
_APPENDED = re.compile(r"\. (Detail: |gRPC client debug context: ).*", re.DOTALL)


def pack(message: Message) -> bytes:
    """Return a message packed in google.protobuf.Any, as commands and action bodies are sent."""
    # As Any.Pack does, in half of the time.
    url = TYPE_PREFIX + message.DESCRIPTOR.full_name
    return Any(type_url=url, value=message.SerializeToString()).SerializeToString()


def format_error(error: Exception) -> str:
    """Return the server's error message without the additions of the transport."""
    # str() of a KeyError is the representation of its argument.
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return _APPENDED.sub("", text)


def build_bearer_header(token: str) -> tuple[bytes, bytes]:
    """Return the authorization header for a token."""
    return b"authorization", f"Bearer {token}".encode()


def read_tls_files(
    ca: Path | str | None, certificate: Path | str | None, key: Path | str | None
) -> dict[str, bytes]:
    """Return the arguments of FlightClient for PEM files.

    Args:
        ca: of the authorities that may have signed the server's certificate; None trusts those of this
            machine.
        certificate: of the client; None where it has none.
        key: of the certificate.

    Raises:
        OSError: a file cannot be read; its `filename` says which.
    """
    paths = (("tls_root_certs", ca), ("cert_chain", certificate), ("private_key", key))
    # pyarrow takes an absent file for an empty one.
    return {name: Path(path).read_bytes() for name, path in paths if path is not None}


class FlightSqlConnection:
    """A connection to a server; raises the errors of pyarrow.

    Args:
        url: `grpc://HOST:PORT`, or `grpc+tls://HOST:PORT`.
        files: for TLS, see `read_tls_files`.
        middleware: sees the headers of every call.
    """

    def __init__(
        self, url: str, files: Mapping[str, bytes], middleware: Sequence[flight.ClientMiddlewareFactory] = ()
    ) -> None:
        self._client = flight.FlightClient(url, middleware=list(middleware), **files)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def log_in(self, user: str, password: str) -> tuple[bytes, bytes]:
        """Log in; return the authorization header from the server."""
        header: tuple[bytes, bytes] = self._client.authenticate_basic_token(user, password)
        return header

    def info(self, command: Message, options: flight.FlightCallOptions) -> flight.FlightInfo:
        """Return the FlightInfo of a command."""
        return self._client.get_flight_info(_build_descriptor(command), options)

    def read(self, ticket: flight.Ticket, options: flight.FlightCallOptions) -> flight.FlightStreamReader:
        """Open the stream of a ticket."""
        return self._client.do_get(ticket, options)

    def update(
        self,
        command: Message,
        options: flight.FlightCallOptions,
        schema: pa.Schema | None = None,
        batches: Iterable[pa.RecordBatch] = (),
    ) -> bytes | None:
        """Run an update command.

        Args:
            command: what is done.
            options: of the call.
            schema: of the batches; None where there are none.
            batches: rows that go with it.

        Returns:
            The server's answer, a DoPutUpdateResult; None where it gave none.
        """
        schema = pa.schema([]) if schema is None else schema
        writer, reader = self._client.do_put(_build_descriptor(command), schema, options)
        try:
            for batch in batches:
                writer.write_batch(batch)
            writer.done_writing()
            answer = reader.read()
        finally:
            writer.close()  # raises what the server refused with
        return None if answer is None else bytes(answer.to_pybytes())

    def act(self, name: str, body: bytes, options: flight.FlightCallOptions) -> bytes | None:
        """Run an action; return the body of its first result, None if it has none."""
        results = list(self._client.do_action(flight.Action(name, body), options))
        return bytes(results[0].body) if results else None


class CookieJar(flight.ClientMiddlewareFactory):
    """Sends back the cookies that the server sets: they name the session."""

    def __init__(self) -> None:
        super().__init__()
        self.cookies: dict[str, str] = {}

    def start_call(self, info: flight.CallInfo) -> flight.ClientMiddleware:  # noqa: ARG002 - every call alike
        """Return what adds the cookies to a call, and reads those of its answer."""
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


def _build_descriptor(command: Message) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(pack(command))
