"""Columns without the shortcut `kept_columns`: every scan reads them from storage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from execnodes.row_mask import FragmentMask
from execnodes.source import LanceSource
from planner.column_cache import DecodedColumns


class StoredColumns(DecodedColumns):
    """A `ColumnCache` that keeps nothing, and only tells which rows Lance has deleted."""

    def __init__(self) -> None:
        super().__init__(max_bytes=1)

    def fits(self, types: Iterable[pa.DataType], rows: int) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def read(
        self,
        source: LanceSource,  # noqa: ARG002
        fragment_id: int,  # noqa: ARG002
        columns: Sequence[str],  # noqa: ARG002
        visible: FragmentMask | None,  # noqa: ARG002
    ) -> None:
        """Nothing: the dataset is read instead."""
        return
