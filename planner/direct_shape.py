"""Statements that amount to one scan, or its row count, as their optimised plans tell."""

from __future__ import annotations

import re
from enum import Enum

from datafusion import DataFrame

_SCAN = r"(?:SubqueryAlias: \S+\n\s*)*TableScan: \S+ projection=\[[^\]]*\](?:, full_filters=\[.*\])?"
_PLAIN_SCAN = re.compile(rf"{_SCAN}\s*", re.DOTALL)
_COUNT = re.compile(
    r"(?:Projection: count\(Int64\(1\)\) AS [^\n,]+\n\s*)?"
    r"Aggregate: groupBy=\[\[\]\], aggr=\[\[count\(Int64\(1\)\)(?: AS [^\n,\]]+)?\]\]\n\s*"
    rf"{_SCAN}\s*",
    re.DOTALL,
)


class DirectShape(Enum):
    """What a statement amounts to."""

    SCAN = "the rows that pass the pushed-down conjuncts"
    SCAN_ALL = "all rows"
    COUNT = "their number"
    COUNT_ALL = "the number of all rows"


def direct_shape(frame: DataFrame) -> DirectShape | None:
    """The shape of a planned statement; None where DataFusion has work to do."""
    plan = frame.optimized_logical_plan().display_indent()
    if plan.count("TableScan:") != 1 or "partial_filters" in plan or "unsupported_filters" in plan:
        return None
    everything = "full_filters" not in plan
    if _PLAIN_SCAN.fullmatch(plan):
        return DirectShape.SCAN_ALL if everything else DirectShape.SCAN
    if _COUNT.fullmatch(plan):
        return DirectShape.COUNT_ALL if everything else DirectShape.COUNT
    return None
