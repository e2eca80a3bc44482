"""Tables under a root directory as jobs open them, and the consistent state of a table."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from importlib.metadata import version
from typing import Any, Concatenate, ParamSpec, TypeVar

import lance

from lance_gateway.memwal.base.index_details import MemWalIndexDetails, read_index_details
from lance_gateway.memwal.base.table_place import keep_in_place
from lance_gateway.memwal.creating import list_key_columns
from lance_gateway.memwal.errors import NotFoundError, PreconditionError, build_read_error, shorten_error
from lance_gateway.memwal.lance_errors import is_absent
from lance_gateway.memwal.regions.generation_numbers import check_generations
from lance_gateway.memwal.regions.manifest import (
    FlushedGeneration,
    RegionManifest,
    list_regions,
    read_latest_manifests,
)
from lance_gateway.memwal.storage.files import VERSIONS, Storage
from lance_gateway.memwal.storage.root_format import check_format
from lance_gateway.memwal.storage.schemas import Schemas
from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA, TABLE_SUFFIX, TableName

Arguments = ParamSpec("Arguments")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class LakeTable:
    """A table; can be sent to other processes, which open it again by `uri` and `options`."""

    name: TableName
    storage: Storage

    @staticmethod
    def at(uri: str, options: Mapping[str, str] | None = None) -> LakeTable:
        """Return the table in a directory, with the name that it has without a schema."""
        storage = Storage.open(uri, options)
        return LakeTable(TableName(storage.root.rsplit("/", 1)[-1].removesuffix(TABLE_SUFFIX)), storage)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without connections."""
        return _open_table, (self.name, self.uri, dict(self.options))

    @property
    def uri(self) -> str:
        """URI for pylance."""
        return self.storage.uri

    @property
    def options(self) -> Mapping[str, str]:
        """Storage options for pylance."""
        return self.storage.options

    def dataset(self, version: int | str | None = None) -> Any:  # noqa: ANN401 - lance types
        """Open the base table as a `lance.LanceDataset`.

        Args:
            version: number or tag; None for the newest.

        Raises:
            NotFoundError: the table or version does not exist.
            CorruptDataError: the manifest can't be read.
            UnavailableError: storage failed to answer.
        """
        try:
            return lance.dataset(self.uri, version=version, storage_options=dict(self.options) or None)
        except (ValueError, OSError) as error:
            reason = shorten_error(error)
            which = "" if version is None else f" version {version}"
            raise (
                NotFoundError
                if is_absent(error)
                else build_read_error(
                    f"table {self.name!r}:{which} in {self.uri} can't be opened: {reason}", error
                )
            ) from error

    def primary_key(self) -> tuple[str, ...]:
        """Return the key columns in key order; () without a primary key."""
        return list_key_columns(self.dataset().schema)


