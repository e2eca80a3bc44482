"""Messages between the front process and a worker, over a Unix socket that both inherit or are handed.

A message is a pickled object behind its length, and may come with file descriptors. Both sides are one
program of one user, and no other process can open the socket.
"""

import copyreg
import io
import pickle
import select
import socket
import struct
import threading
from contextlib import suppress
from types import MappingProxyType
from typing import Any

_LENGTH = struct.Struct("<Q")
_READ_BYTES = 1 << 16
_MAX_DESCRIPTORS = 2
"""Of one message."""


def _freeze(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(values)


def _reduce_mapping(mapping: MappingProxyType[Any, Any]) -> tuple[Any, ...]:
    return _freeze, (dict(mapping),)


class _Pickler(pickle.Pickler):
    dispatch_table = copyreg.dispatch_table | {MappingProxyType: _reduce_mapping}  # which pickle can't do


def encode(message: object) -> bytes:
    """Return a message as bytes."""
    data = io.BytesIO()
    _Pickler(data, pickle.HIGHEST_PROTOCOL).dump(message)
    return data.getvalue()


class ChannelClosedError(Exception):
    """The other side closed the channel, or its process ended."""


class Channel:
    """One end of a connection; several threads may send, one receives.

    Args:
        connected: the socket.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._lock = threading.Lock()
        self._poll = select.poll()
        self._poll.register(connected, select.POLLIN)
        self._descriptors: list[int] = []
        self._received = bytearray()
        """Messages that have come and were not asked for yet, the last one perhaps in part."""

    @staticmethod
    def create_pair() -> tuple["Channel", socket.socket]:
        """Return one end, and the socket of the other."""
        ours, theirs = socket.socketpair()
        return Channel(ours), theirs

    def send(self, message: object, *descriptors: int) -> None:
        """Send a message, and duplicates of file descriptors.

        Raises:
            ChannelClosedError: nobody receives.
        """
        data = encode(message)
        framed = _LENGTH.pack(len(data)) + data
        try:
            with self._lock:
                sent = socket.send_fds(self._socket, [framed], descriptors) if descriptors else 0
                self._socket.sendall(memoryview(framed)[sent:])
        except OSError as error:
            raise ChannelClosedError(str(error)) from None

    def is_ready(self, seconds: float) -> bool:
        """Wait for up to so many seconds for something to receive; return whether there is something."""
        return self._find_end() is not None or bool(self._poll.poll(seconds * 1000))

    def receive(self) -> Any:  # noqa: ANN401 - whatever was sent
        """Wait for the next message.

        Raises:
            ChannelClosedError: there will be none.
        """
        while (end := self._find_end()) is None:
            self._read()
        with memoryview(self._received) as view, view[_LENGTH.size : end] as data:
            message = pickle.loads(data)  # noqa: S301 - from our own process
        del self._received[:end]
        return message

    def take_descriptor(self) -> int:
        """Return the oldest file descriptor that came with the messages received so far."""
        return self._descriptors.pop(0)

    def close(self) -> None:
        """Close the socket; a thread that waits for a message on either side wakes up."""
        with suppress(OSError):  # The other side may have been first.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _find_end(self) -> int | None:
        """Return the number of bytes of the next message, if all of it has come."""
        if len(self._received) < _LENGTH.size:
            return None
        end = _LENGTH.size + int(_LENGTH.unpack_from(self._received)[0])
        return end if len(self._received) >= end else None

    def _read(self) -> None:
        """Wait for bytes, and take as many as there are: each call hands over the interpreter."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, _READ_BYTES, _MAX_DESCRIPTORS)
        except OSError as error:
            raise ChannelClosedError(str(error)) from None
        if not data:
            raise ChannelClosedError("the other side closed the channel")
        self._descriptors.extend(descriptors)
        self._received += data
