"""Schemas of a lake: directories of tables beside those of the schema `main`.

A directory below the root is a schema if a table is in it, or the mark that CREATE SCHEMA writes: object
stores keep no empty directories, and other programs may keep directories of their own in the root.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.storage.files import VERSIONS, Storage
from lance_gateway.memwal.storage.table_names import (
    CATALOG,
    MAIN_SCHEMA,
    TABLE_SUFFIX,
    TEMPORARY,
    VIEW_SUFFIX,
    is_temporary_schema,
)

MARK: Final = "_schema.json"
"""File that makes a directory a schema, even without a table."""
_MARK_TEXT: Final = b'{"made_by": "lance-gateway"}\n'
RESERVED_SCHEMAS: Final = frozenset(
    {MAIN_SCHEMA, "system", "information_schema", "pg_catalog", CATALOG, TEMPORARY}
)
"""Names that mean something else; a directory of such a name is not a schema."""
MAX_NAME_BYTES: Final = 255 - len(VIEW_SUFFIX)
"""File systems take no longer names, and a name has a suffix there."""
_HIDDEN: Final = (".", "_")
# Addresses of object stores are URLs to Lance, where these have a meaning of their own.
_IN_URLS: Final = frozenset("%?#")


def is_file_name(name: str) -> bool:
    """Return whether a name with a suffix can be that of a file or directory."""
    if not name or name in (".", "..") or len(name.encode()) > MAX_NAME_BYTES:
        return False
    return "/" not in name and "\0" not in name


@dataclass(frozen=True, slots=True)
class Schemas:
    """The schemas below a root directory besides `main`.

    Attributes:
        storage: the root directory.
    """

    storage: Storage

    def names(self) -> tuple[str, ...]:
        """Return the names of all schemas, sorted; asks storage once for each directory that may be one."""
        candidates = sorted(filter(self._may_be_schema, self.storage.directories()))
        found = self.storage.each(self.exists, candidates)
        return tuple(name for name, is_schema in zip(candidates, found, strict=True) if is_schema)

    def may_exist(self, schema: str) -> bool:
        """Return whether a schema can have a name; asks nothing of storage."""
        return schema == MAIN_SCHEMA or self._may_be_schema(schema)

    def exists(self, schema: str) -> bool:
        """Return whether a directory is a schema; `main` always is one."""
        if schema == MAIN_SCHEMA:
            return True
        if not self._may_be_schema(schema):
            return False
        if self.storage.is_local:  # where a list would look at each of the many files of other programs
            return self.storage.exists(f"{schema}/{MARK}")[0] or self._has_local_table(schema)
        return any(
            entry.name.endswith(TABLE_SUFFIX) if entry.is_dir else entry.name == MARK
            for entry in self.storage.list(schema)
        )

    def is_usable(self, name: str) -> bool:
        """Return whether a schema, table or view can have a name in this storage."""
        return is_file_name(name) and (self.storage.is_local or _IN_URLS.isdisjoint(name))

    def check_name(self, schema: str) -> None:
        """Refuse a name that no new schema can have.

        Raises:
            InvalidInputError: says why.
        """
        if schema in RESERVED_SCHEMAS or is_temporary_schema(schema):
            msg = f"{schema!r} can't be the name of a new schema, which has another meaning: choose another"
            raise InvalidInputError(msg)
        if not self._may_be_schema(schema) or any(not one.isprintable() for one in schema):
            msg = (
                f"{schema!r} can't be the name of a schema: names have 1 to {MAX_NAME_BYTES} bytes, no '/', "
                "no control characters, on object stores none of '%', '?' and '#', don't begin with a dot or "
                f"an underscore, and don't end with {TABLE_SUFFIX}"
            )
            raise InvalidInputError(msg)

    def create(self, schema: str) -> bool:
        """Mark a directory as a schema; return False if it has the mark already."""
        return self.storage.put_if_absent(f"{schema}/{MARK}", _MARK_TEXT)

    def drop(self, schema: str) -> None:
        """Remove the mark of a schema without tables, and its directory unless other files are in it."""
        self.storage.delete(f"{schema}/{MARK}")
        if self.storage.is_local and not self.storage.list(schema):
            self.storage.child(schema).delete_all()

    def _may_be_schema(self, name: str) -> bool:
        return (
            self.is_usable(name)
            and name not in RESERVED_SCHEMAS
            and not is_temporary_schema(name)
            and not name.startswith(_HIDDEN)
            and not name.endswith(TABLE_SUFFIX)
        )

    def _has_local_table(self, schema: str) -> bool:
        found = (name for name in self.storage.directories(schema) if name.endswith(TABLE_SUFFIX))
        return any(self.storage.exists(f"{schema}/{name}/{VERSIONS}")[0] for name in found)
