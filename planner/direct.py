"""Statements that are nothing but one scan, or its row count, need DataFusion for planning only.

DataFusion would count(*) by making a column of ones as long as the table, and would pass a plain scan's
batches through one more pair of hands. Its plan says exactly when nothing else is asked for, pushed-down
conjuncts included.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from datafusion import DataFrame

from planner.direct_shape import DirectShape
from planner.query import QueryRun, TableScan
from planner.secured import SecuredTable


def direct_batches(
    shape: DirectShape,
    frame: DataFrame,
    run: QueryRun,
    table: SecuredTable,
) -> Iterator[pa.RecordBatch]:
    """The statement's result; planned at once, read lazily.

    Args:
        shape: as `direct_shape` found it.
        frame: the planned statement.
        run: its execution; planning the leaf tells it projection and conjuncts, where there are any.
        table: the statement's only one, with what may be seen of it.
    """
    scan = direct_scan(shape, frame, run, table)
    return _counted(scan) if shape.counts else _all_batches(scan)


def direct_scan(shape: DirectShape, frame: DataFrame, run: QueryRun, table: SecuredTable) -> TableScan:
    """The one scan of such a statement; see `direct_batches`."""
    if not shape.is_filtered:
        return run.add_scan(table, table.base(), shape.columns)
    frame.execution_plan()
    (scan,) = run.scans
    return scan


def _counted(scan: TableScan) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in _all_batches(scan))
    yield pa.record_batch([pa.array([rows], pa.int64())], names=["count"])


def _all_batches(scan: TableScan) -> Iterator[pa.RecordBatch]:
    for partition in range(scan.partitions):
        yield from scan.batches(partition)
