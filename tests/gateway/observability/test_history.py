"""The ring of samples behind the charts of the console."""

import itertools
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from lance_gateway.gateway.observability.history import KEPT_SECONDS, SAMPLE_SECONDS, History, Totals


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def history(registry: CollectorRegistry) -> Iterator[History]:
    history = History(registry, itertools.count(1_000.0, SAMPLE_SECONDS).__next__)
    yield history
    history.close()


def test_counters_become_rates_and_gauges_are_summed(registry: CollectorRegistry, history: History) -> None:
    ended = Counter("lance_gateway_queries", "-", ("state",), registry=registry)
    waiting = Gauge("lance_gateway_table_generations", "-", ("table",), registry=registry)
    ended.labels("finished").inc(30)
    ended.labels("failed").inc(20)
    waiting.labels("a").set(3)
    waiting.labels("b").set(4)
    history.take()
    (first, second) = history.list_samples()
    assert (first["at"], first["seconds"], first["statements"]) == (1_010, 10, 5)
    assert (second["statements"], second["generations_waiting"], second["queued"]) == (0, 7, None)


def test_quantiles_are_those_of_the_time_since_the_last_sample(
    registry: CollectorRegistry, history: History
) -> None:
    seconds = Histogram("lance_gateway_query_duration_seconds", "-", buckets=(1, 2, 4), registry=registry)
    for value in [3.0] * 100:
        seconds.observe(value)
    history.take()
    assert [each["p50_seconds"] for each in history.list_samples()] == [3.0, None]
    for value in [0.5] * 98 + [1.5, 9.0]:
        seconds.observe(value)
    history.take()
    _, last, _ = history.list_samples()
    assert (last["p50_seconds"], last["p99_seconds"]) == (pytest.approx(0.51, abs=0.01), 2.0)


def test_counters_that_shrink_are_no_negative_rates(registry: CollectorRegistry, history: History) -> None:
    written = Counter("lance_gateway_written_rows", "-", ("table",), registry=registry)
    written.labels("a").inc(5)
    history.take()
    written.remove("a")
    history.take()
    assert [each["written_rows"] == 0 for each in history.list_samples()] == [False, True, True]


def test_an_hour_is_kept(history: History) -> None:
    for _ in range(int(KEPT_SECONDS / SAMPLE_SECONDS) + 5):
        history.take()
    assert len(history.list_samples()) == KEPT_SECONDS / SAMPLE_SECONDS + 1


def test_users_see_what_they_did_themselves(registry: CollectorRegistry) -> None:
    done = {"ada": Totals(3, 30, 0, ((1.0, 3.0), (float("inf"), 3.0)))}
    Gauge("lance_gateway_queries_running", "-", registry=registry).set(7)
    clock = itertools.count(1_000.0, SAMPLE_SECONDS).__next__
    history = History(registry, clock, read_users=lambda: dict(done))
    done |= {"ada": Totals(13, 50, 10, ((1.0, 13.0), (float("inf"), 13.0))), "bob": Totals(1000, 1, 1)}
    history.take()
    (first, second) = history.list_samples("ada")
    assert (first["statements"], first["sent_rows"], first["written_rows"]) == (1, 2, 1)
    assert first["p50_seconds"] == 0.5
    assert second["statements"] == 0
    assert {sample["running"] for sample in (first, second)} == {None}
    (nothing, _) = history.list_samples("eve")
    assert (nothing["statements"], nothing["p50_seconds"], nothing["at"]) == (0, None, first["at"])
    history.close()
