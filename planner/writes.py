"""Statements that change something, told apart by their first word."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from planner.access import Access
from planner.ddl.families import DDL
from planner.dialects import NATIVE
from planner.dml.families import DML
from planner.dml.prepared import PreparedWrite
from planner.dml.translating import is_dml, native_dml
from planner.query_planner import QueryPlanner
from planner.settings import SessionSettings

Prepare = Callable[["QueryPlanner", str, SessionSettings, Access], PreparedWrite | None]
"""Checks a statement of a family; None for one that turns out to be a query."""
# Atomic and possessive: many comments in a row have one reading, and trying others takes forever.
_FIRST_WORD = re.compile(r"(?>\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*+([A-Za-z]+)", re.DOTALL)
_FAMILIES: Mapping[str, Prepare] = MappingProxyType({**DML, **DDL})


def prepare_write(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedWrite | None:
    """Check a statement that changes something; None for one that doesn't, such as a query.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    first = _FIRST_WORD.match(sql)
    word = "" if first is None else first[1].lower()
    family = _FAMILIES.get(word)
    if family is None:
        return None
    if settings.dialect != NATIVE and is_dml(word, sql):
        text = native_dml(sql, settings.dialect, engine.visible(access))
        return None if text is None else family(engine, text, replace(settings, dialect=NATIVE), access)
    return family(engine, sql, settings, access)
