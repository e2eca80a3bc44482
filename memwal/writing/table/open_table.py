"""A table version as writers use it: columns, key, regions, and whether it is still the one that is there."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import lance
import pyarrow as pa

from lance_gateway.memwal.base.index_details import (
    MemWalIndexDetails,
    find_newest_details,
    read_base_manifest,
    read_newest_version,
)
from lance_gateway.memwal.base.table_mark import mark_table, read_table_mark
from lance_gateway.memwal.columns.blobs import build_plain_schema
from lance_gateway.memwal.columns.json_values import normalize_json
from lance_gateway.memwal.creating.columns import TABLE_ID, list_key_columns, list_not_null_columns
from lance_gateway.memwal.creating.tables import table_exists
from lance_gateway.memwal.errors import (
    InvalidInputError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
    UnsupportedError,
)
from lance_gateway.memwal.regions.region_ids import detect_bucket_hash
from lance_gateway.memwal.rules import (
    InitialValue,
    RowRules,
    list_initial_values,
    read_row_rules,
)
from lance_gateway.memwal.storage.files import VERSIONS, FileIdentity, Storage, base_manifest_paths
from lance_gateway.memwal.writing.table.conforming import build_entry_schema, cast_column, conform_rows
from lance_gateway.memwal.writing.table.regions import Regions, RoutedRows


@dataclass(eq=False)
class Watch:
    """Detects that a table was dropped or replaced, or lost its MemWAL; safe to share between threads.

    Attributes:
        name: of the table, for messages.
        storage: its directory.
        dataset: a `lance.LanceDataset` of it.
        mark: by which the table is known.
        details: the MemWAL index when it was opened.
        version: newest base version that was looked at.
        directory: of versions, before that was found to be the newest; None where there are no directories.
        looked_at: monotonic time.
        lock: one looks for all who wait.
    """

    name: str
    storage: Storage
    dataset: Any
    mark: FileIdentity
    details: MemWalIndexDetails
    version: int
    directory: FileIdentity | None
    looked_at: float
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_same(self) -> bool:
        """Return whether the table is the one that was opened and still has its MemWAL.

        It may have been dropped, recreated, or overwritten. Costs little; on S3 it is asked once a second.

        Raises:
            UnsupportedError: it got a feature that Lance can't write.
            UnavailableError: storage failed to answer.
        """
        trusted = self.storage.backend.identity_seconds
        if not trusted:
            # While nothing came to the directory, no version was committed. The time of a directory is
            # coarse, so the next version is looked for by its names as well.
            found = self.storage.identities(VERSIONS, *base_manifest_paths(self.version + 1))
            is_unchanged = self.directory is not None and found == (self.directory, None, None)
            return is_unchanged or self._has_same_mark()
        with self.lock:
            now = time.monotonic()
            if now - self.looked_at < trusted:
                return True
            if not self._has_same_mark():
                return False
            self.looked_at = now
            return True

    def _has_same_mark(self) -> bool:
        """Return whether the table has the same mark and its newest version the same region specs."""
        directory = identify_versions_directory(self.storage)
        if read_table_mark(self.storage) != self.mark:
            return False
        newest = read_newest_version(self.name, self.dataset)
        if newest != self.version:
            read_base_manifest(self.storage, newest).check_writable(self.name)
            found = find_newest_details(self.name, self.storage, self.dataset)
            if found is None or found.region_specs != self.details.region_specs:
                return False
        self.version, self.directory = newest, directory
        return True


def identify_versions_directory(storage: Storage) -> FileIdentity | None:
    """Return the identity of the versions directory; it changes with every commit. None on object stores."""
    return None if storage.backend.identity_seconds else storage.identity(VERSIONS)


_ATTEMPTS = 4


@dataclass(frozen=True, eq=False)
class OpenTable:
    """One version of a base table, as writers use it.

    Attributes:
        name: of the table, for messages.
        storage: directory of the table.
        dataset: the `lance.LanceDataset`.
        schema: columns of the table; blobs are bytes.
        field_ids: Lance field id by column.
        key: columns of the primary key; empty where the table has none.
        required: columns in which NULL is refused.
        rules: what else its rows must meet.
        details: MemWAL index.
        regions: which rows are where.
        watch: tells whether the table is still the one that was opened, and has its MemWAL.
    """

    name: str
    storage: Storage
    dataset: Any
    schema: pa.Schema
    field_ids: Mapping[str, int]
    key: tuple[str, ...]
    required: tuple[str, ...]
    rules: RowRules
    details: MemWalIndexDetails
    regions: Regions
    watch: Watch

    @staticmethod
    def open(name: str, storage: Storage, session: Any = None) -> OpenTable:  # noqa: ANN401 - lance types
        """Open the newest version.

        Raises:
            NotFoundError: there is no such table.
            PreconditionError: it takes no streaming writes.
            UnsupportedError: it has a feature that Lance can't write.
            UnavailableError: storage failed to answer.
        """
        mark = read_table_mark(storage)
        for _ in range(_ATTEMPTS):
            began, directory = time.monotonic(), identify_versions_directory(storage)
            try:
                dataset = _open_newest_dataset(name, storage, session)
                manifest = read_base_manifest(storage, dataset.version)
            except NotFoundError:
                if not table_exists(storage):
                    raise
                continue  # Another table has just taken its place (ADR 51).
            manifest.check_writable(name)
            details = manifest.details
            if details is None:
                raise _no_mem_wal_error(name)
            _check_one_spec(name, details)
            found = read_table_mark(storage)
            if found is not None and found == mark:
                break  # It was there before and after: what was opened is the table of that mark.
            if found is None:
                mark_table(storage)
                found = read_table_mark(storage)
            mark = found
        else:
            msg = f"table {name!r} is dropped and recreated while it is opened; retry"
            raise UnavailableError(msg)
        schema = build_plain_schema(dataset.schema)
        _check_lists(name, schema)
        key = list_key_columns(schema)
        spec = max(details.region_specs, key=lambda one: one.spec_id, default=None)
        field_ids = {field.name(): field.id() for field in dataset.lance_schema.fields()}
        regions = Regions(
            storage,
            spec,
            detect_bucket_hash(storage, spec),
            table_id=(schema.metadata or {}).get(TABLE_ID, b"").decode(),
            keyed=bool(key),
            details=details,
            newest=lambda: _read_newest_details(name, storage, dataset),
        )
        required = list_not_null_columns(schema)
        rules = read_row_rules(name, dataset)
        watch = Watch(name, storage, dataset, mark, details, dataset.version, directory, began)
        return OpenTable(
            name, storage, dataset, schema, field_ids, key, required, rules, details, regions, watch
        )

    @cached_property
    def writer_dataset(self) -> Any:  # noqa: ANN401 - lance types
        """The dataset for Lance's writers, without DynamoDB, which knows no generations."""
        if not self.storage.committed_by:
            return self.dataset
        options = dict(self.storage.options)
        return lance.dataset(self.storage.files_uri, version=self.dataset.version, storage_options=options)

    @cached_property
    def initial_values(self) -> Mapping[str, InitialValue]:
        """Column -> its value in rows that were written before it was added, where that is not NULL."""
        return list_initial_values(self.schema)

    @cached_property
    def key_schema(self) -> pa.Schema:
        """Key columns, in key order."""
        return pa.schema([self.schema.field(name) for name in self.key])

    @cached_property
    def entry_schema(self) -> pa.Schema:
        """Columns of WAL entries."""
        ids = [self.field_ids[name] for name in self.schema.names]
        return build_entry_schema(self.schema, ids, keyed=bool(self.key))

    @cached_property
    def _names(self) -> Mapping[int, str]:
        return {field_id: name for name, field_id in self.field_ids.items()}

    def is_equivalent(self, other: OpenTable) -> bool:
        """Return whether writers of both versions have the same schema, rules, region specs and indexes."""
        return bool(
            self.schema.equals(other.schema, check_metadata=True)
            and self.rules == other.rules
            and self.field_ids == other.field_ids
            and self.details.region_specs == other.details.region_specs
            and self.details.maintained_indexes == other.details.maintained_indexes
            and other.watch.is_same()
        )

    def is_older(self, other: OpenTable) -> bool:
        """Return whether the other version is newer and has other columns or rules."""
        return self is not other and bool(
            other.dataset.version > self.dataset.version
            and not (self.schema.equals(other.schema) and self.has_same_rules(other))
        )

    def has_same_rules(self, other: OpenTable) -> bool:
        """Return whether rows that meet the rules of one version meet those of the other."""
        return self.rules == other.rules and self.required == other.required

    def conform_upserts(self, rows: pa.Table, *, fill: bool = False) -> pa.Table:
        """Return rows with the columns and types of the table.

        Raises:
            InvalidInputError: they don't fit the table's columns, or violate one of its rules.
        """
        conformed = conform_rows(rows, self.schema, self.required, self.name, fill=fill)
        self.rules.check(conformed)
        return normalize_json(conformed)  # Rows must have the same texts before and after they are flushed.

    def conform_deletes(self, rows: pa.Table) -> pa.Table:
        """Return keys with the columns and types of the primary key.

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
        return conform_rows(rows.select(list(self.key)), self.key_schema, self.key, self.name)

    def route(self, rows: pa.Table) -> RoutedRows:
        """Return the regions of rows, or of keys.

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
                column = cast_column(column, kind, name, self.name)
            columns[source] = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        return self.regions.route(columns, rows.num_rows)


