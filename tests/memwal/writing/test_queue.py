"""Who leads, who follows, and what nobody waits for."""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, UnavailableError
from lance_gateway.memwal.writing.region.requests import Request, RequestQueue, run_requests
from tests.memwal.writing.conftest import WAIT_SECONDS, until

ROW = pa.table({"id": [1]})
TABLE: Any = object()


class Log:
    """Collects groups; appends wait until they are let through."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.is_open = threading.Event()
        self.began = threading.Event()
        self.threads: set[str] = set()

    def write(self, group: Sequence[Request]) -> None:
        self.began.set()
        assert self.is_open.wait(WAIT_SECONDS)
        self.groups.append([one.num_rows for one in group])
        self.threads.add(threading.current_thread().name)


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def queue(log: Log) -> Iterator[RequestQueue]:
    with ThreadPoolExecutor(2, thread_name_prefix="pool") as pool:
        yield RequestQueue("r", log.write, pool, max_queued_bytes=100, max_group_rows=5, max_group_bytes=1000)


def request(rows: int = 1, seconds: float = WAIT_SECONDS, **more: Any) -> Request:
    return Request(TABLE, pa.table({"id": [0] * rows}), None, time.monotonic() + seconds, **more)


def send(queue: RequestQueue, one: Request) -> Request:
    queue.put(one)
    queue.finish(one)
    return one


def test_a_lone_client_does_its_own_work(log: Log, queue: RequestQueue):
    log.is_open.set()
    assert send(queue, request()).error is None
    assert log.threads == {threading.current_thread().name}
    assert not queue.is_busy


def test_what_comes_meanwhile_goes_together_up_to_a_memtable(log: Log, queue: RequestQueue):
    with ThreadPoolExecutor(8) as clients:
        first = clients.submit(send, queue, request())
        assert log.began.wait(WAIT_SECONDS)
        others = [clients.submit(send, queue, request(2)) for _ in range(5)]
        until(lambda: queue.queued_requests == 5)
        log.is_open.set()
        assert [one.result().error for one in (first, *others)] == [None] * 6
    assert log.groups == [[1], [2, 2], [2, 2], [2]]


def test_what_nobody_waits_for_is_led_by_the_pool(log: Log, queue: RequestQueue):
    log.is_open.set()
    one = request(is_awaited=False)
    queue.put(one)
    assert queue.wait_for(one, time.monotonic() + WAIT_SECONDS)
    assert all(name.startswith("pool") for name in log.threads)
    until(lambda: not queue.is_busy)
    assert queue.unawaited == 0


def test_who_gives_up_waiting_leaves_the_queue(log: Log, queue: RequestQueue):
    with ThreadPoolExecutor(2) as clients:
        first = clients.submit(send, queue, request())
        assert log.began.wait(WAIT_SECONDS)
        late = send(queue, request(seconds=0.01))
        assert isinstance(late.error, UnavailableError)
        assert "none of them was written" in str(late.error)
        log.is_open.set()
        first.result()
    assert log.groups == [[1]]
    assert queue.queued_bytes == 0


def test_bytes_that_don_t_fit_wait_outside(log: Log, queue: RequestQueue):
    with ThreadPoolExecutor(4) as clients:
        first = clients.submit(send, queue, request())
        assert log.began.wait(WAIT_SECONDS)
        second = clients.submit(send, queue, request(12))  # 96 bytes.
        until(lambda: queue.queued_requests == 1)
        with pytest.raises(UnavailableError, match="none of them was written"):
            queue.put(request(2, seconds=0.01))
        third = clients.submit(send, queue, request(2))
        log.is_open.set()
        assert [one.result().error for one in (first, second, third)] == [None] * 3
    assert log.groups == [[1], [12], [2]]


def test_an_error_is_each_requests_own(queue: RequestQueue):
    def refuse(_: Sequence[Request]) -> None:
        raise InvalidInputError("no")

    queue._write = refuse
    assert str(send(queue, request()).error) == "no"


def test_a_bug_does_not_leave_others_waiting(queue: RequestQueue):
    def fail(_: Sequence[Request]) -> None:
        raise ZeroDivisionError("oops")

    queue._write = fail
    assert "ZeroDivisionError (oops): whether rows were written is unknown" in str(
        send(queue, request()).error
    )
    assert not queue.is_busy


def test_a_holder_comes_after_those_before_and_keeps_others_out(log: Log, queue: RequestQueue):
    holder = object()
    log.is_open.set()
    queue.hold(holder, time.monotonic() + WAIT_SECONDS)
    assert send(queue, request(3, holder=holder)).error is None
    with pytest.raises(UnavailableError):
        queue.put(request(seconds=0.01))
    with pytest.raises(UnavailableError, match="held by another statement"):
        queue.hold(object(), time.monotonic() + 0.01)
    queue.release(holder)
    assert send(queue, request()).error is None
    assert log.groups == [[3], [1]]


def test_many_clients_of_all_kinds_come_to_an_end(queue: RequestQueue, log: Log):
    log.is_open.set()
    counted = threading.Lock()
    total = [0]

    def client(at: int) -> None:
        for step in range(50):
            one = request(1 + (at + step) % 3, is_awaited=step % 4 != 0)
            queue.put(one)
            if one.is_awaited:
                queue.finish(one)
            if step % 10 == 0:
                queue.run_alone(lambda: None, time.monotonic() + WAIT_SECONDS)
            with counted:
                total[0] += one.num_rows

    with ThreadPoolExecutor(16) as clients:
        list(clients.map(client, range(16)))
    until(lambda: not queue.is_busy)
    assert sum(map(sum, log.groups)) == total[0]
    assert queue.queued_bytes == queue.unawaited == 0


def test_rows_of_several_regions_never_wait_for_one_that_waits_for_them(log: Log, queue: RequestQueue):
    """Statements that hold regions take them in ascending order, so others queue up in that order, too."""
    waits, holder = threading.Event(), object()
    with ThreadPoolExecutor(3) as clients:
        held = RequestQueue(
            "a", log.write, clients, max_queued_bytes=100, max_group_rows=5, max_group_bytes=9
        )
        put = held.put

        def put_and_tell(one: Request) -> None:
            waits.set()
            put(one)

        held.put = put_and_tell  # type: ignore[method-assign]
        held.hold(holder, time.monotonic() + WAIT_SECONDS)
        first = clients.submit(send, queue, request())
        assert log.began.wait(WAIT_SECONDS)
        several = clients.submit(run_requests, {"b": (queue, request()), "a": (held, request())})
        assert waits.wait(WAIT_SECONDS)
        log.is_open.set()
        # Whoever holds "a" takes "b": the rows that wait for "a" don't keep it.
        queue.hold(holder, time.monotonic() + WAIT_SECONDS / 4)
        for one in (held, queue):
            one.release(holder)
        assert first.result(WAIT_SECONDS).error is None
        assert [(one.region_id, one.error) for one in several.result(WAIT_SECONDS)] == [
            ("b", None),
            ("a", None),
        ]
