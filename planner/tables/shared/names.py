"""Names of shared files: digests of everything that their content depends on.

In a process, the number of a table tells it from others in the same directory. Other processes, and those
that start later, do not know this number. To them the files themselves are what tells a table: their place on
the disk, their size, and when they were written and changed. The system sets the time of a change, and no
program can set it back. So a file that is replaced, copied or written again is another file, even under the
same name.

A file is stamped while the table's manifest is known to be there: what lies in the directory is then of this
table. Before something is kept under a name, the stamps are compared again: what was read in between came
from these files.

Stamping an object in a store would cost a request, and is not needed. Lance gives every file a random name
and writes it once, so a table that is recreated in the same place has other file names, unless it is a copy.
An object is identified by its store, its path, and its size in the manifest.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import lance
import pyarrow as pa

from lance_gateway.execnodes.storage.data_files import DataFileId, Deletions, FragmentFiles
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.planner.tables.shared.file_format import NAME_BYTES

LAYOUT = 2
"""Raised when the same key stands for another content."""

_SOFTWARE = f"{LAYOUT} {lance.__version__} {pa.__version__} {sys.byteorder}".encode()
_DELETION_SUFFIXES = MappingProxyType({"array": "arrow", "bitmap": "bin"})
_STORE_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_")
_STORE_OPTION = re.compile(r"\w*(endpoint|account_name)\w*", re.IGNORECASE)
_SECOND = 1_000_000_000
_SETTLED = _SECOND // 10
_COARSELY_SETTLED = 2 * _SECOND


@dataclass(frozen=True, slots=True)
class FileStamp:
    """Tells a local file from all that were or will be in its place; equal only for the same unchanged file.

    Attributes:
        device: file system.
        inode: number in it; a later file may get it.
        size: bytes.
        written: when, in nanoseconds since 1970.
        changed: when its content, its name or its rights changed, likewise; set by the system alone.
    """

    device: int
    inode: int
    size: int
    written: int
    changed: int

    @staticmethod
    def of(path: str) -> FileStamp | None:
        """Stamp a file; return None if it is absent, or so new that a change might leave the same times."""
        try:
            found = os.stat(path)  # noqa: PTH116 - text stays text
        except OSError:
            return None
        changed = found.st_ctime_ns
        # The system's clock for files ticks every few milliseconds; some file systems count whole seconds.
        settled = _SETTLED if changed % _SECOND else _COARSELY_SETTLED
        if time.time_ns() - changed < settled:
            return None
        return FileStamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, changed)


@dataclass(frozen=True, slots=True)
class StampedFiles:
    """The stored rows of a fragment, to all processes; equal if every physical row has the same values.

    Attributes:
        files: of the fragment, each with its stamp.
        overlays: files whose cells replace some of theirs, oldest first, and since which version they do.
    """

    files: tuple[tuple[DataFileId, FileStamp], ...]
    overlays: tuple[tuple[DataFileId, FileStamp, int | None], ...]


@dataclass(frozen=True, slots=True)
class StampedDeletions:
    """The deleted rows of a fragment, to all processes; equal if it is the same deletion file."""

    deletions: Deletions
    stamp: FileStamp


@dataclass(frozen=True, eq=False)
class LocalOrigin:
    """An `Origin` of a dataset in a local directory.

    Args:
        directory: of the dataset.
        is_there: tells whether the directory is still that of the table that was opened.
    """

    directory: Storage
    is_there: Callable[[], bool]

    def name_rows(self, files: FragmentFiles) -> bytes | None:
        """See `Origin.name_rows`."""
        stamped = [self._stamp(one) for one in files.files]
        overlays = [self._stamp(one) for one, _ in files.overlays]
        if None in stamped or None in overlays or not self.is_there():
            return None
        return digest(
            StampedFiles(
                tuple(zip(files.files, stamped, strict=True)),  # type: ignore[arg-type]
                tuple((one, stamp, at) for (one, at), stamp in zip(files.overlays, overlays, strict=True)),  # type: ignore[misc]
            )
        )

    def name_deletions(self, deletions: Deletions) -> bytes | None:
        """See `Origin.name_deletions`."""
        suffix = _DELETION_SUFFIXES.get(deletions.type)
        if deletions.base is not None or suffix is None:
            return None
        name = f"{deletions.fragment_id}-{deletions.read_version}-{deletions.id}.{suffix}"
        stamp = FileStamp.of(f"{self.directory.root}/_deletions/{name}")
        return None if stamp is None or not self.is_there() else digest(StampedDeletions(deletions, stamp))

    def _stamp(self, file: DataFileId) -> FileStamp | None:
        return FileStamp.of(f"{self.directory.root}/data/{file.path}") if _is_below(file) else None


@dataclass(frozen=True, slots=True)
class StoredObjects:
    """Objects of a dataset in a store, to all processes: rows of a fragment, or its deletions.

    Attributes:
        store: options that identify the store.
        directory: of the dataset.
        table_id: of its table; b"" for tables of others.
        files: of the fragment.
        overlays: files whose cells replace some of theirs, oldest first, and since which version they do.
        deletions: of the fragment; None for its rows.
    """

    store: tuple[tuple[str, str], ...]
    directory: str
    table_id: bytes
    files: tuple[DataFileId, ...] = ()
    overlays: tuple[tuple[DataFileId, int | None], ...] = ()
    deletions: Deletions | None = None


@dataclass(frozen=True, eq=False)
class StoreOrigin:
    """An `Origin` of a dataset in an object store; it asks the store nothing.

    Args:
        directory: of the dataset.
        table_id: of its table; b"" for tables of others.
    """

    directory: Storage
    table_id: bytes

    def name_rows(self, files: FragmentFiles) -> bytes | None:
        """See `Origin.name_rows`."""
        every = (*files.files, *(one for one, _ in files.overlays))
        if any(one.size is None or not _is_below(one) for one in every):
            return None
        return digest(replace(self._objects, files=files.files, overlays=files.overlays))

    def name_deletions(self, deletions: Deletions) -> bytes | None:
        """See `Origin.name_deletions`."""
        return digest(replace(self._objects, deletions=deletions)) if deletions.base is None else None

    @cached_property
    def _objects(self) -> StoredObjects:
        variables = {name: text for name, text in os.environ.items() if name.startswith(_STORE_VARIABLES)}
        options = {**variables, **self.directory.options}
        store = sorted((name, text) for name, text in options.items() if _STORE_OPTION.fullmatch(name))
        return StoredObjects(tuple(store), self.directory.files_uri, self.table_id)


def find_origin(
    directory: Storage, table_id: bytes, is_there: Callable[[], bool] | None
) -> LocalOrigin | StoreOrigin | None:
    """Return the origin of a dataset; None if its files cannot be identified.

    Args:
        directory: of the dataset.
        table_id: of its table; b"" for tables of others.
        is_there: returns whether a local directory is still that of the table that was opened; None if it is
            not known.
    """
    if not directory.is_local:
        return StoreOrigin(directory, table_id)
    return None if is_there is None else LocalOrigin(directory, is_there)


def _is_below(file: DataFileId) -> bool:
    """Return whether a file lies in the dataset's own directory."""
    path = PurePosixPath(file.path)
    return file.base is None and not path.is_absolute() and ".." not in path.parts


