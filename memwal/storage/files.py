"""One interface over local directories and object stores, with atomic and conditional writes."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.memwal.storage.backends import (
    CHUNK_BYTES,
    Answer,
    Entry,
    FileIdentity,
    Item,
    ObjectBackend,
)
from lance_gateway.memwal.storage.local import LocalBackend
from lance_gateway.memwal.storage.object_stores import SCHEMES
from lance_gateway.memwal.storage.time_limits import DEFAULT_LIMITS, StorageLimits

__all__ = ["Entry", "FileIdentity", "Storage"]

MEM_WAL: Final = "_mem_wal"
VERSIONS: Final = "_versions"
_LARGEST: Final = (1 << 64) - 1
_DIGITS: Final = 20
_WIDEST_PROBE: Final = 64


def base_manifest_paths(version: int) -> tuple[str, str]:
    """Return the two possible files of the manifest of a base version; the newer scheme comes first."""
    return f"{VERSIONS}/{_LARGEST - version:0{_DIGITS}d}.manifest", f"{VERSIONS}/{version}.manifest"


def parse_base_manifest_version(name: str) -> int | None:
    """Return the base version of a manifest's file name; None for drafts and other files."""
    digits = name.removesuffix(".manifest")
    if digits == name or not digits.isdecimal():
        return None
    return _LARGEST - int(digits) if len(digits) == _DIGITS else int(digits)


def region_directory(region_id: str) -> str:
    """Return the directory of a region."""
    return f"{MEM_WAL}/{region_id}"


def generation_directory(region_id: str, path: str) -> str:
    """Return the directory of a flushed generation from the `path` in a region's manifest."""
    return f"{MEM_WAL}/{region_id}/{path}"


def is_local(uri: str) -> bool:
    """Return whether a location is on a local disk: a path, or a file:// URI."""
    return "://" not in uri or urlsplit(uri).scheme == "file"


