"""How backups lie in their place: files that several backups of a table share, and a list for each backup.

```
DEST/orders.backup/files/data/1101..b1.lance.17c8a..-3f2      a file of the table, by its path, time and size
DEST/orders.backup/20261125T164512.123456Z-5f0c1a2b.json      a backup: which of these files it consists of
DEST/sales/orders.backup/..                                   of the table sales.orders
```
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from lance_gateway.memwal.errors import CorruptDataError, InvalidInputError, NotFoundError, UnsupportedError
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.storage.schemas import Schemas
from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA, VIEW_SUFFIX, TableName

FORMAT: Final = 1
BACKUP_SUFFIX: Final = ".backup"
FILES: Final = "files"
_LIST_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file of a table, and its copy.

    Attributes:
        path: below the directory of the table.
        size: bytes.
        written: when, in nanoseconds since 1970.
    """

    path: str
    size: int
    written: int

    @property
    def stored_at(self) -> str:
        """Path of the copy: files of equal paths, sizes and times are one."""
        return f"{FILES}/{self.path}.{self.written:x}-{self.size:x}"


@dataclass(frozen=True, slots=True)
class Backup:
    """The list of a backup.

    Attributes:
        backup_id: identifies it among those of the table; ids are ordered by time.
        table: its name.
        taken_at: Unix time in seconds; what was acknowledged before is in it.
        version: newest version of the base table.
        manifests: region id -> version of the newest manifest.
        files: all files of the table.
        made_by: version of the program.
    """

    backup_id: str
    table: TableName
    taken_at: float
    version: int
    manifests: dict[str, int]
    files: tuple[CopiedFile, ...]
    made_by: str

    @property
    def num_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def encode(self) -> bytes:
        """Return the content of the list."""
        fields = asdict(self) | {"format": FORMAT, "files": [list(_astuple(file)) for file in self.files]}
        return json.dumps(fields).encode()

    @staticmethod
    def decode(data: bytes, source: str) -> Backup:
        """Read the content of a list.

        Args:
            data: the content.
            source: the file, for messages.

        Raises:
            UnsupportedError: a newer version of the program made it.
            CorruptDataError: it is not a list.
        """
        try:
            fields: dict[str, Any] = json.loads(data)
            form, made_by = fields.pop("format"), fields["made_by"]
            if form == FORMAT:
                fields["files"] = tuple(CopiedFile(*file) for file in fields["files"])
                fields["table"] = TableName.parse(fields["table"])
                return Backup(**fields)
        except (ValueError, TypeError, KeyError, AttributeError, InvalidInputError) as error:
            msg = f"{source} ({len(data)} bytes) is not a list of a backup: {error}. Restore an earlier one"
            raise CorruptDataError(msg) from error
        msg = (
            f"{source} has format {form}, made by lance-gateway {made_by}, and this version reads format "
            f"{FORMAT}: restore it with that version"
        )
        raise UnsupportedError(msg)


def open_place(place: Storage, table: TableName) -> Storage:
    """Return the directory of the backups of a table."""
    return place.child(f"{table.path}{BACKUP_SUFFIX}")


def list_schemas(place: Storage) -> tuple[str, ...]:
    """Return the names of schemas of which there are backups, `main` first."""
    found = (one for one in place.directories() if not one.endswith(BACKUP_SUFFIX))
    return (MAIN_SCHEMA, *sorted(filter(Schemas(place).may_exist, found)))


def list_backed_up(place: Storage) -> tuple[TableName, ...]:
    """Return the names of tables with backups, sorted."""
    return tuple(
        sorted(
            TableName(name.removesuffix(BACKUP_SUFFIX), schema)
            for schema in list_schemas(place)
            for name in place.directories("" if schema == MAIN_SCHEMA else schema)
            if name.endswith(BACKUP_SUFFIX)
        )
    )


def list_backup_ids(place: Storage, table: TableName) -> tuple[str, ...]:
    """Return the ids of the whole backups of a table, the newest last."""
    entries = open_place(place, table).list()
    return tuple(
        entry.name.removesuffix(_LIST_SUFFIX)
        for entry in entries
        if not entry.is_dir and entry.name.endswith(_LIST_SUFFIX)
    )


def read_backup(place: Storage, table: TableName, backup_id: str | None = None) -> Backup:
    """Read the list of a backup.

    Args:
        place: of the backups.
        table: name of the table.
        backup_id: of the backup; None for the newest.

    Raises:
        NotFoundError: there is no such backup; names those that there are.
        UnsupportedError: a newer version of the program made it.
        CorruptDataError: the list can't be read.
    """
    known = list_backup_ids(place, table)
    if not known:
        others = ", ".join(list_backed_up(place)) or "none"
        msg = f"there is no backup of table {table!r} in {place.uri}: it has backups of {others}"
        raise NotFoundError(msg)
    chosen = known[-1] if backup_id is None else backup_id
    if chosen not in known:
        msg = f"there is no backup {chosen!r} of table {table!r} in {place.uri}: there are {', '.join(known)}"
        raise NotFoundError(msg)
    directory, name = open_place(place, table), f"{chosen}{_LIST_SUFFIX}"
    return Backup.decode(directory.read(name), directory.locate(name))


def write_backup(place: Storage, backup: Backup) -> None:
    """Write the list of a backup, which is whole with that."""
    open_place(place, backup.table).put_if_absent(f"{backup.backup_id}{_LIST_SUFFIX}", backup.encode())


def list_small_files(root: Storage, schemas: Sequence[str], is_wanted: Callable[[str], bool]) -> list[str]:
    """Return the paths of files beside the tables of schemas, such as views."""
    return [
        entry.name if schema == MAIN_SCHEMA else f"{schema}/{entry.name}"
        for schema in schemas
        for entry in root.list("" if schema == MAIN_SCHEMA else schema)
        if not entry.is_dir and is_wanted(entry.name)
    ]


def is_view(name: str) -> bool:
    """Return whether a file is a view."""
    return name.endswith(VIEW_SUFFIX)


def _astuple(file: CopiedFile) -> tuple[str, int, int]:
    return file.path, file.size, file.written
