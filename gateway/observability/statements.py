"""Logs and Prometheus metrics of statements and calls.

Repeated lines of the log are counted: a client that provokes one again and again does not fill a disk.
"""

import copy
import logging
import sys
import threading
import time
from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import accumulate
from threading import RLock
from typing import Any, Final, Literal, TypeAlias

from cachetools import LRUCache
from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    Info,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from pythonjsonlogger.json import JsonFormatter

from lance_gateway.gateway.auth.calls import RpcObserver
from lance_gateway.gateway.execution.query import Query, QueryState, current_statement
from lance_gateway.gateway.execution.running_queries import QueryObserver
from lance_gateway.gateway.observability.history import Totals
from lance_gateway.planner.bridge.run_control import SEARCH_KINDS

_Line: TypeAlias = tuple[str, int, str, type[BaseException] | None, str | None]
_SECONDS: Final = 10.0
_MAX_LINES: Final = 1000
"""Different lines that are remembered; the oldest are forgotten."""


@dataclass(slots=True)
class _Repetition:
    record: logging.LogRecord
    since: float
    count: int = 0


class RepeatedLines(logging.Filter):
    """Lets a line through once in a time, and says behind it how often it was repeated.

    Lines are the same if logger, level, text, the class of the exception and the statement are, so each
    statement has its lines. What was left out is written with the next line of any kind, once the time has
    passed.

    Args:
        write: takes the lines that say so.
        seconds: the time.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        write: Callable[[logging.LogRecord], object],
        seconds: float = _SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._write = write
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        # In order of their first occurrence.
        self._lines: OrderedDict[_Line, _Repetition] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is to be written now."""
        kind = record.exc_info[0] if record.exc_info else None
        statement: str | None = getattr(record, "query_id", None)
        line = record.name, record.levelno, record.getMessage(), kind, statement
        with self._lock:
            now, ended = self._clock(), []
            while self._lines and next(iter(self._lines.values())).since + self._seconds <= now:
                ended.append(self._lines.popitem(last=False)[1])
            known = self._lines.get(line)
            if known is None:
                self._lines[line] = _Repetition(record, now)
                if len(self._lines) > _MAX_LINES:
                    ended.append(self._lines.popitem(last=False)[1])
            else:
                known.count += 1
        for repetition in ended:
            if repetition.count:
                self._write(self._summarise(repetition))
        return known is None

    def _summarise(self, repetition: _Repetition) -> logging.LogRecord:
        record = copy.copy(repetition.record)
        record.msg = f"{record.getMessage()} [{repetition.count} more times within {self._seconds:g} s]"
        record.args, record.exc_info, record.exc_text = (), None, None
        return record


_RPC_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_QUERY_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_MAX_USERS = 1000
_ENDED = (QueryState.FINISHED, QueryState.FAILED, QueryState.CANCELLED)


