"""What the gateway did in the last hour, from its own metrics: a ring of samples in memory."""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry

SAMPLE_SECONDS: Final = 10.0
KEPT_SECONDS: Final = 3600.0
_PREFIX: Final = "lance_gateway_"
_BUCKETS: Final = f"{_PREFIX}query_duration_seconds_bucket"
_RATES: Final = {
    "statements": "queries_total",
    "sent_rows": "sent_rows_total",
    "written_rows": "written_rows_total",
}
"""Name in samples -> counter whose growth per second it is."""
_LEVELS: Final = {
    "running": f"{_PREFIX}queries_running",
    "queued": f"{_PREFIX}queries_queued",
    "sessions": f"{_PREFIX}sessions",
    "memory_bytes": "process_resident_memory_bytes",
    "worker_bytes": f"{_PREFIX}worker_memory_bytes",
    "cache_bytes": f"{_PREFIX}cache_bytes",
    "generations_waiting": f"{_PREFIX}table_generations",
    "rows_in_logs": f"{_PREFIX}table_unflushed_rows",
}
"""Name in samples -> gauge whose value it is, summed over tables or caches."""
_QUANTILES: Final = {"p50_seconds": 0.5, "p99_seconds": 0.99}


@dataclass(frozen=True, slots=True)
class Totals:
    """What the statements of a user did since the gateway started.

    Attributes:
        statements: that have ended.
        sent_rows: of their results.
        written_rows: inserted, updated or deleted.
        buckets: upper bound of seconds and how many statements took at most as long, ascending.
    """

    statements: int = 0
    sent_rows: int = 0
    written_rows: int = 0
    buckets: tuple[tuple[float, float], ...] = ()

    def to_reading(self, at: float) -> "_Reading":
        """Return the same as metrics at one time."""
        counts = zip(_RATES.values(), (self.statements, self.sent_rows, self.written_rows), strict=True)
        return _Reading(at, {f"{_PREFIX}{name}": float(count) for name, count in counts}, self.buckets)


@dataclass(frozen=True, slots=True)
class _Reading:
    """All metrics at one time, summed over their labels; of histograms, bound -> count up to it."""

    at: float
    totals: Mapping[str, float]
    buckets: tuple[tuple[float, float], ...]


Sample: TypeAlias = dict[str, float | None]
_NOTHING: Final = Totals()


class History:
    """Samples metrics every ten seconds, and keeps the samples of an hour.

    Only sums are kept, of all statements and of those of each user, so they name no table.

    Args:
        registry: of the metrics.
        clock: returns the seconds since 1970.
        read_users: returns what the statements of each user did.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        clock: Callable[[], float] = time.time,
        *,
        read_users: Callable[[], Mapping[str, Totals]] = dict,
    ) -> None:
        self._registry = registry
        self._read_users = read_users
        self._clock = clock
        self._lock = threading.Lock()
        self._samples: deque[tuple[Sample, Mapping[str, Sample]]] = deque(
            maxlen=int(KEPT_SECONDS / SAMPLE_SECONDS)
        )
        self._last, self._last_users = self._read(), read_users()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop sampling."""
        self._stopped.set()
        self._thread.join()

    def take(self) -> None:
        """Add a sample of the time since the last one."""
        with self._lock:
            reading, users = self._read(), self._read_users()
            grown = {user for user, totals in users.items() if totals != self._last_users.get(user)}
            own = {user: self._compare_user(user, users, reading.at) for user in grown}
            self._samples.append((_compare(self._last, reading), own))
            self._last, self._last_users = reading, users

    def list_samples(self, user: str | None = None) -> Sequence[Sample]:
        """Return the samples, oldest first, and one of the time since the last of them.

        Args:
            user: whose statements are counted, without levels of the whole gateway; None for all.
        """
        with self._lock:
            reading = self._read()
            if user is None:
                return [*(sample for sample, _ in self._samples), _compare(self._last, reading)]
            latest = self._compare_user(user, self._read_users(), reading.at)
            return [*(own.get(user) or _rest(sample) for sample, own in self._samples), latest]

    def _compare_user(self, user: str, users: Mapping[str, Totals], at: float) -> Sample:
        before = self._last_users.get(user, _NOTHING).to_reading(self._last.at)
        return _compare(before, users.get(user, _NOTHING).to_reading(at))

    def _run(self) -> None:
        while not self._stopped.wait(SAMPLE_SECONDS):
            self.take()

    def _read(self) -> _Reading:
        totals: defaultdict[str, float] = defaultdict(float)
        buckets: list[tuple[float, float]] = []
        for family in self._registry.collect():
            for sample in family.samples:
                if sample.name == _BUCKETS:
                    buckets.append((float(sample.labels["le"]), sample.value))
                else:
                    totals[sample.name] += sample.value
        return _Reading(self._clock(), totals, tuple(buckets))


def _rest(sample: Sample) -> Sample:
    """Return a sample of the same time for a user who did nothing."""
    return {
        **dict.fromkeys(sample),
        **dict.fromkeys(_RATES, 0.0),
        "at": sample["at"],
        "seconds": sample["seconds"],
    }


def _compare(before: _Reading, after: _Reading) -> Sample:
    """Return one sample: levels at its end, and what happened in each second of it."""
    seconds = max(after.at - before.at, 0.001)
    sample: Sample = {"at": round(after.at, 3), "seconds": round(seconds, 3)}
    for name, counter in _RATES.items():
        metric = f"{_PREFIX}{counter}"
        # Counters of a dropped table are gone from the sum.
        grown = max(after.totals.get(metric, 0.0) - before.totals.get(metric, 0.0), 0.0)
        sample[name] = round(grown / seconds, 3)
    for name, metric in _LEVELS.items():
        sample[name] = after.totals.get(metric)
    earlier = dict(before.buckets)
    grown_buckets = [(bound, count - earlier.get(bound, 0.0)) for bound, count in after.buckets]
    for name, share in _QUANTILES.items():
        sample[name] = _estimate_quantile(grown_buckets, share)
    return sample


def _estimate_quantile(buckets: Sequence[tuple[float, float]], share: float) -> float | None:
    """Return the value below which a share of what was counted lies, as Prometheus does; None without any.

    Args:
        buckets: upper bound and how much lies at or below it, ascending; the last bound is infinite.
        share: from 0 to 1.
    """
    if not buckets or not buckets[-1][1]:
        return None
    wanted = share * buckets[-1][1]
    for (lower, below), (upper, count) in pairwise([(0.0, 0.0), *buckets]):
        if count >= wanted:
            if upper == float("inf"):
                return lower
            return lower + (upper - lower) * (wanted - below) / (count - below)
    return None
