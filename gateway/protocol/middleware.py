"""All that looks at the headers of a call, as one Flight middleware.

Flight hands a call to each middleware by itself, and each time the thread has to get hold of the interpreter:
beside short calls that costs more than what is done there.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pyarrow import flight

ALL_METHODS = frozenset(flight.FlightMethod)
CALLS = "calls"
"""Name of the one middleware of a call."""
NO_PARTS: Mapping[str, flight.ServerMiddleware] = MappingProxyType({})


class CallMiddlewareFactory(flight.ServerMiddlewareFactory):
    """Makes the middleware of calls.

    Attributes:
        methods: of the calls that it looks at.
    """

    methods: frozenset[flight.FlightMethod] = ALL_METHODS


class JoinedMiddleware(flight.ServerMiddleware):
    """The middleware of one call.

    Attributes:
        parts: what the factories made of the headers of the call, by name; without those that made nothing.
    """

    def __init__(self, parts: Mapping[str, flight.ServerMiddleware]) -> None:
        self.parts = parts

    def sending_headers(self) -> dict[str, str]:
        """Returns the headers of the answer, of all parts."""
        headers: dict[str, str] = {}
        for part in self.parts.values():
            headers.update(part.sending_headers() or {})
        return headers

    def call_completed(self, exception: Exception | None) -> None:
        """Tells all parts that the call has ended."""
        for part in self.parts.values():
            part.call_completed(exception)


class _JoinedFactory(flight.ServerMiddlewareFactory):
    def __init__(self, factories: Mapping[str, CallMiddlewareFactory]) -> None:
        super().__init__()
        self._looking = {
            method: [(name, each.start_call) for name, each in factories.items() if method in each.methods]
            for method in ALL_METHODS
        }

    def start_call(
        self, info: flight.CallInfo, headers: Mapping[str, Sequence[str]]
    ) -> flight.ServerMiddleware | None:
        parts: dict[str, flight.ServerMiddleware] = {}
        try:
            for name, start_call in self._looking[info.method]:
                part = start_call(info, headers)
                if part is not None:
                    parts[name] = part
        except Exception as error:
            # As Flight does: those before the one that refuses the call hear of its end.
            for part in parts.values():
                part.call_completed(error)
            raise
        return JoinedMiddleware(parts) if parts else None


def joined(factories: Mapping[str, CallMiddlewareFactory]) -> dict[str, flight.ServerMiddlewareFactory]:
    """Returns the one middleware of a server that asks all of `factories`, in order."""
    return {CALLS: _JoinedFactory(factories)}
