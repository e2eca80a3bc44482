"""Files of a table, wherever it lives: one small interface over local directories and S3.

Files are read through `pyarrow.fs` and written, atomically and on condition, through `obstore`.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from memwal.errors import InvalidInputError, UnsupportedError
from memwal.storage.backends import Answer, Entry, FileIdentity, Item, LocalBackend, S3Backend

__all__ = ["Backend", "Entry", "FileIdentity", "Storage"]

MEM_WAL: Final = "_mem_wal"
VERSIONS: Final = "_versions"
EXTENTS: Final = "_gateway/merging"
_BITS: Final = 64
_LARGEST: Final = (1 << _BITS) - 1
_DIGITS: Final = 20
_WIDEST_PROBE: Final = 64


@lru_cache(maxsize=4096)
def bit_reversed(number: int) -> str:
    """Returns the 64 binary digits of a number, lowest first: sequential files spread over an object store.

    MemWAL specification, "WAL Storage Layout" and "Shard Manifest Versioning".

    Raises:
        InvalidInputError: the number does not fit 64 bits.
    """
    if not 0 <= number < 1 << _BITS:
        msg = f"{number} cannot name a file: a version or position is between 0 and 2^{_BITS} - 1"
        raise InvalidInputError(msg)
    return f"{number:0{_BITS}b}"[::-1]


def from_bit_reversed(digits: str) -> int | None:
    """Returns the number that 64 reversed binary digits stand for, or None when they are something else."""
    if len(digits) != _BITS or digits.strip("01"):
        return None
    return int(digits[::-1], 2)


def base_manifest_paths(version: int) -> tuple[str, str]:
    """Returns the two files of which one is the manifest of a version of the base table.

    By the newer naming scheme, which comes first, versions count down: the newest is listed first.
    """
    return f"{VERSIONS}/{_LARGEST - version:0{_DIGITS}d}.manifest", f"{VERSIONS}/{version}.manifest"


def base_manifest_version(name: str) -> int | None:
    """Returns the version of the base table by the name of its manifest; None for drafts and other files."""
    digits = name.removesuffix(".manifest")
    if digits == name or not digits.isdecimal():
        return None
    return _LARGEST - int(digits) if len(digits) == _DIGITS else int(digits)


def region_directory(region_id: str) -> str:
    """Returns the directory of a region."""
    return f"{MEM_WAL}/{region_id}"


def generation_directory(region_id: str, path: str) -> str:
    """Returns the directory of a flushed generation, whose `path` a region's manifest records."""
    return f"{MEM_WAL}/{region_id}/{path}"


def manifest_directory(region_id: str) -> str:
    """Returns the directory of a region's manifests."""
    return f"{MEM_WAL}/{region_id}/manifest"


def manifest_path(region_id: str, version: int) -> str:
    """Returns the file of one version of a region's manifest."""
    return f"{manifest_directory(region_id)}/{bit_reversed(version)}.binpb"


def version_hint_path(region_id: str) -> str:
    """Returns the file that names a recent version of a region's manifest."""
    return f"{manifest_directory(region_id)}/version_hint.json"


def manifest_version(name: str) -> int | None:
    """Returns the version of a region's manifest by the name of its file; None for any other file."""
    return (from_bit_reversed(name.removesuffix(".binpb")) if name.endswith(".binpb") else None) or None


def wal_directory(region_id: str) -> str:
    """Returns the directory of a region's log."""
    return f"{MEM_WAL}/{region_id}/wal"


def wal_entry_path(region_id: str, position: int) -> str:
    """Returns the file of one WAL entry; positions start at 1."""
    return f"{wal_directory(region_id)}/{bit_reversed(position)}.arrow"


def wal_entry_position(name: str) -> int | None:
    """Returns the position of a WAL entry by the name of its file; None for any other file."""
    return from_bit_reversed(name.removesuffix(".arrow")) if name.endswith(".arrow") else None


def extent_path(region_id: str, first: int) -> str:
    """Returns the file in which mergers agree where a merge ends that begins at generation `first`."""
    return f"{EXTENTS}/{region_id}.{first}"


