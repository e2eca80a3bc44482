"""System tables that read the catalog table by table."""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from lance_gateway.memwal.base.versions import read_operation_name
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.access.visible_catalog import MOMENT, VisibleCatalog
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.past.branches import read_branches
from lance_gateway.planner.tables.state.past.tags import list_tags, read_tags

logger = logging.getLogger(__name__)

TABLE_FIELDS: Final = (pa.field("table_schema", pa.string()), pa.field("table_name", pa.string()))
"""The first columns of system tables, which tell the table that a row is about."""


@dataclass(frozen=True, slots=True)
class OfTables(ABC):
    """A system table with rows of each table; tables that can't be read are left out."""

    catalog: Catalog

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the columns."""

    def read(self, access: Access) -> pa.Table:
        """Return the rows of all tables that the principal sees."""
        visible = VisibleCatalog(self.catalog, access)
        rows: list[dict[str, Any]] = []
        for name in visible.table_names():
            try:
                place = {"table_schema": name.schema, "table_name": name.table}
                rows += [{**place, **row} for row in self._list_rows(name, visible)]
            except (LanceGatewayError, FileNotFoundError) as error:
                logger.warning("table %r is left out of a system table: %s", name, error)
        return pa.Table.from_pylist(rows, self.schema)

    @abstractmethod
    def _list_rows(self, name: TableName, visible: VisibleCatalog) -> Iterator[dict[str, Any]]:
        """Yield the rows of one table, without its name."""


def has_full_access(visible: VisibleCatalog, name: TableName) -> bool:
    """Return whether a principal may see how the rows of a table are stored."""
    access = visible.access.of(name)
    return visible.access.is_admin or (access is not None and access.is_unrestricted)


class Indexes(OfTables):
    """One row per index."""

    name = "indexes"
    schema = pa.schema(
        [
            *TABLE_FIELDS,
            ("index_name", pa.string()),
            ("type", pa.string()),
            ("columns", pa.list_(pa.string())),
            ("is_maintained", pa.bool_()),
            ("covered_fragments", pa.int64()),
            ("base_fragments", pa.int64()),
            ("changed_at_version", pa.int64()),
            ("details", pa.string()),
        ]
    )

    def _list_rows(self, name: TableName, visible: VisibleCatalog) -> Iterator[dict[str, Any]]:
        if not has_full_access(visible, name):
            return
        base = visible.table(name).base
        fragments = {fragment.fragment_id for fragment in base.fragments}
        details = base.details
        for index in base.indexes:
            yield {
                "index_name": index.name,
                "type": index.type,
                "columns": list(index.columns),
                "is_maintained": details is not None
                and (details.maintain_all_indexes or index.name in details.maintained_indexes),
                "covered_fragments": len(index.fragments & fragments),
                "base_fragments": len(fragments),
                "changed_at_version": index.changed_at,
                "details": json.dumps(index.details, default=str, sort_keys=True),
            }


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OPERATIONS = 256
"""The number of newest versions with an operation, since each costs a read."""


class Versions(OfTables):
    """One row per version that is kept."""

    name = "versions"
    schema = pa.schema(
        [
            *TABLE_FIELDS,
            ("version", pa.int64()),
            ("committed_at", MOMENT),
            ("tags", pa.list_(pa.string())),
            ("operation", pa.string()),
            ("rows", pa.int64()),
            ("is_latest", pa.bool_()),
        ]
    )

    def _list_rows(self, name: TableName, visible: VisibleCatalog) -> Iterator[dict[str, Any]]:
        base = visible.table(name).base
        tags = list_tags(base)
        shows_all = has_full_access(visible, name)
        for version in self.catalog.past.versions(base):
            row: dict[str, Any] = {
                "version": version.version,
                "committed_at": _EPOCH + timedelta(microseconds=version.committed_at),
                "tags": sorted(tag for tag, number in tags.items() if number == version.version),
                "is_latest": version.version == base.version,
            }
            if shows_all:
                row["rows"] = version.rows
                if version.version > base.version - _OPERATIONS:
                    row["operation"] = read_operation_name(base.dataset, version.version)
            yield row


class Tags(OfTables):
    """One row per tag, of all branches."""

    name = "tags"
    schema = pa.schema(
        [
            *TABLE_FIELDS,
            ("tag", pa.string()),
            ("branch", pa.string()),
            ("version", pa.int64()),
            ("created_at", MOMENT),
            ("updated_at", MOMENT),
        ]
    )

    def _list_rows(self, name: TableName, visible: VisibleCatalog) -> Iterator[dict[str, Any]]:
        for tag, at in sorted(read_tags(visible.table(name).base).items()):
            yield {
                "tag": tag,
                "branch": at.branch or "main",
                "version": at.version,
                "created_at": at.created_at,
                "updated_at": at.updated_at,
            }


class Branches(OfTables):
    """One row per branch, beside the versions of the table itself."""

    name = "branches"
    schema = pa.schema(
        [
            *TABLE_FIELDS,
            ("branch", pa.string()),
            ("parent", pa.string()),
            ("parent_version", pa.int64()),
            ("created_at", MOMENT),
        ]
    )

    def _list_rows(self, name: TableName, visible: VisibleCatalog) -> Iterator[dict[str, Any]]:
        for branch, one in sorted(read_branches(visible.table(name).base).items()):
            yield {"branch": branch, **one._asdict()}
