"""Columns of rows by their addresses.

Columns of flushed generations, kept whole to take rows from.

A search finds a few rows in each of many generations, query after query, and asking Lance for two of them
costs as much as asking for a thousand. Generations are small and never change: narrow columns are read once.

Row addresses as the ids by which Lance knows rows.

They are the same, except in datasets with stable row ids. There, `row_addr_allowlist` and
`row_addr_blocklist` list ids whatever their names say, and `_take_rows` takes ids.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS
from execnodes.rows.row_mask import OFFSET_BITS, OFFSET_MASK
from execnodes.search.source import SearchSource
from execnodes.search.vector_blocks import Keep
from execnodes.storage.source import LanceSource, read_as, whole
from memwal.errors import CorruptDataError
from memwal.stored_fields import TOMBSTONE

_ROW_ID = "_rowid"
DELETED = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""Stands in for the id of a row that is no more."""


@dataclass(frozen=True, slots=True)
class _RowIds:
    """Names the ids of a fragment's rows. Equal for the same rows under the same ids.

    Attributes:
        rows: see `SearchSource.fragment_identity`.
        ids: the sequence of ids, as Lance serializes it: one file may be committed twice, under other ids.
    """

    rows: Hashable
    ids: str | None


def has_stable_ids(source: SearchSource) -> bool:
    """Whether ids are other than addresses."""
    return bool(getattr(source.rows.dataset, "has_stable_row_ids", False))  # type: ignore[union-attr]


def row_ids(source: SearchSource, addresses: np.ndarray, keep: Keep) -> np.ndarray:
    """The ids of rows that are not deleted; those of deleted rows are left out.

    Args:
        source: a Lance dataset.
        addresses: uint64, any order.
        keep: holds ids of fragments.
    """
    if not has_stable_ids(source):
        return addresses
    fragments = addresses >> OFFSET_BITS
    ids = np.empty(len(addresses), dtype=np.uint64)
    for fragment_id in np.unique(fragments).tolist():
        here = fragments == fragment_id
        ids[here] = fragment_ids(source, fragment_id, keep)[addresses[here] & OFFSET_MASK]
    present: np.ndarray = ids[ids != DELETED]
    return present


def fragment_ids(source: SearchSource, fragment_id: int, keep: Keep) -> np.ndarray:
    """The row ids of a fragment by physical offset, uint64; `DELETED` where there is no row any more."""
    dataset: Any = source.rows.dataset  # type: ignore[union-attr]

    def make() -> np.ndarray:
        fragment = dataset.get_fragment(fragment_id)
        found = dataset.scanner(
            columns=[], fragments=[fragment], with_row_id=True, with_row_address=True
        ).to_table()
        ids: np.ndarray = np.full(fragment.physical_rows, DELETED, dtype=np.uint64)
        ids[found.column(ROW_ADDRESS).to_numpy() & OFFSET_MASK] = found.column(_ROW_ID).to_numpy()
        return ids

    metadata = dataset.get_fragment(fragment_id).metadata.row_id_meta
    name = _RowIds(source.fragment_identity(fragment_id), None if metadata is None else metadata.json())
    return keep.compute(name, make, lambda ids: int(ids.nbytes))


MAX_ROWS = 1 << 16
"""Of a fragment whose columns are kept."""
MAX_BYTES = 1 << 20
"""Of one column of a fragment. What turns out to be larger is not read for its own sake again."""
_ENTRY_BYTES = 256


@dataclass(frozen=True, slots=True)
class _ColumnName:
    """Names a column of a fragment. Equal for the same rows, read as the same type.

    Attributes:
        rows: see `SearchSource.fragment_identity`.
        column: of the table.
        type: of the values.
    """

    rows: Hashable
    column: str
    type: pa.DataType


@dataclass(frozen=True, eq=False, slots=True)
class _KeptColumn:
    """A column of one fragment.

    Attributes:
        values: of the rows that are not deleted, in the table's type; None where they are too large to keep.
        places: physical offset -> index into the values, -1 for deleted rows; None where no row is deleted.
    """

    values: pa.Array | None
    places: np.ndarray | None


def kept_columns(
    source: SearchSource, addresses: np.ndarray, fields: Sequence[pa.Field], keep: Keep
) -> list[pa.Array] | None:
    """Columns of some rows of a generation, in the order of the addresses.

    Args:
        source: where the rows lie.
        addresses: uint64; repeats allowed.
        fields: columns of the table, or `_tombstone`.
        keep: holds columns.

    Returns:
        None where they must be read: from a base table, or columns that are too large to keep.
    """
    rows = source.rows
    if source.region_id is None or not isinstance(rows, LanceSource) or not all(map(_is_narrow, fields)):
        return None
    fragment_id = int(addresses[0] >> OFFSET_BITS)
    if np.any(addresses >> OFFSET_BITS != fragment_id):
        return None
    offsets = (addresses & OFFSET_MASK).astype(np.int64)
    columns = []
    for field in fields:
        key = _ColumnName(source.fragment_identity(fragment_id), field.name, field.type)
        found = keep.compute(key, partial(_read, rows, fragment_id, field), _size)
        places = offsets if found.places is None else found.places[offsets]
        if found.values is None or np.any(places < 0):
            return None
        columns.append(found.values.take(pa.array(places)))
    return columns


def _is_narrow(field: pa.Field) -> bool:
    kind = field.type
    return bool(pa.types.is_primitive(kind) or pa.types.is_string(kind) or pa.types.is_decimal(kind))


def _read(rows: LanceSource, fragment_id: int, field: pa.Field) -> _KeptColumn:
    dataset: Any = rows.dataset
    fragment = dataset.get_fragment(fragment_id)
    if fragment.physical_rows > MAX_ROWS:
        return _KeptColumn(None, None)
    names = {**rows.stored_names, TOMBSTONE: TOMBSTONE}
    if field.name not in names:
        return _KeptColumn(pa.nulls(fragment.physical_rows, field.type), None)
    read = dataset.scanner(
        columns=[names[field.name]], fragments=[fragment], with_row_address=True, batch_size=MAX_ROWS
    ).to_table()
    if read.nbytes > MAX_BYTES + 8 * read.num_rows:
        return _KeptColumn(None, None)
    (batch,) = read.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=read.schema)]
    (values,) = read_as(batch, [field], rows.stored)
    if len(values) == fragment.physical_rows:
        return _KeptColumn(values, None)
    places = np.full(fragment.physical_rows, -1, dtype=np.int64)
    places[batch.column(ROW_ADDRESS).to_numpy() & OFFSET_MASK] = np.arange(len(values))
    return _KeptColumn(values, places)


def _size(column: _KeptColumn) -> int:
    places = 0 if column.places is None else int(column.places.nbytes)
    return _ENTRY_BYTES + places + (0 if column.values is None else int(column.values.nbytes))


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
        return [whole(column) for column in table.columns]
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
