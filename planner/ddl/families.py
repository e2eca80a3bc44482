"""The statements of this package by their first word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from planner.access import Access
from planner.ddl.alter import prepare_alter
from planner.ddl.analyze import prepare_analyze
from planner.ddl.create_statement import prepare_create
from planner.ddl.drop import prepare_drop
from planner.ddl.optimize import prepare_optimize
from planner.ddl.prepared import PreparedDefinition
from planner.query_planner import QueryPlanner
from planner.settings import SessionSettings

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
