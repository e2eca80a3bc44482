"""Requests that may arrive twice and are done once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lance_gateway.gateway.peers.forwarding import OnceExecutor
from lance_gateway.memwal.errors import InvalidInputError, PreconditionError

ID = b"0123456789abcdef"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_second_request_of_an_id_gets_what_the_first_one_did() -> None:
    once: OnceExecutor[int] = OnceExecutor(60.0)
    done: list[int] = []

    def work() -> int:
        done.append(1)
        return 7

    assert [once.execute(ID, work, 1.0) for _ in range(3)] == [7, 7, 7]
    assert done == [1]


def test_what_failed_fails_again_without_being_tried() -> None:
    once: OnceExecutor[int] = OnceExecutor(60.0)
    tries: list[int] = []

    def work() -> int:
        tries.append(1)
        msg = "the disk is full"
        raise PreconditionError(msg)

    for _ in range(2):
        with pytest.raises(PreconditionError, match="the disk is full"):
            once.execute(ID, work, 1.0)
    assert tries == [1]


def test_a_request_that_comes_again_while_it_is_done_waits() -> None:
    once: OnceExecutor[str] = OnceExecutor(60.0)
    begun, may_end = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        assert may_end.wait(10)
        return "written"

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(once.execute, ID, work, 10.0)
        assert begun.wait(10)
        with pytest.raises(TimeoutError):
            once.execute(ID, lambda: "written again", 0.01)
        second = threads.submit(once.execute, ID, lambda: "written again", 10.0)
        may_end.set()
        assert (first.result(10), second.result(10)) == ("written", "written")


def test_outcomes_are_forgotten_after_their_time_and_not_before() -> None:
    clock = Clock()
    once: OnceExecutor[int] = OnceExecutor(60.0, clock)
    for number in range(1000):
        once.execute(number.to_bytes(16), lambda: 1, 1.0)
    clock.now = 59.0
    once.execute(ID, lambda: 1, 1.0)
    assert len(once) == 1001
    assert once.execute((5).to_bytes(16), lambda: 2, 1.0) == 1
    clock.now = 61.0
    assert once.execute((5).to_bytes(16), lambda: 2, 1.0) == 2
    assert len(once) == 2


def test_outcomes_must_be_remembered_for_a_while() -> None:
    with pytest.raises(InvalidInputError, match="more than 0"):
        OnceExecutor(0.0)
