"""The object stores of `memwal.storage.files.Storage`, and the identity of files."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import ObjectStore

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.storage.object_stores import open_object_store
from lance_gateway.memwal.storage.time_limits import DEFAULT_LIMITS, StorageLimits

if TYPE_CHECKING:
    from obstore import ObjectMeta

REQUESTS_IN_PARALLEL: Final = 16
KEYS_OF_A_DELETE: Final = 1000
CHUNK_BYTES: Final = 8 << 20
"""Files that are copied are read in parts of this size."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Entry:
    """An entry of a directory.

    Attributes:
        name: last part of the path.
        is_dir: whether it is a directory (on S3: a common prefix).
        size: bytes; 0 for a directory.
        written: when, in nanoseconds since 1970; 0 for a directory.
    """

    name: str
    is_dir: bool
    size: int
    written: int = field(default=0, compare=False)


class FileIdentity(NamedTuple):
    """The identity of a file; it changes when the file is replaced.

    Attributes:
        written: when, in nanoseconds since 1970.
        size: bytes.
        tag: inode, or entity tag.
    """

    written: int
    size: int
    tag: int | str


class ObjectBackend:
    """The objects of one bucket or container.

    Args:
        scheme: that of its URIs; one of `memwal.storage.object_stores.SCHEMES`.
        bucket: its name.
        options: storage options as pylance takes them.
        limits: of requests.
    """

    identity_seconds = 1.0
    """How long an identity is taken for the file's own before it is asked for again."""

    def __init__(
        self, scheme: str, bucket: str, options: Mapping[str, str], limits: StorageLimits = DEFAULT_LIMITS
    ) -> None:
        self.scheme = scheme
        self._bucket = bucket
        self._store = open_object_store(scheme, bucket, options, limits)
        # What runs in a pool may wait for what runs in those above it, and never for the same one.
        self._probes = ThreadPoolExecutor(REQUESTS_IN_PARALLEL, thread_name_prefix=f"probe-{bucket}")
        self._started = ThreadPoolExecutor(REQUESTS_IN_PARALLEL, thread_name_prefix=f"start-{bucket}")
        self._calls = ThreadPoolExecutor(REQUESTS_IN_PARALLEL, thread_name_prefix=f"calls-{bucket}")
        self._tables = ThreadPoolExecutor(REQUESTS_IN_PARALLEL, thread_name_prefix=f"tables-{bucket}")

    def read(self, path: str) -> bytes:
        """Return an object's bytes."""
        return run_request(path, lambda: bytes(obstore.get(self._store, self._key(path)).bytes()))

    def exists(self, paths: tuple[str, ...]) -> tuple[bool, ...]:
        """Check all paths in parallel."""
        return self.each_request(self._exists, paths)

    def identities(self, paths: tuple[str, ...]) -> tuple[FileIdentity | None, ...]:
        """Return the entity tags and modification times."""
        return tuple(map(self._identity, paths))

    def list(self, path: str) -> tuple[Entry, ...]:
        """Return the objects and common prefixes below a prefix."""
        prefix = self._prefix(path)
        found = run_request(path, lambda: obstore.list_with_delimiter(self._store, prefix))
        entries = [Entry(one.rpartition("/")[2], is_dir=True, size=0) for one in found["common_prefixes"]]
        entries += [
            Entry(item["path"].removeprefix(prefix), is_dir=False, size=item["size"], written=_written(item))
            for item in found["objects"]
            if item["path"].startswith(prefix)  # the mark of the directory itself does not
        ]
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def directories(self, path: str) -> tuple[str, ...]:
        """Return the last part of each common prefix below a prefix."""
        return tuple(entry.name for entry in self.list(path) if entry.is_dir)

    def files(self, path: str) -> Iterator[Entry]:
        """Yield all objects below a prefix, page by page."""
        prefix = self._prefix(path)
        pages = iter(obstore.list(self._store, prefix))
        while (page := run_request(path, lambda: next(pages, None))) is not None:
            for item in page:
                name = item["path"].removeprefix(prefix)
                yield Entry(name, is_dir=False, size=item["size"], written=_written(item))

    def each_request(self, function: Callable[[Item], Answer], items: Sequence[Item]) -> tuple[Answer, ...]:
        """Call a function that sends one request for every item, several at a time."""
        return tuple(map(function, items) if len(items) == 1 else self._probes.map(function, items))

    def start(self, request: Callable[[], Answer]) -> Future[Answer]:
        """Call a function in another thread."""
        return self._started.submit(request)

    def each(self, function: Callable[[Item], Answer], items: Iterable[Item]) -> tuple[Answer, ...]:
        """Call a function for every item, several at a time."""
        return tuple(self._calls.map(function, items))

    def each_table(self, function: Callable[[Item], Answer], tables: Iterable[Item]) -> tuple[Answer, ...]:
        """Call a function for every table, several at a time."""
        return tuple(self._tables.map(function, tables))

    def read_chunks(self, path: str) -> Iterator[bytes]:
        """Yield an object's bytes."""
        found = run_request(path, lambda: obstore.get(self._store, self._key(path)))
        chunks = iter(found.stream(min_chunk_size=CHUNK_BYTES))
        while (chunk := run_request(path, lambda: next(chunks, None))) is not None:
            yield bytes(chunk)

    def put_chunks(self, path: str, chunks: Iterator[bytes]) -> None:
        """Write an object in parts."""
        run_write_request(path, lambda: obstore.put(self._store, self._key(path), chunks))

    def put(self, path: str, data: bytes) -> None:
        """Write an object."""
        run_write_request(path, lambda: obstore.put(self._store, self._key(path), data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write an object unless it exists (`If-None-Match: *`)."""
        return create(self._store, self._key(path), data, path)

    def set_written(self, path: str, written: int) -> None:
        """Do nothing: the time of an object is when it was put."""

    def delete(self, path: str) -> None:
        """Delete an object; S3 does not report whether it existed, other services do."""
        self._delete_keys(path, [self._key(path)])

    def delete_each(self, paths: Sequence[str]) -> None:
        """Delete objects, a thousand per request where the service takes that."""
        for first in range(0, len(paths), KEYS_OF_A_DELETE):
            keys = [self._key(path) for path in paths[first : first + KEYS_OF_A_DELETE]]
            self._delete_keys(paths[first], keys)

    def move(self, path: str, target: str) -> bool:
        """Refuse: object stores have no directories."""
        raise NotImplementedError(f"{path} can't become {target}: object stores move no directories")

    def exchange(self, path: str, other: str) -> bool:  # noqa: ARG002 - same signature as local directories
        """Return False: object stores have no directories."""
        return False

    def delete_below(self, path: str, keep: frozenset[str]) -> None:
        """Delete all objects below a prefix, in batches."""
        kept = {self._key(one) for one in keep}
        for listed in run_request(path, lambda: list(obstore.list(self._store, self._key(path)))):
            keys = [one["path"] for one in listed if one["path"] not in kept]
            if keys:
                self._delete_keys(path, keys)

    def _delete_keys(self, path: str, keys: Sequence[str]) -> None:
        try:
            run_request(path, lambda: obstore.delete(self._store, keys[0] if len(keys) == 1 else [*keys]))
        except FileNotFoundError as error:
            if self.scheme == "s3":  # It is the bucket that is absent.
                raise storage_error(path, error) from error
            # Others may be left.
            for key in keys if len(keys) > 1 else ():
                self._delete_keys(path, [key])

    def _identity(self, path: str) -> FileIdentity | None:
        found = self._head(path)
        if found is None:
            return None
        return FileIdentity(_written(found), found["size"], found["e_tag"] or "")

    def _exists(self, path: str) -> bool:
        return self._head(path) is not None

    def _head(self, path: str) -> "ObjectMeta | None":
        try:
            return run_request(path, lambda: obstore.head(self._store, self._key(path)))
        except FileNotFoundError:
            return None

    def _prefix(self, path: str) -> str:
        return "" if path == self._bucket else f"{self._key(path)}/"

    def _key(self, path: str) -> str:
        return path.removeprefix(f"{self._bucket}/")


def create(store: ObjectStore, key: str, data: bytes, path: str) -> bool:
    """Create a file unless it exists; return False if it does."""
    try:
        run_write_request(path, lambda: obstore.put(store, key, data, mode="create"))
    except (AlreadyExistsError, PreconditionError):
        return False
    return True


def run_write_request(path: str, request: Callable[[], object]) -> None:
    """Run a request that changes storage; errors other than "present" become an UnavailableError."""
    try:
        run_request(path, request)
    except FileNotFoundError as error:  # It is the bucket that is absent.
        raise storage_error(path, error) from error


def run_request(path: str, request: Callable[[], Answer]) -> Answer:
    """Run a request; errors other than "absent" and "present" become an UnavailableError."""
    try:
        return request()
    except (FileNotFoundError, AlreadyExistsError, PreconditionError):
        raise
    except (OSError, BaseError) as error:
        raise storage_error(path, error) from error


def storage_error(path: str, error: Exception) -> UnavailableError:
    """Return the error of a failed storage request."""
    reason = str(error).partition("\n")[0]
    return UnavailableError(
        f"Storage did not serve {path}: {reason}. Check that it is reachable and permitted, then retry"
    )


def _written(found: "ObjectMeta") -> int:
    """Return when an object was written, in nanoseconds since 1970."""
    return int(found["last_modified"].timestamp() * 1_000_000_000)
