"""Row addresses as the ids by which Lance knows rows.

They are the same, except in datasets with stable row ids. There, `row_addr_allowlist` and
`row_addr_blocklist` list ids whatever their names say, and `_take_rows` takes ids.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from execnodes.node import ROW_ADDRESS
from execnodes.row_mask import OFFSET_BITS, OFFSET_MASK
from execnodes.search.source import SearchSource
from execnodes.search.vector_blocks import Keep

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
