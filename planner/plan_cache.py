"""Plans of statements that were prepared before, while what they depend on stays as it was."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field

import pyarrow as pa

from memwal.errors import LanceGatewayError, UnsupportedError
from planner.access import Access
from planner.as_of import AsOf
from planner.base_table import BaseTable
from planner.binding import NameResolver, PastResolver
from planner.catalog import Catalog
from planner.prepared_query import PreparedQuery
from planner.settings import SessionSettings


@dataclass(frozen=True, slots=True)
class PreparedFor:
    """Names a prepared statement. Equal for the same statement, settings and principal.

    What its tables and views are, is asked again when it is taken.

    Attributes:
        statement: SQL, or a Substrait plan.
        settings: of the session.
        access: what the principal may see; the same object as long as that is the same.
    """

    statement: str | bytes
    settings: SessionSettings
    access: Access


@dataclass(eq=False)
class Dependencies:
    """Resolves names and remembers what the answers were.

    Args:
        catalog: of tables.
        resolver: what names mean to the principal.
    """

    catalog: Catalog
    resolver: NameResolver
    _tables: dict[str, BaseTable] = field(default_factory=dict)
    _views: dict[str, str] = field(default_factory=dict)
    _pasts: dict[tuple[str, AsOf], pa.Schema] = field(default_factory=dict)

    def has_table(self, name: str) -> bool:
        """See `NameResolver`."""
        found = self.resolver.has_table(name)
        if found:
            self._tables[name] = self.catalog.table(name).base()
        return found

    def view_sql(self, name: str) -> str | None:
        """See `NameResolver`."""
        found = self.resolver.view_sql(name)
        if found is not None:
            self._views[name] = found
        return found

    def table_schema(self, name: str) -> pa.Schema:
        """See `NameResolver`."""
        return self.resolver.table_schema(name)

    def past_schema(self, name: str, as_of: AsOf) -> pa.Schema:
        """See `PastResolver`."""
        if not isinstance(self.resolver, PastResolver):
            raise UnsupportedError(f"Table {name!r} is read as it is here, and not as of a version or a time")
        found = self._pasts[name, as_of] = self.resolver.past_schema(name, as_of)
        return found

    def primary_key(self, name: str) -> tuple[str, ...]:
        """See `NameResolver`."""
        return self.resolver.primary_key(name)

    def names(self) -> tuple[str, ...]:
        """See `NameResolver`."""
        return self.resolver.names()

    def system_tables(self) -> tuple[str, ...]:
        """See `NameResolver`."""
        return self.resolver.system_tables()

    def hold(self) -> bool:
        """Whether every name still means the same, and every table has the columns that it had.

        Raises:
            LanceGatewayError: a table was dropped, or can't be read.
        """
        return (
            self.views_hold()
            and all(self._is_same(name, known) for name, known in self._tables.items())
            # A tag may be moved, and what an expression gives may change by itself.
            and all(self.past_schema(*past).equals(known) for past, known in list(self._pasts.items()))
        )

    def views_hold(self) -> bool:
        """Whether every view says what it said."""
        return not self._views or all(
            self.resolver.view_sql(name) == known and not self.resolver.has_table(name)
            for name, known in self._views.items()
        )

    def _is_same(self, name: str, known: BaseTable) -> bool:
        newest = self.catalog.table(name).base()
        if newest is known:
            return True
        same = (
            newest.place == known.place
            and newest.schema.equals(known.schema)
            and newest.primary_key == known.primary_key
        )
        if same:
            self._tables[name] = newest
        return same


@dataclass(slots=True)
class _Entry:
    plan: PreparedQuery
    dependencies: Dependencies
    weight: int
    used: int


USUAL_LENGTH = 4096
"""A plan grows with its statement: a longer one counts as several, so that they can't fill the memory."""


class PlanCache:
    """The statements prepared last; safe to share between threads.

    Args:
        capacity: the largest number of plans of statements of usual length.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._entries: dict[PreparedFor, _Entry] = {}
        self._weight = 0
        self._uses = itertools.count()

    def get(self, key: PreparedFor, promised: bytes | None) -> PreparedQuery | None:
        """The plan of a statement, if it can be taken again.

        Args:
            key: the statement, and for whom it was prepared.
            promised: digest of the result schema that a client was told; such a plan is taken if its views
                are what they were, since running it finds out whether the tables have changed. None takes a
                plan only if it is what preparing the statement now would give.
        """
        # Statements are looked up several times for each execution, and hashed no more often than that.
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.used = next(self._uses)
        try:
            if promised is not None:
                is_valid = entry.plan.digest == promised and entry.dependencies.views_hold()
            else:
                is_valid = entry.plan.is_repeatable and entry.dependencies.hold()
        except LanceGatewayError:
            # Preparing it anew tells the client what is wrong.
            return None
        return entry.plan if is_valid else None

    def put(self, key: PreparedFor, plan: PreparedQuery, dependencies: Dependencies, length: int) -> None:
        """Keep a plan in place of the one that the key had, unless its statement is too long to be kept.

        Args:
            key: as for `get`.
            plan: of the statement.
            dependencies: of the plan.
            length: of the statement.
        """
        entry = _Entry(plan, dependencies, 1 + length // USUAL_LENGTH, next(self._uses))
        with self._lock:
            self._remove(key)
            if entry.weight > self._capacity:
                return
            while self._weight + entry.weight > self._capacity:
                self._remove(min(self._entries, key=lambda one: self._entries[one].used))
            self._entries[key] = entry
            self._weight += entry.weight

    def _remove(self, key: PreparedFor) -> None:
        removed = self._entries.pop(key, None)
        if removed is not None:
            self._weight -= removed.weight
