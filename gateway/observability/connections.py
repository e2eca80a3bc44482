"""Connections of the HTTP port: how many there are, and for how long one may wait for its request.

uvicorn's `limit_concurrency` counts where a whole request has come, refuses probes like all others, and keeps
what sends half a request for ever. So connections are counted when they are made, requests have a time
limit, and of too many connections those are closed whose clients neither send a request nor read an answer.
"""

import asyncio
import itertools
import resource
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from lance_gateway.memwal.errors import InvalidInputError

# For the headers of a request, from the begin of its connection or from its first byte.
_HEADER_SECONDS: Final = 10.0
_RESERVED: Final = 64
"""Connections beside `Connections.limit`: only probes are answered over them."""
_DESCRIPTOR_SHARE: Final = 4
"""Connections take one part in so many of the descriptors: Flight, storage and files need the others."""
# Of requests that are sent before the answer to the one in progress.
_MAX_PIPELINED_BYTES: Final = 64 << 10


class Connections:
    """The connections of a server, on its event loop.

    Args:
        limit: connections at a time, beside those for probes; fewer where the process may open few files.

    Attributes:
        limit: as it is.
        most: the same with those for probes.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise InvalidInputError(f"{limit} connections: choose more than 0")
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        share = limit if descriptors < 0 else max(descriptors // _DESCRIPTOR_SHARE - _RESERVED, 1)
        self.limit = min(limit, share)
        self.most = self.limit + _RESERVED
        # In order of time; a dictionary is an ordered set.
        self._open: dict[BoundedConnection, None] = {}
        self._waiting: dict[BoundedConnection, None] = {}
        self._stalled: dict[BoundedConnection, None] = {}

    @property
    def is_crowded(self) -> bool:
        """Whether there are more connections than `limit`."""
        return len(self._open) > self.limit

    def add(self, connection: "BoundedConnection") -> None:
        """Add a connection, and close another one or this one if there are too many."""
        self._open[connection] = None
        if len(self._open) > self.most:
            closed = next(itertools.chain(self._waiting, self._stalled, (connection,)))
            self.remove(closed)
            closed.transport.abort()

    def remove(self, connection: "BoundedConnection") -> None:
        """Remove a connection that was closed."""
        for kept in (self._open, self._waiting, self._stalled):
            kept.pop(connection, None)

    def set_waiting(self, connection: "BoundedConnection", *, is_waiting: bool) -> None:
        """Record whether a connection waits for a request."""
        self._set(self._waiting, connection, is_member=is_waiting)

    def set_stalled(self, connection: "BoundedConnection", *, is_stalled: bool) -> None:
        """Record whether the client of a connection does not read what it was sent."""
        self._set(self._stalled, connection, is_member=is_stalled)

    def _set(
        self, kept: "dict[BoundedConnection, None]", connection: "BoundedConnection", *, is_member: bool
    ) -> None:
        if not is_member:
            kept.pop(connection, None)
        elif connection in self._open:
            kept.setdefault(connection)


class BoundedConnection(H11Protocol):
    """A connection that is closed where its client does not send a whole request in time.

    Args:
        connections: that it is one of.
        options: of uvicorn.
    """

    def __init__(self, connections: Connections, **options: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(**options)
        self._connections = connections
        self._limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._connections.add(self)
        self._look(has_begun=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._connections.remove(self)
        self._stop_limit()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        super().data_received(data)
        self._look(has_begun=True)
        if self._is_busy and self.conn.their_state is h11.DONE:
            # uvicorn would read no more, and not see that the client goes away.
            if len(self.conn.trailing_data[0]) > _MAX_PIPELINED_BYTES:
                self.transport.abort()
            else:
                self.flow.resume_reading()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._look(has_begun=False)

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._connections.set_stalled(self, is_stalled=True)

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        super().resume_writing()
        self._connections.set_stalled(self, is_stalled=False)

    @property
    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _look(self, *, has_begun: bool) -> None:
        """Limit the time of a request that has begun to come, until it is there."""
        is_waiting = not self._is_busy
        self._connections.set_waiting(self, is_waiting=is_waiting)
        if not is_waiting:
            self._stop_limit()
        elif has_begun and self._limit is None:
            self._limit = self.loop.call_later(_HEADER_SECONDS, self.transport.abort)

    def _stop_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
