"""Stopping an execution from another thread: at once where DataFusion works, never amid our own steps."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.gateway.protocol.errors import QueryCancelledError
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.state.catalog import Catalog

STOPPED = QueryCancelledError("stopped by the test")


class Step:
    """Some Python that is under way while the test cancels; the last thing that it does is to say so."""

    def __init__(self, cancel: Callable[[], None] = lambda: None) -> None:
        self.completed = threading.Event()
        self.calls = 0
        self._cancel = cancel

    def __call__(self) -> int:
        self.calls += 1
        with ThreadPoolExecutor(1) as another:
            another.submit(self._cancel).result()
        total = sum(number % 7 for number in range(10_000))
        self.completed.set()
        return total


def test_a_step_of_ours_is_not_torn():
    control = RunControl()
    step = Step(lambda: control.cancel(STOPPED))
    with pytest.raises(QueryCancelledError, match="stopped by the test"):
        control.wait(lambda: control.run_uninterrupted(step))
    assert step.completed.is_set()


def test_a_step_inside_of_a_step_is_not_torn_either():
    control = RunControl()
    outer = Step()
    inner = Step(lambda: control.cancel(STOPPED))

    def nested() -> int:
        with pytest.raises(QueryCancelledError):
            control.run_uninterrupted(inner)
        return outer()

    with pytest.raises(QueryCancelledError, match="stopped by the test"):
        control.wait(lambda: control.run_uninterrupted(nested))
    assert inner.completed.is_set()
    assert outer.completed.is_set()


def test_no_step_begins_once_the_execution_is_stopped():
    control = RunControl()
    control.cancel(STOPPED)
    step = Step()
    with pytest.raises(QueryCancelledError):
        control.run_uninterrupted(step)
    assert not step.calls


def test_waiting_goes_on_being_stopped_at_once_after_a_step():
    control = RunControl()
    stepped = threading.Event()

    def waiting() -> None:
        control.run_uninterrupted(Step())
        stepped.set()
        while True:
            pass

    with ThreadPoolExecutor(1) as another:
        waited = another.submit(control.wait, waiting)
        stepped.wait()
        control.cancel(STOPPED)
        with pytest.raises(QueryCancelledError):
            waited.result()


class Probe:
    """A system table that is read while the statement is cancelled."""

    name = "probe"
    schema = pa.schema([pa.field("number", pa.int64())])

    def __init__(self, step: Step) -> None:
        self._step = step

    def read(self, access: Access) -> pa.Table:
        return pa.table({"number": [self._step()]}, self.schema)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[QueryEngine]:
    engine = QueryEngine(Catalog.open(str(tmp_path)))
    yield engine
    engine.close()


def test_a_leaf_is_read_to_the_end_before_its_statement_stops(engine: QueryEngine):
    control = RunControl()
    step = Step(lambda: control.cancel(STOPPED))
    engine.add_system_tables(Probe(step))
    reader = engine.prepare("SELECT number + 1, count(*) FROM system.probe GROUP BY 1").execute(
        control=control
    )
    with pytest.raises(QueryCancelledError, match="stopped by the test"):
        reader.read_all()
    # In a thread of DataFusion, whose end the statement does not await.
    assert step.completed.wait(120)


class UnsizedError(Exception):
    """Raised where a value is measured."""


def test_a_cache_forgets_what_could_not_be_kept():
    cache = ByteCache(1000)
    asking: list[Future[str]] = []

    def size(_: str) -> int:
        raise UnsizedError

    with ThreadPoolExecutor(1) as another:

        def make() -> str:
            asking.append(another.submit(cache.compute, "key", lambda: "another value", len))
            return "value"

        with pytest.raises(UnsizedError):
            cache.compute("key", make, size)
        assert asking[0].exception() is None or isinstance(asking[0].exception(), UnsizedError)
    assert cache.compute("key", lambda: "value", len) in {"value", "another value"}
