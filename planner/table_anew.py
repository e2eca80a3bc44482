"""Tables without the shortcut `kept_state`."""

from __future__ import annotations

import lance

from planner.base_table import BaseTable, FilesVanishedError
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
            shared.name, shared.storage, cache, shared.columns, shared.places, session, number=shared.number
        )
        self._shared = shared

    def base(self) -> BaseTable:
        """See `Table.base`.

        Raises:
            FilesVanishedError: another table has taken its place since the run was planned.
        """
        base = super().base()
        # Nothing was known here by which a table that was made anew could be told from the one before.
        if self._shared.base().place != base.place:
            msg = f"table {self.name!r} was made anew just now: run the query again"
            raise FilesVanishedError(msg)
        return base

    def own_tail(self, region_id: str) -> None:
        """Nothing: the rows are in the log, once the table's own writer has nothing left to write."""
        self._shared.own_tail(region_id)
