"""Tables of information_schema that DataFusion fills in part, with what it does not know.

DataFusion's own rows are read first, in a context of their own, and keep their order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from datafusion import SessionContext

from memwal.base.comments import read_column_comment
from memwal.errors import LanceGatewayError
from memwal.rules import list_defaults, list_lengths
from planner.access.rights import Access
from planner.access.visible_catalog import VisibleCatalog
from planner.binding.information_schema import ADDED_TABLES, INFORMATION_SCHEMA
from planner.tables.state.catalog import CATALOG, SCHEMA

logger = logging.getLogger(__name__)

_TEXTS: Final = ("table_catalog", "table_schema", "table_name")
COMPLETED_SCHEMAS: Final[Mapping[str, pa.Schema]] = MappingProxyType(
    {
        "tables": pa.schema([(name, pa.string()) for name in (*_TEXTS, "table_type", "comment")]),
        "columns": pa.schema(
            [(name, pa.string()) for name in (*_TEXTS, "column_name")]
            + [
                ("ordinal_position", pa.uint64()),
                ("column_default", pa.string()),
                ("is_nullable", pa.string()),
                ("data_type", pa.string()),
                ("character_maximum_length", pa.uint64()),
                ("character_octet_length", pa.uint64()),
                ("numeric_precision", pa.uint64()),
                ("numeric_precision_radix", pa.uint64()),
                ("numeric_scale", pa.uint64()),
                ("datetime_precision", pa.uint64()),
                ("interval_type", pa.string()),
                ("comment", pa.string()),
            ]
        ),
    }
)
"""Name -> columns of a table that DataFusion fills in part."""


@dataclass(frozen=True, eq=False)
class InformationTable:
    """One table of information_schema, as a `SystemTable`.

    Attributes:
        name: "tables" or "columns".
        make_context: makes a context in which DataFusion lists all tables and views of the principal.
        catalog: as the principal sees it.
    """

    name: str
    make_context: Callable[[], SessionContext]
    catalog: VisibleCatalog

    @property
    def schema(self) -> pa.Schema:
        """Columns, as DataFusion has them, and comments."""
        return COMPLETED_SCHEMAS[self.name]

    def read(self, access: Access) -> pa.Table:  # noqa: ARG002 - that of the catalog
        """Return the rows."""

        def read_listed() -> list[dict[str, Any]]:
            sql = f"SELECT * FROM {INFORMATION_SCHEMA}.{self.name}"  # noqa: S608 - its own names
            rows: list[dict[str, Any]] = self.make_context().sql(sql).to_pylist()
            return rows

        # Never on the caller's thread: it may be one of DataFusion's own, and DataFusion, entered a second
        # time there, ends the process.
        with ThreadPoolExecutor(1, thread_name_prefix="information") as thread:
            rows = thread.submit(read_listed).result()
        rows = self._complete_columns(rows) if self.name == "columns" else self._complete_tables(rows)
        return pa.Table.from_pylist(rows, self.schema)

    def _complete_tables(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add comments, and the tables that DataFusion does not have."""
        own = [
            {**row, "comment": _read_comment(self.catalog, row["table_name"])}
            if row["table_schema"] == SCHEMA
            else row
            for row in rows
        ]
        return [*own, *_list_added_tables()]

    def _complete_columns(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add defaults, lengths and comments to the columns of tables."""
        names = {row["table_name"] for row in rows if row["table_schema"] == SCHEMA}
        rules = {name: _read_rules(self.catalog, name) for name in names}
        return [
            {**row, **rules[row["table_name"]].get(row["column_name"], {})}
            if row["table_schema"] == SCHEMA
            else row
            for row in rows
        ]


def _read_comment(catalog: VisibleCatalog, name: str) -> str | None:
    """Return the comment on a table or view; None if it can't be read."""
    try:
        return catalog.read_comment(name)
    except LanceGatewayError as error:
        logger.warning("table %r is listed without its comment: %s", name, error)
        return None


def _read_rules(catalog: VisibleCatalog, name: str) -> dict[str, dict[str, Any]]:
    """Return column -> values of information_schema that follow from its rules; {} for a view."""
    try:
        table = catalog.find(name)
        declared = None if table is None else table.declared_schema
    except LanceGatewayError as error:
        logger.warning("table %r is listed without its rules: %s", name, error)
        return {}
    if declared is None:
        return {}
    rules: dict[str, dict[str, Any]] = {
        column: {"column_default": default.expression} for column, default in list_defaults(declared).items()
    }
    for field in declared:
        comment = read_column_comment(field)
        if comment is not None:
            rules.setdefault(field.name, {})["comment"] = comment
    for column, length in list_lengths(declared).items():
        kind = declared.field(column).type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        key = "character_maximum_length" if is_text else "character_octet_length"
        rules.setdefault(column, {})[key] = length
    return rules


def _list_added_tables() -> list[dict[str, Any]]:
    place = {"table_catalog": CATALOG, "table_schema": INFORMATION_SCHEMA, "table_type": "VIEW"}
    return [{**place, "table_name": name} for name in ADDED_TABLES]
