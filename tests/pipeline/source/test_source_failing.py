"""What a Spark user is told: our words first, whatever Spark makes of a traceback."""

import io

import pyarrow as pa
import pytest
from pyarrow import flight
from pyspark.util import handle_worker_exception

from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
    UnsupportedError,
)
from lance_gateway.pipeline.source.client import LanceGatewaySourceError, raise_first, translate_error

FIRST = "lance_gateway.memwal.errors.NotFoundError: table 'x' does not exist\n"


def refuse() -> None:
    raise NotFoundError("table 'x' does not exist") from KeyError("inner")


def shown() -> str:
    """What a worker sends to the JVM."""
    sent = io.BytesIO()
    try:
        with raise_first():
            refuse()
    except LanceGatewaySourceError as error:
        handle_worker_exception(error, sent)
    return sent.getvalue()[8:].decode()


def test_our_words_stand_in_front_of_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown().startswith(FIRST)
    monkeypatch.setenv("SPARK_SIMPLIFIED_TRACEBACK", "1")
    assert shown().startswith(FIRST)
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "1")
    what = "lance_gateway.pipeline.source.client.LanceGatewaySourceError"
    assert shown() == f"{what}: table 'x' does not exist\n"


def test_errors_of_others_pass() -> None:
    with pytest.raises(ZeroDivisionError), raise_first():
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (flight.FlightUnavailableError("busy"), UnavailableError),
        (flight.FlightTimedOutError("late"), UnavailableError),
        (flight.FlightUnauthenticatedError("who"), PermissionDeniedError),
        (flight.FlightUnauthorizedError("no"), PermissionDeniedError),
        (KeyError("table"), NotFoundError),
        (NotImplementedError("not yet"), UnsupportedError),
        (pa.ArrowInvalid("bad. Detail: Python exception: x"), InvalidInputError),
        (flight.FlightInternalError("oops"), LanceGatewayError),
    ],
)
def test_flight_errors_keep_their_meaning(error: Exception, kind: type[LanceGatewayError]) -> None:
    made = translate_error(error, "gateway grpc://a:1")
    assert type(made) is kind
    assert str(made).startswith("gateway grpc://a:1: ")
    assert "Detail" not in str(made)
