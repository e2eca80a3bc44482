"""SQL over the tables of a catalog: queries, and statements that write rows or change definitions."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias

import pyarrow as pa
from cachetools import LRUCache

from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.planner.access.rights import FULL_ACCESS, Access
from lance_gateway.planner.access.visible_catalog import VisibleCatalog
from lance_gateway.planner.bridge.run_control import describe_panics, run_isolated
from lance_gateway.planner.plans.errors import schema_changed_error
from lance_gateway.planner.plans.plan_cache import MAX_PLANS, StatementKey, find_typed
from lance_gateway.planner.plans.prepared_query import Constant, PreparedQuery
from lance_gateway.planner.plans.query_planner import LONG_STATEMENT, QueryPlanner
from lance_gateway.planner.scans.settings import DEFAULT_SETTINGS, SessionSettings, Shortcut
from lance_gateway.planner.sql.dialects.translate import NATIVE
from lance_gateway.planner.sql.text.statement_reader import StatementReader
from lance_gateway.planner.sql.text.tokens import tokenize
from lance_gateway.planner.writes.ddl.alter import prepare_alter
from lance_gateway.planner.writes.ddl.create import prepare_create
from lance_gateway.planner.writes.ddl.drop import prepare_drop
from lance_gateway.planner.writes.ddl.maintenance import prepare_analyze, prepare_flush, prepare_optimize
from lance_gateway.planner.writes.ddl.tables.comments import prepare_comment
from lance_gateway.planner.writes.dml.explain import PreparedExplain, analyze_error, split_explain
from lance_gateway.planner.writes.dml.insert import (
    PreparedInsert,
    prepare_insert,
    prepare_long_insert,
    read_long_insert,
)
from lance_gateway.planner.writes.dml.merging.merge import prepare_merge
from lance_gateway.planner.writes.dml.prepared_write import PreparedRows, PreparedWrite, WriteResult
from lance_gateway.planner.writes.dml.restore import prepare_restore
from lance_gateway.planner.writes.dml.statement.target import check_may_write
from lance_gateway.planner.writes.dml.statement.translate import is_dml, translate_dml
from lance_gateway.planner.writes.dml.update import prepare_delete, prepare_truncate, prepare_update
from lance_gateway.planner.writes.dml.values.long_values import LongInsert

__all__ = [
    "DEFAULT_SETTINGS",
    "Constant",
    "PreparedExplain",
    "PreparedQuery",
    "PreparedWrite",
    "QueryEngine",
    "SessionSettings",
    "WriteResult",
    "first_word",
]

Prepare = Callable[[QueryPlanner, str, SessionSettings, Access], PreparedWrite | None]
"""Checks a statement that begins with one word; returns None if it is a query."""

_WRITES = re.compile(r"\b(?:insert|replace|update|delete|merge)\b", re.IGNORECASE)
_OF_ROWS: Mapping[str, Prepare] = MappingProxyType(
    {
        "insert": prepare_insert,
        "replace": prepare_insert,
        "update": prepare_update,
        "delete": prepare_delete,
        "merge": prepare_merge,
        "truncate": prepare_truncate,
    }
)


def _prepare_after_with(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedWrite | None:
    """Prepare the statement behind WITH; return None if it is a query."""
    if _WRITES.search(sql) is None:
        return None
    family = _OF_ROWS.get(_find_word(sql))
    return None if family is None else family(engine, sql, settings, access)


def _find_word(sql: str) -> str:
    """Return the first word of a statement behind its common table expressions.

    Raises:
        LanceGatewayError: it has syntax errors before that word.
    """
    return run_isolated(None, _read_word, sql) if len(sql) > LONG_STATEMENT else _read_word(sql)


def _read_word(sql: str) -> str:
    reader = StatementReader(tokenize(sql))
    if reader.word == "WITH":
        reader.common_tables()
    return reader.word.lower()


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
    family = _OF_ROWS.get(word)
    statement = None if family is None else family(engine, text, settings, access)
    if statement is None:
        return None
    if analyzes:
        raise analyze_error(word.upper())
    assert isinstance(statement, PreparedRows)  # noqa: S101 - what these families make
    return PreparedExplain(sql, statement, engine, settings, access)


_FAMILIES: Mapping[str, Prepare] = MappingProxyType(
    {
        **_OF_ROWS,
        "with": _prepare_after_with,
        "explain": _prepare_after_explain,
        "create": prepare_create,
        "drop": prepare_drop,
        "alter": prepare_alter,
        "comment": prepare_comment,
        "optimize": prepare_optimize,
        "flush": prepare_flush,
        "analyze": prepare_analyze,
        "restore": prepare_restore,
    }
)


# Atomic and possessive, so that many comments in a row don't cause exponential backtracking.
_FIRST_WORD = re.compile(r"(?>\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*+([A-Za-z]+)", re.DOTALL)
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
        text = translate_dml(sql, settings.dialect, engine.visible_catalog(access), settings.schema)
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

    def get(self, key: StatementKey, engine: QueryPlanner) -> PreparedWrite | None:
        """Return the prepared statement if preparing it now would give the same one."""
        with self._lock:
            write = self._repeatable.get(key) or self._one_time.pop(key, None)
        if write is None:
            return None
        try:
            return write if _is_current(engine, write, key.access) else None
        except LanceGatewayError:
            # The caller prepares the statement again, which raises the error that fits.
            return None

    def put(self, key: StatementKey, write: PreparedWrite) -> None:
        """Keep a statement; an INSERT of constants is kept until drivers that prepare it execute it."""
        if not isinstance(write, PreparedRows) or len(key.statement) > _MAX_LENGTH:
            return
        is_repeatable = (
            len(write.parameter_schema) or write.source_queries or not isinstance(write, PreparedInsert)
        )
        with self._lock:
            (self._repeatable if is_repeatable else self._one_time)[key] = write


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
        read.prepared is engine.prepare(read.query.sql, read.session.settings, access)
        for read in write.source_queries
    )


class QueryEngine(QueryPlanner):
    """Prepares and runs statements of all kinds; safe to share between threads."""

    read_long_write: ReadLongWrite | None = None
    """Reads long statements that write; None reads all of them in this process."""

    @cached_property
    def _writes(self) -> WriteCache:
        return WriteCache(MAX_PLANS)

    def prepare_statement(
        self,
        sql: str,
        settings: SessionSettings = DEFAULT_SETTINGS,
        access: Access = FULL_ACCESS,
        *,
        promised: bytes | None = None,
        bound: Sequence[pa.DataType] = (),
    ) -> PreparedQuery | PreparedWrite:
        """Check a query as `prepare` does, or a statement that changes something.

        Raises:
            LanceGatewayError: the statement is not valid.
        """
        key = StatementKey(sql, settings, access)
        plan = find_typed(self._plans.get, key, promised, bound) if bound else self._plans.get(key, promised)
        if plan is not None:
            return plan
        write = self._writes.get(key, self)
        if write is None:
            write = self._prepare_write(sql, settings, access)
            if write is None:
                if bound:
                    return self._prepare_typed(key, promised, bound)
                return self._prepare_and_keep(key, promised)
            if Shortcut.KEPT_WRITES in settings.shortcuts:
                self._writes.put(key, write)
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

    def close(self) -> None:
        """Flush rows that were written, and stop background threads."""
        self.catalog.close()
