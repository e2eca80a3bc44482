"""The base table at one version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import cached_property, partial
from typing import Any, Final

import lance
import pyarrow as pa

from lance_gateway.execnodes.search.source import IndexDescription
from lance_gateway.execnodes.storage.data_files import BasePath, Columns, Place, StoredFragment, list_bases
from lance_gateway.execnodes.storage.source import (
    LINEAGE,
    ColumnMapping,
    LanceSource,
    Origin,
    StoredColumn,
)
from lance_gateway.execnodes.storage.stored_dataset import StoredDataset, StoredSchema, StoredSchemas
from lance_gateway.memwal.base.index_details import (
    MOVED_ROWS_INDEX,
    SYSTEM_INDEXES,
    MemWalIndexDetails,
    list_merged_generations,
    read_base_manifest,
)
from lance_gateway.memwal.base.version_list import list_manifests
from lance_gateway.memwal.columns.blobs import open_for_reading
from lance_gateway.memwal.columns.stored_fields import StoredField
from lance_gateway.memwal.creating import list_key_columns, list_not_null_columns, table_exists
from lance_gateway.memwal.creating.columns import TABLE_ID
from lance_gateway.memwal.creating.key_index import FINDING_TYPES
from lance_gateway.memwal.errors import (
    CorruptDataError,
    LanceGatewayError,
    NotFoundError,
    UnavailableError,
    build_read_error,
    is_panic,
    is_storage_failure,
    shorten_error,
)
from lance_gateway.memwal.lance_errors import is_absent
from lance_gateway.memwal.rules import (
    ColumnDefault,
    Constraint,
    Identity,
    InitialValue,
    list_constraints,
    list_defaults,
    list_identities,
    list_initial_values,
    list_uuids,
)
from lance_gateway.memwal.storage.files import FileIdentity, Storage, base_manifest_paths
from lance_gateway.planner.tables.shared.names import find_origin
from lance_gateway.planner.tables.sources.read_together import TogetherReader

_SCALAR_INDEXES: Final = frozenset({"BTree", "Bitmap", "ZoneMap", "BloomFilter", "LabelList", "NGram"})


@dataclass(frozen=True, slots=True)
class DatasetIndex(IndexDescription):
    """One index of a dataset version, all of its segments together.

    Attributes:
        columns: names of the indexed columns, as stored; those of nested fields are dotted.
        fragments: ids of the fragments it covers; some of them may be gone.
        segments: ids of its segments, ascending.
        changed_at: dataset version at which the youngest segment was written.
    """

    columns: tuple[str, ...]
    fragments: frozenset[int]
    segments: tuple[str, ...]
    changed_at: int


def list_dataset_indexes(dataset: Any) -> tuple[DatasetIndex, ...]:  # noqa: ANN401 - lance types
    """Return the indexes on columns of a `lance.LanceDataset`, by name."""
    found = [_describe_index(one) for one in dataset.describe_indices() if one.name not in SYSTEM_INDEXES]
    return tuple(sorted(found, key=lambda index: index.name))


def has_moved_rows(dataset: Any) -> bool:  # noqa: ANN401 - lance types
    """Return whether files of indexes still name rows by where they lay before a compaction."""
    return any(one.name == MOVED_ROWS_INDEX for one in dataset.describe_indices())


def _describe_index(index: Any) -> DatasetIndex:  # noqa: ANN401 - lance types
    return DatasetIndex(
        index.name,
        index.index_type,
        index.details if isinstance(index.details, dict) else {},
        tuple(index.field_names),
        frozenset(fragment_id for segment in index.segments for fragment_id in segment.fragment_ids),
        tuple(sorted(segment.uuid for segment in index.segments)),
        max((segment.dataset_version_at_last_update for segment in index.segments), default=0),
    )


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """The file that holds the manifest of one version.

    Attributes:
        version: of the base table.
        path: below the table's directory.
        identity: of the file.
        following: path of the next version's manifest, once there is one.
    """

    version: int
    path: str
    identity: FileIdentity
    following: str

    @staticmethod
    def of(storage: Storage, version: int) -> ManifestFile | None:
        """Identify the manifest file of a version; return None if there is none.

        Raises:
            UnavailableError: storage failed to answer.
        """
        schemes = zip(base_manifest_paths(version), base_manifest_paths(version + 1), strict=True)
        for path, following in schemes:
            identity = storage.identity(path)
            if identity is not None:
                return ManifestFile(version, path, identity, following)
        return None

    def is_there(self, storage: Storage) -> bool:
        """Return whether the path still holds the same file.

        Raises:
            UnavailableError: storage failed to answer.
        """
        return storage.identity(self.path) == self.identity


@dataclass(frozen=True, slots=True)
class BaseVersion:
    """Cache key of a version of a base table.

    Attributes:
        place: the table.
        version: number.
    """

    place: Place
    version: int


@dataclass(frozen=True, eq=False)
class BaseTable:
    """Generation 0 of a table, pinned at one version.

    Attributes:
        name: in the catalog.
        storage: directory of the table.
        dataset: the `lance.LanceDataset` at `version`.
        version: of the dataset.
        stored: schema of the dataset.
        schema: Arrow schema of the table's columns, all nullable: a tombstone has nothing but its key.
        primary_key: key columns in key order; empty where the table declares none.
        details: MemWAL index, or None where the table has none.
        digest: of the manifest file, 16 bytes.
        place: names the table in caches.
        session: the `lance.Session` in which its files are opened.
        manifest: the manifest file; None where it was not looked at before the dataset was opened.
    """

    name: str
    storage: Storage
    dataset: Any
    version: int
    stored: StoredSchema
    schema: pa.Schema
    primary_key: tuple[str, ...]
    details: MemWalIndexDetails | None
    digest: bytes
    place: Place
    session: Any
    manifest: ManifestFile | None = None

    @cached_property
    def merged_generations(self) -> Mapping[str, int]:
        """Region id -> newest generation that the version contains."""
        return list_merged_generations(self.details)

    @cached_property
    def fragments(self) -> tuple[StoredFragment, ...]:
        """All fragments, in scan order."""
        return self.source.fragments.all

    @cached_property
    def field_names(self) -> Mapping[int, str]:
        """Lance field id -> top-level column name."""
        return {field.field_id: field.name for field in self.stored.fields}

    @property
    def declared_schema(self) -> pa.Schema:
        """The table's columns with what is declared of them; blobs are bytes."""
        return self.stored.arrow

    @cached_property
    def not_null_columns(self) -> frozenset[str]:
        """Names of the columns that must not be NULL, without those of the key."""
        return frozenset(list_not_null_columns(self.declared_schema))

    @cached_property
    def uuid_columns(self) -> frozenset[str]:
        """Columns of UUIDs, which are texts in small letters."""
        return frozenset(list_uuids(self.stored.arrow))

    @cached_property
    def lineage_columns(self) -> tuple[str, ...]:
        """Columns of row lineage that may be read beside those of the table; () without stable row ids."""
        if not self.dataset.has_stable_row_ids:
            return ()
        return tuple(name for name in LINEAGE if name not in self.schema.names)

    @cached_property
    def places_elsewhere(self) -> tuple[str, ...]:
        """Places outside of its directory that were added for its files; no directories of other tables."""
        bases = list_bases(self.dataset).values()
        return tuple(sorted(one.path for one in bases if not (one.is_dataset_root and self._is_table(one))))

    def _is_table(self, base: BasePath) -> bool:
        """Whether a base is the directory of a table, or can't be looked at."""
        try:
            return table_exists(Storage.open(base.path, self.storage.options))
        except (OSError, LanceGatewayError):
            return True

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """Named constraints, by name.

        Raises:
            CorruptDataError: one can't be read.
        """
        return list_constraints(self.name, self.dataset.config())

    @cached_property
    def defaults(self) -> Mapping[str, ColumnDefault]:
        """Column -> default, for columns that have one."""
        return list_defaults(self.declared_schema)

    @cached_property
    def table_id(self) -> bytes:
        """What tells the table from one that is recreated under its name; b"" for tables of others."""
        found: bytes = (self.dataset.schema.metadata or {}).get(TABLE_ID, b"")
        return found

    @cached_property
    def identities(self) -> Mapping[str, Identity]:
        """Column -> how it numbers its rows, for columns that do."""
        return list_identities(self.declared_schema)

    @cached_property
    def initial_values(self) -> Mapping[str, InitialValue]:
        """Column -> its value in rows that were written before it was added, where that is not NULL."""
        return list_initial_values(self.declared_schema)

    @cached_property
    def fragment_rows(self) -> dict[int, int]:
        """Fragment id -> physical rows."""
        return {fragment.fragment_id: fragment.physical_rows for fragment in self.fragments}

    @cached_property
    def physical_rows(self) -> int:
        """Number of stored rows, deleted ones included."""
        return sum(fragment.physical_rows for fragment in self.fragments)

    @cached_property
    def fingerprint(self) -> bytes:
        """Digest of the version's content, 16 bytes, equal in every process.

        It covers the manifest file and what was opened, in case the file was replaced in between.
        """
        opened = [
            (fragment.fragment_id, fragment.physical_rows, fragment.files.files, fragment.deletions)
            for fragment in self.fragments
        ]
        columns = [(field.field_id, field.name) for field in self.stored.fields]
        said = json.dumps([columns, opened], default=astuple)
        digest = hashlib.blake2b(self.digest, digest_size=16)
        digest.update(said.encode())
        return digest.digest()

    @cached_property
    def columns(self) -> Columns:
        """Cache key of the columns: two may swap their names, or one may get another type."""
        fields = self.field_names.items()
        return Columns.of((field_id, name, self.schema.field(name).type) for field_id, name in fields)

    @cached_property
    def key(self) -> Columns:
        """Cache key of the key columns, in key order."""
        by_name = {column[1]: column for column in self.columns.fields}
        return Columns.of(by_name[name] for name in self.primary_key)

    @cached_property
    def version_id(self) -> BaseVersion:
        """Cache key of the version."""
        return BaseVersion(self.place, self.version)

    @cached_property
    def source(self) -> LanceSource:
        """The base table as a source of rows."""
        columns = {field.name: StoredColumn(field.name, field.type) for field in self.schema}
        label = f"{self.name} base v{self.version}"
        return LanceSource(
            label,
            self.opened.dataset,
            self.schema,
            ColumnMapping(columns),
            self.place,
            self.find_origin(self.storage),
            self.opened,
        )

    @cached_property
    def opened(self) -> StoredDataset:
        """The dataset as it is read: its scans return the bytes of blobs."""
        return StoredDataset(open_for_reading(self.dataset, self.stored.blobs), self.place, self.stored)

    def find_origin(self, directory: Storage) -> Origin | None:
        """Return the origin of a dataset of the table; None if its files can't be told from others.

        Args:
            directory: of the dataset: the table's, or one below it.
        """
        manifest = self.manifest
        is_there = None if manifest is None else partial(manifest.is_there, self.storage)
        return find_origin(directory, self.table_id, is_there)

    @cached_property
    def generation_sources(self) -> dict[Hashable, LanceSource]:
        """Generations as sources on top of this version, by cache key."""
        return {}

    @cached_property
    def stored_schemas(self) -> StoredSchemas:
        """Schemas of the generations on top of this version."""
        return StoredSchemas()

    @cached_property
    def together(self) -> TogetherReader:
        """Reads small generations on top of this version."""
        return TogetherReader()

    @cached_property
    def indexes(self) -> tuple[DatasetIndex, ...]:
        """Its indexes, by name."""
        return list_dataset_indexes(self.dataset)

    def has_scalar_index(self, columns: Iterable[str]) -> bool:
        """Return whether an index may find the rows that a condition on some table columns holds for."""
        names = self.source.stored_names
        read = {(names[name],) for name in columns if name in names}
        return any(index.type in _SCALAR_INDEXES and index.columns in read for index in self.indexes)

    @cached_property
    def search_state(self) -> dict[Hashable, Any]:
        """State that searches keep with this version, by cache key."""
        return {}

    @cached_property
    def indexed_key_columns(self) -> tuple[str, ...]:
        """Columns of the primary key with an index that finds the rows of a value, in key order."""
        found = {index.columns for index in self.indexes if index.type in FINDING_TYPES}
        return tuple(name for name in self.primary_key if (name,) in found)

    @cached_property
    def key_index(self) -> bool:
        """Whether a BTREE index on a single-column primary key covers every fragment."""
        if len(self.primary_key) != 1:
            return False
        everything = {fragment.fragment_id for fragment in self.fragments}
        covered = {
            fragment_id
            for index in self.indexes
            if index.type == "BTree" and index.columns == self.primary_key
            for fragment_id in index.fragments
        }
        return everything <= covered

    @cached_property
    def fields_by_id(self) -> Mapping[int, pa.Field]:
        """Lance field id -> column."""
        return {field_id: self.schema.field(name) for field_id, name in self.field_names.items()}

    def map_stored_columns(self, stored: Iterable[StoredField]) -> ColumnMapping:
        """Map table columns to columns of another dataset or log entry, by field id."""
        by_id = {field.field_id: field for field in stored}
        columns = {
            name: StoredColumn(by_id[field_id].name, by_id[field_id].rename_children(self._names_by_id))
            for field_id, name in self.field_names.items()
            if field_id in by_id
        }
        return ColumnMapping(columns, self.initial_values)

    def find_stored_columns(self, schema: StoredSchema) -> ColumnMapping:
        """Map table columns to columns of another dataset; the same object for the same schema."""
        found = self._stored_columns.get(schema)
        if found is None:
            found = self._stored_columns[schema] = self.map_stored_columns(schema.fields)
        return found

    @cached_property
    def _stored_columns(self) -> dict[StoredSchema, ColumnMapping]:
        return {}

    @cached_property
    def _names_by_id(self) -> Mapping[int, str]:
        return {one.field_id: one.name for field in self.stored.fields for one in field.walk()}


