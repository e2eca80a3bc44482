"""Statements that change something, told apart by their first word."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from planner.access import Access
from planner.dml.insert import prepare_insert
from planner.dml.prepared import PreparedWrite
from planner.settings import SessionSettings

if TYPE_CHECKING:
    from planner.engine import QueryEngine

Prepare = Callable[["QueryEngine", str, SessionSettings, Access], PreparedWrite]
# Atomic and possessive: many comments in a row have one reading, and trying others takes forever.
_FIRST_WORD = re.compile(r"(?>\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*+([A-Za-z]+)", re.DOTALL)
_FAMILIES: Mapping[str, Prepare] = MappingProxyType({"insert": prepare_insert})


def prepare_write(
    engine: QueryEngine, sql: str, settings: SessionSettings, access: Access
) -> PreparedWrite | None:
    """Check a statement that changes something; None for one that doesn't, such as a query.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    first = _FIRST_WORD.match(sql)
    family = None if first is None else _FAMILIES.get(first[1].lower())
    return None if family is None else family(engine, sql, settings, access)