def keeps_in_place(
    job: Callable[Concatenate[LakeTable, Arguments], Outcome],
) -> Callable[Concatenate[LakeTable, Arguments], Outcome]:
    """Decorate a job whose first argument is the table that it commits to: nobody moves it meanwhile."""

    @wraps(job)
    def run(table: LakeTable, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Outcome:
        with keep_in_place(table.storage):
            return job(table, *args, **kwargs)

    return run


def _open_table(name: TableName, uri: str, options: Mapping[str, str]) -> LakeTable:
    return LakeTable(name, Storage.open(uri, options))


@dataclass(frozen=True)
class Lake:
    """A root directory by lance-namespace's convention: ``<name>.lance`` is a table.

    Tables of other schemas than `main` are in a directory with the name of the schema.
    """

    storage: Storage

    @staticmethod
    def open(root: str, options: Mapping[str, str] | None = None) -> Lake:
        """Open a root directory.

        Raises:
            NotFoundError: the directory does not exist.
            PreconditionError: a newer version has used it.
        """
        storage = Storage.open(root, options)
        if not storage.exists("")[0] and not storage.list():
            raise NotFoundError(
                f"root {root!r} does not exist: give a directory or bucket prefix of <name>.lance tables"
            )
        check_format(storage, version("lance-gateway"))
        return Lake(storage)

    def table_names(self) -> tuple[TableName, ...]:
        """Return the names of the tables of all schemas, sorted."""
        schemas = (MAIN_SCHEMA, *Schemas(self.storage).names())
        found = self.storage.each(self._list_names, schemas)
        return tuple(sorted(name for names in found for name in names))

    def tables(self, names: Iterable[str] = ()) -> tuple[LakeTable, ...]:
        """Return tables by name; all tables without names.

        Raises:
            NotFoundError: a table does not exist; suggests similar names.
        """
        return tuple(map(self.table, tuple(names) or self.table_names()))

    def table(self, name: str) -> LakeTable:
        """Return a table by name.

        Raises:
            NotFoundError: the table does not exist; suggests similar names.
        """
        parsed, schemas = TableName.parse(name), Schemas(self.storage)
        if schemas.is_usable(parsed.table) and schemas.may_exist(parsed.schema):
            storage = self.storage.child(parsed.directory)
            if storage.directories(VERSIONS) or storage.list(VERSIONS):
                return LakeTable(parsed, storage)
        close = difflib.get_close_matches(name, self.table_names(), n=3)
        hint = f": did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise NotFoundError(f"there is no table {parsed!r} in {self.storage.uri}{hint}")

    def _list_names(self, schema: str) -> list[TableName]:
        directories = self.storage.directories("" if schema == MAIN_SCHEMA else schema)
        names = (name.removesuffix(TABLE_SUFFIX) for name in directories if name.endswith(TABLE_SUFFIX))
        return [TableName(name, schema) for name in names]


class NoMemWalError(PreconditionError):
    """The table has no MemWAL."""


@dataclass(frozen=True, slots=True)
class RegionState:
    """The state of a region at a point in time.

    Attributes:
        manifest: newest manifest.
        merged: newest generation that the base table contains; 0 for none.
    """

    manifest: RegionManifest
    merged: int

    @property
    def region_id(self) -> str:
        """UUID in its usual text form."""
        return self.manifest.region_id

    @property
    def pending(self) -> tuple[FlushedGeneration, ...]:
        """Flushed generations that the base table lacks, oldest first."""
        return self.manifest.unmerged_generations(self.merged)

    @property
    def done(self) -> tuple[FlushedGeneration, ...]:
        """Merged generations that the manifest still lists, oldest first."""
        return self.manifest.merged(self.merged)


@dataclass(frozen=True, slots=True)
class TableState:
    """The state of a table at a point in time.

    Attributes:
        table: the table.
        version: version of the base table, read after the manifests: a merge in between loses no rows.
        details: the MemWAL index.
        regions: region id -> state, ascending by id, without regions that have no manifest yet.
    """

    table: LakeTable
    version: int
    details: MemWalIndexDetails
    regions: Mapping[str, RegionState]

    @staticmethod
    def read(table: LakeTable, *, known: Mapping[str, RegionManifest] | None = None) -> TableState:
        """Read the state of a table.

        Args:
            table: the table.
            known: manifests that were read before; unchanged regions cost one probe each.

        Raises:
            NotFoundError: the table does not exist.
            NoMemWalError: the table has no MemWAL.
        """
        # Manifests before the base version: this order must not change (ADR 5).
        manifests = read_latest_manifests(table.storage, list_regions(table.storage), cached=known or {})
        version = table.dataset().version
        details = read_index_details(table.storage, version)
        if details is None:
            raise NoMemWalError(
                f"table {table.name!r} has no MemWAL: turn it on through a gateway with ALTER TABLE "
                f"{table.name} SET (memwal = true, region_by = '..'), or with Lance's initialize_mem_wal()"
            )
        regions = {
            manifest.region_id: RegionState(manifest, details.newest_merged(manifest.region_id))
            for manifest in manifests
            if manifest is not None
        }
        return TableState(table, version, details, regions)

    def check_numbering(self) -> None:
        """Check that the generations of all regions are those that the base table counts.

        Raises:
            RegionMismatchError: the generations of a region are not.
        """
        manifests = [region.manifest for region in self.regions.values()]
        check_generations(
            self.table.storage, manifests, {one: region.merged for one, region in self.regions.items()}
        )
