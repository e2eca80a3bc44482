"""`system.versions`: which versions of each base table can be read AS OF."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from planner.catalog_listing import OfTables, in_full
from planner.past_tables import tags_of
from planner.system_tables import MOMENT
from planner.visible_catalog import VisibleCatalog

logger = logging.getLogger(__name__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OPERATIONS = 256
"""Of so many newest versions it is told what made them: each costs a read."""


class Versions(OfTables):
    """One row per version that is kept."""

    name = "versions"

    @property
    def schema(self) -> pa.Schema:
        """Columns."""
        return pa.schema(
            [
                ("table_name", pa.string()),
                ("version", pa.int64()),
                ("committed_at", MOMENT),
                ("tags", pa.list_(pa.string())),
                ("operation", pa.string()),
                ("rows", pa.int64()),
                ("is_latest", pa.bool_()),
            ]
        )

    def _rows(self, name: str, visible: VisibleCatalog) -> Iterator[dict[str, Any]]:
        base = visible.table(name).base()
        tags = tags_of(base)
        shows_all = in_full(visible, name)
        for one in self.catalog.past.versions(base):
            row: dict[str, Any] = {
                "table_name": name,
                "version": one.version,
                "committed_at": _EPOCH + timedelta(microseconds=one.committed_at),
                "tags": sorted(tag for tag, version in tags.items() if version == one.version),
                "is_latest": one.version == base.version,
            }
            if shows_all:
                row["rows"] = one.rows
                if one.version > base.version - _OPERATIONS:
                    row["operation"] = _operation(base.dataset, one.version)
            yield row


def _operation(dataset: Any, version: int) -> str | None:  # noqa: ANN401 (lance types)
    """What made a version, in Lance's words; None where it is not recorded."""
    try:
        transaction = dataset.read_transaction(version)
    except (OSError, ValueError) as error:
        logger.info("the transaction of version %d can't be read: %s", version, error)
        return None
    return None if transaction is None else type(transaction.operation).__name__
