"""Log lines on stderr: text for people, JSON for machines; both name the statement they belong to."""

import logging
import sys
import threading
from typing import Any, Literal

from pythonjsonlogger.json import JsonFormatter

from gateway.execution.running_queries import Query, QueryObserver, QueryState

audit_logger = logging.getLogger("gateway.audit")


# Which statement a thread serves. A call is served by one thread of gRPC from its first byte to its last.
# Python did not start that thread, and forgets its thread-local values between two visits: hence maps by id.
_serving: dict[int, Query] = {}
_threads: dict[str, int] = {}


def enter_statement(query: Query) -> None:
    """The calling thread begins to serve a statement."""
    thread = threading.get_ident()
    _serving[thread] = query
    _threads[query.id] = thread


def leave_statement(query: Query) -> None:
    """A statement has ended; a stream that nobody read to its end may be dropped by another thread."""
    thread = _threads.pop(query.id, None)
    if thread is not None and _serving.get(thread) is query:
        del _serving[thread]


def current_statement() -> Query | None:
    """Returns the statement that the calling thread serves, if it serves one."""
    return _serving.get(threading.get_ident())


def shown_session(session_id: str | None) -> str | None:
    """Returns what tells a session apart; all of its id would let whoever reads it take the session over."""
    return None if session_id is None else session_id[:8]


class WriteAudit(QueryObserver):
    """Logs every statement that changes something, when it has ended, whatever became of it.

    Neither the statement nor the text of an error is part of the line: both may hold values of rows.
    """

    def on_finished(self, query: Query) -> None:
        """Logs a statement that changes something."""
        if query.target is None and query.affected is None:
            return
        succeeded = query.state is QueryState.FINISHED
        audit_logger.info(
            "write %s: user %r, table %r, rows %s",
            query.state.value,
            query.user,
            query.target,
            "unknown" if query.affected is None else query.affected,
            extra={
                "query_id": query.id,
                "user": query.user,
                "peer": query.peer,
                "session": shown_session(query.session_id),
                "table": query.target,
                "rows_affected": query.affected,
                "state": query.state.value,
                "succeeded": succeeded,
                "duration_seconds": round(query.run_seconds, 6),
            },
        )


logger = logging.getLogger("gateway.query")

LogFormat = Literal["text", "json"]
LoggedQueries = Literal["all", "slow", "none"]
MAX_STATEMENT = 1000
"""Characters of a statement that logs and traces carry."""
_FIELDS = ("query_id", "user", "peer", "session")


def configure(log_format: LogFormat, level: str) -> None:
    """Sends all log lines of this process to stderr.

    Args:
        log_format: "text" or "json" (one object per line).
        level: the least severe level that is shown.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_with_query)
    handler.setFormatter(_json() if log_format == "json" else _TextFormatter())
    logging.basicConfig(handlers=[handler], level=level, force=True)


def shortened(statement: str) -> str:
    """Returns a statement on one line, cut where it is very long."""
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

    def on_started(self, query: Query) -> None:
        """Lines that this thread logs from now on name the statement."""
        enter_statement(query)

    def on_finished(self, query: Query) -> None:
        """Logs what became of it."""
        try:
            seconds = query.run_seconds
            slow = 0 < self._slow_seconds <= seconds
            failed = query.state is not QueryState.FINISHED
            if self._logged == "all" or (self._logged == "slow" and (slow or failed)):
                self._write(query, seconds, slow=slow, failed=failed)
        finally:
            leave_statement(query)

    def _write(self, query: Query, seconds: float, *, slow: bool, failed: bool) -> None:
        level = logging.WARNING if slow else logging.INFO
        if not logger.isEnabledFor(level):
            return
        statement = shortened(query.sql)
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
                **_fields(query),
                "state": query.state.value,
                "duration_seconds": round(seconds, 6),
                "queue_seconds": round(query.queue_seconds, 6),
                "rows": query.rows,
                "bytes": query.bytes,
                "error": query.error,
                "slow": slow,
                "statement": statement,
            },
        )


def _with_query(record: logging.LogRecord) -> bool:
    query = current_statement()
    if query is not None and not hasattr(record, "query_id"):
        vars(record).update(_fields(query))
    return True


def _fields(query: Query) -> dict[str, str | None]:
    return {
        "query_id": query.id,
        "user": query.user,
        "peer": query.peer,
        "session": shown_session(query.session_id),
    }


class _TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base class calls it so
        line = super().formatMessage(record)
        named = [f"{name}={value}" for name in _FIELDS if (value := vars(record).get(name)) is not None]
        return _printable(f"{line} [{' '.join(named)}]" if named else line)

    def formatException(self, ei: Any) -> str:  # noqa: ANN401, N802 - as of the base class
        # Indented: no line of what went wrong can be taken for another record.
        return "\n".join(f"  {_printable(line)}" for line in super().formatException(ei).split("\n"))


def _printable(line: str) -> str:
    """Returns a text as one line that says no more than it shows: parts of it are what somebody sent."""
    return (
        line if line.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in line)
    )


def _json() -> logging.Formatter:
    return _JsonFormatter(
        ["levelname", "name", "message", "threadName", *_FIELDS],
        rename_fields={"levelname": "level", "name": "logger", "threadName": "thread"},
        timestamp="time",
    )


class _JsonFormatter(JsonFormatter):
    def process_log_record(self, log_data: dict[str, object]) -> dict[str, object]:
        # Fields that say nothing are left out.
        return {name: value for name, value in log_data.items() if value is not None}
