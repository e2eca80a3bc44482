"""Errors as clients see them: one clear sentence under the right gRPC status.

pyarrow offers Flight errors for a few statuses only. INVALID_ARGUMENT, NOT_FOUND and UNIMPLEMENTED are
reached by raising a subclass of `ValueError`, `KeyError` or `NotImplementedError`; but then pyarrow appends
the formatted traceback, with the paths of our files, to the message. Formatting reads the exception's
`__suppress_context__`; where that fails, pyarrow falls back on the name of the exception's class. So the
exceptions raised here refuse it, and carry the name of the status as the name of their class.
"""

import logging
import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

import pyarrow as pa
from pyarrow import flight

from lance_gateway.memwal.errors import LanceGatewayError, is_panic

logger = logging.getLogger(__name__)


class _Untraceable:
    """A class attribute that cannot be read from an instance."""

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        raise AttributeError("an answer to a client is never formatted with a traceback")


class _ClientError(Exception):
    """An exception whose text is exactly its message (a KeyError would add quotes)."""

    __suppress_context__: Any = _Untraceable()

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


def _create_client_error(status: str, base: type[Exception]) -> type[Exception]:
    return type(status, (_ClientError, base), {})


def _create_flight_error(status: str, base: type[Exception]) -> type[Exception]:
    # Where pyarrow forgets to look for Flight errors (in GetSchema), it would format these as well.
    return type(status, (base,), {"__suppress_context__": _Untraceable()})


# gRPC status -> the exception that pyarrow sends under it. Some have no way through pyarrow: a failed
# precondition and what exists already are sent as INVALID_ARGUMENT (do not retry), lost data and exhausted
# resources as INTERNAL, and transactions that lost a race as UNAVAILABLE (begin again).
_ANSWERS: Mapping[str, type[Exception]] = MappingProxyType(
    {
        "INVALID_ARGUMENT": _create_client_error("INVALID_ARGUMENT", ValueError),
        "FAILED_PRECONDITION": _create_client_error("FAILED_PRECONDITION", ValueError),
        "ALREADY_EXISTS": _create_client_error("ALREADY_EXISTS", ValueError),
        "NOT_FOUND": _create_client_error("NOT_FOUND", KeyError),
        "UNIMPLEMENTED": _create_client_error("UNIMPLEMENTED", NotImplementedError),
        "UNAVAILABLE": _create_flight_error("UNAVAILABLE", flight.FlightUnavailableError),
        "ABORTED": _create_flight_error("ABORTED", flight.FlightUnavailableError),
        "UNAUTHENTICATED": _create_flight_error("UNAUTHENTICATED", flight.FlightUnauthenticatedError),
        "PERMISSION_DENIED": _create_flight_error("PERMISSION_DENIED", flight.FlightUnauthorizedError),
        "DEADLINE_EXCEEDED": _create_flight_error("DEADLINE_EXCEEDED", flight.FlightTimedOutError),
        "CANCELLED": _create_flight_error("CANCELLED", flight.FlightCancelledError),
        "DATA_LOSS": _create_flight_error("DATA_LOSS", flight.FlightInternalError),
        "RESOURCE_EXHAUSTED": _create_flight_error("RESOURCE_EXHAUSTED", flight.FlightInternalError),
        "INTERNAL": _create_flight_error("INTERNAL", flight.FlightInternalError),
    }
)

_INTERNAL = _ANSWERS["INTERNAL"]
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
STATUSES = frozenset({"OK", "UNKNOWN", *_ANSWERS})
"""Every status that a finished call may have."""
# Clients refuse headers of 8 KiB, and pyarrow sends a message twice.
_MAX_MESSAGE_BYTES = 3000
# Of any character that is not ASCII: %F0%9F%98%80.
_ESCAPED_BYTES = 12
# Operators need the tracebacks of these.
_OUR_FAULT = frozenset({"INTERNAL", "DATA_LOSS"})


class QueryCancelledError(LanceGatewayError):
    """The statement was cancelled, or its client disconnected."""

    status: ClassVar[str] = "CANCELLED"


class QueryTimeoutError(LanceGatewayError):
    """The statement took longer than it may."""

    status: ClassVar[str] = "DEADLINE_EXCEEDED"


class ResultTooLargeError(LanceGatewayError):
    """The statement returns more than it may."""

    status: ClassVar[str] = "RESOURCE_EXHAUSTED"


def keep_text(text: str) -> str:
    """Return a text as it is: for errors that can name nothing but what the client sent."""
    return text


def _shorten(message: str) -> str:
    """Leave out the middle of a message for which headers of HTTP/2, which it is sent in, have no room."""
    if len(message) * _ESCAPED_BYTES <= _MAX_MESSAGE_BYTES:
        return message
    widths = [1 if char.isascii() else _ESCAPED_BYTES for char in message]
    if sum(widths) <= _MAX_MESSAGE_BYTES:
        return message
    half = _MAX_MESSAGE_BYTES // 2
    start, end = (bisect_right(list(accumulate(side)), half) for side in (widths, reversed(widths)))
    return f"{message[:start]} ... {message[-end:]}"


def to_client_error(error: Exception, operation: str, conceal: Callable[[str], str] = keep_text) -> Exception:
    """Return the exception to send to the client for `error`, raised by `operation`.

    Expected errors keep their message. Where it may name files, `conceal` takes out where they are (see
    `Places`): what a client sent comes back unchanged, or it could find out what is concealed. Anything
    else becomes INTERNAL with an identifier; what really happened, with its traceback, goes to the server's
    log under that identifier.
    """
    if isinstance(error, _ClientError | flight.FlightError):
        return error
    if isinstance(error, LanceGatewayError):
        answer = _ANSWERS.get(error.status, _INTERNAL)
        message = _shorten(str(error))
        logger.info("%s: %s: %s", operation, error.status, message)
        if error.status in _OUR_FAULT:
            logger.error("%s failed", operation, exc_info=error)
        text = conceal(str(error)) if error.names_files else str(error)
        # pyarrow goes on with ". Detail: ...".
        return answer(_shorten(text).rstrip("."))
    if isinstance(error, pa.ArrowCancelled):
        return _ANSWERS["CANCELLED"](f"{operation} was cancelled")
    identifier = secrets.token_hex(4)
    logger.error("%s failed: error %s", operation, identifier, exc_info=error)
    return _INTERNAL(
        f"the gateway failed while serving {operation}; its log describes the failure as error {identifier}"
    )


def translate_error(
    error: BaseException, operation: str, conceal: Callable[[str], str] = keep_text
) -> BaseException:
    """Return the exception to raise for `error`: one for the client, or itself if it is not a failure."""
    if isinstance(error, Exception):
        return to_client_error(error, operation, conceal)
    # Not an Exception: what DataFusion's bindings raise where DataFusion panics.
    if is_panic(error):
        panic = RuntimeError(f"DataFusion panicked: {error}")
        panic.__cause__ = error  # with the traceback, for the log
        return to_client_error(panic, operation)
    return error


@contextmanager
def translate_errors(operation: str) -> Iterator[None]:
    """Turn every exception of the block into one for the client."""
    try:
        yield
    except BaseException as error:  # noqa: BLE001 - the boundary: nothing passes it unexamined
        raise translate_error(error, operation) from None


def find_status(error: BaseException | None) -> str:
    """Return the name of the gRPC status under which a client sees a call end."""
    if error is None:
        return "OK"
    # What the gateway answers bears the name of its status.
    name = type(error).__name__
    if name in STATUSES:
        return name
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), "UNKNOWN")
