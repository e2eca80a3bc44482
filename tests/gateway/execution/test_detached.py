"""Work that nothing interrupts: its call ends before it does, and it ends where it finds that out."""

import threading
from collections.abc import Generator
from typing import Any

import pytest

from lance_gateway.gateway.execution import detached as module
from lance_gateway.gateway.execution.detached import DetachedSteps
from lance_gateway.gateway.execution.query import Query, current_statement
from lance_gateway.gateway.protocol.commands import Call
from lance_gateway.gateway.protocol.errors import QueryCancelledError, QueryTimeoutError
from lance_gateway.gateway.protocol.identity import ANONYMOUS
from lance_gateway.gateway.sessions import DEFAULTS
from lance_gateway.memwal.errors import InvalidInputError, UnavailableError
from lance_gateway.planner.access.rights import FULL_ACCESS

CALL = Call("peer", ANONYMOUS, FULL_ACCESS, None, DEFAULTS, lambda *_: None, lambda: False)


def create_query() -> Query:
    return Query("00" * 16, "SELECT 1", DEFAULTS, CALL)


class Hanging:
    """A step that waits until it is let go, of a statement that is stopped meanwhile."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self.may_go_on, self.has_ended = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self._query.control.cancel(QueryTimeoutError("too late"))
        self.may_go_on.wait()

    def let_go(self) -> None:
        self.may_go_on.set()
        assert self.has_ended.wait(60)


def test_a_step_runs_for_its_statement_in_another_thread():
    query = create_query()
    thread, served = DetachedSteps().run(query, lambda: (threading.get_ident(), current_statement()))
    assert thread != threading.get_ident()
    assert served is query


def test_an_error_of_a_step_is_the_error_of_the_call():
    def step() -> None:
        raise InvalidInputError("no such thing")

    with pytest.raises(InvalidInputError, match="no such thing"):
        DetachedSteps().run(create_query(), step)


def test_a_call_ends_before_the_work_that_it_waits_for():
    query = create_query()
    hanging = Hanging(query)
    with pytest.raises(QueryTimeoutError, match="too late; it was still waiting"):
        DetachedSteps().run(query, hanging, hanging.has_ended.set)
    # The work still finds the reason where it looks for it.
    query.leave(query.state, None)
    with pytest.raises(QueryTimeoutError):
        query.control.check()
    hanging.let_go()


def test_work_that_ends_by_itself_when_it_is_stopped_has_the_last_word():
    query = create_query()

    def step() -> int:
        query.control.cancel(QueryCancelledError("killed"))
        return 7

    assert DetachedSteps().run(query, step) == 7


def test_a_generator_is_closed_by_the_thread_that_is_in_it():
    query = create_query()
    hanging = Hanging(query)

    def steps() -> Generator[int]:
        try:
            yield 1
            hanging()
            yield 2
        finally:
            hanging.has_ended.set()

    items = DetachedSteps().iterate(query, steps())
    assert next(items) == 1
    with pytest.raises(QueryTimeoutError):
        next(items)
    assert not hanging.has_ended.is_set()
    hanging.let_go()


def test_only_the_thread_of_the_call_reads_from_its_client():
    query = create_query()
    readers: list[int] = []

    def read() -> Generator[int]:
        for number in range(3):
            readers.append(threading.get_ident())
            yield number

    rows = read()
    assert DetachedSteps().run(query, lambda: list(query.relay_each(rows))) == [0, 1, 2]
    assert set(readers) == {threading.get_ident()}


def test_an_error_of_the_client_reaches_the_step():
    query = create_query()

    def read() -> None:
        raise QueryCancelledError("the client left")

    def step() -> str:
        with pytest.raises(QueryCancelledError):
            query.relay(read)
        return "told"

    assert DetachedSteps().run(query, step) == "told"


def test_work_that_is_abandoned_reads_nothing_more_from_the_client():
    query = create_query()
    hanging = Hanging(query)
    seen: list[Any] = []

    def step() -> None:
        hanging()
        try:
            query.relay(lambda: seen.append("read"))
        finally:
            hanging.has_ended.set()

    with pytest.raises(QueryTimeoutError):
        DetachedSteps().run(query, step)
    hanging.let_go()
    assert seen == []


def test_only_so_many_steps_are_left_at_work(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_MAX_ABANDONED", 1)
    steps, query = DetachedSteps(), create_query()
    hanging = Hanging(query)
    with pytest.raises(QueryTimeoutError):
        steps.run(query, hanging, hanging.has_ended.set)
    with pytest.raises(UnavailableError, match="the work of 1 statements"):
        steps.run(create_query(), lambda: 1)
    hanging.let_go()
