"""The tables under a root directory, as jobs open them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import lance

from memwal.creating import key_columns
from memwal.errors import CorruptDataError, NotFoundError, brief
from memwal.storage.files import VERSIONS, Storage

_SUFFIX = ".lance"


@dataclass(frozen=True)
class LakeTable:
    """A table; small, and may be sent to other processes: they open it anew by `uri` and `options`.

    Attributes:
        name: in the lake.
        storage: its directory.
    """

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
            reason = brief(error)
            which = "" if version is None else f" version {version}"
            msg = f"table {self.name!r}:{which} in {self.uri} can't be opened: {reason}"
            raise (NotFoundError if "not found" in reason.lower() else CorruptDataError)(msg) from error

    def primary_key(self) -> tuple[str, ...]:
        """Key columns in key order; empty where the table declares none."""
        return key_columns(self.dataset().schema)


def _opened(name: str, uri: str, options: Mapping[str, str]) -> LakeTable:
    return LakeTable(name, Storage.open(uri, options))


@dataclass(frozen=True)
class Lake:
    """lance-namespace's directory convention: ``<name>.lance`` is a table.

    Attributes:
        storage: the root directory.
    """

    storage: Storage

    @staticmethod
    def open(root: str, options: Mapping[str, str] | None = None) -> Lake:
        """Open a root directory.

        Raises:
            NotFoundError: there is no such directory.
        """
        storage = Storage.open(root, options)
        if not storage.exists("")[0] and not storage.list():
            msg = f"root {root!r} does not exist: give a directory (or s3:// prefix) of <name>.lance tables"
            raise NotFoundError(msg)
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
        msg = f"there is no table {name!r} in {self.storage.uri}{hint}"
        raise NotFoundError(msg)
