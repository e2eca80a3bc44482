"""The streams and connections of clients: how many wait for their client, for how long, and who is there.

Flight gives each open stream a thread, from its first header on, and tells the gateway nothing of a stream
until its first message has come. pyarrow sets no option of gRPC (neither the number of streams nor of threads
nor the age of a connection) and cannot end a call that waits. So the gateway counts streams where it reads
their headers, refuses those that are too many, and closes connections over which nothing comes.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import resource
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TypeAlias

from lance_gateway.gateway.config.sections.limits import LimitsSection
from lance_gateway.memwal.errors import UnavailableError

logger = logging.getLogger(__name__)

Peer: TypeAlias = tuple[str, int]
"""Address and port of a client; an IPv4 address is written as one, whatever socket it came by."""

_MAX_LOOK_SECONDS = 5.0
_DESCRIPTORS = Path("/proc/self/fd")
# Where struct tcp_info of Linux has the milliseconds since data came (tcpi_last_data_recv).
_LAST_DATA_OFFSET = 52
_INFO_BYTES = _LAST_DATA_OFFSET + 4
# And the bytes that came (tcpi_bytes_received).
_RECEIVED_OFFSET = 128
# Less than any call takes: HTTP/2 begins with 24 bytes, and settings.
_CALL_BYTES = 128
_CLIENT_SHARE = 2
_CROWD_SECONDS = 0.25
_SPARE_DESCRIPTORS = 8


class OpenUpload:
    """One open stream of a client.

    Attributes:
        user: who sends it; None where that is not known yet.
        peer: where it comes from; None until its first message has come.
        waiting_since: seconds of the clock of `OpenUploads`; None while the gateway works on it.
    """

    def __init__(self, uploads: OpenUploads, user: str | None, now: float) -> None:
        self._uploads = uploads
        self.user = user
        self.peer: Peer | None = None
        self.waiting_since: float | None = now

    def begin(self, peer: str) -> None:
        """Record that the first message has come, from a peer as gRPC spells it."""
        self.peer = parse_peer(peer)
        self._uploads.resume(self)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait in this block for the client's next message."""
        self._uploads.wait(self)
        try:
            yield
        finally:
            self._uploads.resume(self)

    def close(self) -> None:
        """Record the end of the stream."""
        self._uploads.close(self)


def wait_for_client(upload: OpenUpload | None) -> AbstractContextManager[None]:
    """Wait in this block for what a client sends next; None where its stream is not counted."""
    return nullcontext() if upload is None else upload.waiting()


class OpenUploads:
    """The open streams of a server; safe to share between threads.

    Args:
        limits: how many may wait, and for how long.
        clock: seconds, never going back.
    """

    def __init__(self, limits: LimitsSection, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._open: set[OpenUpload] = set()
        self._waiting: Counter[str | None] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, user: str | None, *, is_limited: bool = True) -> OpenUpload:
        """Add a stream whose headers have come.

        Args:
            user: who sends it; None where that is not known yet: only the number of all is limited then.
            is_limited: False for streams that something else limits.

        Raises:
            UnavailableError: too many streams wait for their clients.
        """
        limits = self._limits
        with self._lock:
            if is_limited:
                total, own = self._waiting.total(), self._waiting[user]
                if total >= limits.max_waiting_uploads:
                    raise UnavailableError(
                        f"{total} streams wait for what their clients send, as many as may: try again in a "
                        "moment, or ask the operator to raise max_waiting_uploads"
                    )
                if user is not None and own >= limits.max_user_waiting_uploads:
                    raise UnavailableError(
                        f"{own} streams of user {user!r} wait for what their clients send, as many as may: "
                        "end some of them, or ask the operator to raise max_user_waiting_uploads"
                    )
            upload = OpenUpload(self, user, self._clock())
            self._open.add(upload)
            self._waiting[user] += 1
        return upload

    def wait(self, upload: OpenUpload) -> None:
        """Record that a stream waits for its client."""
        with self._lock:
            if upload.waiting_since is None:
                upload.waiting_since = self._clock()
                self._waiting[upload.user] += 1

    def resume(self, upload: OpenUpload) -> None:
        """Record that a stream waits no longer."""
        with self._lock:
            self._resume(upload)

    def close(self, upload: OpenUpload) -> None:
        """Remove a stream."""
        with self._lock:
            self._resume(upload)
            self._open.discard(upload)

    def count_late(self) -> int:
        """Return the number of streams that have waited longer than they may."""
        seconds = self._limits.upload_timeout
        with self._lock:
            until = self._clock() - seconds
            waiting = [upload.waiting_since for upload in self._open if upload.waiting_since is not None]
        return sum(since <= until for since in waiting) if seconds else 0

    def list_busy_peers(self) -> set[Peer]:
        """Return where streams come from on which the gateway works."""
        with self._lock:
            return {
                upload.peer
                for upload in self._open
                if upload.peer is not None and upload.waiting_since is None
            }

    def _resume(self, upload: OpenUpload) -> None:
        if upload.waiting_since is None:
            return
        upload.waiting_since = None
        self._waiting[upload.user] -= 1
        if not self._waiting[upload.user]:
            del self._waiting[upload.user]  # users come and go


