"""Which statement a thread serves.

A call is served by one thread of gRPC from its first byte to its last. That thread was not started by Python,
which forgets thread-local values between two visits of such a thread: hence a map by the thread's id.
"""

import threading

from gateway.execution.running_queries import Query

_serving: dict[int, Query] = {}
_threads: dict[str, int] = {}


def enter(query: Query) -> None:
    """The calling thread begins to serve a statement."""
    thread = threading.get_ident()
    _serving[thread] = query
    _threads[query.id] = thread


def leave(query: Query) -> None:
    """A statement has ended; a stream that nobody read to its end may be dropped by another thread."""
    thread = _threads.pop(query.id, None)
    if thread is not None and _serving.get(thread) is query:
        del _serving[thread]


def query() -> Query | None:
    """Returns the statement that the calling thread serves, if it serves one."""
    return _serving.get(threading.get_ident())


def shown_session(session_id: str | None) -> str | None:
    """Returns what tells a session apart; all of its id would let whoever reads it take the session over."""
    return None if session_id is None else session_id[:8]
