"""The families of writing statements, by their first word."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from planner.dml.changing import PreparedChange
from planner.dml.delete import prepare_delete, prepare_truncate
from planner.dml.explaining import PreparedExplain, behind_explain, refuse_analyze
from planner.dml.insert import PreparedInsert, prepare_insert
from planner.dml.merge import prepare_merge
from planner.dml.prepared import PreparedWrite
from planner.dml.statement import Reader, read_statement, skip_common_tables
from planner.dml.update import prepare_update
from planner.query_planner import QueryPlanner

if TYPE_CHECKING:
    from planner.access import Access
    from planner.settings import SessionSettings

Prepare = Callable[["QueryPlanner", str, "SessionSettings", "Access"], PreparedWrite | None]

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


def _after_with(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedWrite | None:
    """WITH before a statement that writes, or before a query."""
    if _WRITES.search(sql) is None:
        return None
    reader = Reader(read_statement(sql))
    skip_common_tables(reader)
    family = _STATEMENTS.get(reader.word)
    return None if family is None else family(engine, sql, settings, access)


def _after_explain(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedWrite | None:
    """EXPLAIN of a statement that writes, or of a query."""
    if _WRITES.search(sql) is None:
        return None
    text, analyzes = behind_explain(sql)
    if not text:
        return None
    word = Reader(read_statement(text)).word
    family = _after_with if word == "WITH" else _STATEMENTS.get(word)
    statement = None if family is None else family(engine, text, settings, access)
    if statement is None:
        return None
    if analyzes:
        raise refuse_analyze(word)
    assert isinstance(statement, PreparedInsert | PreparedChange)  # noqa: S101 - what these families make
    return PreparedExplain(sql, statement, engine, settings, access)


DML: Mapping[str, Prepare] = MappingProxyType(
    {
        **{word.lower(): prepare for word, prepare in _STATEMENTS.items()},
        "with": _after_with,
        "explain": _after_explain,
    }
)
