"""Principals with access of their own, without a policy file."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.access import TableAccess

ALL = TableAccess()


@dataclass(frozen=True, eq=False)
class Principal:
    """Sees the tables and views that are named, as is said of each, and writes some of them."""

    tables: Mapping[str, TableAccess] = field(default_factory=dict)
    user: str = "somebody"
    is_admin: bool = False
    writes: frozenset[str] = frozenset()

    def of(self, table: str) -> TableAccess | None:
        return self.tables.get(table)

    def may_write(self, table: str) -> bool:
        return table in self.writes


def seeing(**tables: TableAccess) -> Principal:
    """A principal who sees these tables."""
    return Principal(tables)
