"""The TCP connections of a server, which gRPC holds and tells nothing of: found among the process's files."""

import ipaddress
import os
import socket
import struct
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

Peer: TypeAlias = tuple[str, int]
"""Address and port of a client; an IPv4 address is written as one, whatever socket it came by."""

_DESCRIPTORS = Path("/proc/self/fd")
# Where struct tcp_info of Linux has the milliseconds since data came (tcpi_last_data_recv).
_LAST_DATA_OFFSET = 52
_INFO_BYTES = _LAST_DATA_OFFSET + 4


def parse_peer(text: str) -> Peer | None:
    """Return the peer that gRPC spells so; None if it is none of TCP.

    >>> parse_peer("ipv4:127.0.0.1:34567"), parse_peer("ipv6:%5B::1%5D:443"), parse_peer("unix:")
    (('127.0.0.1', 34567), ('::1', 443), None)
    """
    kind, _, rest = text.partition(":")
    host, _, port = rest.rpartition(":")
    if kind not in {"ipv4", "ipv6"} or not port.isdecimal():
        return None
    return _normalise(host.replace("%5B", "").replace("%5D", "").strip("[]")), int(port)


def close_quiet_connections(port: int, seconds: float, busy: Collection[Peer]) -> list[Peer]:
    """Close the connections of a server's clients over which nothing has come for a time.

    Only Linux tells when something came; elsewhere none is closed.

    Args:
        port: that the server listens on.
        seconds: without data.
        busy: clients whose connections stay.

    Returns:
        The clients whose connections were closed.
    """
    closed = []
    for connection in _iterate_connections(port):
        # Of a copy of the descriptor: gRPC may close its own at any time. It sees a client that went away.
        with connection, suppress(OSError):
            host, remote_port = connection.getpeername()[:2]
            peer = _normalise(host), remote_port
            if peer not in busy and _read_quiet_seconds(connection) >= seconds:
                connection.shutdown(socket.SHUT_RDWR)
                closed.append(peer)
    return closed


def _iterate_connections(port: int) -> Iterator[socket.socket]:
    """Yield copies of the sockets of this process that are bound to a port; the listening one among them."""
    if not hasattr(socket, "TCP_INFO"):
        return
    with suppress(OSError):
        for path in _DESCRIPTORS.iterdir():
            connection = None
            # Files are opened and closed meanwhile.
            with suppress(OSError):
                if not path.is_socket():
                    continue
                connection = socket.socket(fileno=os.dup(int(path.name)))
                is_tcp = connection.family in {socket.AF_INET, socket.AF_INET6}
                if is_tcp and connection.getsockname()[1] == port:
                    yield connection
            if connection is not None:
                connection.close()


def _read_quiet_seconds(connection: socket.socket) -> float:
    """Return how long no data has come."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    (milliseconds,) = struct.unpack_from("I", info, _LAST_DATA_OFFSET)
    return float(milliseconds) / 1000


def _normalise(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(address if mapped is None else mapped)
