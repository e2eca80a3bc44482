"""Where rows lie, and how their stored columns read as the table's columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from execnodes.rows.keys import KeySet
from execnodes.rows.row_mask import FragmentMask, RowMask
from execnodes.storage.data_files import Place, StoredFragments
from memwal.stored_fields import TOMBSTONE


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """Where a table column lies in a source.

    Attributes:
        name: as stored.
        type: as stored, but with the children of structs named as the table names them.
    """

    name: str
    type: pa.DataType


def convert_columns(
    batch: pa.RecordBatch, fields: Iterable[pa.Field], stored: Mapping[str, StoredColumn]
) -> list[pa.Array]:
    """One array per field: stored columns renamed and cast, columns the source never had as NULLs.

    Args:
        batch: stored columns.
        fields: of the table, or `_tombstone`, which is stored under that name.
        stored: where the table's columns lie.
    """
    arrays = []
    for wanted in fields:
        if wanted.name == TOMBSTONE:
            arrays.append(batch.column(TOMBSTONE))
            continue
        column = stored.get(wanted.name)
        if column is None:
            arrays.append(pa.nulls(batch.num_rows, wanted.type))
            continue
        array = batch.column(column.name)
        if not array.type.equals(wanted.type):
            # Children are matched by name here, so they must first bear the table's names.
            renamed = array.view(column.type) if pa.types.is_nested(column.type) else array
            array = renamed.cast(wanted.type)
        arrays.append(array)
    return arrays


def combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array, which is copied only where it has several chunks."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


@dataclass(frozen=True, eq=False)
class LanceSource:
    """A Lance dataset at one version: the base table (generation 0) or a flushed generation.

    Args:
        label: for plans, such as ``base v12`` or ``region 1f.. gen 3``.
        dataset: a `lance.LanceDataset`.
        schema: the table's schema, by whose names and types all callers speak.
        stored: table column -> stored column; columns that the dataset never had are absent.
        place: names the dataset in caches; without it, nothing that was read of others is used.
    """

    label: str
    dataset: object
    schema: pa.Schema
    stored: Mapping[str, StoredColumn]
    place: Place = field(default_factory=Place.unknown)

    @cached_property
    def stored_names(self) -> Mapping[str, str]:
        """Table column -> name of the stored column."""
        return {name: column.name for name, column in self.stored.items()}

    @cached_property
    def plain_columns(self) -> frozenset[str]:
        """Table columns that are stored under their own names and types."""
        return frozenset(
            name
            for name, stored_name in self.stored_names.items()
            if name == stored_name and self.stored_types[name][1].equals(self.schema.field(name).type)
        )

    @cached_property
    def stored_types(self) -> Mapping[str, tuple[int, pa.DataType]]:
        """Stored column -> the id that it keeps under every name, and its type."""
        dataset: Any = self.dataset
        types = dataset.schema
        fields = dataset.lance_schema.fields()
        return {field.name(): (field.id(), types.field(field.name()).type) for field in fields}

    @cached_property
    def fragments(self) -> StoredFragments:
        """What is known of the dataset's fragments."""
        return StoredFragments(self.dataset, self.place)

    def has_plain_columns(self, columns: Iterable[str]) -> bool:
        """Whether these table columns are stored under their own names and types."""
        return self.plain_columns.issuperset(columns)


class ColumnCache(Protocol):
    """Decoded columns of immutable datasets, and which of their rows Lance has not deleted."""

    def fits(self, types: Iterable[pa.DataType], rows: int) -> bool:
        """Whether the columns of a scan of so many rows may be kept."""

    def visible(
        self, source: LanceSource, fragment_ids: Sequence[int], mask: RowMask
    ) -> list[FragmentMask | None]:
        """Rows of each fragment that are not deleted and that the mask shows; None where that is all."""

    def read(
        self, source: LanceSource, fragment_ids: Sequence[int], columns: Sequence[str], mask: RowMask
    ) -> tuple[Iterator[pa.RecordBatch], tuple[int, ...]]:
        """The rows of fragments that are not deleted and that the mask shows, in order, in stored columns.

        Returns:
            Batches, and the fragments whose columns are too large to keep: read the dataset for these.
        """


class KeyLocator(Protocol):
    """Knows where rows lie by key, or does not know yet."""

    def find(self, keys: KeySet) -> Mapping[int, np.ndarray] | None:
        """Fragment id -> physical offsets of rows with one of the keys; None where that is not known."""


@dataclass(frozen=True, eq=False)
class MemTableSource:
    """Rows in memory: the unflushed rows of one region, oldest first, already under the table's schema.

    Args:
        label: for plans, such as ``region 1f.. WAL 7..9``.
        rows: table columns plus a bool column `_tombstone`; they form fragment 0.
        find: ascending numbers of the last row of each wanted key; None where that is not known, and without
            it, never.
    """

    label: str
    rows: pa.Table
    find: Callable[[KeySet], np.ndarray | None] | None = None
