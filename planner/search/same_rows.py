"""Rows of a flushed generation that the base table has exactly as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from execnodes.source import LanceSource, read_as
from planner.base_table import BaseTable, Fragment
from planner.fresh_rows import GenerationDataset, LayerKeys, vanished
from planner.physical_keys import physical_keys
from planner.search.equal_values import equal_values
from planner.visibility import newest

MIN_SHARE = 100
"""A fragment is not read where fewer than one in so many of its rows have a key of the generation."""
COMPARED_ROWS = 1 << 16
"""Rows whose values are compared together."""
_BLOB_ENCODING = b"lance-encoding:blob"
_BLOB_EXTENSION = b"lance.blob"
_EXTENSION = b"ARROW:extension:name"


@dataclass(frozen=True, eq=False, slots=True)
class SameRows:
    """Pairs of rows that are equal in every column of the table.

    Attributes:
        offsets: of the physical rows of a fragment, uint32, ascending; deleted ones may be among them.
        addresses: of the generation's rows, uint64; each is the newest of its key and no tombstone.
    """

    offsets: np.ndarray
    addresses: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.offsets.nbytes + self.addresses.nbytes)

    def of(self, flags: np.ndarray) -> SameRows:
        """The pairs whose row of the fragment is flagged."""
        chosen = flags[self.offsets]
        return SameRows(self.offsets[chosen], self.addresses[chosen])


NO_ROWS = SameRows(np.empty(0, dtype=np.uint32), np.empty(0, dtype=np.uint64))


def same_rows(
    base: BaseTable, fragment: Fragment, generation: GenerationDataset, layer: LayerKeys
) -> SameRows:
    """The rows of a fragment and of a generation that have the same key and the same values.

    Args:
        base: table.
        fragment: of the base table.
        generation: of the table.
        layer: keys of the generation.

    Raises:
        GenerationVanishedError: the generation's files are gone.
    """
    if any(_is_blob(field) for field in base.dataset.schema):
        return NO_ROWS  # what is read of blobs is where they lie, not what they are
    shown = newest(layer)
    places = pc.index_in(physical_keys(base, fragment), value_set=layer.keys.filter(pa.array(shown)))
    offsets = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
    if not len(offsets) or len(offsets) * MIN_SHARE < fragment.physical_rows:
        return NO_ROWS
    rows = np.flatnonzero(shown)[places.drop_null().to_numpy()]
    for name in base.schema.names:
        if name in base.primary_key:
            continue
        same = _compared(base, fragment, generation, base.schema.field(name), offsets, rows)
        offsets, rows = offsets[same], rows[same]
        if not len(offsets):
            return NO_ROWS
    return SameRows(offsets.astype(np.uint32), layer.addresses[rows])


def _compared(
    base: BaseTable,
    fragment: Fragment,
    generation: GenerationDataset,
    field: pa.Field,
    offsets: np.ndarray,
    rows: np.ndarray,
) -> np.ndarray:
    """For each pair of rows, whether one column has the same value."""
    stored = base.dataset.get_fragment(fragment.fragment_id)
    deleted = {"with_row_id": True, "include_deleted_rows": True} if stored.num_deletions else {}
    of_base = _values(base.source, field, {"fragments": [stored], **deleted}).take(pa.array(offsets))
    if field.name in generation.source(base).stored:
        try:
            column = _values(generation.source(base), field, {})
        except (OSError, ValueError) as error:
            raise vanished(base, generation.path, error) from error
        of_generation = column.take(pa.array(rows))
    else:
        of_generation = pa.chunked_array([pa.nulls(len(rows), field.type)])
    return np.concatenate(
        [
            equal_values(_piece(of_base, start), _piece(of_generation, start))
            for start in range(0, len(offsets), COMPARED_ROWS)
        ]
    )


def _values(source: LanceSource, field: pa.Field, scope: dict[str, Any]) -> pa.ChunkedArray:
    """One column of a source as the table's, rows in the order in which they are stored."""
    dataset: Any = source.dataset
    batches = dataset.scanner(columns=[source.stored_names[field.name]], **scope).to_batches()
    chunks = [read_as(batch, (field,), source.stored)[0] for batch in batches]
    return pa.chunked_array(chunks, type=field.type)


def _piece(column: pa.ChunkedArray, start: int) -> pa.Array:
    piece = column.slice(start, COMPARED_ROWS)
    return piece.chunk(0) if piece.num_chunks == 1 else pa.concat_arrays(piece.chunks)


def _is_blob(field: pa.Field) -> bool:
    metadata = field.metadata or {}
    extension = getattr(field.type, "extension_name", "").encode() or metadata.get(_EXTENSION, b"")
    return _BLOB_ENCODING in metadata or extension.startswith(_BLOB_EXTENSION)
