"""Flushed generations of regions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS
from execnodes.rows.row_mask import OFFSET_BITS, OFFSET_MASK
from execnodes.storage.data_files import FragmentFiles, Place
from execnodes.storage.source import LanceSource, combine_chunks
from memwal.errors import CorruptDataError, build_read_error, is_panic, shorten_error
from memwal.storage.files import generation_directory
from memwal.stored_fields import TOMBSTONE, StoredField, read_dataset_fields
from planner.tables.sources.base_table import BaseTable, DatasetIndex, list_dataset_indexes
from planner.tables.sources.keys import combine_key_columns


class GenerationVanishedError(CorruptDataError):
    """The directory of a flushed generation is gone."""


@dataclass(frozen=True, eq=False)
class LayerKeys:
    """Keys of one layer of fresh rows, oldest row first.

    Attributes:
        columns: of the key, in key order.
        addresses: row addresses, uint64.
        dead: whether the row is a tombstone.
    """

    columns: tuple[pa.Array, ...]
    addresses: np.ndarray
    dead: np.ndarray

    @staticmethod
    def of(key: pa.Table, addresses: np.ndarray, dead: np.ndarray) -> LayerKeys:
        """Build the keys from a table of the key columns."""
        return LayerKeys(tuple([combine_chunks(column) for column in key.columns]), addresses, dead)

    @cached_property
    def keys(self) -> pa.Array:
        """One value per row, comparable between layers of a table (see `combine_key_columns`)."""
        return combine_key_columns(pa.table(list(self.columns), [str(at) for at in range(len(self.columns))]))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, those of combined keys included."""
        columns = sum(column.nbytes for column in self.columns)
        combined = 0 if len(self.columns) == 1 else columns
        return int(columns + combined + self.addresses.nbytes + self.dead.nbytes)


@dataclass(frozen=True, eq=False)
class GenerationDataset:
    """Open flushed generation; immutable, so it can be cached.

    Attributes:
        region_id: region it belongs to.
        generation: number within the region.
        path: directory below the table.
        place: names it in caches.
        dataset: the `lance.LanceDataset`.
    """

    region_id: str
    generation: int
    path: str
    place: Place
    dataset: Any

    @cached_property
    def fragment_rows(self) -> dict[int, int]:
        """Fragment id -> physical rows."""
        return {fragment.fragment_id: fragment.physical_rows for fragment in self.dataset.get_fragments()}

    @cached_property
    def rows(self) -> int:
        """Number of physical rows."""
        return sum(self.fragment_rows.values())

    @cached_property
    def nbytes(self) -> int:
        """Bytes of its data files; files without a recorded size count 0."""
        files = (file for fragment in self.dataset.get_fragments() for file in fragment.metadata.files)
        return sum(file.file_size_bytes or 0 for file in files)

    @cached_property
    def first_file(self) -> str:
        """Path, below the table, of one of its data files."""
        (first, *_) = self.dataset.get_fragments()[0].metadata.files
        return f"{self.path}/data/{first.path}"

    @cached_property
    def flushed_at(self) -> datetime:
        """Time when it was written, in UTC."""
        # Lance tells local time.
        written: datetime = self.dataset.versions()[0]["timestamp"]
        return written.astimezone(UTC)

    @cached_property
    def fields(self) -> tuple[StoredField, ...]:
        """Columns with their field ids."""
        return read_dataset_fields(self.dataset)

    @cached_property
    def indexes(self) -> tuple[DatasetIndex, ...]:
        """Its own indexes, by name."""
        return list_dataset_indexes(self.dataset)

    @cached_property
    def has_tombstones(self) -> bool:
        """Whether rows have a tombstone flag; tables without primary key have none."""
        return TOMBSTONE in self.dataset.schema.names

    def source(self, base: BaseTable) -> LanceSource:
        """Return the generation as a source; the same object for every query of a base version."""
        known = base.generation_sources.get(self.place)
        if known is not None:
            return known
        label = f"region {self.region_id[:8]} gen {self.generation}"
        source = LanceSource(
            label,
            self.dataset,
            base.schema,
            base.map_stored_columns(self.fields),
            self.place,
            base.find_origin(base.storage.child(self.path)),
        )
        base.generation_sources[self.place] = source
        return source

    def read_keys(self, base: BaseTable) -> LayerKeys:
        """Read the key columns.

        Raises:
            GenerationVanishedError: the files are gone.
        """
        columns = list(self._list_key_columns(base))
        try:
            rows = self.dataset.scanner(columns=columns, with_row_address=True).to_table()
        except (OSError, ValueError) as error:
            raise build_generation_error(base, self.path, error) from error
        table = rows.combine_chunks()
        return self._convert_keys(base, table, table.column(ROW_ADDRESS).to_numpy())

    def _list_key_columns(self, base: BaseTable) -> tuple[str, ...]:
        stored = base.map_stored_columns(self.fields)
        names = [stored[name].name for name in base.primary_key]
        return (*names, TOMBSTONE) if self.has_tombstones else tuple(names)

    def _convert_keys(self, base: BaseTable, rows: pa.Table, addresses: np.ndarray) -> LayerKeys:
        fields = [base.schema.field(name) for name in base.primary_key]
        columns = [rows.column(at).cast(field.type) for at, field in enumerate(fields)]
        dead = np.zeros(rows.num_rows, dtype=np.bool_)
        if self.has_tombstones:
            dead = rows.column(TOMBSTONE).to_numpy()
        return LayerKeys.of(pa.Table.from_arrays(columns, schema=pa.schema(fields)), addresses, dead)


