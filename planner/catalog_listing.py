"""What the system tables that describe a catalog have in common."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from memwal.errors import LanceGatewayError
from planner.access import Access
from planner.catalog import Catalog
from planner.visible_catalog import VisibleCatalog

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OfTables(ABC):
    """Reads table after table; one that can't be read hides no other."""

    catalog: Catalog

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Columns."""

    def read(self, access: Access) -> pa.Table:
        """Rows of all tables that the principal sees."""
        visible = VisibleCatalog(self.catalog, access)
        rows: list[dict[str, Any]] = []
        for name in visible.table_names():
            try:
                rows += self._rows(name, visible)
            except (LanceGatewayError, FileNotFoundError) as error:
                logger.warning("table %r is left out of a system table: %s", name, error)
        return pa.Table.from_pylist(rows, self.schema)

    @abstractmethod
    def _rows(self, name: str, visible: VisibleCatalog) -> Iterator[dict[str, Any]]:
        """Rows of one table."""


def in_full(visible: VisibleCatalog, name: str) -> bool:
    """Whether a principal may know how rows are stored that a policy might keep from it."""
    access = visible.access.of(name)
    return visible.access.is_admin or (access is not None and access.is_unrestricted)
