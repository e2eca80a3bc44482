"""The key column of a fragment of the base table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from execnodes.stored_fragments import StoredFragment
from planner.base_table import BaseTable
from planner.key_column import key_column


def physical_keys(base: BaseTable, fragment: StoredFragment) -> pa.Array:
    """Key of every physical row, deleted ones too: what is found stays true whatever is deleted later."""
    dataset: Any = base.dataset
    stored = dataset.get_fragment(fragment.fragment_id)
    deleted = {"with_row_id": True, "include_deleted_rows": True} if stored.num_deletions else {}
    rows = dataset.scanner(
        columns=list(base.primary_key), fragments=[stored], batch_size=1 << 18, **deleted
    ).to_table()
    return key_column(rows.select(list(base.primary_key)))
