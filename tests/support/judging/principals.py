"""Principals with access of their own, without a policy file."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import datafusion
import pyarrow as pa

from lance_gateway.planner.access.rights import TableAccess

ALL = TableAccess()


@dataclass(frozen=True, eq=False)
class Principal:
    """A principal with the given access to tables and views, and write access to some."""

    tables: Mapping[str, TableAccess] = field(default_factory=dict)
    user: str = "somebody"
    is_admin: bool = False
    writes: frozenset[str] = frozenset()

    def of(self, table: str) -> TableAccess | None:
        return self.tables.get(table)

    def can_write(self, table: str) -> bool:
        return table in self.writes

    def covers_schema(self, schema: str, *, to_write: bool = False) -> bool:
        return False


def create_principal(**tables: TableAccess) -> Principal:
    """Return a principal who sees these tables."""
    return Principal(tables)


def filter_visible(table: pa.Table, access: TableAccess) -> pa.Table:
    """Return the part of a table that an access shows, computed by DataFusion over rows in memory."""
    context = datafusion.SessionContext()
    frame = context.create_dataframe([table.to_batches()], name="everything")
    if access.row_filter is not None:
        frame = frame.filter(frame.parse_sql_expr(access.row_filter))
    columns = [
        frame.parse_sql_expr(access.masks.get(field.name, field.name)).cast(field.type).alias(field.name)
        for field in table.schema
        if field.name not in access.hidden_columns
    ]
    found = frame.select(*columns).to_arrow_table()
    return found.cast(pa.schema([table.schema.field(name) for name in found.schema.names]))


def replace_policy(path: Path, text: str) -> None:
    """Replace a policy file at once, as editors do; with a time of change that differs."""
    changed = path.with_suffix(".new")
    changed.write_text(text)
    before = path.stat().st_mtime_ns
    os.utime(changed, ns=(before + 1_000_000_000, before + 1_000_000_000))
    changed.replace(path)
