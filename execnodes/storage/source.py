"""Sources of rows, and the conversion of their stored columns to the table's columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import ROW_ADDRESS
from lance_gateway.execnodes.rows.keys import KeySet
from lance_gateway.execnodes.rows.row_mask import FragmentMask, RowMask
from lance_gateway.execnodes.storage.data_files import (
    Deletions,
    FragmentFiles,
    Place,
    StoredFragment,
    StoredFragments,
)
from lance_gateway.execnodes.storage.stored_dataset import StoredDataset, StoredSchema
from lance_gateway.memwal.columns.nested_nulls import push_nulls_down
from lance_gateway.memwal.columns.stored_fields import TOMBSTONE
from lance_gateway.memwal.creating.index_types import finds_past_rows
from lance_gateway.memwal.rules import InitialValue

_WIDE: Final = 256
"""Columns from which on a scan may read some that nobody asked for."""
LINEAGE: Final = ("_rowid", "_row_created_at_version", "_row_last_updated_at_version")
"""Columns that Lance computes of stable row ids: the id, and the versions that made and changed the row."""
COMPUTED: Final = frozenset({*LINEAGE, ROW_ADDRESS})
"""Columns that scans of Lance have, and its readers of single rows lack."""


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """The stored name and type of a table column in one source.

    Attributes:
        name: as stored.
        type: as stored, but with the children of structs named as the table names them.
    """

    name: str
    type: pa.DataType


@dataclass(frozen=True, eq=False)
class ColumnMapping(Mapping[str, StoredColumn]):
    """Where a dataset or log entry has the columns of a table.

    Attributes:
        columns: table column -> stored column; columns that came into being later are absent.
        initial: what rows have in absent columns; NULL without.
    """

    columns: Mapping[str, StoredColumn]
    initial: Mapping[str, InitialValue] = field(default_factory=dict)

    def __getitem__(self, name: str) -> StoredColumn:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def lacks(self, name: str) -> bool:
        """Return whether a column is NULL in all rows, since it came into being later."""
        return name not in self.columns and name not in self.initial

    def build_absent(self, field: pa.Field, rows: int) -> pa.Array:
        """Return an absent column for some rows."""
        value = self.initial.get(field.name)
        return pa.nulls(rows, field.type) if value is None else value.repeat(rows, field.type)


def convert_columns(
    batch: pa.RecordBatch, fields: Iterable[pa.Field], stored: ColumnMapping
) -> list[pa.Array]:
    """Return one array per field: stored columns renamed and cast, absent ones with their initial value.

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
            arrays.append(stored.build_absent(wanted, batch.num_rows))
            continue
        array = batch.column(column.name)
        if not array.type.equals(wanted.type):
            # Children are matched by name here, so they must first bear the table's names.
            renamed = array.view(column.type) if pa.types.is_nested(column.type) else array
            array = renamed.cast(wanted.type)
        arrays.append(array)
    return arrays


def convert_entry(rows: pa.Table, schema: pa.Schema, stored: ColumnMapping) -> pa.Table:
    """Convert the rows of a WAL entry to the table's columns.

    Args:
        rows: as they are in the log.
        schema: the table's columns and `_tombstone`.
        stored: where the entry has the table's columns.
    """
    *columns, _ = schema
    batches = []
    for batch in map(push_nulls_down, rows.to_batches()):
        arrays = convert_columns(batch, columns, stored)
        if TOMBSTONE in batch.schema.names:
            arrays.append(batch.column(TOMBSTONE))
        else:
            arrays.append(pa.array(np.zeros(batch.num_rows, dtype=np.bool_)))
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema=schema)


def combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; copy only if it has several chunks."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


class Origin(Protocol):
    """Where the files of a dataset lie: names them so that other processes know them, and later ones."""

    def name_rows(self, files: FragmentFiles) -> bytes | None:
        """Return a name that no other stored rows ever have; None if that is not certain."""

    def name_deletions(self, deletions: Deletions) -> bytes | None:
        """Return a name that no other deletions ever have; None if that is not certain."""


