"""The exact nearest rows of a source, by the distances of all of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS, TaskContext
from execnodes.row_filter import RowFilter
from execnodes.row_mask import OFFSET_MASK, FragmentMask
from execnodes.search.distances import distances
from execnodes.search.live_rows import hidden_rows, live_addresses, physical_rows
from execnodes.search.nearest import Found, NearestRows
from execnodes.search.screening import may_be_nearest
from execnodes.search.source import SearchSource
from execnodes.search.taken_rows import taken_rows
from execnodes.search.vector_blocks import (
    Keep,
    VectorBlock,
    blocks_of,
    is_kept,
    scanned_blocks,
    vector_blocks,
)
from execnodes.source import LanceSource, MemTableSource, read_as

FEW_ROWS = 2048
"""So few vectors are read one by one rather than with all their neighbours."""
FEW = 4
"""Where fewer than one row in so many is wanted, the others are left out before distances are computed."""


def flat_search(
    source: SearchSource,
    column: str,
    queries: np.ndarray,
    k: int,
    metric: str,
    row_filter: RowFilter | None,
    keep: Keep,
    context: TaskContext,
) -> list[Found]:
    """The k nearest live rows for every query.

    Args:
        source: what is searched.
        column: of vectors.
        queries: one a row.
        k: rows wanted for each.
        metric: one of `distances.METRICS`.
        row_filter: what rows must fulfil.
        keep: holds vectors.
        context: stops the search.
    """
    collected = [NearestRows(k) for _ in queries]
    for block, wanted in _wanted_blocks(source, column, row_filter, keep):
        context.check()
        addresses, vectors, unwanted = block.addresses, block.vectors, None
        if wanted is not None:
            if np.count_nonzero(wanted) * FEW < len(wanted):
                addresses, vectors = addresses[wanted], vectors[wanted]
            else:
                unwanted = ~wanted
        is_screened = metric == "l2" and vectors is block.vectors
        for query, nearest in zip(queries, collected, strict=True):
            near = may_be_nearest(block, query, k, unwanted) if is_screened else None
            if near is not None:
                nearest.add(distances(metric, vectors[near], query), addresses[near])
                continue
            found = distances(metric, vectors, query)
            if unwanted is not None:
                found[unwanted] = np.nan
            nearest.add(found, addresses)
    return [nearest.result() for nearest in collected]


def _wanted_blocks(
    source: SearchSource, column: str, row_filter: RowFilter | None, keep: Keep
) -> Iterator[tuple[VectorBlock, np.ndarray | None]]:
    """Vectors, and which of them are of rows that count; None where all are."""
    rows = source.rows
    live = source.live.fragments
    if row_filter is None and isinstance(rows, LanceSource) and _has_few_rows(source):
        addresses = live_addresses(source)
        if len(addresses) and column in rows.stored:
            (vectors,) = taken_rows(source, addresses, (rows.schema.field(column),), keep)
            yield from ((block, None) for block in blocks_of(vectors, addresses))
        return
    if row_filter is None or isinstance(rows, MemTableSource):
        admitted = None
        if row_filter is not None and isinstance(rows, MemTableSource):
            admitted = _admitted_in_memory(rows, row_filter)
        for block in vector_blocks(source, column, keep):
            yield block, _both(_shown(block, live.get(block.fragment_id)), _flagged(block, admitted))
        return
    condition = row_filter.sql(rows.stored_names) if rows.reads_plainly(sorted(row_filter.columns)) else None
    for fragment_id in source.fragments if column in rows.stored else ():
        mask = live.get(fragment_id)
        if condition is not None and not is_kept(rows, column, fragment_id):
            for block in scanned_blocks(rows, column, (fragment_id,), condition):
                yield block, _shown(block, mask)
            continue
        flags = _admitted(rows, fragment_id, row_filter, condition)
        for block in vector_blocks(source, column, keep, (fragment_id,)):
            yield block, _both(_shown(block, mask), _flagged(block, flags))


def _has_few_rows(source: SearchSource) -> bool:
    """Whether a source has so few live rows that it is best to read no other."""
    masks = source.live.fragments
    if any(one not in masks for one in source.fragments):
        return False
    live = physical_rows(source) - hidden_rows(source)
    return live <= FEW_ROWS and live * FEW < physical_rows(source)


def _shown(block: VectorBlock, mask: FragmentMask | None) -> np.ndarray | None:
    """Which rows of a block a mask shows."""
    if mask is None or not mask.hidden_rows:
        return None
    return _flagged(block, mask.visible.to_numpy(zero_copy_only=False))


def _flagged(block: VectorBlock, flags: np.ndarray | None) -> np.ndarray | None:
    """Of flags by physical offset, those of the rows of a block."""
    if flags is None:
        return None
    first, last = int(block.addresses[0]) & OFFSET_MASK, int(block.addresses[-1]) & OFFSET_MASK
    is_run = last - first + 1 == len(block.addresses)
    found: np.ndarray = flags[first : last + 1] if is_run else flags[block.addresses & OFFSET_MASK]
    return found


def _both(one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    if one is None or other is None:
        return other if one is None else one
    both: np.ndarray = one & other
    return both


def _admitted(
    rows: LanceSource, fragment_id: int, row_filter: RowFilter, condition: str | None
) -> np.ndarray:
    """Which rows of a fragment fulfil a condition; deleted ones don't."""
    dataset: Any = rows.dataset
    fragment = dataset.get_fragment(fragment_id)
    columns = sorted(row_filter.columns)
    scanner = dataset.scanner(
        columns=[] if condition else [rows.stored_names[one] for one in columns if one in rows.stored],
        filter=condition,
        fragments=[fragment],
        with_row_address=True,
    )
    flags = np.zeros(fragment.physical_rows, dtype=np.bool_)
    fields = [rows.schema.field(one) for one in columns]
    for batch in scanner.to_batches():
        offsets = batch.column(ROW_ADDRESS).to_numpy() & OFFSET_MASK
        if condition is None:
            read = pa.RecordBatch.from_arrays(read_as(batch, fields, rows.stored), schema=pa.schema(fields))
            offsets = offsets[row_filter.matches(read).to_numpy(zero_copy_only=False)]
        flags[offsets] = True
    return flags


def _admitted_in_memory(rows: MemTableSource, row_filter: RowFilter) -> np.ndarray:
    needed = rows.rows.select(sorted(row_filter.columns))
    matches = [
        row_filter.matches(batch).to_numpy(zero_copy_only=False)
        for batch in needed.to_batches()
        if batch.num_rows
    ]
    return np.concatenate(matches) if matches else np.zeros(0, dtype=np.bool_)