class UploadWatch:
    """Closes connections over which nothing comes, while streams wait too long for their clients.

    Which connection a stream belongs to is not known before its first message. So a connection is closed if
    nothing has come over it for as long as a stream may wait, and nothing is done for its client. A client
    without a stream that waits loses nothing by it: gRPC connects again at its next call.

    Args:
        uploads: the streams.
        seconds: that they may wait; 0 watches nothing.
        port: of the server.
        list_busy: where the clients are for whom statements run.
    """

    def __init__(
        self, uploads: OpenUploads, seconds: float, port: int, list_busy: Callable[[], set[Peer]]
    ) -> None:
        self._uploads = uploads
        self._seconds = seconds
        self._port = port
        self._list_busy = list_busy
        self._closed = threading.Event()
        if seconds:
            threading.Thread(target=self._watch, name="uploads", daemon=True).start()

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(min(self._seconds / 4, _MAX_LOOK_SECONDS)):
            late = self._uploads.count_late()
            if not late:
                continue
            busy = self._uploads.list_busy_peers() | self._list_busy()
            for peer in close_quiet_connections(self._port, self._seconds, busy):
                logger.warning(
                    "closed the connection of %s:%d: %d streams wait for their clients, and nothing came "
                    "over it for %g s",
                    *peer,
                    late,
                    self._seconds,
                )


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


def list_connected_peers(port: int) -> set[Peer] | None:
    """Return where the clients of a server are whose connections are open; None where that can't be told.

    Args:
        port: that the server listens on.
    """
    if not hasattr(socket, "TCP_INFO"):
        return None
    peers = set()
    for connection in _iterate_connections(port):
        # The one that listens has no peer.
        with connection, suppress(OSError):
            host, remote_port = connection.getpeername()[:2]
            peers.add((_normalise(host), remote_port))
    return peers


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


def close_crowd(port: int, most: int, busy: Collection[Peer]) -> list[Peer]:
    """Close connections of a server's clients where there are too many, and return those clients.

    First those over which nearly nothing ever came, such as half a handshake; then the ones that have been
    quiet for longest. gRPC's clients connect again at their next call.

    Args:
        port: of the server.
        most: connections that may stay.
        busy: clients whose connections stay.
    """
    found: list[tuple[bool, float, Peer]] = []
    for connection in _iterate_connections(port):
        with suppress(OSError):
            is_silent = _read_received_bytes(connection) < _CALL_BYTES
            found.append((is_silent, _read_quiet_seconds(connection), _find_peer(connection)))
    idle = sorted((one for one in found if one[2] not in busy), reverse=True)
    chosen = {peer for _, _, peer in idle[: max(len(found) - most, 0)]}
    closed = []
    for connection in _iterate_connections(port) if chosen else ():
        with suppress(OSError):
            peer = _find_peer(connection)
            if peer in chosen:
                connection.shutdown(socket.SHUT_RDWR)
                closed.append(peer)
    return closed


class CrowdWatch:
    """Keeps descriptors for storage and files: closes connections where clients take more than their share.

    gRPC accepts connections without limit, and keeps one for minutes over which nothing comes.

    Args:
        port: of the server.
        list_busy: where the clients are whose connections must stay.
        most: connections that may be open; None for a half of the files that the process may open.
    """

    def __init__(self, port: int, list_busy: Callable[[], set[Peer]], most: int | None = None) -> None:
        self._port = port
        self._list_busy = list_busy
        self._most = most
        # Looking takes descriptors, and there may be none left.
        self._spare: list[int] = []
        self._closed = threading.Event()
        if hasattr(socket, "TCP_INFO"):
            threading.Thread(target=self._watch, name="crowd", daemon=True).start()

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(_CROWD_SECONDS):
            self._close_spare()
            most = self._most or resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _CLIENT_SHARE
            try:
                # Counting all descriptors is much cheaper than looking for those of the port.
                if sum(1 for _ in _DESCRIPTORS.iterdir()) > most and close_crowd(
                    self._port, most, self._list_busy()
                ):
                    logger.warning("closed connections of silent clients: more than %d were open", most)
            except OSError as error:
                logger.warning("connections can't be counted: %s", error)
            self._open_spare()
        self._close_spare()

    def _open_spare(self) -> None:
        with suppress(OSError):
            while len(self._spare) < _SPARE_DESCRIPTORS:
                self._spare.append(os.open(os.devnull, os.O_RDONLY))

    def _close_spare(self) -> None:
        while self._spare:
            os.close(self._spare.pop())


def _find_peer(connection: socket.socket) -> Peer:
    """Return the client of a connection.

    Raises:
        OSError: it has none, as the one that listens, or none any more.
    """
    host, port = connection.getpeername()[:2]
    return _normalise(host), port


def _read_received_bytes(connection: socket.socket) -> int:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED_OFFSET + 8)
    if len(info) < _RECEIVED_OFFSET + 8:
        return _CALL_BYTES  # a kernel that does not count them
    (received,) = struct.unpack_from("Q", info, _RECEIVED_OFFSET)
    return int(received)


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
