"""Flushed generations of regions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from lance.bitmap import Bitmap

from lance_gateway.execnodes.node import ROW_ADDRESS
from lance_gateway.execnodes.rows.row_mask import OFFSET_BITS, OFFSET_MASK
from lance_gateway.execnodes.storage.data_files import Place, StoredFragment
from lance_gateway.execnodes.storage.source import LanceSource, combine_chunks
from lance_gateway.execnodes.storage.stored_dataset import StoredDataset
from lance_gateway.memwal.columns.blobs import open_for_reading
from lance_gateway.memwal.columns.stored_fields import TOMBSTONE, StoredField
from lance_gateway.memwal.errors import (
    CorruptDataError,
    LanceGatewayError,
    build_read_error,
    is_panic,
    shorten_error,
)
from lance_gateway.memwal.lance_errors import is_absent
from lance_gateway.memwal.storage.files import generation_directory
from lance_gateway.planner.tables.sources.base_table import BaseTable, DatasetIndex, list_dataset_indexes
from lance_gateway.planner.tables.sources.keys import combine_key_columns
from lance_gateway.planner.tables.sources.read_together import Fragment


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
        stored: the dataset.
    """

    region_id: str
    generation: int
    path: str
    stored: StoredDataset

    @property
    def place(self) -> Place:
        """Names it in caches."""
        return self.stored.place

    @property
    def dataset(self) -> Any:  # noqa: ANN401 - lance types
        """The `lance.LanceDataset`."""
        return self.stored.dataset

    @cached_property
    def fragment_rows(self) -> dict[int, int]:
        """Fragment id -> physical rows."""
        return {fragment.fragment_id: fragment.physical_rows for fragment in self.stored.fragments.all}

    @cached_property
    def rows(self) -> int:
        """Number of physical rows."""
        return sum(self.fragment_rows.values())

    @cached_property
    def nbytes(self) -> int:
        """Bytes of its data files; files without a recorded size count 0."""
        return sum(file.size or 0 for fragment in self.stored.fragments.all for file in fragment.files.files)

    @cached_property
    def first_file(self) -> str:
        """Path, below the table, of one of its data files."""
        first = self.stored.fragments.all[0].files.files[0]
        return f"{self.path}/data/{first.path}"

    @cached_property
    def flushed_at(self) -> datetime:
        """Time when it was written, in UTC."""
        # Lance tells local time.
        written: datetime = self.dataset.versions()[0]["timestamp"]
        return written.astimezone(UTC)

    @property
    def fields(self) -> tuple[StoredField, ...]:
        """Columns with their field ids."""
        return self.stored.schema.fields

    @cached_property
    def indexes(self) -> tuple[DatasetIndex, ...]:
        """Its own indexes, by name."""
        return list_dataset_indexes(self.dataset)

    @property
    def has_tombstones(self) -> bool:
        """Whether rows have a tombstone flag; tables without primary key have none."""
        return self.stored.schema.has_tombstones

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
            base.find_stored_columns(self.stored.schema),
            self.place,
            base.find_origin(base.storage.child(self.path)),
            self.stored,
        )
        base.generation_sources[self.place] = source
        return source

    def read_keys(self, base: BaseTable) -> LayerKeys:
        """Read the key columns.

        Raises:
            GenerationVanishedError: the files are gone.
        """
        columns = list(self.list_key_columns(base))
        try:
            rows = self.dataset.scanner(columns=columns, with_row_address=True).to_table()
        except (OSError, ValueError) as error:
            raise build_generation_error(base, self.path, error) from error
        *key, addresses = [combine_chunks(rows.column(name)) for name in (*columns, ROW_ADDRESS)]
        return self.convert_keys(base, key, addresses.to_numpy())

    def list_key_columns(self, base: BaseTable) -> tuple[str, ...]:
        """Return the stored names of the key columns, then `_tombstone` if it has one."""
        stored = base.find_stored_columns(self.stored.schema)
        names = [stored[name].name for name in base.primary_key]
        return (*names, TOMBSTONE) if self.has_tombstones else tuple(names)

    def convert_keys(self, base: BaseTable, stored: Sequence[pa.Array], addresses: np.ndarray) -> LayerKeys:
        """Build the keys from the columns of `list_key_columns`, and the addresses of the rows."""
        if self.has_tombstones:
            *key, tombstones = stored
            dead = tombstones.to_numpy(zero_copy_only=False)
        else:
            key, dead = list(stored), np.zeros(len(addresses), dtype=np.bool_)
        types = [base.schema.field(name).type for name in base.primary_key]
        columns = [one if one.type == kind else one.cast(kind) for one, kind in zip(key, types, strict=True)]
        return LayerKeys(tuple(columns), addresses, dead)


