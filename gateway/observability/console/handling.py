"""What all handlers of the API share: bodies, headers of answers, and statuses of failures."""

import asyncio
from http import HTTPStatus
from typing import ClassVar, Final, TypeVar

import pyarrow as pa
from pyarrow import flight
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lance_gateway.gateway.auth.credentials import UnauthenticatedError
from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceGatewayError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    ResourcesExhaustedError,
    UnavailableError,
)
from lance_gateway.protos.flight_sql import format_error

# Scripts and requests of this origin only; CodeMirror makes style elements.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Headers of every answer."""
_MAX_BODY_BYTES = 4 << 20
_BODY_SECONDS = 30.0


class BodyTimeoutError(LanceGatewayError):
    """The body of a request did not come in time."""

    status: ClassVar[str] = "DEADLINE_EXCEEDED"


_STATUSES: tuple[tuple[type[Exception], HTTPStatus], ...] = (
    (UnauthenticatedError, HTTPStatus.UNAUTHORIZED),
    (BodyTimeoutError, HTTPStatus.REQUEST_TIMEOUT),
    (PermissionDeniedError, HTTPStatus.FORBIDDEN),
    (InvalidInputError, HTTPStatus.BAD_REQUEST),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (AlreadyExistsError, HTTPStatus.CONFLICT),
    (PreconditionError, HTTPStatus.CONFLICT),
    (ResourcesExhaustedError, HTTPStatus.TOO_MANY_REQUESTS),
    (UnavailableError, HTTPStatus.SERVICE_UNAVAILABLE),
    (flight.FlightUnauthenticatedError, HTTPStatus.UNAUTHORIZED),
    (flight.FlightUnauthorizedError, HTTPStatus.FORBIDDEN),
    (flight.FlightUnavailableError, HTTPStatus.SERVICE_UNAVAILABLE),
    (flight.FlightTimedOutError, HTTPStatus.GATEWAY_TIMEOUT),
    (flight.FlightCancelledError, HTTPStatus.CONFLICT),
    (pa.ArrowCancelled, HTTPStatus.CONFLICT),
    (pa.ArrowInvalid, HTTPStatus.BAD_REQUEST),
    (pa.ArrowKeyError, HTTPStatus.NOT_FOUND),
    (pa.ArrowNotImplementedError, HTTPStatus.NOT_IMPLEMENTED),
)
FAILURES: Final = (LanceGatewayError, flight.FlightError, pa.ArrowException, OSError)
"""What is told to whoever asked; other exceptions are mistakes of the gateway."""
T = TypeVar("T", bound=BaseModel)


class Body(BaseModel):
    """The body of a request; fields that it does not have are refused."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


def build_failure(error: Exception) -> Response:
    """Return the answer for a failure: JSON, under a fitting status."""
    status = _find_status(error)
    seconds = getattr(error, "retry_seconds", None)
    if seconds is None:
        return JSONResponse({"error": format_error(error)}, status)
    headers = {"retry-after": str(seconds)}
    return JSONResponse({"error": format_error(error)}, HTTPStatus.TOO_MANY_REQUESTS, headers)


def _find_status(error: Exception) -> HTTPStatus:
    found = (status for kind, status in _STATUSES if isinstance(error, kind))
    return next(found, HTTPStatus.INTERNAL_SERVER_ERROR)


async def read_body(
    request: Request, model: type[T], max_bytes: int = _MAX_BODY_BYTES, seconds: float = _BODY_SECONDS
) -> T:
    """Return the body of a request.

    Args:
        request: whose body was not read yet.
        model: of the body.
        max_bytes: of the body.
        seconds: that it may take to come.

    Raises:
        InvalidInputError: it is too long, no JSON, or has other fields.
        BodyTimeoutError: it does not come.
    """
    data = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                data += chunk
                if len(data) > max_bytes:
                    raise InvalidInputError(f"the body has more than {max_bytes:,} bytes: send less")
    except TimeoutError:
        raise BodyTimeoutError(f"the body did not come within {seconds:g} s: send it at once") from None
    try:
        return model.model_validate_json(bytes(data))
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'the body'}: {each['msg']}" for each in error.errors()
        )
        raise InvalidInputError(f"the body of {request.url.path} is wrong: {problems}") from None
