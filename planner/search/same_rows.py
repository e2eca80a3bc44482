"""Rows of a flushed generation that the base table has exactly as they are."""

from __future__ import annotations

from collections.abc import Sequence
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
"""A fragment is not read where fewer than one in so many of its rows have a key of a generation."""
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


@dataclass(frozen=True, eq=False, slots=True)
class Layer:
    """A generation and its keys, oldest row first."""

    generation: GenerationDataset
    keys: LayerKeys


def same_rows(base: BaseTable, fragment: Fragment, layers: Sequence[Layer]) -> list[SameRows]:
    """For each generation, its rows that a fragment has with the same key and the same values.

    Args:
        base: table.
        fragment: of the base table.
        layers: generations of the table; the more at a time, the less often the fragment is read.

    Raises:
        GenerationVanishedError: files of a generation are gone.
    """
    if any(_is_blob(field) for field in base.dataset.schema):
        return [NO_ROWS for _ in layers]  # what is read of blobs is where they lie, not what they are
    keys = physical_keys(base, fragment)
    pairs = [_Pairs.of(layer, keys) for layer in layers]
    if sum(len(one.offsets) for one in pairs) * MIN_SHARE < fragment.physical_rows:
        return [NO_ROWS for _ in layers]
    for name in base.schema.names:
        if name not in base.primary_key and any(len(one.offsets) for one in pairs):
            field = base.schema.field(name)
            column = _values(base.source, field, _physically(base, fragment))
            pairs = [one.equal(base, field, column) for one in pairs]
    return [SameRows(one.offsets.astype(np.uint32), one.layer.keys.addresses[one.rows]) for one in pairs]


@dataclass(frozen=True, eq=False, slots=True)
class _Pairs:
    """Rows that may be the same.

    Attributes:
        layer: generation.
        offsets: rows of a fragment.
        rows: their counterparts in the generation, by place among its keys.
    """

    layer: Layer
    offsets: np.ndarray
    rows: np.ndarray

    @staticmethod
    def of(layer: Layer, keys: pa.Array) -> _Pairs:
        """Rows with the same key."""
        shown = newest(layer.keys)
        places = pc.index_in(keys, value_set=layer.keys.keys.filter(pa.array(shown)))
        offsets = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
        return _Pairs(layer, offsets, np.flatnonzero(shown)[places.drop_null().to_numpy()])

    def equal(self, base: BaseTable, field: pa.Field, column: pa.ChunkedArray) -> _Pairs:
        """Those that have the same value in a column, too."""
        if not len(self.offsets):
            return self
        generation = self.layer.generation
        of_generation = pa.chunked_array([pa.nulls(len(self.rows), field.type)])
        if field.name in generation.source(base).stored:
            try:
                of_generation = _values(generation.source(base), field, {}).take(pa.array(self.rows))
            except (OSError, ValueError) as error:
                raise vanished(base, generation.path, error) from error
        of_base = column.take(pa.array(self.offsets))
        same = np.concatenate(
            [
                equal_values(_piece(of_base, start), _piece(of_generation, start))
                for start in range(0, len(self.offsets), COMPARED_ROWS)
            ]
        )
        return _Pairs(self.layer, self.offsets[same], self.rows[same])


def _physically(base: BaseTable, fragment: Fragment) -> dict[str, Any]:
    """What a scan of a fragment must be told to give all rows, deleted ones too."""
    stored = base.dataset.get_fragment(fragment.fragment_id)
    deleted = {"with_row_id": True, "include_deleted_rows": True} if stored.num_deletions else {}
    return {"fragments": [stored], **deleted}


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
