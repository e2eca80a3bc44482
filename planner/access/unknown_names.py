"""Errors about names that a principal does not see."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Final, Protocol

from lance_gateway.memwal.errors import UnknownNameError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.sql.text.tokens import fold
from lance_gateway.planner.tables.state.extended_tables import split_extension

_FILE: Final = re.compile(r"/|\.(?:parquet|csv|tsv|json|jsonl|ndjson|arrow|feather|orc)\b", re.IGNORECASE)


class SchemaNames(Protocol):
    """The tables and views of one schema or of all."""

    def names(self, schema: str | None = None) -> Sequence[TableName]:
        """Return the names of tables and views."""

    def has_schema(self, schema: str) -> bool:
        """Return whether a schema exists."""


def unknown_name_error(name: str, known: SchemaNames) -> UnknownNameError:
    """Return the error for a table, or its schema, that does not exist."""
    parsed = TableName.parse(name)
    if not known.has_schema(parsed.schema):
        return unknown_schema_error(parsed.schema)
    return unknown_table_error(parsed, known.names(parsed.schema))


def unknown_schema_error(schema: str) -> UnknownNameError:
    """Return the error for a schema that does not exist for the principal."""
    return UnknownNameError(
        f"Schema {schema!r} does not exist: CREATE SCHEMA makes one, and tables without one are in 'main'"
    )


def unknown_table_error(name: str, names: Sequence[str]) -> UnknownNameError:
    """Return the error for a table that does not exist, with similar names.

    Args:
        name: of the table.
        names: all tables and views that exist for the principal.
    """
    name, names = split_extension(name)[0], sorted(names)
    if _FILE.search(name):
        way = "load the file with `lance-gateway pipeline ingest`, or by bulk ingestion from a client"
        return UnknownNameError(f"Table {name!r} does not exist. Statements cannot read files: {way}")
    if not names:
        return UnknownNameError(f"Table {name!r} does not exist; there are no tables yet")
    near = [other for other in names if fold(other) == fold(name)]
    if near and near[0] != fold(near[0]):
        hint = f'; write "{near[0]}" in double quotes, since unquoted names are lower-cased'
    else:
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    listed = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return UnknownNameError(
        f"Table {name!r} does not exist{hint} (tables and views: {listed})".replace("?; ", "? ")
    )
