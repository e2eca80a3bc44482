"""Every call of a client: which method, how long it took, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from pyarrow import flight

from gateway.protocol.errors import status_of
from gateway.protocol.middleware import CallMiddlewareFactory

_METHODS = {
    flight.FlightMethod.HANDSHAKE: "Handshake",
    flight.FlightMethod.LIST_FLIGHTS: "ListFlights",
    flight.FlightMethod.GET_FLIGHT_INFO: "GetFlightInfo",
    flight.FlightMethod.GET_SCHEMA: "GetSchema",
    flight.FlightMethod.DO_GET: "DoGet",
    flight.FlightMethod.DO_PUT: "DoPut",
    flight.FlightMethod.DO_ACTION: "DoAction",
    flight.FlightMethod.LIST_ACTIONS: "ListActions",
    flight.FlightMethod.DO_EXCHANGE: "DoExchange",
}


class RpcObserver:
    """Hears of calls, in the thread that serves them; subclasses say of what."""

    def on_call(self, method: str, headers: Mapping[str, Sequence[str]]) -> None:
        """A call begins; names of headers are in lower case."""

    def on_call_finished(self, method: str, status: str, seconds: float) -> None:
        """A call has ended, its stream included."""


class RpcMiddlewareFactory(CallMiddlewareFactory):
    """Tells an observer of calls.

    Args:
        observer: hears of them.
        methods: those that it hears of; by default all that Flight names.
    """

    def __init__(
        self, observer: RpcObserver, methods: frozenset[flight.FlightMethod] = frozenset(_METHODS)
    ) -> None:
        super().__init__()
        self._observer = observer
        self.methods = methods

    def start_call(
        self, info: flight.CallInfo, headers: Mapping[str, Sequence[str]]
    ) -> flight.ServerMiddleware:
        """Called by the server before the method."""
        method = _METHODS[info.method]
        self._observer.on_call(method, headers)
        return _RpcMiddleware(self._observer, method)


class _RpcMiddleware(flight.ServerMiddleware):
    def __init__(self, observer: RpcObserver, method: str) -> None:
        super().__init__()
        self._observer = observer
        self._method = method
        self._started = time.perf_counter()

    def call_completed(self, exception: Exception | None) -> None:
        seconds = time.perf_counter() - self._started
        self._observer.on_call_finished(self._method, status_of(exception), seconds)
