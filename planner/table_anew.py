"""Tables without the shortcut `kept_state`."""

from __future__ import annotations

import lance

from planner.byte_cache import ByteCache
from planner.table import Table

ANEW_BYTES = 256 << 20
"""What one run may hold of a table's state."""


class TableAnew(Table):
    """A table of the catalog of which nothing is known: each run that has one reads everything from storage.

    Args:
        shared: the table of the catalog.
    """

    def __init__(self, shared: Table) -> None:
        cache, session = ByteCache(ANEW_BYTES), lance.Session()
        super().__init__(
            shared.name,
            shared.storage,
            cache,
            shared.columns,
            shared.places,
            session,
        )
        self._shared = shared

    def own_tail(self, region_id: str) -> None:
        """Nothing: the rows are in the log, once the table's own writer has nothing left to write."""
        self._shared.own_tail(region_id)
