"""What a Spark user is told when something fails in one of its Python workers.

Spark shows the worker's traceback. What a traceback begins with is what led to the error: so our words become
the cause of another error, and stand in front.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import flight

from memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
    UnsupportedError,
)
from protos.flight_sql import error_text

_BUSY = "RESOURCE_EXHAUSTED"


class LanceGatewaySourceError(Exception):
    """A read or write failed, in the words of its cause."""

    # Spark drops the cause when it shortens a traceback; the cause is the context too, and is shown then.
    __suppress_context__ = False


@contextmanager
def told_first() -> Iterator[None]:
    """Put the words of our own errors in front of the worker's traceback."""
    try:
        yield
    except LanceGatewayError as error:
        cause = error.with_traceback(None)
        cause.__cause__ = None
        cause.__suppress_context__ = True
    else:
        return
    failure = LanceGatewaySourceError(str(cause))
    failure.__context__ = cause
    raise failure from cause


def translated(error: Exception, what: str) -> LanceGatewayError:
    """An error of ours for one of pyarrow's.

    Args:
        error: as pyarrow's Flight client raised it.
        what: was done, to whom.
    """
    message = f"{what}: {error_text(error)}"
    if isinstance(error, flight.FlightUnavailableError | flight.FlightTimedOutError):
        return UnavailableError(message)
    if isinstance(error, flight.FlightUnauthenticatedError | flight.FlightUnauthorizedError):
        return PermissionDeniedError(message)
    if isinstance(error, KeyError):
        return NotFoundError(message)
    if isinstance(error, NotImplementedError | pa.ArrowNotImplementedError):
        return UnsupportedError(message)
    if isinstance(error, pa.ArrowInvalid):
        return InvalidInputError(message)
    return UnavailableError(message) if _BUSY in str(error) else LanceGatewayError(message)
