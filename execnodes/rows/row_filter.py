"""The filter that a scan must apply exactly, wherever its rows lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa


class RowFilter(Protocol):
    """A predicate over the table's columns with DataFusion's semantics.

    A row passes only where the predicate is true (not false, not NULL); NaN equals NaN and is greater than
    every other number.
    """

    @property
    def columns(self) -> frozenset[str]:
        """Names of the table columns that the predicate reads."""

    def sql(self, names: Mapping[str, str]) -> str | None:
        """The predicate as a Lance filter over stored column names, or None where Lance can't say it.

        Args:
            names: table column -> stored column.
        """

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """One boolean per row of a batch that has at least `columns`."""
