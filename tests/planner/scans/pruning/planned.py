"""Conditions as plans have them, and the regions that they leave."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import SessionConfig, SessionContext

from lance_gateway.memwal.base.index_details import RegionSpec
from lance_gateway.planner.predicates.predicate import TRUE
from lance_gateway.planner.predicates.pruning import (
    Pruning,
    RegionAssignment,
    RegionAssignments,
    prune_regions,
)
from lance_gateway.planner.scans.pruning.condition_pruning import ScannedTable, prune_by_conditions
from lance_gateway.planner.scans.pruning.plan_conditions import PlanConditions, read_plan_conditions
from tests.planner.region_cases import COLUMNS, SCHEMA

REFERENCE = "t#1"


def make_context(rows: pa.Table) -> SessionContext:
    """A context with a leaf that stands for rows, with options as the gateway sets them."""
    config = (
        SessionConfig()
        .with_target_partitions(1)
        .set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
        .set("datafusion.execution.time_zone", "+00:00")
    )
    context = SessionContext(config)
    context.register_dataset(REFERENCE, pads.dataset(rows))
    return context


@cache
def _empty() -> SessionContext:
    return make_context(SCHEMA.empty_table())


@cache
def read_conditions(condition: str) -> PlanConditions:
    """The conditions of the plan of a statement with one in its WHERE; all of them, pushed down or not."""
    frame = _empty().sql(f'SELECT count(*), min(id) FROM "{REFERENCE}" WHERE {condition}')
    return read_plan_conditions(frame.optimized_logical_plan())


def prune(conditions: PlanConditions, spec: RegionSpec, regions: Sequence[RegionAssignment]) -> Pruning:
    """What is left of regions by what the plan says alone."""
    whole = prune_regions(TRUE, [spec], RegionAssignments(tuple(regions)), COLUMNS)
    table = ScannedTable(REFERENCE, SCHEMA, (spec,), COLUMNS)
    return prune_by_conditions(whole, conditions, table, len(conditions.places.get(REFERENCE, ())))
