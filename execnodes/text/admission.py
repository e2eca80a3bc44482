"""Which rows of a source a search may find."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS
from execnodes.rows.row_filter import RowFilter
from execnodes.rows.row_mask import RowMask
from execnodes.storage.source import LanceSource, MemTableSource, read_as
from execnodes.text.documents.source_text import SourceText


@dataclass(frozen=True, slots=True)
class _Shown:
    """Names the rows of a source that a mask shows, as flags. Equal for the same rows of the same source.

    Attributes:
        source: see `SearchSource.identity`.
        rows: see `RowMask.digests`.
    """

    source: Hashable
    rows: Hashable


@dataclass(frozen=True, slots=True)
class _Filtered:
    """Names the rows of a source that Lance finds for a condition. Equal for the same one of the same source.

    Attributes:
        source: see `SearchSource.identity`; it tells which columns have the names that the condition says.
        condition: in Lance's SQL.
    """

    source: Hashable
    condition: str


@dataclass(frozen=True, eq=False)
class AdmittedRows:
    """Live rows that fulfil a search's conditions.

    Args:
        mask: shows rows that may be found.
        row_filter: the rest of the conditions; None where there is none.
    """

    mask: RowMask
    row_filter: RowFilter | None = None

    @cached_property
    def described(self) -> tuple[str, ...]:
        """For plans."""
        filters = () if self.row_filter is None else (f"filter={self.row_filter}",)
        return (*filters, f"blocked={self.mask.hidden_rows}")

    def flags(self, text: SourceText) -> np.ndarray:
        """One bool per row of a source."""
        flags = text.live
        if self.mask is not text.source.live:
            key = _Shown(text.source.identity, self.mask.digests(text.numbers.physical_rows))
            found = text.cache.compute(key, lambda: text.numbers.flags(self.mask), lambda one: one.nbytes)
            flags = flags & found
        if self.row_filter is not None:
            flags = flags & self._filtered(text, self.row_filter)
        return flags

    def _filtered(self, text: SourceText, row_filter: RowFilter) -> np.ndarray:
        rows = text.source.rows
        if isinstance(rows, MemTableSource):
            return _in_memory(rows, row_filter)
        sql = row_filter.sql(rows.stored_names) if rows.reads_plainly(sorted(row_filter.columns)) else None
        if sql is None:
            return _by_columns(text, rows, row_filter)
        dataset: Any = rows.dataset

        def scan() -> np.ndarray:
            found = dataset.scanner(
                columns=[], filter=sql, fragments=_fragments(text, rows), with_row_address=True
            ).to_table()
            return _flagged(text, found.column(ROW_ADDRESS).to_numpy())

        # Deleted rows are missing, which the identity tells as well.
        key = _Filtered(text.source.identity, sql)
        return text.cache.compute(key, scan, lambda flags: flags.nbytes)


def _fragments(text: SourceText, rows: LanceSource) -> list[Any]:
    dataset: Any = rows.dataset
    wanted = text.numbers.physical_rows
    return [one for one in dataset.get_fragments() if one.fragment_id in wanted]


def _flagged(text: SourceText, addresses: np.ndarray) -> np.ndarray:
    flags = np.zeros(text.numbers.count, dtype=np.bool_)
    flags[text.numbers.numbers(addresses)] = True
    return flags


def _in_memory(rows: MemTableSource, row_filter: RowFilter) -> np.ndarray:
    parts = [row_filter.matches(one).to_numpy(zero_copy_only=False) for one in rows.rows.to_batches()]
    return np.concatenate([np.empty(0, dtype=np.bool_), *parts])


def _by_columns(text: SourceText, rows: LanceSource, row_filter: RowFilter) -> np.ndarray:
    """Rows that a filter passes that Lance can't say: by the values of its columns."""
    names = sorted(row_filter.columns)
    fields = [rows.schema.field(name) for name in names]
    stored = [rows.stored_names[name] for name in names if name in rows.stored_names]
    dataset: Any = rows.dataset
    flags = np.zeros(text.numbers.count, dtype=np.bool_)
    scanner = dataset.scanner(columns=stored, fragments=_fragments(text, rows), with_row_address=True)
    for batch in scanner.to_batches():
        values = pa.RecordBatch.from_arrays(read_as(batch, fields, rows.stored), schema=pa.schema(fields))
        passing = row_filter.matches(values).to_numpy(zero_copy_only=False)
        flags[text.numbers.numbers(batch.column(ROW_ADDRESS).to_numpy())] = passing
    return flags
