"""Predicates as statements have them, and the regions that they leave."""

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
from lance_gateway.planner.scans.pruning.statement_predicates import ScannedTable, StatementPredicates
from lance_gateway.planner.sql.tree.dialect import parse_query
from lance_gateway.planner.sql.tree.predicates import find_predicates
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
def read_predicates(condition: str) -> StatementPredicates:
    """The predicates of a statement with a condition in its WHERE."""
    root = parse_query(f'SELECT count(*), min(id) FROM "{REFERENCE}" WHERE {condition}')
    assert root is not None, condition
    return StatementPredicates(find_predicates(root, {REFERENCE: SCHEMA}))


def prune(predicates: StatementPredicates, spec: RegionSpec, regions: Sequence[RegionAssignment]) -> Pruning:
    """What is left of regions by what the statement says alone."""
    whole = prune_regions(TRUE, [spec], RegionAssignments(tuple(regions)), COLUMNS)
    return predicates.prune(whole, ScannedTable(REFERENCE, SCHEMA, (spec,), COLUMNS))
