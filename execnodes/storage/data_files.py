"""Identities of datasets, files and columns for cache keys.

A data file never changes, so what was read from it is valid in every version that contains it. Its name is
not unique: two tables, or two bases of one table, may have files of one name. An identity therefore starts
with the dataset, which has a unique number.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from lance_gateway.memwal.errors import CorruptDataError

Identity = TypeVar("Identity")

_NUMBERS = itertools.count()
_IN_USE: WeakValueDictionary[tuple[object, ...], Any] = WeakValueDictionary()
_LOCK = threading.Lock()


def intern(kind: Callable[..., Identity], *parts: object) -> Identity:
    """Return the one object of a class with these parts: the existing one, or a new one.

    Long parts are hashed and compared once, here; afterwards, equal objects are identical.
    """
    key = (kind, *parts)
    with _LOCK:
        found: Identity | None = _IN_USE.get(key)
        if found is None:
            found = _IN_USE[key] = kind(*parts)
        return found


@dataclass(frozen=True, slots=True)
class Place:
    """The identity of a dataset: datasets that replace one another in a directory differ.

    Attributes:
        uri: of its directory.
        number: of the table that it is, or is part of; no other table of this process has it.
    """

    uri: str
    number: int

    @staticmethod
    def new(uri: str) -> Place:
        """Return the identity of a table that was not seen before."""
        return Place(uri, next(_NUMBERS))

    @staticmethod
    def unknown() -> Place:
        """Return a unique identity: what is cached for it is found only through its own source."""
        return Place.new("")

    def below(self, path: str) -> Place:
        """Return the identity of a dataset in a directory of the table, such as a flushed generation."""
        return Place(f"{self.uri}/{path}", self.number)


@dataclass(frozen=True, slots=True)
class BasePath:
    """A directory with files of a dataset besides its own; equal if its files have the same paths.

    Attributes:
        path: as the dataset's manifest has it.
        is_dataset_root: whether data files lie in `data` below it, rather than in it.
    """

    path: str
    is_dataset_root: bool


Bases = Mapping[int, BasePath]
"""Id -> base of a dataset."""


def list_bases(dataset: Any) -> Bases:  # noqa: ANN401 - lance types
    """Return the bases of a `lance.LanceDataset` by number."""
    bases = dataset.base_paths()
    return {number: BasePath(base.path, base.is_dataset_root) for number, base in bases.items()}


@dataclass(frozen=True, slots=True)
class DataFileId:
    """The identity of a data file; equal if the same columns are read from the same file.

    A file that replaced another one is told from it by its size alone, and by the dataset: Lance gives every
    file a name of its own.

    Attributes:
        base: where it lies; None in the dataset's own directory.
        path: below that.
        size: bytes, where the manifest records them.
        format: major and minor version.
        fields: ids of the fields in it.
        columns: of the file, in which the fields are.
    """

    base: BasePath | None
    path: str
    size: int | None
    format: tuple[int, int]
    fields: tuple[int, ...]
    columns: tuple[int, ...]

    @staticmethod
    def of(file: Any, bases: Bases) -> DataFileId:  # noqa: ANN401 - lance types
        """Build the identity of a `lance.fragment.DataFile`.

        Raises:
            CorruptDataError: it lies in a base that the dataset does not have.
        """
        return DataFileId(
            _find_base(file.base_id, bases),
            file._path,  # noqa: SLF001 - `path` makes a class at each access, and garbage of it
            file.file_size_bytes,
            (file.file_major_version, file.file_minor_version),
            tuple(file.fields),
            tuple(file.column_indices),
        )


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class FragmentFiles:
    """The stored rows of a fragment; one object if every physical row has the same values.

    Attributes:
        place: the dataset.
        files: of the fragment.
        overlays: files whose cells replace some of theirs, oldest first, and since which version they do.
    """

    place: Place
    files: tuple[DataFileId, ...]
    overlays: tuple[tuple[DataFileId, int | None], ...] = ()

    @staticmethod
    def of(metadata: Any, place: Place, bases: Bases) -> FragmentFiles:  # noqa: ANN401 - lance types
        """Build the files of a `lance.FragmentMetadata`.

        Raises:
            CorruptDataError: a file lies in a base that the dataset does not have.
        """
        files = tuple(DataFileId.of(file, bases) for file in metadata.files)
        overlays = tuple(
            (DataFileId.of(overlay.data_file, bases), overlay.committed_version)
            for overlay in metadata.overlays
        )
        return intern(FragmentFiles, place, files, overlays)


@dataclass(frozen=True, slots=True)
class Deletions:
    """The deletion file of a fragment; equal within a dataset if it is the same file.

    Attributes:
        fragment_id: part of the file's name.
        base: where it lies; None in the dataset's own directory.
        read_version: part of the file's name.
        id: part of the file's name.
        type: part of the file's name.
    """

    fragment_id: int
    base: BasePath | None
    read_version: int
    id: int
    type: str

    @staticmethod
    def of(metadata: Any, bases: Bases) -> Deletions | None:  # noqa: ANN401 - lance types
        """Build the deletions of a `lance.FragmentMetadata`; None if no row is deleted.

        Raises:
            CorruptDataError: the file lies in a base that the dataset does not have.
        """
        file = metadata.deletion_file
        if file is None:
            return None
        return Deletions(
            metadata.id, _find_base(file.base_id, bases), file.read_version, file.id, file.file_type
        )


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class StoredValues:
    """A stored column of a fragment; one object if every physical row has the same value.

    Not by the column's name, because columns can swap names; and not by its field id alone, because Lance
    gives the id of a dropped column without values to the next.

    Attributes:
        fragment: whose rows they are.
        field_id: of the column.
        type: as which they are read.
    """

    fragment: FragmentFiles
    field_id: int
    type: pa.DataType


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Columns:
    """Columns of a table; one object if names stand for the same fields, types and order.

    Types are compared as such: what they print leaves out parts of some of them.

    Attributes:
        fields: id, name and type of each.
    """

    fields: tuple[tuple[int, str, pa.DataType], ...]

    @staticmethod
    def of(fields: Iterable[tuple[int, str, pa.DataType]]) -> Columns:
        """Build columns from id, name and type of each."""
        return intern(Columns, tuple(fields))


def _find_base(base_id: int | None, bases: Bases) -> BasePath | None:
    if base_id is None:
        return None
    base = bases.get(base_id)
    if base is None:
        msg = (
            f"a file is recorded in base {base_id}, but the dataset has the bases {sorted(bases)}: restore"
            " the version before"
        )
        raise CorruptDataError(msg)
    return base


MAX_SESSIONS = 64
"""Fragments of one dataset that stay open to take rows: each holds its files, and 20 kB."""


@dataclass(frozen=True, eq=False, slots=True)
class StoredFragment:
    """A fragment with its metadata, read once because pylance builds it again on each access.

    Attributes:
        fragment_id: as Lance numbers it.
        handle: the `lance.LanceFragment`.
        physical_rows: rows stored, deleted ones included.
        files: names its rows; as long as they are the same, every physical row keeps its values.
        deletions: names its deleted rows; None where there are none.
    """

    fragment_id: int
    handle: Any
    physical_rows: int
    files: FragmentFiles
    deletions: Deletions | None
    _columns: dict[str, StoredValues] = field(default_factory=dict)

    @staticmethod
    def of(handle: Any, place: Place, bases: Bases) -> StoredFragment:  # noqa: ANN401 - lance types
        """Read the metadata of a fragment.

        Raises:
            CorruptDataError: a file lies in a base that the dataset does not have.
        """
        metadata = handle.metadata
        return StoredFragment(
            metadata.id,
            handle,
            metadata.physical_rows,
            FragmentFiles.of(metadata, place, bases),
            Deletions.of(metadata, bases),
        )

    def columns(
        self, names: Iterable[str], types: Mapping[str, tuple[int, pa.DataType]]
    ) -> list[StoredValues]:
        """Return the identities of the values of columns.

        Args:
            names: of stored columns, in the dataset's version.
            types: see `LanceSource.stored_types`.
        """
        values = []
        for name in names:
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = intern(StoredValues, self.files, *types[name])
            values.append(column)
        return values


@dataclass(frozen=True, eq=False)
class StoredFragments:
    """Fragments by their ids; safe to share between threads.

    Args:
        dataset: a `lance.LanceDataset`.
        place: names it.
    """

    dataset: Any
    place: Place = field(default_factory=Place.unknown)
    _known: dict[int, StoredFragment] = field(default_factory=dict)
    _sessions: dict[tuple[int, tuple[str, ...]], Any] = field(default_factory=dict)

    @cached_property
    def all(self) -> tuple[StoredFragment, ...]:
        """All fragments, in scan order."""
        return tuple([self._load(handle) for handle in self.dataset.get_fragments()])

    def get(self, fragment_id: int) -> StoredFragment:
        """Return a fragment by its id."""
        return self.get_each((fragment_id,))[0]

    def get_each(self, fragment_ids: Iterable[int]) -> list[StoredFragment]:
        """Return fragments by their ids."""
        return [
            self._known.get(fragment_id) or self._load(self.dataset.get_fragment(fragment_id))
            for fragment_id in fragment_ids
        ]

    def _load(self, handle: Any) -> StoredFragment:  # noqa: ANN401 - lance types
        return self._known.setdefault(handle.fragment_id, StoredFragment.of(handle, self.place, self._bases))

    @cached_property
    def _bases(self) -> Bases:
        return list_bases(self.dataset)

    def take(self, fragment_id: int, offsets: np.ndarray, columns: Sequence[str]) -> pa.Table | None:
        """Return the rows at ascending offsets, in stored columns; None if deletions shift the offsets.

        Opening a fragment costs as much as taking a row: the first requested ones stay open.
        """
        key = (fragment_id, tuple(columns))
        session = self._sessions.get(key)
        if session is None:
            fragment = self.get(fragment_id)
            if fragment.deletions is not None:
                return None
            if len(self._sessions) >= MAX_SESSIONS:
                return fragment.handle.take(offsets.tolist(), columns=list(columns))
            session = self._sessions.setdefault(key, fragment.handle.open_session(columns=list(columns)))
        return session.take(offsets.tolist())