def read_keys_together(
    base: BaseTable, generations: Iterable[GenerationDataset]
) -> Iterator[tuple[GenerationDataset, LayerKeys]]:
    """Read the keys of those small generations that can be read together; see `TogetherReader`.

    Raises:
        GenerationVanishedError: the files of one are gone.
    """
    groups: defaultdict[tuple[str, ...], dict[FragmentFiles, GenerationDataset]] = defaultdict(dict)
    for generation in generations:
        fragments = generation.source(base).fragments.all
        if len(fragments) == 1:
            groups[generation._list_key_columns(base)][fragments[0].files] = generation  # noqa: SLF001 - of this module
    for columns, group in groups.items():
        fragments_of = [(one.source(base), one.source(base).fragments.all[0]) for one in group.values()]
        for (_, fragment), table in base.together.read(fragments_of, columns):
            generation = group[fragment.files]
            rows = table
            addresses = np.arange(table.num_rows, dtype=np.uint64)
            addresses += np.uint64(fragment.fragment_id << OFFSET_BITS)
            if fragment.deletions is not None:
                addresses = _read_live_addresses(base, generation)
                rows = table.take(pa.array(addresses & np.uint64(OFFSET_MASK)))
            yield generation, generation._convert_keys(base, rows, addresses)  # noqa: SLF001


def _read_live_addresses(base: BaseTable, generation: GenerationDataset) -> np.ndarray:
    try:
        rows = generation.dataset.scanner(columns=[], with_row_address=True).to_table()
    except (OSError, ValueError) as error:
        raise build_generation_error(base, generation.path, error) from error
    addresses: np.ndarray = rows.column(ROW_ADDRESS).to_numpy()
    return addresses


def open_generation(
    base: BaseTable,
    region_id: str,
    generation: int,
    path: str,
) -> GenerationDataset:
    """Open a flushed generation.

    Raises:
        GenerationVanishedError: its directory is gone.
    """
    relative = generation_directory(region_id, path)
    storage = base.storage.child(relative)
    try:
        dataset = lance.dataset(
            storage.uri, session=base.session, storage_options=dict(base.storage.options) or None
        )
    except BaseException as error:
        # Lance panics over some broken files.
        if not (isinstance(error, OSError | ValueError) or is_panic(error)):
            raise
        raise build_generation_error(base, relative, error) from error
    return GenerationDataset(region_id, generation, relative, base.place.below(relative), dataset)


def build_generation_error(base: BaseTable, path: str, error: BaseException) -> Exception:
    """Build the error for a generation that can't be read."""
    reason = shorten_error(error)
    place = f"{base.storage.uri}/{path}"
    if "not found" in reason.lower() or "no such file" in reason.lower():
        msg = (
            f"table {base.name!r}: flushed generation {place} is gone, but the MemWAL index of base version "
            f"{base.version} does not say that it was merged. Restore the directory"
        )
        return GenerationVanishedError(msg)
    msg = f"table {base.name!r}: flushed generation {place} can't be read: {reason}"
    return build_read_error(msg, error)
