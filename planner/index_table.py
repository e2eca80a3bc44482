"""`system.indexes`: the indexes of each base table, and how much of it they cover."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from planner.catalog_listing import OfTables, in_full
from planner.visible_catalog import VisibleCatalog


class Indexes(OfTables):
    """One row per index."""

    name = "indexes"

    @property
    def schema(self) -> pa.Schema:
        """Columns."""
        return pa.schema(
            [
                ("table_name", pa.string()),
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

    def _rows(self, name: str, visible: VisibleCatalog) -> Iterator[dict[str, Any]]:
        if not in_full(visible, name):
            return
        base = visible.table(name).base()
        fragments = {one.fragment_id for one in base.fragments}
        details = base.details
        for index in base.indexes:
            yield {
                "table_name": name,
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
