"""A condition as a narrower mask of a source: what it excludes takes no place among the k nearest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS
from execnodes.rows.row_filter import RowFilter
from execnodes.rows.row_mask import CHUNK_ROWS, OFFSET_BITS, OFFSET_MASK, FragmentMask, RowMask
from execnodes.search.source import SearchSource
from execnodes.storage.source import LanceSource, MemTableSource, read_as


def narrowed(source: SearchSource, row_filter: RowFilter) -> SearchSource:
    """The source without rows that don't fulfil a condition.

    Args:
        source: what is searched.
        row_filter: evaluated by Lance where Lance can say it, with the help of its scalar indexes.
    """
    rows = source.rows
    if isinstance(rows, MemTableSource):
        admitted = {0: _admitted_in_memory(rows, row_filter)}
    else:
        admitted = _admitted(rows, source.fragments, row_filter)
    before = source.live.fragments
    masks = {
        one: mask if one not in before else before[one].both(mask)
        for one, flags in admitted.items()
        for mask in (FragmentMask(pa.array(flags)),)
    }
    return replace(source, live=RowMask(masks))


def _admitted(rows: LanceSource, fragments: tuple[int, ...], row_filter: RowFilter) -> dict[int, np.ndarray]:
    """Fragment id -> which of its rows fulfil a condition; deleted ones don't."""
    dataset: Any = rows.dataset
    found = [dataset.get_fragment(fragment_id) for fragment_id in fragments]
    flags = {one.fragment_id: np.zeros(one.physical_rows, dtype=np.bool_) for one in found}
    for addresses in _admitted_addresses(rows, found, row_filter):
        places = addresses >> OFFSET_BITS
        for fragment_id in np.unique(places).tolist():
            flags[fragment_id][addresses[places == fragment_id] & OFFSET_MASK] = True
    return flags


def _admitted_addresses(
    rows: LanceSource, fragments: list[Any], row_filter: RowFilter
) -> Iterator[np.ndarray]:
    columns = sorted(row_filter.columns)
    condition = row_filter.sql(rows.stored_names) if rows.reads_plainly(columns) else None
    dataset: Any = rows.dataset
    scanner = dataset.scanner(
        columns=[] if condition else [rows.stored_names[one] for one in columns if one in rows.stored],
        filter=condition,
        fragments=fragments,
        batch_size=CHUNK_ROWS,
        with_row_address=True,
    )
    fields = [rows.schema.field(one) for one in columns]
    for batch in scanner.to_batches():
        addresses = batch.column(ROW_ADDRESS).to_numpy()
        if condition is None and len(addresses):
            read = pa.RecordBatch.from_arrays(read_as(batch, fields, rows.stored), schema=pa.schema(fields))
            addresses = addresses[row_filter.matches(read).to_numpy(zero_copy_only=False)]
        yield addresses


def _admitted_in_memory(rows: MemTableSource, row_filter: RowFilter) -> np.ndarray:
    needed = rows.rows.select(sorted(row_filter.columns))
    matches = [
        row_filter.matches(batch).to_numpy(zero_copy_only=False)
        for batch in needed.to_batches()
        if batch.num_rows
    ]
    return np.concatenate(matches) if matches else np.zeros(0, dtype=np.bool_)
