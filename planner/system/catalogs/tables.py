"""All tables of the catalogs, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from datafusion import SessionConfig, SessionContext

from lance_gateway.planner.system.catalogs.catalog_table import CatalogTable
from lance_gateway.planner.system.catalogs.information_schema import DATAFUSION_TABLES, INFORMATION_TABLES
from lance_gateway.planner.system.catalogs.pg_catalog import PG_TABLES
from lance_gateway.planner.system.catalogs.relations import INFORMATION_SCHEMA, PG_CATALOG

CATALOG_TABLES: Final[Mapping[str, Mapping[str, CatalogTable]]] = MappingProxyType(
    {INFORMATION_SCHEMA: INFORMATION_TABLES, PG_CATALOG: PG_TABLES}
)
"""Schema -> name -> table, without those that DataFusion fills."""


def name_leaf(table: CatalogTable) -> str:
    """Return the name that stands for a table in the text for DataFusion."""
    return f"{table.catalog}#{table.name}"


LEAVES: Final[Mapping[str, CatalogTable]] = MappingProxyType(
    {name_leaf(table): table for tables in CATALOG_TABLES.values() for table in tables.values()}
)
"""Name in the text for DataFusion -> table."""


@cache
def list_information_tables() -> Mapping[str, pa.Schema]:
    """Return name -> columns of the tables of information_schema, with those that DataFusion fills."""
    context = SessionContext(SessionConfig().with_information_schema(enabled=True))
    schemas = {
        name: context.sql(f"SELECT * FROM {INFORMATION_SCHEMA}.{name}").schema()  # noqa: S608 - constants
        for name in DATAFUSION_TABLES
    }
    return MappingProxyType(schemas | {name: table.schema for name, table in INFORMATION_TABLES.items()})
