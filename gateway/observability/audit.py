"""Who changed what: one log line per statement that writes, without its text, which holds values."""

from __future__ import annotations

import logging

from gateway.observability.current import shown_session
from gateway.observability.metrics import between
from gateway.queries import Query, QueryObserver, QueryState

logger = logging.getLogger("gateway.audit")


class WriteAudit(QueryObserver):
    """Logs every statement that changes something, when it has ended, whatever became of it.

    Neither the statement nor the text of an error is part of the line: both may hold values of rows.
    """

    def on_finished(self, query: Query) -> None:
        """Logs a statement that changes something."""
        if query.target is None and query.affected is None:
            return
        succeeded = query.state is QueryState.FINISHED
        logger.info(
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
                "duration_seconds": round(between(query.started_at, query.finished_at), 6),
            },
        )
