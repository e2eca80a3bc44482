"""The S3 backend of `memwal.storage.files.Storage`, and the identity of files."""

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import obstore
import pyarrow.fs
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import ObjectStore, S3Store

from memwal.errors import UnavailableError

if TYPE_CHECKING:
    from obstore import ObjectMeta

REQUESTS_IN_PARALLEL: Final = 16
KEYS_OF_A_DELETE: Final = 1000

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


class S3Backend:
    """The keys of one bucket."""

    scheme = "s3"
    identity_seconds = 1.0
    """How long an identity is taken for the file's own before it is asked for again."""

    def __init__(self, bucket: str, options: Mapping[str, str]) -> None:
        self._bucket = bucket
        self._filesystem = _open_arrow_filesystem(options)
        self._store = _open_object_store(bucket, options)
        # Two pools: a call made through the one may wait for probes made through the other.
        self._probes = ThreadPoolExecutor(REQUESTS_IN_PARALLEL, thread_name_prefix=f"probe-{bucket}")
        self._calls = ThreadPoolExecutor(REQUESTS_IN_PARALLEL, thread_name_prefix=f"calls-{bucket}")

    def read(self, path: str) -> bytes:
        """Return an object's bytes."""

        def read() -> bytes:
            with self._filesystem.open_input_file(path) as file:
                data: bytes = file.read()
                return data

        return run_request(path, read)

    def exists(self, paths: tuple[str, ...]) -> tuple[bool, ...]:
        """Check all paths in parallel."""
        if len(paths) == 1:
            return (self._exists(paths[0]),)
        return tuple(self._probes.map(self._exists, paths))

    def identities(self, paths: tuple[str, ...]) -> tuple[FileIdentity | None, ...]:
        """Return the entity tags and modification times."""
        return tuple(map(self._identity, paths))

    def list(self, path: str) -> tuple[Entry, ...]:
        """Return the objects and common prefixes below a prefix."""
        selector = pyarrow.fs.FileSelector(path, allow_not_found=True)
        directory = pyarrow.fs.FileType.Directory
        infos = run_request(path, lambda: self._filesystem.get_file_info(selector))
        entries = (
            Entry(info.base_name, info.type == directory, info.size or 0, info.mtime_ns or 0)
            for info in infos
        )
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def directories(self, path: str) -> tuple[str, ...]:
        """Return the last part of each common prefix below a prefix."""
        return tuple(entry.name for entry in self.list(path) if entry.is_dir)

    def files(self, path: str) -> Iterator[Entry]:
        """Yield all objects below a prefix, page by page."""
        prefix = f"{self._key(path)}/"
        pages = iter(obstore.list(self._store, prefix))
        while (page := run_request(path, lambda: next(pages, None))) is not None:
            for item in page:
                written = int(item["last_modified"].timestamp() * 1_000_000_000)
                name = item["path"].removeprefix(prefix)
                yield Entry(name, is_dir=False, size=item["size"], written=written)

    def each(self, function: Callable[[Item], Answer], items: Iterable[Item]) -> tuple[Answer, ...]:
        """Call a function for every item, several at a time."""
        return tuple(self._calls.map(function, items))

    def put(self, path: str, data: bytes) -> None:
        """Write an object."""
        run_write_request(path, lambda: obstore.put(self._store, self._key(path), data))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write an object unless it exists (`If-None-Match: *`)."""
        return create(self._store, self._key(path), data, path)

    def delete(self, path: str) -> None:
        """Delete an object; S3 does not report whether it existed."""
        run_write_request(path, lambda: obstore.delete(self._store, self._key(path)))

    def delete_each(self, paths: Sequence[str]) -> None:
        """Delete objects, a thousand per request."""
        for first in range(0, len(paths), KEYS_OF_A_DELETE):
            keys = [self._key(path) for path in paths[first : first + KEYS_OF_A_DELETE]]
            run_write_request(paths[first], functools.partial(obstore.delete, self._store, keys))

    def delete_below(self, path: str, keep: frozenset[str]) -> None:
        """Delete all objects below a prefix, in batches."""
        kept = {self._key(one) for one in keep}
        for listed in run_request(path, lambda: list(obstore.list(self._store, self._key(path)))):
            keys = [one["path"] for one in listed if one["path"] not in kept]
            if keys:
                run_write_request(path, functools.partial(obstore.delete, self._store, keys))

    def _identity(self, path: str) -> FileIdentity | None:
        found = self._head(path)
        if found is None:
            return None
        written = int(found["last_modified"].timestamp() * 1_000_000_000)
        return FileIdentity(written, found["size"], found["e_tag"] or "")

    def _exists(self, path: str) -> bool:
        return self._head(path) is not None

    def _head(self, path: str) -> "ObjectMeta | None":
        # Not through pyarrow.fs: for an absent key that asks a second time, whether it is a "directory".
        try:
            return run_request(path, lambda: obstore.head(self._store, self._key(path)))
        except FileNotFoundError:
            return None

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


def _open_arrow_filesystem(options: Mapping[str, str]) -> pyarrow.fs.FileSystem:
    scheme, _, endpoint = (_find_option(options, "endpoint", "endpoint_url") or "").rpartition("://")
    return pyarrow.fs.S3FileSystem(
        access_key=_find_option(options, "access_key_id"),
        secret_key=_find_option(options, "secret_access_key"),
        session_token=_find_option(options, "session_token", "token"),
        anonymous=_is_set(options, "skip_signature"),
        region=_find_option(options, "region", "default_region"),
        endpoint_override=endpoint or None,
        scheme=scheme or None,
        force_virtual_addressing=_is_set(options, "virtual_hosted_style_request"),
    )


def _open_object_store(bucket: str, options: Mapping[str, str]) -> S3Store:
    settings: dict[str, str | None] = {
        "endpoint": _find_option(options, "endpoint", "endpoint_url"),
        "access_key_id": _find_option(options, "access_key_id"),
        "secret_access_key": _find_option(options, "secret_access_key"),
        "token": _find_option(options, "session_token", "token"),
        "region": _find_option(options, "region", "default_region"),
    }
    return S3Store(
        bucket,
        config={key: value for key, value in settings.items() if value is not None},  # type: ignore[arg-type]
        virtual_hosted_style_request=_is_set(options, "virtual_hosted_style_request"),
        skip_signature=_is_set(options, "skip_signature"),
        client_options={"allow_http": _is_set(options, "allow_http")},
    )


def _find_option(options: Mapping[str, str], *names: str) -> str | None:
    """Return the first of these options, with or without "aws_", or else an environment variable."""
    spellings = [spelling for name in names for spelling in (f"aws_{name}", name)]
    given = {key.lower(): value for key, value in options.items()}
    for spelling in spellings:
        if spelling in given:
            return given[spelling]
    return next(
        (os.environ[f"AWS_{name.upper()}"] for name in names if f"AWS_{name.upper()}" in os.environ), None
    )


def _is_set(options: Mapping[str, str], name: str) -> bool:
    return (_find_option(options, name) or "").lower() in ("1", "true", "yes")
