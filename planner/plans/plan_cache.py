"""The plans of the statements that were prepared last."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.binding.value_types import settle_types
from lance_gateway.planner.plans.prepared_query import PreparedQuery
from lance_gateway.planner.scans.settings import SessionSettings

MAX_PLANS = 1024
"""The number of statements of usual length whose plans are kept."""


@dataclass(frozen=True, slots=True)
class StatementKey:
    """The key of a prepared statement: its text, settings and principal.

    Its tables and views are not part of the key: they are compared when the statement is used again.

    Attributes:
        statement: SQL.
        settings: of the session.
        access: what the principal may see; the same object as long as the rights are the same.
        value_types: of its parameters, where they are those of the bound values.
    """

    statement: str
    settings: SessionSettings
    access: Access
    value_types: tuple[pa.DataType, ...] = ()


@dataclass(slots=True)
class _Entry:
    plan: PreparedQuery
    weight: int
    used: int


_SHARE_REMOVED = 32
USUAL_LENGTH = 4096
"""A longer statement counts as several in the cache, since its plan needs more memory."""


class PlanCache:
    """The statements prepared last; safe to share between threads.

    Args:
        capacity: the largest number of plans of statements of usual length.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._entries: dict[StatementKey, _Entry] = {}
        self._weight = 0
        self._uses = itertools.count()

    def get(self, key: StatementKey, promised: bytes | None) -> PreparedQuery | None:
        """Return the plan of a statement, if it is still valid.

        Args:
            key: the statement, and for whom it was prepared.
            promised: digest of the result schema that a client has; such a plan is valid if its views are the
                same, since running it checks the tables. With None, a plan is valid only if preparing the
                statement now would give the same.
        """
        # Looked up several times per execution, so the key is hashed once.
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.used = next(self._uses)
        try:
            if promised is not None:
                names = entry.plan.catalog
                is_valid = entry.plan.digest == promised and (not names.views or names.has_same_views())
            else:
                is_valid = entry.plan.is_repeatable and entry.plan.catalog.is_current()
        except LanceGatewayError:
            # The caller prepares the statement again, which raises the error that fits.
            return None
        return entry.plan if is_valid else None

    def get_at_once(self, key: StatementKey, promised: bytes | None) -> PreparedQuery | None:
        """Return the plan of a statement as `get` does, if storage need not be asked whether it is valid."""
        entry = self._entries.get(key)
        if entry is None or entry.plan.catalog.needs_storage(is_promised=promised is not None):
            return None
        return self.get(key, promised)

    def put(self, key: StatementKey, plan: PreparedQuery) -> None:
        """Keep the plan of a key, unless the statement is too long; the least recently used plans leave."""
        entry = _Entry(plan, 1 + len(key.statement) // USUAL_LENGTH, next(self._uses))
        with self._lock:
            self._remove(key)
            if entry.weight > self._capacity:
                return
            if self._weight + entry.weight > self._capacity:
                self._make_room(entry.weight)
            self._entries[key] = entry
            self._weight += entry.weight

    def _make_room(self, weight: int) -> None:
        """Remove the least recently used plans; several, since all are looked at to find them."""
        room = max(weight, self._capacity // _SHARE_REMOVED)
        for key, _ in sorted(self._entries.items(), key=lambda item: item[1].used):
            if self._weight + room <= self._capacity:
                return
            self._remove(key)

    def _remove(self, key: StatementKey) -> None:
        removed = self._entries.pop(key, None)
        if removed is not None:
            self._weight -= removed.weight


_FindPlan: TypeAlias = Callable[[StatementKey, bytes | None], PreparedQuery | None]
"""Returns the plan of a statement that is kept, and has the digest that was promised."""


def find_typed(
    find: _FindPlan, key: StatementKey, promised: bytes | None, bound: Sequence[pa.DataType]
) -> PreparedQuery | None:
    """Return the plan of a statement for bound values, if it is kept."""
    plan = find(key, promised)
    types = tuple(bound) if plan is None else settle_types(plan.parameter_schema, bound)
    if plan is not None and types == tuple(plan.parameter_schema.types):
        return plan
    # Types that were settled stay as they are when they are settled again.
    return find(replace(key, value_types=types), promised if plan is None else None)
