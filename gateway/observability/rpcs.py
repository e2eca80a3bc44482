"""Every call of a client: which method, how long it took, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa
from pyarrow import flight

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
# Subclasses before their bases.
_STATUSES = (
    (flight.FlightUnauthenticatedError, "UNAUTHENTICATED"),
    (flight.FlightUnauthorizedError, "PERMISSION_DENIED"),
    (flight.FlightUnavailableError, "UNAVAILABLE"),
    (flight.FlightTimedOutError, "DEADLINE_EXCEEDED"),
    (flight.FlightCancelledError, "CANCELLED"),
    (flight.FlightInternalError, "INTERNAL"),
    (pa.ArrowCancelled, "CANCELLED"),
    (pa.ArrowKeyError, "NOT_FOUND"),
    (pa.ArrowNotImplementedError, "UNIMPLEMENTED"),
    (pa.ArrowInvalid, "INVALID_ARGUMENT"),
)
STATUSES = frozenset({"OK", "FAILED_PRECONDITION", "UNKNOWN", *(status for _, status in _STATUSES)})
"""Every status that a finished call may have."""


class RpcObserver(Protocol):
    """Hears of calls, in the thread that serves them."""

    def on_call(self, method: str, headers: Mapping[str, Sequence[str]]) -> None:
        """A call begins; names of headers are in lower case."""

    def on_call_finished(self, method: str, status: str, seconds: float) -> None:
        """A call has ended, its stream included."""


class RpcMiddlewareFactory(flight.ServerMiddlewareFactory):
    """Tells observers of every call.

    Args:
        observers: in the order in which they are told.
    """

    def __init__(self, observers: Sequence[RpcObserver]) -> None:
        super().__init__()
        self._observers = tuple(observers)

    def start_call(
        self, info: flight.CallInfo, headers: Mapping[str, Sequence[str]]
    ) -> flight.ServerMiddleware | None:
        """Called by the server before the method."""
        method = _METHODS.get(info.method, "Unknown")
        for observer in self._observers:
            observer.on_call(method, headers)
        return _RpcMiddleware(self._observers, method)


class _RpcMiddleware(flight.ServerMiddleware):
    def __init__(self, observers: tuple[RpcObserver, ...], method: str) -> None:
        super().__init__()
        self._observers = observers
        self._method = method
        self._started = time.perf_counter()

    def call_completed(self, exception: Exception | None) -> None:
        seconds = time.perf_counter() - self._started
        status = status_of(exception)
        for observer in self._observers:
            observer.on_call_finished(self._method, status, seconds)


def status_of(error: Exception | None) -> str:
    """Returns the name of the gRPC status under which a client sees a call end."""
    if error is None:
        return "OK"
    # What the gateway answers bears the name of its status.
    name = type(error).__name__
    if name in STATUSES:
        return name
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), "UNKNOWN")
