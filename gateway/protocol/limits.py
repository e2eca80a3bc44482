"""How much a server does at once, remembers and sends."""

import dataclasses
from dataclasses import dataclass

from memwal.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server. Where 0 is allowed it means that there is no such limit.

    Args:
        max_concurrent_queries: statements that run at the same time; others wait. Those whose clients have
            stopped reading do not count.
        max_queued_queries: statements that wait; others are refused.
        queue_timeout_seconds: how long a statement waits before it is refused.
        query_timeout_seconds: how long a statement may run, from its start to its last batch; 0 for ever.
        max_result_rows: rows that one statement may return; 0 for any number.
        max_result_bytes: bytes that one statement may return; 0 for any number.
        max_batch_bytes: on the wire; larger batches are sliced.
        max_message_bytes: of one command, ticket or action, and so of a statement's text.
        max_bound_bytes: of the parameters that are bound to a statement at once.
        max_sessions: sessions that are remembered; the one unused longest leaves first.
        session_idle_seconds: after which a session is forgotten.
        max_prepared_statements: that are remembered; the one unused longest leaves first.
        query_history: finished statements that `system.queries` shows.
    """

    max_concurrent_queries: int = 64
    max_queued_queries: int = 1024
    queue_timeout_seconds: float = 30.0
    query_timeout_seconds: float = 0.0
    max_result_rows: int = 0
    max_result_bytes: int = 0
    # A gRPC message of 4 MiB, where some clients stop, also holds the header of the batch.
    max_batch_bytes: int = (4 << 20) - (64 << 10)
    # The text of a statement comes back in its ticket and its handle, and clients limit what they receive.
    max_message_bytes: int = 4 << 20
    max_bound_bytes: int = 64 << 20
    max_sessions: int = 10_000
    session_idle_seconds: float = 12 * 3600.0
    max_prepared_statements: int = 4096
    query_history: int = 1000

    def __post_init__(self) -> None:
        zero_allowed = {
            "max_queued_queries",
            "queue_timeout_seconds",
            "query_timeout_seconds",
            "max_result_rows",
            "max_result_bytes",
            "query_history",
        }
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            least = "0 or more" if field.name in zero_allowed else "more than 0"
            if value < 0 or (value == 0 and field.name not in zero_allowed):
                raise InvalidInputError(f"the limit {field.name} is {value}: choose {least}")
