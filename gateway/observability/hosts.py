"""Whom a request says that it was sent to and from, and which of these are refused before all else."""

import ipaddress
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from lance_gateway.gateway.observability.connections import Connections

_AUTHORITY: Final = r"(?P<name>\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(?P<port>\d{1,5}))?"
_HOST: Final = re.compile(_AUTHORITY, re.ASCII)
_ORIGIN: Final = re.compile(rf"(?P<scheme>[a-z][a-z0-9+.-]*)://{_AUTHORITY}", re.ASCII | re.IGNORECASE)
_ALL_ADDRESSES: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - not listened on
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a page comes from, or where a request was sent to.

    Attributes:
        scheme: such as `http`.
        name: of the host, in lower case; of IPv6 without brackets.
        port: None where the scheme has none.
    """

    scheme: str
    name: str
    port: int | None


def parse_host(value: str, scheme: str) -> Origin | None:
    """Return what a Host header stands for; None if it is malformed."""
    return _build_origin(_HOST.fullmatch(value), scheme)


def parse_origin(value: str) -> Origin | None:
    """Return what an Origin header stands for; None if it is malformed, or `null`."""
    match = _ORIGIN.fullmatch(value)
    return None if match is None else _build_origin(match, match["scheme"].lower())


def find_scheme(headers: Headers) -> str:
    """Return the scheme by which the browser came: this port's own, or that of the proxy in front of it.

    Pages of other sites can't send the header of proxies.
    """
    forwarded = headers.get("x-forwarded-proto", "").strip().lower()
    return forwarded if forwarded in _PORTS else "http"


def _build_origin(match: re.Match[str] | None, scheme: str) -> Origin | None:
    if match is None:
        return None
    name = match["name"].lower().strip("[]")
    if match["name"].startswith("["):
        try:
            name = str(ipaddress.IPv6Address(name))
        except ValueError:
            return None
    return Origin(scheme, name, int(match["port"]) if match["port"] else _PORTS.get(scheme))


@dataclass(frozen=True, slots=True)
class HostCheck:
    """Which names a request may give the gateway where everybody is let in.

    A page of another site can bend a name of its own to an address of this machine or of its network, and
    then ask as a page of the gateway's would. Its requests bear that name.

    Args:
        names: besides loopback ones, and the address that the request came to.
    """

    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> "HostCheck":
        """Return the check that takes some names; those that stand for all addresses are none."""
        return cls(frozenset(name.lower().strip("[]") for name in names) - _ALL_ADDRESSES)

    def takes(self, name: str, reached: str) -> bool:
        """Return whether a request may give the gateway a name.

        Args:
            name: in lower case, without brackets.
            reached: address of this machine that the request came to.
        """
        if name == "localhost" or name in self.names:
            return True
        with suppress(ValueError):
            address = ipaddress.ip_address(name)
            return address.is_loopback or address == ipaddress.ip_address(reached)
        return False


class RequestCheck:
    """Refuses requests that are malformed, too many, or not for this gateway, before anything reads them.

    Args:
        app: gets the others.
        connections: of the server.
        probes: paths that are answered beyond the limit of connections.
        hosts: names that are taken; None takes all.
    """

    def __init__(
        self, app: ASGIApp, connections: Connections, probes: Collection[str], hosts: HostCheck | None
    ) -> None:
        self._app = app
        self._connections = connections
        self._probes = probes
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        refusal = self._find_refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, reason = refusal
        headers = {"connection": "close", "cache-control": "no-store"}
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers["retry-after"] = "1"
        response: Response = PlainTextResponse(f"{reason}\n", status, headers)
        if scope["path"].startswith("/api/"):
            response = JSONResponse({"error": reason}, status, headers)
        await response(scope, receive, send)

    def _find_refusal(self, scope: Scope) -> tuple[HTTPStatus, str] | None:
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # Which of them is right, proxies decide otherwise than servers: a request could hide in a body.
            return (
                HTTPStatus.BAD_REQUEST,
                "the request has Content-Length and Transfer-Encoding: send one of them",
            )
        # HTTP/1.0 may do without. Browsers always send it.
        host = headers.get("host", "")
        called = parse_host(host, "http")
        if host and called is None:
            return HTTPStatus.BAD_REQUEST, f"the header Host is {host!r:.200}: send HOST or HOST:PORT"
        origin = headers.get("origin", "null")
        if origin != "null" and parse_origin(origin) is None:
            return HTTPStatus.BAD_REQUEST, f"the header Origin is {origin!r:.200}: send SCHEME://HOST:PORT"
        if self._hosts is not None and called is not None:
            reached = (scope.get("server") or ("", 0))[0]
            if not self._hosts.takes(called.name, reached):
                reason = (
                    f"the host {host!r:.200} is not an address of this gateway, which asks for no login: use "
                    "localhost, or the address that it listens on; http_names of [observability] adds others"
                )
                return HTTPStatus.FORBIDDEN, reason
        if self._connections.is_crowded and scope["path"] not in self._probes:
            return HTTPStatus.SERVICE_UNAVAILABLE, "the port has too many connections: try again in a moment"
        return None