class Backend(Protocol):
    """What a kind of storage must be able to do; paths are absolute within it."""

    scheme: str
    identity_seconds: float
    """How long an identity is taken for the file's own before it is asked for again."""

    def read(self, path: str) -> bytes:
        """Returns a file's bytes; FileNotFoundError when it is absent."""

    def exists(self, paths: tuple[str, ...]) -> tuple[bool, ...]:
        """Says for each path whether a file is there."""

    def identity(self, path: str) -> FileIdentity | None:
        """Tells a file from one that replaces it; None when it is absent."""

    def list(self, path: str) -> tuple[Entry, ...]:
        """Returns a directory's entries by name; () when it is absent."""

    def directories(self, path: str) -> tuple[str, ...]:
        """Returns the names of a directory's directories; () when it is absent."""

    def files(self, path: str) -> Iterator[Entry]:
        """Yields all files in a directory and below it, named by their paths below it."""

    def each(self, function: Callable[[Item], Answer], items: Iterable[Item]) -> tuple[Answer, ...]:
        """Calls a function for every item; in parallel where storage is slow to answer."""

    def put(self, path: str, data: bytes) -> None:
        """Writes a whole file atomically, replacing what was there."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Creates a file atomically; False when it exists already."""

    def delete(self, path: str) -> None:
        """Removes a file; nothing happens when it is absent."""

    def delete_each(self, paths: Sequence[str]) -> None:
        """Removes files in order, as `delete` does, with few requests; after an error some may be left."""

    def delete_below(self, path: str, keep: frozenset[str]) -> None:
        """Removes everything in a directory but the files to keep, and the directory if nothing is left."""


