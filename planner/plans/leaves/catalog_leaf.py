"""Tables of information_schema and pg_catalog as system tables, for the leaves of a plan."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.system.catalogs.catalog_table import CatalogTable
from lance_gateway.planner.system.catalogs.relations import Relations


@dataclass(frozen=True, eq=False)
class CatalogLeafTable:
    """One table of a catalog, as a `SystemTable`.

    Attributes:
        table: its columns, and how its rows are computed.
        relations: what the principal sees; tables of one statement share it.
    """

    table: CatalogTable
    relations: Relations

    @property
    def name(self) -> str:
        """Name within its schema."""
        return self.table.name

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return self.table.schema

    def read(self, access: Access) -> pa.Table:  # noqa: ARG002 - that of the relations
        """Return the rows."""
        return self.table.read(self.relations)
