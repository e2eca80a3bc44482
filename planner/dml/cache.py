"""Writing statements that were prepared before, while what they depend on stays as it was."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from cachetools import LRUCache

from memwal.errors import LanceGatewayError
from planner.dml.changing import PreparedChange
from planner.dml.insert import PreparedInsert
from planner.dml.prepared import PreparedWrite
from planner.dml.target import check_may_write
from planner.plan_cache import PreparedFor
from planner.query_planner import QueryPlanner

if TYPE_CHECKING:
    from planner.access import Access
    from planner.settings import SessionSettings

__all__ = ["WriteCache"]

_PASSING = 256
"""Statements without parameters that are kept: as many as clients are about to execute at any moment."""
_LONGEST = 16_384
"""Longer statements are made for one execution, most often."""


class WriteCache:
    """Safe to share between threads.

    Args:
        capacity: the largest number of statements.
    """

    def __init__(self, capacity: int) -> None:
        self._lock = threading.Lock()
        self._kept: LRUCache[PreparedFor, PreparedInsert | PreparedChange] = LRUCache(capacity)
        self._passing: LRUCache[PreparedFor, PreparedInsert | PreparedChange] = LRUCache(_PASSING)

    def get(
        self, engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
    ) -> PreparedWrite | None:
        """A statement that preparing it now would make again; None where that is not sure."""
        key = PreparedFor(sql, settings, access)
        with self._lock:
            found = self._kept.get(key) or self._passing.pop(key, None)
        if found is None:
            return None
        try:
            return found if _holds(engine, found, access) else None
        except LanceGatewayError:
            # Preparing it anew tells the client what is wrong.
            return None

    def put(self, sql: str, settings: SessionSettings, access: Access, write: PreparedWrite) -> None:
        """Keep a statement; one without parameters until it is executed, since drivers prepare it first."""
        if not isinstance(write, PreparedInsert | PreparedChange) or len(sql) > _LONGEST:
            return
        comes_again = bool(len(write.parameter_schema) or write.reads)
        with self._lock:
            (self._kept if comes_again else self._passing)[PreparedFor(sql, settings, access)] = write


def _holds(engine: QueryPlanner, write: PreparedInsert | PreparedChange, access: Access) -> bool:
    """Whether the table is what it was, and every query means what it meant."""
    check_may_write(engine, write.target, access)
    into = write.into
    if engine.catalog.table(write.target) is not into.table:
        return False
    newest = into.table.recent_base()
    if newest is not into.base and not into.is_like(newest):
        return False
    return all(read.prepared is engine.prepare(read.query.sql, read.settings, access) for read in write.reads)