@dataclass(frozen=True)
class Storage:
    """A directory (a table, or a part of one) on a local disk or on S3.

    Two storages are equal when they name the same directory with the same options.

    Attributes:
        uri: what pylance takes: an absolute path, `s3://bucket/key` or `s3+ddb://bucket/key?ddbTableName=name`.
        options: storage options as pylance takes them (`aws_endpoint`, `aws_region`, `allow_http`, ...).
        committed_by: what names the DynamoDB table that decides which commits to a base table count, as in
            the URI behind its `?`; empty where files alone decide.
    """

    uri: str
    options: Mapping[str, str] = field(hash=False)
    root: str = field(repr=False)
    backend: Backend = field(repr=False, compare=False)
    committed_by: str = field(default="", repr=False)

    @staticmethod
    def open(uri: str, options: Mapping[str, str] | None = None) -> "Storage":
        """Opens a directory; nothing is read, and it need not exist.

        Raises:
            InvalidInputError: the URI is empty, or names no bucket or no DynamoDB table.
            UnsupportedError: the URI's scheme is neither a local path, `file`, `s3` nor `s3+ddb`.
        """
        if not uri:
            msg = "A table location is empty: give a directory or s3://bucket/path"
            raise InvalidInputError(msg)
        kept = dict(options or {})
        parts = urlsplit(uri)
        if "://" not in uri or parts.scheme == "file":
            path = os.path.abspath(uri if "://" not in uri else unquote(parts.path))  # noqa: PTH100 - text stays text
            return Storage(path, kept, path, LocalBackend())
        if parts.scheme == "s3":
            return _on_s3(uri, uri.removeprefix("s3://"), kept, committed_by="")
        if parts.scheme == "s3+ddb":
            place, _, committed_by = uri.removeprefix("s3+ddb://").rpartition("?")
            if not any(table for table in parse_qs(committed_by).get("ddbTableName", ())):
                msg = f"{uri} names no DynamoDB table: write s3+ddb://bucket/path?ddbTableName=name"
                raise InvalidInputError(msg)
            return _on_s3(uri, place, kept, committed_by)
        msg = (
            f"{uri}: storage of kind {parts.scheme!r} is not supported; use a local path, s3:// or s3+ddb://"
        )
        raise UnsupportedError(msg)

    @property
    def files_uri(self) -> str:
        """What pylance takes where nothing is committed to a base table: the files as they are."""
        return f"s3://{self.root}" if self.committed_by else self.uri

    def child(self, *parts: str) -> "Storage":
        """Returns the directory below this one that `parts` lead to; it shares connections with this one.

        Flushed generations are no tables that anybody commits to: the DynamoDB table knows nothing of them.
        """
        suffix = "/".join(_checked(part) for part in parts)
        committed_by = "" if MEM_WAL in suffix.split("/") else self.committed_by
        uri = (
            f"s3+ddb://{self.root}/{suffix}?{committed_by}" if committed_by else f"{self.files_uri}/{suffix}"
        )
        return Storage(uri, self.options, f"{self.root}/{suffix}", self.backend, committed_by)

    def locate(self, path: str) -> str:
        """Returns the full URI of a file below this directory, for messages and for pylance."""
        return f"{self.files_uri}/{path}" if path else self.uri

    def read(self, path: str) -> bytes:
        """Returns the bytes of a file.

        Raises:
            FileNotFoundError: there is no such file.
            UnavailableError: storage failed to answer.
        """
        return self.backend.read(self._absolute(path))

    def exists(self, *paths: str) -> tuple[bool, ...]:
        """Says for each path whether a file is there: in parallel on S3.

        Raises:
            UnavailableError: storage failed to answer.
        """
        return self.backend.exists(tuple(map(self._absolute, paths)))

    def identity(self, path: str) -> FileIdentity | None:
        """Returns what tells a file from one that replaces it under its name; None when it is absent.

        Raises:
            UnavailableError: storage failed to answer.
        """
        return self.backend.identity(self._absolute(path))

    def list(self, path: str = "") -> tuple[Entry, ...]:
        """Returns the entries of a directory, ordered by name; () when it is absent.

        Raises:
            UnavailableError: storage failed to answer.
        """
        return self.backend.list(self._absolute(path))

    def directories(self, path: str = "") -> tuple[str, ...]:
        """Returns the names of the directories in a directory, in no order; () when it is absent.

        Cheaper than `list`: a table may have thousands.

        Raises:
            UnavailableError: storage failed to answer.
        """
        return self.backend.directories(self._absolute(path))

    def files(self, path: str = "") -> Iterator[Entry]:
        """Yields all files in a directory and below it, in no order; an entry's name is its path below it.

        Raises:
            UnavailableError: storage failed to answer.
        """
        return self.backend.files(self._absolute(path))

    def each(self, function: Callable[[Item], Answer], items: Iterable[Item]) -> tuple[Answer, ...]:
        """Returns `function(item)` for every item, in order; several run at a time where storage is remote.

        The first error is raised. The function must not call `each` itself.
        """
        return self.backend.each(function, items)

    def put(self, path: str, data: bytes) -> None:
        """Writes a file in one atomic step, replacing what was there.

        Raises:
            UnavailableError: storage failed to answer.
        """
        self.backend.put(self._absolute(path), data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Creates a file in one atomic step and returns True; returns False when it exists already.

        Of several processes that race to create one path, exactly one is told True.

        Raises:
            UnavailableError: storage failed to answer; whether the file was created is then unknown.
        """
        return self.backend.put_if_absent(self._absolute(path), data)

    def delete(self, path: str) -> None:
        """Removes a file; nothing happens when it is absent.

        Raises:
            UnavailableError: storage failed to answer.
        """
        self.backend.delete(self._absolute(path))

    def delete_each(self, paths: Sequence[str]) -> None:
        """Removes files, as `delete` does, by as few requests as storage allows.

        Raises:
            UnavailableError: storage failed to answer; some of the files may be left.
        """
        self.backend.delete_each(tuple(map(self._absolute, paths)))

    def delete_all(self, keep: Iterable[str] = ()) -> None:
        """Removes everything in this directory, and the directory; safe to repeat.

        Args:
            keep: files that stay, by their paths below this directory.

        Raises:
            UnavailableError: storage failed to answer; any of the files may be left.
        """
        self.backend.delete_below(self.root, frozenset(map(self._absolute, keep)))

    def _absolute(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root


def last_in_sequence(table: Storage, path: Callable[[int], str], after: int) -> int:
    """Returns the newest number whose file follows `after` without a gap, or `after` when none follows.

    MemWAL specification, "WAL Entry Positions" and "Shard Manifest Versioning": entry N + 1 exists only if
    entry N does, and the newest manifest is the one behind which a version is missing. Files are probed in
    batches that grow.

    Args:
        table: directory of the table.
        path: file of a number.
        after: number to begin behind.

    Raises:
        UnavailableError: storage failed to answer.
    """
    last, batch = after, 1
    while True:
        found = table.exists(*map(path, range(last + 1, last + 1 + batch)))
        if not all(found):
            return last + found.index(False)
        last, batch = last + batch, min(batch * 2, _WIDEST_PROBE)


def _on_s3(uri: str, place: str, options: Mapping[str, str], committed_by: str) -> Storage:
    # The text behind the bucket is the key as it stands: '#' and '?' have no meaning there.
    bucket, _, key = place.partition("/")
    if not bucket:
        msg = f"{uri} names no bucket: write s3://bucket/path"
        raise InvalidInputError(msg)
    root = "/".join([bucket, *(part for part in key.split("/") if part)])
    uri = f"s3+ddb://{root}?{committed_by}" if committed_by else f"s3://{root}"
    return Storage(uri, options, root, S3Backend(bucket, options), committed_by)


def _checked(part: str) -> str:
    """Refuses what would lead out of the directory: parts come from files that anyone may have written."""
    if not part or part.startswith("/") or ".." in part.split("/"):
        msg = f"{part!r} is not a path below a table's directory"
        raise InvalidInputError(msg)
    return part.rstrip("/")