def open_base_table(
    name: str,
    storage: Storage,
    version: int | None,
    session: Any,  # noqa: ANN401 - lance types
    place: Place | None = None,
    *,
    expected: int | None = None,
) -> BaseTable:
    """Open the base table.

    Args:
        name: in the catalog, for messages.
        storage: directory of the table.
        version: to pin; None is the newest.
        session: the `lance.Session` whose caches are shared.
        place: names the table in caches; by default, it is one that was not seen before.
        expected: the version that is probably the newest; its manifest is read in parallel.

    Raises:
        NotFoundError: there is no dataset.
        UnsupportedError: it has a feature that Lance can't read.
        CorruptDataError: its manifest can't be read.
        UnavailableError: storage failed to answer.
    """
    expected = version or expected
    reading = None if expected is None else storage.start(partial(read_base_manifest, storage, expected))
    try:
        options = dict(storage.options) or None
        dataset = lance.dataset(storage.uri, version=version, session=session, storage_options=options)
        stored = StoredSchema.of(dataset)
    except LanceGatewayError:
        raise
    except BaseException as error:
        # Lance panics over some broken files.
        if not (isinstance(error, ValueError | OSError) or is_panic(error)):
            raise
        reason = shorten_error(error)
        if is_absent(error):
            msg = f"table {name!r}: {storage.uri} is not a Lance dataset ({reason})"
            raise NotFoundError(msg) from error
        _check_readable(name, storage, version)
        which = "newest manifest" if version is None else f"manifest of version {version}"
        msg = f"table {name!r}: the {which} of {storage.uri} can't be read: {reason}"
        raise build_read_error(
            msg if is_storage_failure(error) else f"{msg}. Restore the file", error
        ) from error
    if reading is not None and dataset.version == expected:
        manifest = reading.result()
    else:
        manifest = read_base_manifest(storage, dataset.version)
    return BaseTable(
        name=name,
        storage=storage,
        dataset=dataset,
        version=dataset.version,
        stored=stored,
        schema=pa.schema([pa.field(field.name, field.type) for field in stored.arrow]),
        primary_key=list_key_columns(stored.arrow),
        details=manifest.details,
        digest=manifest.digest,
        place=place or Place.new(storage.uri),
        session=session,
    )


def _check_readable(name: str, storage: Storage, version: int | None) -> None:
    """Refuse a version, or the newest, that has a feature which Lance can't read."""
    with suppress(CorruptDataError, NotFoundError, UnavailableError):  # which Lance's error tells of
        newest = version or max(list_manifests(storage), default=0)
        read_base_manifest(storage, newest).check_readable(name)


class FilesVanishedError(UnavailableError):
    """Files were merged, compacted or cleaned up after the snapshot and before they were read."""


def build_scan_error(table: str, error: BaseException) -> LanceGatewayError:
    """Build the error of a failed read of a table."""
    reason = shorten_error(error)
    if is_absent(error):
        msg = f"table {table!r}: a file vanished while it was read ({reason}): run the query again"
        return FilesVanishedError(msg)
    return build_read_error(f"table {table!r} can't be read: {reason}", error)