def _read_newest_details(name: str, storage: Storage, dataset: Any) -> MemWalIndexDetails:  # noqa: ANN401
    details = find_newest_details(name, storage, dataset)
    if details is None:
        raise _no_mem_wal_error(name)
    return details


def _no_mem_wal_error(name: str) -> PreconditionError:
    return PreconditionError(
        f"table {name!r} has no MemWAL, so it takes no streaming writes: "
        f"ALTER TABLE {name} SET (memwal = true, region_by = '...') gives it one"
    )


def _check_lists(name: str, schema: pa.Schema) -> None:
    """Refuse a table whose rows could be written and never be merged.

    Raises:
        UnsupportedError: a column is a list of fixed size of structs.
    """
    for column in schema:
        if pa.types.is_fixed_size_list(column.type) and pa.types.is_struct(column.type.value_type):
            msg = (
                f"table {name!r} takes no writes: column {column.name!r} is a list of fixed size whose "
                "elements are structs, which Lance can't read together with other columns, so rows could "
                "not be merged. Drop the column, or keep such values in a list"
            )
            raise UnsupportedError(msg)


def _check_one_spec(name: str, details: MemWalIndexDetails) -> None:
    """Refuse a table with several region specs, for which Lance opens no writer.

    Raises:
        UnsupportedError: it has several.
    """
    ids = [spec.spec_id for spec in details.region_specs]
    if len(ids) > 1:
        msg = (
            f"table {name!r} has several region specs ({', '.join(map(str, ids))}) and takes no writes: "
            f"Lance opens writers of tables with one. CREATE TABLE .. CLONE {name} WITH (region_by = '..') "
            "makes a table with one"
        )
        raise UnsupportedError(msg)


def _open_newest_dataset(name: str, storage: Storage, session: Any) -> Any:  # noqa: ANN401 - lance types
    try:
        return lance.dataset(storage.uri, session=session, storage_options=dict(storage.options) or None)
    except (OSError, ValueError) as error:
        if not any(True for _ in storage.list(VERSIONS)):
            msg = f"table {name!r} does not exist at {storage.uri}"
            raise NotFoundError(msg) from error
        msg = f"table {name!r} can't be opened for writing: {error}"
        raise UnavailableError(msg) from error