@dataclass(frozen=True)
class Storage:
    """A directory (a table, or a part of one) on a local disk or in an object store.

    Two storages are equal when they name the same directory with the same options. Whatever asks storage
    raises an UnavailableError where it fails to answer.

    Attributes:
        uri: what pylance takes: an absolute path, `s3://bucket/key`, `gs://bucket/key`,
            `az://container/key` or `s3+ddb://bucket/key?ddbTableName=name`.
        options: storage options as pylance takes them (`aws_endpoint`, `aws_region`, `allow_http`, ...).
        committed_by: what names the DynamoDB table that decides which commits to a base table count, as in
            the URI behind its `?`; empty where files alone decide.
    """

    uri: str
    options: Mapping[str, str] = field(hash=False)
    root: str = field(repr=False)
    backend: LocalBackend | ObjectBackend = field(repr=False, compare=False)
    committed_by: str = field(default="", repr=False)

    @staticmethod
    def open(
        uri: str, options: Mapping[str, str] | None = None, limits: StorageLimits = DEFAULT_LIMITS
    ) -> "Storage":
        """Open a directory; nothing is read, and it need not exist.

        Args:
            uri: of the directory.
            options: storage options as pylance takes them; limits of time among them win over `limits`.
            limits: of requests to an object store.

        Raises:
            InvalidInputError: the URI is empty, or names no bucket or no DynamoDB table.
        """
        if not uri:
            msg = "A table location is empty: give a directory or s3://bucket/path"
            raise InvalidInputError(msg)
        kept = dict(options or {})
        parts = urlsplit(uri)
        if is_local(uri):
            path = os.path.abspath(uri if "://" not in uri else unquote(parts.path))  # noqa: PTH100 - text stays text
            return Storage(path, kept, path, LocalBackend())
        if parts.scheme in SCHEMES:
            return _open_objects(parts.scheme, uri, uri.partition("://")[2], kept, limits)
        if parts.scheme == "s3+ddb":
            place, _, committed_by = uri.removeprefix("s3+ddb://").rpartition("?")
            if not any(table for table in parse_qs(committed_by).get("ddbTableName", ())):
                msg = f"{uri} names no DynamoDB table: write s3+ddb://bucket/path?ddbTableName=name"
                raise InvalidInputError(msg)
            return _open_objects("s3", uri, place, kept, limits, committed_by)
        msg = (
            f"{uri}: storage of kind {parts.scheme!r} is not supported; use a local path, s3://, gs://, "
            "az:// or s3+ddb://"
        )
        raise UnsupportedError(msg)

    @property
    def files_uri(self) -> str:
        """The URI for pylance if nothing is committed to a base table: without a DynamoDB table."""
        return f"s3://{self.root}" if self.committed_by else self.uri

    def child(self, *parts: str) -> "Storage":
        """Return a directory below this one, on the same connections; below `_mem_wal`, without DynamoDB."""
        suffix = "/".join(_check_path_part(part) for part in parts)
        committed_by = "" if MEM_WAL in suffix.split("/") else self.committed_by
        uri = (
            f"s3+ddb://{self.root}/{suffix}?{committed_by}" if committed_by else f"{self.files_uri}/{suffix}"
        )
        return Storage(uri, self.options, f"{self.root}/{suffix}", self.backend, committed_by)

    def locate(self, path: str) -> str:
        """Return the full URI of a file below this directory."""
        return f"{self.files_uri}/{path}" if path else self.uri

    def read(self, path: str) -> bytes:
        """Return the bytes of a file.

        Raises:
            FileNotFoundError: there is no such file.
            UnavailableError: storage failed to answer.
        """
        return self.backend.read(self._absolute(path))

    def exists(self, *paths: str) -> tuple[bool, ...]:
        """Return for each path whether the file exists; in parallel on S3."""
        return self.backend.exists(tuple(map(self._absolute, paths)))

    def identity(self, path: str) -> FileIdentity | None:
        """Return the identity of a file, which changes when it is replaced; None if it is absent."""
        return self.identities(path)[0]

    def identities(self, *paths: str) -> tuple[FileIdentity | None, ...]:
        """Return the identity of each path; read one after the other, in this order."""
        return self.backend.identities(tuple(map(self._absolute, paths)))

    def list(self, path: str = "") -> tuple[Entry, ...]:
        """Return the entries of a directory, ordered by name; () if it is absent."""
        return self.backend.list(self._absolute(path))

    def directories(self, path: str = "") -> tuple[str, ...]:
        """Return the names of the directories in a directory, in no order; cheaper than `list`."""
        return self.backend.directories(self._absolute(path))

    def files(self, path: str = "") -> Iterator[Entry]:
        """Yield all files in a directory and below it, in no order, with their paths below it."""
        return self.backend.files(self._absolute(path))

    def each(self, function: Callable[[Item], Answer], items: Iterable[Item]) -> tuple[Answer, ...]:
        """Return `function(item)` for every item, in order; in parallel if storage is remote.

        The first error is raised. The function must not call `each` itself.
        """
        return self.backend.each(function, items)

    def each_request(self, function: Callable[[Item], Answer], items: Sequence[Item]) -> tuple[Answer, ...]:
        """Return `function(item)` for every item, as `each`; the function must send only one request."""
        return self.backend.each_request(function, items)

    def start(self, request: Callable[[], Answer]) -> Future[Answer]:
        """Call a function, in the background if storage is remote; it must not call `each` or `start`."""
        return self.backend.start(request)

    def each_table(self, function: Callable[[Item], Answer], tables: Iterable[Item]) -> tuple[Answer, ...]:
        """Return `function(table)` for tables below one root, as `each`; the function may call `each`."""
        return self.backend.each_table(function, tables)

    def put(self, path: str, data: bytes) -> None:
        """Write a file in one atomic step; replace an existing one."""
        self.backend.put(self._absolute(path), data)

    def put_chunks(self, path: str, chunks: Iterator[bytes]) -> None:
        """Write a file of many parts in one atomic step; replace an existing one."""
        self.backend.put_chunks(self._absolute(path), chunks)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create a file in one atomic step; return False if it exists already.

        Of several processes that race to create one path, exactly one is told True.

        Raises:
            UnavailableError: storage failed to answer; whether the file was created is then unknown.
        """
        return self.backend.put_if_absent(self._absolute(path), data)

    def copy_to(self, path: str, target: "Storage", target_path: str, size: int) -> bool:
        """Copy a file to another storage in one atomic step; replace an existing one there.

        Args:
            path: of the file.
            target: directory to copy to.
            target_path: of the copy, below it.
            size: bytes of the file; a large one is never in memory as a whole.

        Returns:
            Whether it was still of that size. A clean-up empties some files.

        Raises:
            FileNotFoundError: there is no such file.
            UnavailableError: one of both failed to answer.
        """
        if size <= CHUNK_BYTES:
            data = self.read(path)
            if len(data) == size:
                target.put(target_path, data)
            return len(data) == size
        chunks = self.backend.read_chunks(self._absolute(path))
        first = next(chunks, b"")  # so that an absent file is not told as a failure of the target
        copied = len(first)

        def count() -> Iterator[bytes]:
            nonlocal copied
            yield first
            for chunk in chunks:
                copied += len(chunk)
                yield chunk

        target.put_chunks(target_path, count())
        return copied == size

    def set_written(self, path: str, written: int) -> None:
        """Set when a file was written, in nanoseconds since 1970; object stores don't offer that."""
        self.backend.set_written(self._absolute(path), written)

    def delete(self, path: str) -> None:
        """Delete a file; do nothing if it is absent."""
        self.backend.delete(self._absolute(path))

    def delete_each(self, paths: Sequence[str]) -> None:
        """Delete files with as few requests as possible.

        Raises:
            UnavailableError: storage failed to answer; some of the files may be left.
        """
        self.backend.delete_each(tuple(map(self._absolute, paths)))

    def delete_all(self, keep: Iterable[str] = ()) -> None:
        """Delete everything in this directory, and the directory; safe to repeat.

        Args:
            keep: files that stay, by their paths below this directory.

        Raises:
            UnavailableError: storage failed to answer; any of the files may be left.
        """
        self.backend.delete_below(self.root, frozenset(map(self._absolute, keep)))

    @property
    def is_local(self) -> bool:
        """Whether it is on a local disk: files are read without a network, and directories can be moved."""
        return self.backend.scheme == LocalBackend.scheme

    def move_to(self, target: "Storage") -> bool:
        """Move this directory in one step; return False if something else is at the new place.

        Only where `is_local`.

        Raises:
            FileNotFoundError: this directory does not exist.
            UnavailableError: the file system refuses it.
        """
        return self.backend.move(self.root, target.root)

    def exchange_with(self, other: "Storage") -> bool:
        """Let two directories take each other's place in one step; return False where that is not supported.

        Only where `is_local`.

        Raises:
            FileNotFoundError: one of the directories does not exist.
            UnavailableError: the file system refuses it.
        """
        return self.backend.exchange(self.root, other.root)

    def _absolute(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root


def find_last_in_sequence(table: Storage, path: Callable[[int], str], after: int) -> int:
    """Return the newest number whose file follows `after` without a gap; `after` if none follows.

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


def _open_objects(
    scheme: str,
    uri: str,
    place: str,
    options: Mapping[str, str],
    limits: StorageLimits,
    committed_by: str = "",
) -> Storage:
    # The text behind the bucket is the key as it stands: '#' and '?' have no meaning there.
    bucket, _, key = place.partition("/")
    if not bucket:
        msg = f"{uri} names no bucket: write {scheme}://bucket/path"
        raise InvalidInputError(msg)
    root = "/".join([bucket, *(part for part in key.split("/") if part)])
    uri = f"s3+ddb://{root}?{committed_by}" if committed_by else f"{scheme}://{root}"
    backend = ObjectBackend(scheme, bucket, options, limits)
    return Storage(uri, limits.complete(options), root, backend, committed_by)


def _check_path_part(part: str) -> str:
    """Refuse a path part that leads out of the directory: anyone may have written the file that names it."""
    if not part or part.startswith("/") or ".." in part.split("/"):
        msg = f"{part!r} is not a path below a table's directory"
        raise InvalidInputError(msg)
    return part.rstrip("/")