@dataclass(frozen=True, eq=False)
class LanceSource:
    """A Lance dataset at one version: the base table (generation 0) or a flushed generation.

    Args:
        label: for plans, such as ``base v12`` or ``region 1f.. gen 3``.
        dataset: a `lance.LanceDataset`.
        schema: the table's schema, by whose names and types all callers speak.
        stored: where it has the table's columns.
        place: names the dataset in caches; without it, nothing that was read of others is used.
        origin: names its files for other processes; None where what was read of them is not shared.
        opened: the dataset with what was read of it before; None where nothing was.
    """

    label: str
    dataset: object
    schema: pa.Schema
    stored: ColumnMapping
    place: Place = field(default_factory=Place.unknown)
    origin: Origin | None = None
    opened: StoredDataset | None = None

    def list_scanned(self, stored: Sequence[str]) -> list[str] | None:
        """Return the columns that a scan for some stored columns reads; None for all columns.

        Lance looks each column of a list up among all of them, which takes the square of their number. So a
        scan for nearly all columns of a wide dataset reads all.
        """
        is_wide = len(stored) >= _WIDE and 8 * len(stored) >= 7 * len(self._dataset_names)
        return None if is_wide else list(stored)

    @cached_property
    def _dataset_names(self) -> list[str]:
        dataset: Any = self.dataset
        names: list[str] = dataset.schema.names
        return names

    @cached_property
    def stored_names(self) -> Mapping[str, str]:
        """Name of the stored column by table column."""
        return {name: column.name for name, column in self.stored.items()}

    @cached_property
    def plain_columns(self) -> frozenset[str]:
        """Table columns that are stored with their own name and type; no blobs, which Lance can't compare."""
        return frozenset(
            name
            for name, stored_name in self.stored_names.items()
            if name == stored_name
            and name not in self.blobs
            and (name in self.computed or self.stored_types[name][1].equals(self.schema.field(name).type))
        )

    @property
    def blobs(self) -> frozenset[str]:
        """Stored columns that hold blobs."""
        return self.stored_schema.blobs

    @cached_property
    def blob_rows(self) -> dict[tuple[int, frozenset[str]], int]:
        """Fragment id and stored columns with blobs -> rows of a batch, as far as they were counted."""
        return {}

    @cached_property
    def trusts_scalar_indexes(self) -> bool:
        """Whether Lance's scalar indexes find rows by what they have now."""
        dataset: Any = self.dataset
        return not dataset.has_stable_row_ids or not any(
            finds_past_rows(index.index_type, len(index.segments)) for index in dataset.describe_indices()
        )

    @cached_property
    def computed(self) -> frozenset[str]:
        """Stored columns that Lance computes."""
        return COMPUTED.intersection(self.stored_names.values()).difference(self.stored_types)

    @cached_property
    def stored_types(self) -> Mapping[str, tuple[int, pa.DataType]]:
        """Field id and type by stored column."""
        return self.stored_schema.types

    @cached_property
    def stored_schema(self) -> StoredSchema:
        """The columns that are stored."""
        return StoredSchema.of(self.dataset) if self.opened is None else self.opened.schema

    @cached_property
    def fragments(self) -> StoredFragments:
        """The fragments of the dataset."""
        return StoredFragments(self.dataset, self.place) if self.opened is None else self.opened.fragments

    def has_plain_columns(self, columns: Iterable[str]) -> bool:
        """Return whether these table columns are stored with their own names and types."""
        return self.plain_columns.issuperset(columns)


ReadTogether = Callable[
    [Iterable[tuple[LanceSource, StoredFragment]], Sequence[str]],
    Iterator[tuple[tuple[LanceSource, StoredFragment], Sequence[pa.Array]]],
]
"""Reads stored columns of small fragments of several datasets: all physical rows of those it can read."""


class ColumnCache(Protocol):
    """A cache of decoded columns and deletions of immutable datasets."""

    def fits(self, types: Iterable[pa.DataType], rows: int) -> bool:
        """Return whether the columns of a scan of this many rows may be cached."""

    def estimate_row_bytes(self, source: LanceSource, columns: Iterable[str]) -> float:
        """Return about how many bytes a row of a dataset takes in some table columns, decoded."""

    def visible(
        self, source: LanceSource, fragment_ids: Sequence[int], mask: RowMask
    ) -> list[FragmentMask | None]:
        """Return the visible rows of each fragment that are not deleted; None if all are."""

    def read_ahead(self, read: ReadTogether, sources: Sequence[LanceSource], columns: Iterable[str]) -> None:
        """Read small datasets together that are going to be read one by one for the first time.

        Args:
            read: reads their fragments.
            sources: the datasets.
            columns: of the table.
        """

    def read(
        self,
        source: LanceSource,
        fragment_ids: Sequence[int],
        columns: Sequence[str],
        mask: RowMask,
        within: range | None = None,
    ) -> tuple[Iterator[pa.RecordBatch], tuple[int, ...]]:
        """Read the visible rows of fragments that are not deleted, in order, in stored columns.

        Args:
            source: the dataset.
            fragment_ids: of the fragments.
            columns: stored names.
            mask: of the dataset.
            within: physical offsets in each fragment, whole chunks; None for all rows.

        Returns:
            Batches, and the fragments whose columns are too large to keep: read the dataset for these.
        """

    def read_kept(
        self, parts: Sequence[tuple[LanceSource, Sequence[int], RowMask]], columns: Sequence[str]
    ) -> tuple[Iterable[int], Iterator[pa.RecordBatch]]:
        """Read the visible rows of those parts that are small and kept in memory, in stored columns.

        Args:
            parts: fragments of datasets that store the same columns, and the mask of each.
            columns: stored names, at least one.

        Returns:
            The numbers of the parts that are read, and their rows in large batches.
        """


class KeyLocator(Protocol):
    """An index from keys to rows, which may not be built yet."""

    def find(self, keys: KeySet) -> Mapping[int, np.ndarray] | None:
        """Return physical offsets by fragment id of the rows with these keys; None if unknown."""


@dataclass(frozen=True, eq=False)
class MemTableSource:
    """The unflushed rows of one region in memory, oldest first, in the table's schema.

    Args:
        label: for plans, such as ``region 1f.. WAL 7..9``.
        rows: table columns plus a bool column `_tombstone`; they form fragment 0.
        find: ascending numbers of the last row of each wanted key; None where that is not known, and without
            it, never.
    """

    label: str
    rows: pa.Table
    find: Callable[[KeySet], np.ndarray | None] | None = None