class _Seconds:
    """A histogram of seconds.

    Args:
        bounds: of the buckets, ascending seconds; each takes what is at most as long.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def list_buckets(self) -> tuple[tuple[float, float], ...]:
        """Return each upper bound, the last one infinite, with how many were at most as long."""
        return tuple(zip((*self._bounds, float("inf")), map(float, accumulate(self._counts)), strict=True))

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str] = ()) -> None:
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        family.add_metric(labels, list(zip(bounds, accumulate(self._counts), strict=True)), self._sum)


class _UserCounts:
    """What the statements of one user did."""

    def __init__(self) -> None:
        self.statements = self.sent_rows = self.affected_rows = 0
        self.seconds = _Seconds(_QUERY_SECONDS)


class Metrics(Collector, QueryObserver, RpcObserver):
    """Observes calls and statements; a registry of its own keeps servers of one process apart.

    Calls are counted here, under one lock, and become metrics when they are collected:
    prometheus-client's counters take a lock and a dozen steps each.
    """

    def __init__(self) -> None:
        # When a series began is of no use to Prometheus, and doubles what it stores.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        # Reentrant: garbage collection may end an abandoned stream in any thread.
        self._lock = RLock()
        self._calls: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._call_seconds: defaultdict[str, _Seconds] = defaultdict(lambda: _Seconds(_RPC_SECONDS))
        self._ended = dict.fromkeys(_ENDED, 0)
        self._query_seconds = _Seconds(_QUERY_SECONDS)
        self._queue_seconds = _Seconds(_QUERY_SECONDS)
        self._first_batch_seconds = _Seconds(_QUERY_SECONDS)
        self._rows = self._bytes = self._affected = 0
        # For the users themselves: series of Prometheus would be too many.
        self._users: LRUCache[str, _UserCounts] = LRUCache(_MAX_USERS)
        self._regions_kept = self._regions_pruned = 0
        self._searches = dict.fromkeys(SEARCH_KINDS, 0)
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        Info("lance_gateway", "The gateway's version.", registry=self.registry).info(
            {"version": version("lance-gateway")}
        )

    def on_call_finished(self, method: str, status: str, seconds: float) -> None:
        """Count a call."""
        with self._lock:
            self._calls[method, status] += 1
            self._call_seconds[method].add(seconds)

    def on_finished(self, query: Query) -> None:
        """Count a statement: how long it waited and ran, what it read and sent."""
        with self._lock:
            self._ended[query.state] += 1
            self._rows += query.rows
            self._bytes += query.bytes
            self._affected += query.affected or 0
            own = self._users.setdefault(query.user, _UserCounts())
            own.statements += 1
            own.sent_rows += query.rows
            own.affected_rows += query.affected or 0
            if query.started_at is None:
                return
            own.seconds.add(query.run_seconds)
            self._queue_seconds.add(query.queue_seconds)
            self._query_seconds.add(query.run_seconds)
            if query.first_batch_at is not None:
                self._first_batch_seconds.add(query.first_batch_seconds)
            for read in query.reads:
                self._regions_kept += read.regions_kept
                self._regions_pruned += read.regions - read.regions_kept
                if read.search is not None:
                    self._searches[read.search] += 1

    def read_users(self) -> dict[str, Totals]:
        """Return what the statements of each user did, of those who ran some lately."""
        with self._lock:
            return {
                user: Totals(own.statements, own.sent_rows, own.affected_rows, own.seconds.list_buckets())
                for user, own in self._users.items()
            }

    def collect(self) -> list[Metric]:
        """Return all metrics."""
        with self._lock:
            return [*self._collect_calls(), *self._collect_statements(), *self._collect_results()]

    def _collect_calls(self) -> Iterator[Metric]:
        yield _create_counter(
            "rpcs",
            "Calls that have ended, by method and gRPC status.",
            ("method", "status"),
            self._calls.items(),
        )
        seconds = HistogramMetricFamily(
            "lance_gateway_rpc_duration_seconds",
            "Duration of calls; that of DoGet includes its stream.",
            labels=("method",),
        )
        for method, counted in self._call_seconds.items():
            counted.add_to(seconds, (method,))
        yield seconds

    def _collect_statements(self) -> Iterator[Metric]:
        yield _create_counter(
            "queries",
            "Statements that have ended, by what became of them.",
            ("state",),
            (((state.value,), count) for state, count in self._ended.items()),
        )
        for name, documentation, seconds in (
            ("duration", "From leaving the queue to the last batch.", self._query_seconds),
            ("queue", "How long statements waited for their turn.", self._queue_seconds),
            ("first_batch", "From leaving the queue to the first batch.", self._first_batch_seconds),
        ):
            family = HistogramMetricFamily(f"lance_gateway_query_{name}_seconds", documentation)
            seconds.add_to(family)
            yield family

    def _collect_results(self) -> Iterator[Metric]:
        for name, documentation, count in (
            ("sent_rows", "Rows sent by statements that have ended.", self._rows),
            ("sent_bytes", "Bytes sent by statements that have ended, uncompressed.", self._bytes),
            (
                "affected_rows",
                "Rows that statements inserted, updated or deleted, counted when they end.",
                self._affected,
            ),
        ):
            yield _create_counter(name, documentation, (), [((), count)])
        yield _create_counter(
            "regions",
            "Regions of the tables that statements read, by whether they were pruned.",
            ("verdict",),
            [(("kept",), self._regions_kept), (("pruned",), self._regions_pruned)],
        )
        yield _create_counter(
            "searches",
            "Searches of statements that have ended, by kind: vector, text or hybrid.",
            ("kind",),
            (((kind,), count) for kind, count in self._searches.items()),
        )


def _create_counter(
    name: str, documentation: str, labels: Sequence[str], counts: Iterable[tuple[Sequence[str], int]]
) -> CounterMetricFamily:
    family = CounterMetricFamily(f"lance_gateway_{name}", documentation, labels=labels)
    for values, count in counts:
        family.add_metric(values, count)
    return family


audit_logger = logging.getLogger("lance_gateway.audit")


def shorten_session_id(session_id: str | None) -> str | None:
    """Return the part of a session's id that may be logged: the whole id would open the session."""
    return None if session_id is None else session_id[:8]


