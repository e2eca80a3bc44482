"""SQL over the tables of a catalog: queries, and statements that write rows or change definitions."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from cachetools import LRUCache

from memwal.errors import LanceGatewayError
from memwal.storage.files import LocalBackend, Storage
from planner.access.rights import FULL_ACCESS, Access
from planner.access.visible_catalog import VisibleCatalog
from planner.bridge.isolation import run_isolated
from planner.plans.errors import describe_panics, schema_changed_error
from planner.plans.prepared_query import Constant, PreparedQuery
from planner.plans.query_planner import (
    LONG_STATEMENT,
    MAX_PLANS,
    CreateQuery,
    CreateUnbound,
    QueryPlanner,
    StatementKey,
)
from planner.scans.settings import DEFAULT_SETTINGS, SessionSettings, Shortcut
from planner.sql.dialects.translate import NATIVE
from planner.tables.state.catalog import Catalog
from planner.writes.ddl.alter import prepare_alter
from planner.writes.ddl.create import prepare_create
from planner.writes.ddl.drop import prepare_drop
from planner.writes.ddl.maintenance import prepare_analyze, prepare_optimize
from planner.writes.ddl.statement import PreparedDefinition
from planner.writes.dml.explain import PreparedExplain, analyze_error, split_explain
from planner.writes.dml.insert import (
    PreparedInsert,
    prepare_insert,
    prepare_long_insert,
    read_long_insert,
)
from planner.writes.dml.merge import prepare_merge
from planner.writes.dml.prepared_write import PreparedRows, PreparedWrite, WriteResult
from planner.writes.dml.statement.target import check_may_write
from planner.writes.dml.statement.text import read_statement
from planner.writes.dml.statement.translate import is_dml, translate_dml
from planner.writes.dml.update import prepare_delete, prepare_truncate, prepare_update
from planner.writes.dml.values.long_values import LongInsert

__all__ = [
    "DEFAULT_SETTINGS",
    "Constant",
    "PreparedQuery",
    "PreparedWrite",
    "QueryEngine",
    "SessionSettings",
    "WriteCache",
    "WriteResult",
    "first_word",
]

DDL: Mapping[str, Callable[[QueryPlanner, str, SessionSettings, Access], PreparedDefinition]] = (
    MappingProxyType(
        {
            "create": prepare_create,
            "drop": prepare_drop,
            "alter": prepare_alter,
            "optimize": prepare_optimize,
            "analyze": prepare_analyze,
        }
    )
)


Prepare = Callable[[QueryPlanner, str, SessionSettings, Access], PreparedWrite | None]
"""Checks a statement that begins with one word; returns None if it is a query."""

_WRITES = re.compile(r"\b(?:insert|replace|update|delete|merge)\b", re.IGNORECASE)
_STATEMENTS: Mapping[str, Prepare] = MappingProxyType(
    {
        "INSERT": prepare_insert,
        "REPLACE": prepare_insert,
        "UPDATE": prepare_update,
        "DELETE": prepare_delete,
        "MERGE": prepare_merge,
        "TRUNCATE": prepare_truncate,
    }
)


def _prepare_after_with(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedWrite | None:
    """Prepare the statement behind WITH; return None if it is a query."""
    if _WRITES.search(sql) is None:
        return None
    family = _STATEMENTS.get(_find_word(sql))
    return None if family is None else family(engine, sql, settings, access)


def _find_word(sql: str) -> str:
    """Return the first word of a statement behind its common table expressions.

    Raises:
        LanceGatewayError: it has syntax errors before that word.
    """
    return run_isolated(None, _read_word, sql) if len(sql) > LONG_STATEMENT else _read_word(sql)


def _read_word(sql: str) -> str:
    reader = read_statement(sql).reader()
    if reader.word == "WITH":
        reader.common_tables()
    return reader.word


def _prepare_after_explain(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedWrite | None:
    """Prepare EXPLAIN of a statement that writes; return None if it explains a query."""
    if _WRITES.search(sql) is None:
        return None
    is_long = len(sql) > LONG_STATEMENT
    text, analyzes = run_isolated(None, split_explain, sql) if is_long else split_explain(sql)
    if not text:
        return None
    word = _find_word(text)
    family = _STATEMENTS.get(word)
    statement = None if family is None else family(engine, text, settings, access)
    if statement is None:
        return None
    if analyzes:
        raise analyze_error(word)
    assert isinstance(statement, PreparedRows)  # noqa: S101 - what these families make
    return PreparedExplain(sql, statement, engine, settings, access)


DML: Mapping[str, Prepare] = MappingProxyType(
    {
        **{word.lower(): prepare for word, prepare in _STATEMENTS.items()},
        "with": _prepare_after_with,
        "explain": _prepare_after_explain,
    }
)


# Atomic and possessive, so that many comments in a row don't cause exponential backtracking.
_FIRST_WORD = re.compile(r"(?>\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*+([A-Za-z]+)", re.DOTALL)
_FAMILIES: Mapping[str, Prepare] = MappingProxyType({**DML, **DDL})
_CHANGES = frozenset(_FAMILIES) - {"with", "explain"}
"""First words of statements that change something in any case."""


def first_word(sql: str) -> str:
    """Return the first word of a statement in lower case, or "" if it does not begin with a word.

    >>> first_word("/* all */ SELECT 1")
    'select'
    """
    first = _FIRST_WORD.match(sql)
    return "" if first is None else first[1].lower()


def prepare_write(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedWrite | None:
    """Check a statement that changes something; return None for others, such as queries.

    Raises:
        LanceGatewayError: the statement is not valid.
    """
    word = first_word(sql)
    family = _FAMILIES.get(word)
    if family is None:
        return None
    if settings.dialect != NATIVE and is_dml(word, sql):
        text = translate_dml(sql, settings.dialect, engine.visible_catalog(access))
        return None if text is None else family(engine, text, replace(settings, dialect=NATIVE), access)
    return family(engine, sql, settings, access)


def read_long_write(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> LongInsert | None:
    """Check a long statement that changes something, for another process.

    Returns:
        What the other process need not read itself; None where it must read the whole text.

    Raises:
        LanceGatewayError: the statement is not valid, or the principal may not do that.
    """
    with describe_panics(sql):
        write = prepare_write(engine, sql, settings, access)
    return read_long_insert(write) if isinstance(write, PreparedInsert) else None


ReadLongWrite: TypeAlias = Callable[[str, SessionSettings, VisibleCatalog], LongInsert | None]
"""Has `read_long_write` done in another process."""
_MAX_ONE_TIME_STATEMENTS = 256
"""Statements without parameters that are kept until they are executed."""
_MAX_LENGTH = 16_384
"""Longer statements are not kept, since most of them are executed once."""


class WriteCache:
    """The statements that write and were prepared last; safe to share between threads.

    Args:
        capacity: the largest number of statements.
    """

    def __init__(self, capacity: int) -> None:
        self._lock = threading.Lock()
        self._repeatable: LRUCache[StatementKey, PreparedRows] = LRUCache(capacity)
        self._one_time: LRUCache[StatementKey, PreparedRows] = LRUCache(_MAX_ONE_TIME_STATEMENTS)

    def get(
        self, engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
    ) -> PreparedWrite | None:
        """Return the prepared statement if preparing it now would give the same one."""
        key = StatementKey(sql, settings, access)
        with self._lock:
            write = self._repeatable.get(key) or self._one_time.pop(key, None)
        if write is None:
            return None
        try:
            return write if _is_current(engine, write, access) else None
        except LanceGatewayError:
            # The caller prepares the statement again, which raises the error that fits.
            return None

    def put(self, sql: str, settings: SessionSettings, access: Access, write: PreparedWrite) -> None:
        """Keep a statement; an INSERT of constants is kept until drivers that prepare it execute it."""
        if not isinstance(write, PreparedRows) or len(sql) > _MAX_LENGTH:
            return
        is_repeatable = (
            len(write.parameter_schema) or write.source_queries or not isinstance(write, PreparedInsert)
        )
        with self._lock:
            (self._repeatable if is_repeatable else self._one_time)[StatementKey(sql, settings, access)] = (
                write
            )


def _is_current(engine: QueryPlanner, write: PreparedRows, access: Access) -> bool:
    """Return whether the table and the plans of all queries are still those of the statement."""
    check_may_write(engine, write.target, access)
    into = write.write_target
    if engine.catalog.table(write.target) is not into.table:
        return False
    newest = into.table.find_recent_base()
    if newest is not into.base and not into.is_compatible(newest):
        return False
    return all(
        read.prepared is engine.prepare(read.query.sql, read.settings, access)
        for read in write.source_queries
    )


class QueryEngine(QueryPlanner):
    """Prepares and runs statements of all kinds; safe to share between threads.

    Args:
        catalog: tables and views.
        partitions: of every scan, by default one per core.
        memory_bytes: memory of one statement before it spills to disk; None for no limit.
        create_query: plans queries; by default in this process.
        create_unbound: binds and plans long statements; None binds all of them in this process.

    Raises:
        PreconditionError: the installed pylance and datafusion don't match.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        partitions: int | None = None,
        memory_bytes: int | None = None,
        create_query: CreateQuery = PreparedQuery,
        create_unbound: CreateUnbound | None = None,
    ) -> None:
        super().__init__(
            catalog,
            partitions=partitions,
            memory_bytes=memory_bytes,
            create_query=create_query,
            create_unbound=create_unbound,
        )
        self.read_long_write: ReadLongWrite | None = None
        """Reads long statements that write; None reads all of them in this process."""
        self._writes = WriteCache(MAX_PLANS)
        self._is_remote = catalog.storage.backend.scheme != LocalBackend.scheme

    def prepare_statement(
        self,
        sql: str,
        settings: SessionSettings = DEFAULT_SETTINGS,
        access: Access = FULL_ACCESS,
        *,
        promised: bytes | None = None,
    ) -> PreparedQuery | PreparedWrite:
        """Check a query as `prepare` does, or a statement that changes something.

        Raises:
            LanceGatewayError: the statement is not valid.
        """
        key = StatementKey(sql, settings, access)
        plan = self._plans.get(key, promised)
        if plan is not None:
            return plan
        write = self._writes.get(self, sql, settings, access)
        if write is None:
            write = self._prepare_write(sql, settings, access)
            if write is None:
                return self._prepare_and_keep(key, promised)
            if Shortcut.KEPT_WRITES in settings.shortcuts:
                self._writes.put(sql, settings, access, write)
        if promised is not None and promised != write.digest:
            raise schema_changed_error(sql)
        return write

    def _prepare_write(self, sql: str, settings: SessionSettings, access: Access) -> PreparedWrite | None:
        """Check a statement that changes something; return None for others."""
        if self.read_long_write is not None and len(sql) > LONG_STATEMENT and first_word(sql) in _CHANGES:
            # Who may not write must not keep this process busy, and a long list of rows takes a while.
            long = self.read_long_write(sql, settings, self.visible_catalog(access))
            if long is not None:
                insert = prepare_long_insert(self, long, replace(settings, dialect=NATIVE), access)
                if insert is not None:
                    return insert
        with describe_panics(sql):
            return prepare_write(self, sql, settings, access)

    @property
    def storage(self) -> Storage:
        """Return the directory of all tables."""
        return self.catalog.storage

    @property
    def is_remote(self) -> bool:
        """Whether the tables are in an object store, which is asked over a network."""
        return self._is_remote

    def find_kept(
        self,
        statement: str | bytes,
        settings: SessionSettings,
        access: Access,
        promised: bytes | None,
    ) -> PreparedQuery | None:
        """Return the plan of a query if it is kept and still valid; None leaves the question open.

        Nothing is asked of an object store, which may keep the caller waiting.

        Args:
            statement: SQL, or a serialized substrait.Plan.
            settings: of the session.
            access: rights of the principal.
            promised: digest of the result schema that a client has.
        """
        key = StatementKey(statement, settings, access)
        return self._plans.get_at_once(key, promised) if self.is_remote else self._plans.get(key, promised)

    def close(self) -> None:
        """Flush rows that were written, and stop background threads."""
        self.catalog.close()
