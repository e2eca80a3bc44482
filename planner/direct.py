"""Statements that are nothing but one scan, or its row count, need DataFusion for planning only.

DataFusion would count(*) by making a column of ones as long as the table, and would pass a plain scan's
batches through one more pair of hands. Its plan says exactly when nothing else is asked for, pushed-down
conjuncts included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

import pyarrow as pa
from datafusion import DataFrame

from planner.query import QueryRun, TableScan
from planner.table import Table

_SCAN = r"(?:SubqueryAlias: \S+\n\s*)?TableScan: \S+ projection=\[[^\]]*\](?:, full_filters=\[.*\])?"
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


def direct_batches(
    shape: DirectShape, frame: DataFrame, run: QueryRun, table: Table
) -> Iterator[pa.RecordBatch]:
    """The statement's result; planned at once, read lazily.

    Args:
        shape: as `direct_shape` found it.
        frame: the planned statement.
        run: its execution; planning the leaf tells it projection and conjuncts, where there are any.
        table: the statement's only one.
    """
    if shape is DirectShape.COUNT_ALL:
        return _counted(run.add_scan(table, table.base(), ()))
    if shape is DirectShape.SCAN_ALL:
        return _all_batches(run.add_scan(table, table.base(), frame.schema().names))
    frame.execution_plan()
    (scan,) = run.scans
    return _counted(scan) if shape is DirectShape.COUNT else _all_batches(scan)


def _counted(scan: TableScan) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in _all_batches(scan))
    yield pa.record_batch([pa.array([rows], pa.int64())], names=["count"])


def _all_batches(scan: TableScan) -> Iterator[pa.RecordBatch]:
    for partition in range(scan.partitions):
        yield from scan.batches(partition)
