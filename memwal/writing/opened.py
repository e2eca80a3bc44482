"""A table as writers know it: columns, key, regions, and whether it still is the same table."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import lance
import pyarrow as pa

from memwal.creating.columns import TABLE_ID, key_columns, not_null_columns
from memwal.errors import InvalidInputError, NotFoundError, PreconditionError, UnavailableError
from memwal.index_details import MemWalIndexDetails, read_index_details
from memwal.layout import base_manifest_paths
from memwal.storage import FileIdentity, Storage
from memwal.writing.bucket_reading import bucket_reading
from memwal.writing.regions import Regions, RoutedRows
from memwal.writing.rows import cast, conformed, entry_schema


@dataclass(eq=False)
class _Watched:
    """A file by which the table is known, and when it was looked at last."""

    path: str
    identity: FileIdentity | None
    looked_at: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, eq=False)
class OpenTable:
    """One base version of a table, with which writers are opened.

    Attributes:
        name: of the table, for messages.
        storage: directory of the table.
        dataset: the `lance.LanceDataset`.
        schema: columns of the table.
        field_ids: Lance field id by column.
        key: columns of the primary key; empty where the table has none.
        required: columns in which NULL is refused.
        details: MemWAL index.
        regions: which rows are where.
    """

    name: str
    storage: Storage
    dataset: Any
    schema: pa.Schema
    field_ids: Mapping[str, int]
    key: tuple[str, ...]
    required: tuple[str, ...]
    details: MemWalIndexDetails
    regions: Regions
    watched: _Watched

    @staticmethod
    def open(name: str, storage: Storage, session: Any = None) -> OpenTable:  # noqa: ANN401 (lance types)
        """Open the newest version.

        Raises:
            NotFoundError: there is no such table.
            PreconditionError: it takes no streaming writes.
            UnavailableError: storage failed to answer.
        """
        try:
            dataset = lance.dataset(
                storage.uri, session=session, storage_options=dict(storage.options) or None
            )
        except (OSError, ValueError) as error:
            if "not found" in str(error).lower():
                msg = f"table {name!r} does not exist at {storage.uri}"
                raise NotFoundError(msg) from error
            msg = f"table {name!r} can't be opened for writing: {error}"
            raise UnavailableError(msg) from error
        watched = _watched(storage, dataset.version)
        details = read_index_details(storage, dataset.version)
        if details is None:
            msg = (
                f"table {name!r} has no MemWAL, so it takes no streaming writes: "
                f"ALTER TABLE {name} SET (memwal = true, region_by = '...') gives it one"
            )
            raise PreconditionError(msg)
        schema = dataset.schema
        key = key_columns(schema)
        spec = max(details.region_specs, key=lambda one: one.spec_id, default=None)
        field_ids = {one.name(): one.id() for one in dataset.lance_schema.fields()}
        regions = Regions(
            storage,
            spec,
            bucket_reading(storage, spec),
            table_id=(schema.metadata or {}).get(TABLE_ID, b"").decode(),
            keyed=bool(key),
            merged=lambda: _merged_now(storage, dataset),
        )
        required = not_null_columns(schema)
        return OpenTable(name, storage, dataset, schema, field_ids, key, required, details, regions, watched)

    @cached_property
    def written(self) -> Any:  # noqa: ANN401 (lance types)
        """The dataset as Lance's writers take it.

        They flush into datasets below its URI, so that must not be one of a DynamoDB table, which knows
        nothing of them.
        """
        if not self.storage.committed_by:
            return self.dataset
        options = dict(self.storage.options)
        return lance.dataset(self.storage.files_uri, version=self.dataset.version, storage_options=options)

    @cached_property
    def key_schema(self) -> pa.Schema:
        """Key columns, in key order."""
        return pa.schema([self.schema.field(name) for name in self.key])

    @cached_property
    def entry_schema(self) -> pa.Schema:
        """Columns of WAL entries."""
        ids = [self.field_ids[name] for name in self.schema.names]
        return entry_schema(self.schema, ids, keyed=bool(self.key))

    @cached_property
    def _names(self) -> Mapping[int, str]:
        return {field_id: name for name, field_id in self.field_ids.items()}

    def is_there(self) -> bool:
        """Whether the table is still the one that was opened: it may have been dropped, or made anew.

        Costs little; on S3 it is asked once a second.

        Raises:
            UnavailableError: storage failed to answer.
        """
        watched = self.watched
        if watched.identity is None:
            return False
        trusted = self.storage.backend.identity_seconds
        if not trusted:
            return self.storage.identity(watched.path) == watched.identity
        with watched.lock:  # One looks for all who wait.
            now = time.monotonic()
            if now - watched.looked_at < trusted:
                return True
            if self.storage.identity(watched.path) != watched.identity:
                return False
            watched.looked_at = now
            return True

    def writes_as(self, other: OpenTable) -> bool:
        """Whether writers opened with either do the same, and rows go to the same regions."""
        return bool(
            self.schema.equals(other.schema, check_metadata=True)
            and self.field_ids == other.field_ids
            and self.details.region_specs == other.details.region_specs
            and self.details.maintained_indexes == other.details.maintained_indexes
            and other.is_there()
        )

    def is_older(self, other: OpenTable) -> bool:
        """Whether the other has been opened later, with other columns."""
        return self is not other and bool(
            other.dataset.version > self.dataset.version and not self.schema.equals(other.schema)
        )

    def upserts(self, rows: pa.Table, *, fill: bool = False) -> pa.Table:
        """Rows as the region writers take them.

        Raises:
            InvalidInputError: they don't fit the table's columns.
        """
        return conformed(rows, self.schema, self.required, self.name, fill=fill)

    def deletes(self, rows: pa.Table) -> pa.Table:
        """Keys as the region writers take them.

        Raises:
            PreconditionError: the table has no key.
            InvalidInputError: key columns are missing, or don't fit.
        """
        if not self.key:
            msg = f"table {self.name!r} has no primary key, so rows of it can't be deleted one by one"
            raise PreconditionError(msg)
        missing = [name for name in self.key if name not in rows.column_names]
        if missing:
            msg = f"deleting from table {self.name!r} needs key columns {', '.join(self.key)}"
            raise InvalidInputError(msg)
        return conformed(rows.select(list(self.key)), self.key_schema, self.key, self.name)

    def routed(self, rows: pa.Table) -> RoutedRows:
        """The regions of rows, or of keys.

        Raises:
            InvalidInputError: columns are missing that the regions follow from.
            PreconditionError: see `Regions.route`.
        """
        columns = {}
        for source in self.regions.source_ids:
            name = self._names.get(source, "")
            if not name:
                msg = (
                    f"table {self.name!r}: its region spec names a column that was dropped (field id "
                    f"{source}), so no row can be assigned to a region: restore a version that has it"
                )
                raise PreconditionError(msg)
            if name not in rows.column_names:
                msg = f"table {self.name!r}: the region of a row follows from column {name!r}: give it too"
                raise InvalidInputError(msg)
            column = rows.column(name)
            kind = self.schema.field(name).type
            if column.type != kind:
                # The hash of a value is another in another type.
                column = cast(column, kind, name, self.name)
            columns[source] = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        return self.regions.route(columns, rows.num_rows)


def _merged_now(storage: Storage, dataset: Any) -> Mapping[str, int]:  # noqa: ANN401 (lance types)
    """Newest generation by region that the newest base version contains."""
    try:
        version = dataset.latest_version
    except (OSError, ValueError) as error:
        raise UnavailableError(f"the newest version of {storage.uri} can't be found: {error}") from error
    details = read_index_details(storage, version)
    return {} if details is None else details.merged_generations


def _watched(storage: Storage, version: int) -> _Watched:
    for path in base_manifest_paths(version):
        identity = storage.identity(path)
        if identity is not None:
            return _Watched(path, identity, time.monotonic())
    return _Watched(base_manifest_paths(version)[0], None)