def read_with_keys(
    base: BaseTable,
    generations: Iterable[GenerationDataset],
    fragments: Iterable[Fragment],
    columns: Sequence[str] = (),
) -> Iterator[tuple[Fragment, Sequence[pa.Array], tuple[GenerationDataset, LayerKeys] | None]]:
    """Read columns of those small fragments that can be read together, and the keys of generations.

    Args:
        base: the table.
        generations: whose keys are read, as far as they have one fragment, and it is among these.
        fragments: of generations.
        columns: stored names, which each dataset has.

    Yields:
        A fragment, the columns of all its physical rows, and the keys of its generation, if they are wanted.

    Raises:
        GenerationVanishedError: the files of one are gone.
    """
    wanted = {
        of_one[0].files: generation
        for generation in generations
        if len(of_one := generation.stored.fragments.all) == 1
    }
    groups: defaultdict[tuple[str, ...], list[Fragment]] = defaultdict(list)
    for source, fragment in fragments:
        generation = wanted.get(fragment.files)
        groups[() if generation is None else generation.list_key_columns(base)].append((source, fragment))
    for key_columns, group in groups.items():
        names = list(dict.fromkeys((*columns, *key_columns)))
        own, of_key = ([names.index(name) for name in wished] for wished in (columns, key_columns))
        for one, rows in base.together.read(group, names):
            keys = None
            if key_columns:
                generation = wanted[one[1].files]
                keys = generation, _select_keys(base, generation, one[1], [rows[at] for at in of_key])
            yield one, [rows[at] for at in own], keys


def _select_keys(
    base: BaseTable, generation: GenerationDataset, fragment: StoredFragment, stored: Sequence[pa.Array]
) -> LayerKeys:
    """Return the keys of rows that are not deleted, given the key columns of all physical rows."""
    offsets = np.arange(fragment.physical_rows, dtype=np.uint64)
    if fragment.deletions is not None:
        offsets = _find_live_offsets(base, generation, fragment)
        live = pa.array(offsets)
        stored = [column.take(live) for column in stored]
    return generation.convert_keys(base, stored, offsets + np.uint64(fragment.fragment_id << OFFSET_BITS))


def _find_live_offsets(
    base: BaseTable, generation: GenerationDataset, fragment: StoredFragment
) -> np.ndarray:
    """Return the ascending offsets of the rows of a fragment that are not deleted."""
    deleted = _read_deletion_file(base, generation, fragment)
    if deleted is not None:
        return np.delete(np.arange(fragment.physical_rows, dtype=np.uint64), deleted)
    try:
        rows = generation.dataset.scanner(columns=[], with_row_address=True).to_table()
    except (OSError, ValueError) as error:
        raise build_generation_error(base, generation.path, error) from error
    addresses: np.ndarray = rows.column(ROW_ADDRESS).to_numpy()
    return addresses & np.uint64(OFFSET_MASK)


def _read_deletion_file(
    base: BaseTable, generation: GenerationDataset, fragment: StoredFragment
) -> np.ndarray | None:
    """Return the offsets of deleted rows; None if Lance has to be asked, which takes a scan."""
    file = fragment.handle.metadata.deletion_file
    if file.file_type != "bitmap" or file.base_id is not None:
        return None
    try:
        stored = base.storage.read(f"{generation.path}/{file.path(fragment.fragment_id)}")
        deleted = Bitmap._from_bytes(stored)  # noqa: SLF001 - what `pickle` calls
    except (OSError, ValueError, LanceGatewayError):
        return None
    if len(deleted) != file.num_deleted_rows:
        return None
    return np.fromiter(deleted, np.int64, len(deleted))


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
    schema = base.stored_schemas.find(dataset)
    opened = open_for_reading(dataset, schema.blobs)
    stored = StoredDataset(opened, base.place.below(relative), schema)
    return GenerationDataset(region_id, generation, relative, stored)


def build_generation_error(base: BaseTable, path: str, error: BaseException) -> Exception:
    """Build the error for a generation that can't be read."""
    reason = shorten_error(error)
    place = f"{base.storage.uri}/{path}"
    if is_absent(error):
        msg = (
            f"table {base.name!r}: flushed generation {place} is gone, but the MemWAL index of base version "
            f"{base.version} does not say that it was merged. Restore the directory"
        )
        return GenerationVanishedError(msg)
    msg = f"table {base.name!r}: flushed generation {place} can't be read: {reason}"
    return build_read_error(msg, error)