class WriteAudit(QueryObserver):
    """Logs every statement that writes, when it has ended in any way.

    Neither the statement nor the text of an error is part of the line: both may hold values of rows. What a
    statement wrote in a transaction is there when its COMMIT, which has a line of its own, has finished.
    """

    def on_finished(self, query: Query) -> None:
        """Log a statement that writes."""
        if query.target is None and query.affected is None:
            return
        succeeded = query.state is QueryState.FINISHED
        audit_logger.info(
            "write %s%s: user %r, table %r, rows %s",
            query.state.value,
            " in a transaction" if query.control.transaction is not None else "",
            query.user,
            query.target,
            "unknown" if query.affected is None else query.affected,
            extra={
                "query_id": query.id,
                "user": query.user,
                "peer": query.peer,
                "session": shorten_session_id(query.session_id),
                "table": query.target,
                "rows_affected": query.affected,
                "in_transaction": query.control.transaction is not None,
                "state": query.state.value,
                "succeeded": succeeded,
                "duration_seconds": round(query.run_seconds, 6),
            },
        )


logger = logging.getLogger("lance_gateway.query")

LogFormat = Literal["text", "json"]
LoggedQueries = Literal["all", "slow", "none"]
MAX_STATEMENT = 1000
"""Characters of a statement that logs and traces carry."""
_FIELDS = ("query_id", "user", "peer", "session")


def configure(log_format: LogFormat, level: str) -> None:
    """Send all log lines of this process to stderr.

    Args:
        log_format: "text" or "json" (one object per line).
        level: the least severe level that is shown.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_add_query)
    handler.addFilter(RepeatedLines(handler.emit))
    fields = ["levelname", "name", "message", "threadName", *_FIELDS]
    names = {"levelname": "level", "name": "logger", "threadName": "thread"}
    is_json = log_format == "json"
    handler.setFormatter(
        _JsonFormatter(fields, rename_fields=names, timestamp="time") if is_json else _TextFormatter()
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)


def shorten_statement(statement: str) -> str:
    """Return a statement on one line, cut where it is very long."""
    line = " ".join(statement.split())
    return line if len(line) <= MAX_STATEMENT else f"{line[:MAX_STATEMENT]}... ({len(line)} characters)"


class QueryLog(QueryObserver):
    """Logs finished statements, one line each: all, or those that failed or took long.

    Args:
        logged: "all", "slow" (and failed ones) or "none".
        slow_seconds: those that take at least this long are warnings; 0 for none.
    """

    def __init__(self, logged: LoggedQueries = "slow", slow_seconds: float = 0.0) -> None:
        self._logged = logged
        self._slow_seconds = slow_seconds

    def on_finished(self, query: Query) -> None:
        """Log a statement, if the settings ask for it."""
        seconds = query.run_seconds
        slow = not query.is_endless and 0 < self._slow_seconds <= seconds
        failed = query.state is not QueryState.FINISHED
        if self._logged == "all" or (self._logged == "slow" and (slow or failed)):
            self._write(query, seconds, slow=slow, failed=failed)

    def _write(self, query: Query, seconds: float, *, slow: bool, failed: bool) -> None:
        level = logging.WARNING if slow else logging.INFO
        if not logger.isEnabledFor(level):
            return
        statement = shorten_statement(query.sql)
        memory = query.control.memory.measure()
        logger.log(
            level,
            "%s%s after %.3f s, %d rows, %d bytes: %s",
            "slow query " if slow else "query ",
            f"{query.state.value}: {query.error}" if failed else query.state.value,
            seconds,
            query.rows,
            query.bytes,
            statement,
            extra={
                **_build_fields(query),
                "state": query.state.value,
                "duration_seconds": round(seconds, 6),
                "queue_seconds": round(query.queue_seconds, 6),
                "rows": query.rows,
                "bytes": query.bytes,
                "memory_bytes": memory and memory.held_bytes,
                "spilled_bytes": memory and memory.spilled_bytes,
                "error": query.error,
                "slow": slow,
                "statement": statement,
            },
        )


def _add_query(record: logging.LogRecord) -> bool:
    if not hasattr(record, "query_id") and (query := current_statement()) is not None:
        vars(record).update(_build_fields(query))
    return True


def _build_fields(query: Query) -> dict[str, str | None]:
    return {
        "query_id": query.id,
        "user": query.user,
        "peer": query.peer,
        "session": shorten_session_id(query.session_id),
    }


class _TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base class calls it so
        line = super().formatMessage(record)
        named = [f"{name}={value}" for name in _FIELDS if (value := vars(record).get(name)) is not None]
        return _escape_line(f"{line} [{' '.join(named)}]" if named else line)

    def formatException(self, ei: Any) -> str:  # noqa: ANN401, N802 - as of the base class
        # Indented: no line of what went wrong can be taken for another record.
        return "\n".join(f"  {_escape_line(line)}" for line in super().formatException(ei).split("\n"))


def _escape_line(line: str) -> str:
    """Escape control characters: clients choose parts of a line."""
    return (
        line if line.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in line)
    )


class _JsonFormatter(JsonFormatter):
    def process_log_record(self, log_data: dict[str, object]) -> dict[str, object]:
        # Fields that say nothing are left out.
        return {name: value for name, value in log_data.items() if value is not None}
