"""Fewer, larger batches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from execnodes.node import rows_without_columns

TARGET_ROWS = 32_768


def coalesced(batches: Iterator[pa.RecordBatch], target_rows: int = TARGET_ROWS) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at least half of `target_rows`, except for the last.

    Every batch that leaves Python has a price, whatever its size: many small sources would pay it many times.
    A batch that is large enough already passes as it is, ahead of smaller ones that wait.
    """
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_columns and batch.num_rows * 2 >= target_rows:
            yield batch
            continue
        waiting.append(batch)
        rows += batch.num_rows
        if batch.num_columns and rows >= target_rows:
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
    if not rows:
        return
    if len(waiting) == 1:
        yield waiting[0]
    else:
        yield pa.concat_batches(waiting) if waiting[0].num_columns else rows_without_columns(rows)
