"""Columns of rows by their addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from execnodes.search.kept_columns import kept_columns
from execnodes.search.row_ids import row_ids
from execnodes.search.source import SearchSource
from execnodes.search.vector_blocks import Keep
from execnodes.source import LanceSource, read_as
from memwal.errors import CorruptDataError
from memwal.stored_fields import TOMBSTONE


def taken_rows(
    source: SearchSource, addresses: np.ndarray, fields: Sequence[pa.Field], keep: Keep
) -> list[pa.Array]:
    """Columns of some rows of one source, in the order of the addresses.

    Args:
        source: where the rows lie.
        addresses: uint64; repeats allowed.
        fields: columns of the table, or `_tombstone`.
        keep: holds row ids.

    Raises:
        CorruptDataError: the source has no such row.
    """
    rows = source.rows
    if not isinstance(rows, LanceSource):
        table = rows.rows.select([field.name for field in fields]).take(pa.array(addresses))
        return [_whole(column) for column in table.columns]
    kept = kept_columns(source, addresses, fields, keep)
    if kept is not None:
        return kept
    names = {**rows.stored_names, TOMBSTONE: TOMBSTONE}
    stored = [names[field.name] for field in fields if field.name in names]
    if not stored:
        return [pa.nulls(len(addresses), field.type) for field in fields]
    # The same row may be found by several queries, and Lance wants each once.
    unique, repeated = np.unique(addresses, return_inverse=True)
    dataset: Any = rows.dataset
    taken = dataset._take_rows(row_ids(source, unique, keep).tolist(), columns=stored)  # noqa: SLF001
    if taken.num_rows != len(unique):
        msg = f"{rows.label} has {taken.num_rows} of {len(unique)} rows that a search of it found"
        raise CorruptDataError(msg)
    (batch,) = taken.combine_chunks().to_batches()
    places = pa.array(repeated)
    return [column.take(places) for column in read_as(batch, fields, rows.stored)]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
