"""Rows with blobs: how many fit into a batch, and single rows by their addresses.

Lance's own readers of single rows return where blobs lie.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import ROW_ADDRESS
from lance_gateway.execnodes.rows.row_mask import CHUNK_ROWS, OFFSET_BITS
from lance_gateway.execnodes.storage.source import LanceSource
from lance_gateway.memwal.columns.blobs import FEW_ROWS, count_fitting_rows


def choose_batch_rows(source: LanceSource, fragment_ids: Iterable[int], columns: Collection[str]) -> int:
    """Return how many rows a batch of a scan may have, whichever rows they are.

    Args:
        source: the dataset.
        fragment_ids: of the scanned fragments.
        columns: stored names.
    """
    blobs = source.blobs.intersection(columns)
    if not blobs:
        return CHUNK_ROWS
    known = source.blob_rows
    rows = CHUNK_ROWS
    for fragment_id in fragment_ids:
        key = fragment_id, blobs
        if key not in known:
            fragment = source.fragments.get(fragment_id)
            known[key] = count_fitting_rows(source.dataset, [fragment.handle], blobs) or CHUNK_ROWS
        rows = min(rows, known[key])
    return rows


def take_offsets(
    source: LanceSource, fragment_id: int, offsets: np.ndarray, columns: Sequence[str]
) -> pa.Table | None:
    """Return the rows at ascending, distinct offsets of a fragment, in stored columns.

    Returns:
        None where deletions shift the offsets.
    """
    if source.blobs.isdisjoint(columns):
        return source.fragments.take(fragment_id, offsets, columns)
    return take_blob_rows(source, offsets.astype(np.uint64) | np.uint64(fragment_id << OFFSET_BITS), columns)


def take_blob_rows(source: LanceSource, addresses: np.ndarray, columns: Sequence[str]) -> pa.Table:
    """Return rows at ascending, distinct addresses, in stored columns; deleted rows are left out.

    Args:
        source: the dataset.
        addresses: uint64.
        columns: stored names.
    """
    dataset: Any = source.dataset
    fragments = np.unique(addresses >> OFFSET_BITS).tolist()
    taken: pa.Table = dataset.scanner(
        columns=list(columns),
        filter=f"{ROW_ADDRESS} IN ({', '.join(map(str, addresses.tolist()))})",
        fragments=[one.handle for one in source.fragments.get_each(fragments)],
        batch_size=FEW_ROWS,
        with_row_address=True,
    ).to_table()
    return taken.sort_by(ROW_ADDRESS).select(list(columns))
