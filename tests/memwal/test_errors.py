"""Errors keep class, message and attributes when they pass from one process to another."""

import pickle
from collections.abc import Iterator

import pytest

import lance_gateway.gateway.server  # noqa: F401 - defines errors
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.writing.region.doubts import InDoubtError
from lance_gateway.planner.bridge.types.plain_types import WrongParameterError


def list_kinds(kind: type[LanceGatewayError] = LanceGatewayError) -> Iterator[type[LanceGatewayError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from list_kinds(one)


@pytest.mark.parametrize("kind", sorted(set(list_kinds()), key=lambda one: one.__name__))
def test_an_error_of_any_class_is_received(kind: type[LanceGatewayError]) -> None:
    error = kind.__new__(kind)
    error.args = ("what is wrong",)
    error.__dict__["seen"] = 7
    received = pickle.loads(pickle.dumps(error))
    assert type(received) is kind
    assert (received.args, received.__dict__) == (error.args, error.__dict__)


@pytest.mark.parametrize(
    "error",
    [WrongParameterError(2, "is 'a', but int64 is needed"), InDoubtError("no answer", 3, 4, by_peer=True)],
    ids=lambda error: type(error).__name__,
)
def test_attributes_are_received(error: LanceGatewayError) -> None:
    received = pickle.loads(pickle.dumps(error))
    assert str(received) == str(error)
    assert vars(received) == vars(error)
