"""Tables and views under one root directory."""

from __future__ import annotations

import difflib
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import lance

from lance_gateway.memwal.errors import CorruptDataError, InvalidInputError, NotFoundError
from lance_gateway.memwal.storage.files import VERSIONS, Storage
from lance_gateway.memwal.storage.jobs import RunningJobs
from lance_gateway.memwal.storage.schemas import MAX_NAME_BYTES, Schemas
from lance_gateway.memwal.storage.table_names import (
    MAIN_SCHEMA,
    TABLE_SUFFIX,
    VIEW_SUFFIX,
    TableName,
    is_temporary_schema,
)
from lance_gateway.memwal.storage.time_limits import DEFAULT_LIMITS, StorageLimits
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.planner.tables.local.scratch import Scratch
from lance_gateway.planner.tables.local.temporary import TemporaryTables
from lance_gateway.planner.tables.shared.cache import SharedCache
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.sources.decoded_columns import DecodedColumns
from lance_gateway.planner.tables.sources.keys import KeyPlaces
from lance_gateway.planner.tables.state.extended_tables import ExtendedTable, Extension, extend_table
from lance_gateway.planner.tables.state.past.past_tables import PastTables
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.tables.state.table_state import create_session
from lance_gateway.planner.tables.state.views import View, locate_view

WRITING = WriteOptions()
CACHE_BYTES = 512 << 20
INDEX_CACHE_BYTES = 512 << 20
METADATA_CACHE_BYTES = 256 << 20
_PRIVATE_COLUMNS_SHARE = 4
"""Where columns are shared, those that are not take one part in so many of a process's own cache."""
READERS = 8
"""Threads that read regions and fragments; they mostly wait for storage or run outside the GIL."""


