"""Sets of primary keys for point lookups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.execnodes.rows import lance_filter
from lance_gateway.memwal.bloom import LookupKey

Key = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class KeySet:
    """Distinct, complete primary keys: one column per key column, without NULLs.

    Args:
        table: the keys, in the table's own key types.
    """

    table: pa.Table

    def __post_init__(self) -> None:
        if not self.table.num_columns:
            msg = "a key set needs at least one key column"
            raise ValueError(msg)
        if any(column.null_count for column in self.table.columns):
            msg = f"a primary key has no NULLs, but these do: {self.table.to_pylist()[:3]}"
            raise ValueError(msg)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the key columns, in key order."""
        return tuple(self.table.column_names)

    @cached_property
    def rows(self) -> tuple[Key, ...]:
        """The keys as tuples of Python values."""
        return list_key_tuples(self.table, self.columns)

    @cached_property
    def lookup_keys(self) -> tuple[LookupKey, ...]:
        """The keys for key filters; each is hashed once for all filters."""
        types = tuple(field.type for field in self.table.schema)
        return tuple(LookupKey(row, types) for row in self.rows)

    def filter(self, names: Mapping[str, str], columns: Sequence[str] = ()) -> str | None:
        """Return a Lance filter that every row of these keys passes; None if Lance can't express it.

        With several key columns it may let through rows whose key mixes two wanted keys, and with some of the
        columns rows of other keys; `select` removes them.

        Args:
            names: key column -> stored column.
            columns: key columns to filter by; () for all.
        """
        terms = []
        for name in columns or self.columns:
            term = lance_filter.format_in_list(names[name], self.table.column(name).unique())
            if term is None:
                return None
            terms.append(term)
        return " AND ".join(terms)

    def select(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of `batch` that have one of the keys."""
        if not batch.num_rows:
            return batch
        if len(self.columns) == 1:
            wanted = self.table.column(0)
            name = self.columns[0]
            if len(self) == 1:
                return batch.filter(pc.equal(batch.column(name), wanted[0]))
            return batch.filter(pc.is_in(batch.column(name), value_set=wanted.combine_chunks()))
        for name, column in zip(self.columns, self.table.columns, strict=True):
            batch = batch.filter(pc.is_in(batch.column(name), value_set=column.combine_chunks()))
        if len(self) == 1:
            return batch
        wanted_rows = set(self.rows)
        return batch.filter(
            pa.array([row in wanted_rows for row in list_key_tuples(batch, self.columns)], pa.bool_())
        )

    def without(self, keys: set[Key]) -> KeySet:
        """Return the keys that are not in `keys`."""
        keep = [index for index, row in enumerate(self.rows) if row not in keys]
        return KeySet(self.table.take(pa.array(keep, pa.int64())))


def list_key_tuples(rows: pa.Table | pa.RecordBatch, columns: tuple[str, ...]) -> tuple[Key, ...]:
    """Return the keys of `rows` as tuples of Python values."""
    return tuple(zip(*(rows.column(name).to_pylist() for name in columns), strict=True))