def digest(key: object) -> bytes:
    """Return the name of the file for a key: different for different keys, and the same in every process.

    Args:
        key: a frozen dataclass of numbers, texts, bytes, Arrow types, tuples, and dataclasses of these.

    Raises:
        TypeError: the key has something else in it.
    """
    digester = hashlib.blake2b(_SOFTWARE, digest_size=NAME_BYTES)
    for part in _encode(key):
        digester.update(part)
    return digester.digest()


def _encode(value: Any) -> Iterable[bytes]:  # noqa: ANN401 - of many types
    """Yield the bytes of a value, each after its type and its length, so that no two values are alike."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
        name = type(value).__qualname__.encode()
        yield b"d%d,%d:%s" % (len(name), len(fields), name)
        for field in fields:
            yield from _encode(field)
    elif isinstance(value, tuple):
        yield b"t%d:" % len(value)
        for one in value:
            yield from _encode(one)
    elif isinstance(value, pa.DataType):
        # What a type prints leaves out parts of some types.
        data = pa.schema([pa.field("", value)]).serialize().to_pybytes()
        yield b"a%d:%s" % (len(data), data)
    else:
        kind, data = _encode_scalar(value)
        yield b"%s%d:%s" % (kind, len(data), data)


def _encode_scalar(value: object) -> tuple[bytes, bytes]:
    if value is None:
        return b"n", b""
    if isinstance(value, bool):
        return b"b", b"1" if value else b"0"
    if isinstance(value, int):
        return b"i", b"%d" % value
    if isinstance(value, str):
        return b"s", value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes):
        return b"y", value
    raise TypeError(f"a name can't depend on {type(value).__name__}")
