"""The tables under a root directory as jobs open them, and one consistent look at a table."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import lance

from memwal.base.index_details import MemWalIndexDetails, read_index_details
from memwal.creating import list_key_columns
from memwal.errors import CorruptDataError, NotFoundError, PreconditionError, shorten_error
from memwal.regions.generation_numbers import check_generations
from memwal.regions.manifest import (
    FlushedGeneration,
    RegionManifest,
    list_regions,
    read_latest_manifests,
)
from memwal.storage.files import VERSIONS, Storage

_SUFFIX = ".lance"


@dataclass(frozen=True)
class LakeTable:
    """A table; small, and may be sent to other processes: they open it anew by `uri` and `options`."""

    name: str
    storage: Storage

    @staticmethod
    def at(uri: str, options: Mapping[str, str] | None = None) -> LakeTable:
        """The table in a directory, wherever it is."""
        storage = Storage.open(uri, options)
        return LakeTable(storage.root.rsplit("/", 1)[-1].removesuffix(_SUFFIX), storage)

    def __reduce__(self) -> tuple[object, ...]:
        """Connections stay here."""
        return _opened, (self.name, self.uri, dict(self.options))

    @property
    def uri(self) -> str:
        """What pylance takes."""
        return self.storage.uri

    @property
    def options(self) -> Mapping[str, str]:
        """Storage options, as pylance takes them."""
        return self.storage.options

    def dataset(self, version: int | str | None = None) -> Any:  # noqa: ANN401 (lance types)
        """The base table, a `lance.LanceDataset`.

        Args:
            version: number or tag; None is the newest.

        Raises:
            NotFoundError: there is no table, or it has no such version.
            CorruptDataError: its manifest can't be read.
        """
        try:
            return lance.dataset(self.uri, version=version, storage_options=dict(self.options) or None)
        except (ValueError, OSError) as error:
            reason = shorten_error(error)
            which = "" if version is None else f" version {version}"
            raise (
                NotFoundError
                if "not found" in reason.lower()
                else CorruptDataError(f"table {self.name!r}:{which} in {self.uri} can't be opened: {reason}")
            ) from error

    def primary_key(self) -> tuple[str, ...]:
        """Key columns in key order; empty where the table declares none."""
        return list_key_columns(self.dataset().schema)


def _opened(name: str, uri: str, options: Mapping[str, str]) -> LakeTable:
    return LakeTable(name, Storage.open(uri, options))


@dataclass(frozen=True)
class Lake:
    """lance-namespace's directory convention: ``<name>.lance`` is a table."""

    storage: Storage

    @staticmethod
    def open(root: str, options: Mapping[str, str] | None = None) -> Lake:
        """Open a root directory.

        Raises:
            NotFoundError: there is no such directory.
        """
        storage = Storage.open(root, options)
        if not storage.exists("")[0] and not storage.list():
            raise NotFoundError(
                f"root {root!r} does not exist: give a directory (or s3:// prefix) of <name>.lance tables"
            )
        return Lake(storage)

    def table_names(self) -> tuple[str, ...]:
        """All tables, sorted."""
        names = (name for name in self.storage.directories() if name.endswith(_SUFFIX))
        return tuple(sorted(name.removesuffix(_SUFFIX) for name in names))

    def tables(self, names: Iterable[str] = ()) -> tuple[LakeTable, ...]:
        """Tables by name; all of them where no name is given.

        Raises:
            NotFoundError: names the tables that come close.
        """
        return tuple(map(self.table, tuple(names) or self.table_names()))

    def table(self, name: str) -> LakeTable:
        """One table.

        Raises:
            NotFoundError: names the tables that come close.
        """
        if "/" not in name and name not in {"", ".", ".."}:
            storage = self.storage.child(f"{name}{_SUFFIX}")
            if storage.directories(VERSIONS) or storage.list(VERSIONS):
                return LakeTable(name, storage)
        close = difflib.get_close_matches(name, self.table_names(), n=3)
        hint = f": did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise NotFoundError(f"there is no table {name!r} in {self.storage.uri}{hint}")


class NoMemWalError(PreconditionError):
    """A plain table, which has no regions."""


@dataclass(frozen=True, slots=True)
class RegionState:
    """A region at one moment.

    Attributes:
        manifest: its newest manifest.
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
        """Generations that are still listed though the base table contains them, oldest first."""
        return self.manifest.merged(self.merged)


@dataclass(frozen=True, slots=True)
class TableState:
    """A table at one moment.

    Attributes:
        table: which one.
        version: of the base table, read after the manifests: a merge in between loses nothing.
        details: its MemWAL index.
        regions: region id -> state, ascending by id; regions whose manifest is not there yet are left out.
    """

    table: LakeTable
    version: int
    details: MemWalIndexDetails
    regions: Mapping[str, RegionState]

    @staticmethod
    def read(table: LakeTable, *, known: Mapping[str, RegionManifest] | None = None) -> TableState:
        """Look at a table.

        Args:
            table: which one.
            known: manifests that were read before; regions that have not changed cost one probe.

        Raises:
            NotFoundError: there is no such table.
            NoMemWalError: the table has no MemWAL.
        """
        # Manifests before the base version: this order must not change (ADR 5).
        found = read_latest_manifests(table.storage, list_regions(table.storage), cached=known or {})
        version = table.dataset().version
        details = read_index_details(table.storage, version)
        if details is None:
            raise NoMemWalError(
                f"table {table.name!r} has no MemWAL: turn it on through a gateway with ALTER TABLE "
                f"{table.name} SET (memwal = true, region_by = '..'), or with Lance's initialize_mem_wal()"
            )
        regions = {
            one.region_id: RegionState(one, details.newest_merged(one.region_id))
            for one in found
            if one is not None
        }
        return TableState(table, version, details, regions)

    def check_numbering(self) -> None:
        """Make sure that the generations of all regions are those that the base table counts.

        Raises:
            RegionMismatchError: those of one are not.
        """
        manifests = [region.manifest for region in self.regions.values()]
        check_generations(
            self.table.storage, manifests, {one: region.merged for one, region in self.regions.items()}
        )