class Catalog:
    """lance-namespace's directory convention: ``<name>.lance`` is a table, ``<name>.view.sql`` a view.

    Those of other schemas than `main` are in a directory with the name of the schema. Names are `TableName`s;
    plain texts are read as `TableName.parse` does.

    Args:
        storage: the root directory.
        cache_bytes: budget for keys, visibility masks and columns of fresh rows, of all tables together.
        writing: how tables are written; None where they are only read.
        shared: what is kept for other processes as well; None where nothing is shared.
        temporary: the temporary tables of sessions.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        cache_bytes: int = CACHE_BYTES,
        writing: WriteOptions | None = WRITING,
        shared: SharedCache | None = None,
        temporary: TemporaryTables | None = None,
    ) -> None:
        self.storage = storage
        self.temporary = temporary or TemporaryTables()
        self._temporary_names: dict[str, frozenset[str]] = {}
        self.schemas = Schemas(storage)
        self.writing = writing
        self.shared = shared or SharedCache()
        # Masks cost more to make than columns cost to read: neither may push the other out. Columns that are
        # shared have a budget of their own.
        columns = max(cache_bytes // (2 if self.shared.files is None else _PRIVATE_COLUMNS_SHARE), 1)
        self.cache = ByteCache(cache_bytes - columns)
        self._columns = DecodedColumns(columns, self.shared)
        self.executor = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self._places = KeyPlaces(self.cache, self.executor, self.shared)
        self._session = lance.Session(
            index_cache_size_bytes=INDEX_CACHE_BYTES, metadata_cache_size_bytes=METADATA_CACHE_BYTES
        )
        self.past = PastTables()
        self.scratch = Scratch(storage)
        self.jobs = RunningJobs(storage)
        self._tables: dict[str, Table] = {}
        self._extended: dict[str, Table] = {}
        self._forgotten: set[str] = set()
        self._lock = threading.Lock()

    @staticmethod
    def open(
        root: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        cache_bytes: int = CACHE_BYTES,
        writing: WriteOptions | None = WRITING,
        limits: StorageLimits = DEFAULT_LIMITS,
        shared: SharedCache | None = None,
        temporary: TemporaryTables | None = None,
    ) -> Catalog:
        """Open a root directory.

        Args:
            root: its path or URI.
            storage_options: as pylance takes them.
            cache_bytes: of keys, masks and rows.
            writing: how tables are written; None where they are only read.
            limits: of requests to an object store.
            shared: what is kept for other processes as well; None where nothing is shared.
            temporary: the temporary tables of sessions.

        Raises:
            NotFoundError: there is no such directory.
        """
        storage = Storage.open(root, storage_options, limits)
        if not storage.exists("")[0] and not storage.list():
            msg = f"root {root!r} does not exist: give a directory or bucket prefix of <name>.lance tables"
            raise NotFoundError(msg)
        return Catalog(storage, cache_bytes=cache_bytes, writing=writing, shared=shared, temporary=temporary)

    @property
    def caches(self) -> Mapping[str, ByteCache]:
        """Caches by name: "rows" has keys, masks and rows of the WAL, "columns" decoded columns."""
        return {"rows": self.cache, "columns": self._columns.kept}

    @property
    def lance_cache_bytes(self) -> int:
        """Bytes of Lance's own caches of indexes and metadata."""
        sessions = {
            id(one): one for one in (self._session, *(table.session for table in self.list_open_tables()))
        }
        return sum(int(session.size_bytes()) for session in sessions.values())

    def list_open_tables(self) -> tuple[Table, ...]:
        """Return the tables that were opened so far, without I/O."""
        with self._lock:
            return tuple(self._tables.values())

    def close(self, timeout_seconds: float | None = None) -> Mapping[str, Sequence[str]]:
        """Flush acknowledged rows of all tables, and stop the reader threads.

        Args:
            timeout_seconds: for the flushes of all tables together; None as the options of writing say, each.

        Returns:
            Table -> regions that were not flushed; what was acknowledged is durable in their logs.
        """
        until = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        left: dict[str, Sequence[str]] = {}
        for table in self.list_open_tables():
            if table.name.is_temporary:
                table.abandon()
                continue
            regions = table.close(None if until is None else max(until - time.monotonic(), 0.0))
            if regions:
                left[table.name] = regions
        self.executor.shutdown(wait=False, cancel_futures=True)
        self.shared.close()
        self.scratch.close()
        self.temporary.close()
        return left

    def has_schema(self, schema: str) -> bool:
        """Return whether a schema exists, or is one of temporary tables."""
        return self.temporary.has_schema(schema) or self.schemas.exists(schema)

    def list_temporary(self, schema: str) -> frozenset[str]:
        """Return the names of temporary tables and views; the same object, unless one was made or dropped.

        Args:
            schema: of a session.
        """
        known = self._temporary_names.get(schema)
        if known is None:
            known = self._temporary_names[schema] = frozenset(name.table for name in self.names(schema))
        return known

    def drop_temporary(self, schema: str) -> None:
        """Remove the temporary tables and views of a session."""
        for table in self.list_open_tables():
            if table.name.schema == schema:
                self.forget(table.name)
        self.temporary.drop_schema(schema)
        self._temporary_names.pop(schema, None)

    def take_room(self, name: str, nbytes: int) -> None:
        """Take room for rows that a table is about to get; only temporary ones have a limit.

        Raises:
            ResourcesExhaustedError: there is none.
        """
        schema = TableName.parse(name).schema
        if is_temporary_schema(schema):
            self.temporary.take_room(schema, nbytes)

    def create_scratch(self, name: str) -> Storage:
        """Return a directory that is not there yet, from which a table of a name can be moved to its place.

        Raises:
            UnavailableError: the file system refuses it.
        """
        return (self.temporary if TableName.parse(name).is_temporary else self.scratch).create()

    def schema_names(self) -> tuple[str, ...]:
        """Return the names of all schemas, sorted; asks storage once for each directory that may be one."""
        return tuple(sorted((MAIN_SCHEMA, *self.schemas.names())))

    def table_names(self, schema: str | None = None) -> tuple[TableName, ...]:
        """Return the names of all tables of a schema, or of all schemas, sorted."""
        return self._list_names(schema, TABLE_SUFFIX, directories=True)

    def view_names(self, schema: str | None = None) -> tuple[TableName, ...]:
        """Return the names of all views of a schema, or of all schemas, sorted."""
        return self._list_names(schema, VIEW_SUFFIX, directories=False)

    def names(self, schema: str | None = None) -> tuple[TableName, ...]:
        """Return the names of all tables and views of a schema, or of all schemas, sorted."""
        return tuple(sorted({*self.table_names(schema), *self.view_names(schema)}))

    def has_table(self, name: str) -> bool:
        """Return whether a table of that name exists."""
        return self._find_table(name) is not None

    def table(self, name: str) -> Table:
        """Return the table of that name.

        Raises:
            NotFoundError: names the tables that come close.
        """
        found = self._find_table(name)
        if found is None:
            raise self._build_unknown_error(TableName.parse(name))
        return found

    def _find_table(self, name: str) -> Table | None:
        """Return the table of a name; None if there is none. Only unknown ones are looked for in storage."""
        known = self._tables.get(name)
        if known is not None:
            return known
        name = TableName.parse(name)
        root = self._find_storage(name.schema)
        if not self._is_usable(name) or not self._is_there(name, root):
            return None
        if name.is_temporary:
            self._forget_ended()
        with self._lock:
            return self._tables.setdefault(
                name,
                Table(
                    name,
                    root.child(name.directory),
                    self.cache,
                    self._columns,
                    self._places,
                    create_session() if name in self._forgotten else self._session,
                    self.writing,
                    take_room=partial(self.take_room, name),
                ),
            )

    def _is_there(self, name: TableName, root: Storage) -> bool:
        if root.is_local:
            return root.exists(f"{name.directory}/{VERSIONS}")[0]
        return name in self.table_names(name.schema)

    def open_extended(self, name: TableName, extension: Extension) -> Table:
        """Return the table of a name with columns that Lance computes.

        Raises:
            NotFoundError: as `table`.
        """
        plain, whole = self.table(name), extension.extend_name(name)
        known = self._extended.get(whole)
        if not (isinstance(known, ExtendedTable) and known.plain is plain):
            known = self._extended[whole] = extend_table(plain, extension)
        return known

    def locate_table(self, name: str) -> Storage:
        """Return the directory of the table with that name, whether it exists or not.

        Raises:
            InvalidInputError: no table can have that name.
        """
        self.check_name(name)
        parsed = TableName.parse(name)
        return self._find_storage(parsed.schema).child(parsed.directory)

    def check_name(self, name: str) -> None:
        """Refuse a name that no table or view can have.

        Raises:
            InvalidInputError: says why.
        """
        table = TableName.parse(name).table
        if not self._is_usable(name) or table.startswith(".") or any(not one.isprintable() for one in table):
            msg = (
                f"{table!r} can't be the name of a table or view: names have 1 to {MAX_NAME_BYTES} bytes, no "
                "'/', no control characters, on S3 none of '%', '?' and '#', and don't begin with a dot"
            )
            raise InvalidInputError(msg)

    def forget(self, name: str) -> None:
        """Drop the cached state of a table that was dropped or created under this name."""
        schema = TableName.parse(name).schema
        if is_temporary_schema(schema):
            self._temporary_names.pop(schema, None)
            self.temporary.measure_again()
        with self._lock:
            table = self._tables.pop(name, None)
            for extension in Extension:
                self._extended.pop(extension.extend_name(TableName.parse(name)), None)
            if table is not None and not table.name.is_temporary:
                self._forgotten.add(name)  # its files may have been read in the session of all others
        if table is not None:
            table.abandon()

    def view_sql(self, name: str) -> str | None:
        """Return the SELECT of a view; None if there is no such view."""
        view = self.view(name)
        return None if view is None else view.select

    def view(self, name: str) -> View | None:
        """Return a view; None if there is none of that name."""
        if not self._is_usable(name):
            return None
        path, parsed = locate_view(name), TableName.parse(name)
        storage = self._find_storage(parsed.schema)
        try:
            return View.decode(storage.read(path), is_temporary=parsed.is_temporary)
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            msg = f"view {name!r}: {storage.locate(path)} is not UTF-8 text: {error}"
            raise CorruptDataError(msg) from error

    def write_view(self, name: str, view: View, *, replaces: bool) -> bool:
        """Write a view; return False if it exists and is not to be replaced.

        Raises:
            InvalidInputError: no view can have that name.
        """
        self.check_name(name)
        path, data, schema = locate_view(name), view.encode(), TableName.parse(name).schema
        storage = self._find_storage(schema)
        is_written = True
        if replaces:
            storage.put(path, data)
        else:
            is_written = storage.put_if_absent(path, data)
        self._temporary_names.pop(schema, None)
        return is_written

    def drop_view(self, name: str) -> None:
        """Remove a view if it exists."""
        schema = TableName.parse(name).schema
        self._find_storage(schema).delete(locate_view(name))
        self._temporary_names.pop(schema, None)

    def _is_usable(self, name: str) -> bool:
        """Return whether a table or view may have a name, and be in its schema."""
        parsed = TableName.parse(name)
        return self.schemas.is_usable(parsed.table) and self._may_exist(parsed.schema)

    def _may_exist(self, schema: str) -> bool:
        return self.temporary.has_schema(schema) or self.schemas.may_exist(schema)

    def _find_storage(self, schema: str) -> Storage:
        """Return the directory that has a schema."""
        storage = self.temporary.storage if is_temporary_schema(schema) else None
        return storage or self.storage

    def _forget_ended(self) -> None:
        """Forget temporary tables that other processes have dropped, whose names nobody has again."""
        for table in self.list_open_tables():
            if table.name.is_temporary and not table.storage.exists(VERSIONS)[0]:
                self.forget(table.name)

    def _list_names(self, schema: str | None, suffix: str, *, directories: bool) -> tuple[TableName, ...]:
        schemas = self.schema_names() if schema is None else (schema,)
        list_names = partial(self._list_names_of, suffix, directories=directories)
        found = self.storage.each(list_names, schemas) if len(schemas) > 1 else map(list_names, schemas)
        return tuple(sorted(name for names in found for name in names))

    def _list_names_of(self, suffix: str, schema: str, *, directories: bool) -> tuple[TableName, ...]:
        found = self._list_entries(schema, suffix, directories=directories)
        storage = self._find_storage(schema)
        if not directories or not storage.is_local:
            return tuple(filter(self._is_usable, found))
        # A directory may be on its way to become a table, or be left of one; asking is cheap only here.
        are_tables = storage.exists(*(f"{name.directory}/{VERSIONS}" for name in found))
        return tuple(name for name, is_table in zip(found, are_tables, strict=True) if is_table)

    def _list_entries(self, schema: str, suffix: str, *, directories: bool) -> tuple[TableName, ...]:
        if not self._may_exist(schema):
            return ()
        return tuple(
            TableName(entry.name.removesuffix(suffix), schema)
            for entry in self._find_storage(schema).list("" if schema == MAIN_SCHEMA else schema)
            if entry.name.endswith(suffix) and entry.is_dir == directories and entry.name != suffix
        )

    def _build_unknown_error(self, name: TableName) -> NotFoundError:
        names = self.names(name.schema)
        close = difflib.get_close_matches(name, names, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(names) or 'none'}"
        return NotFoundError(f"table {name!r} does not exist in {self.storage.uri}: {hint}")
