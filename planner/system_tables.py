"""The schema `system`: tables whose rows tell about the gateway itself, made when a statement reads them."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from planner.access import Access

SYSTEM_SCHEMA = "system"

MOMENT = pa.timestamp("us", "UTC")
"""Type of moments in system tables."""


class SystemTable(Protocol):
    """One table of the schema."""

    @property
    def name(self) -> str:
        """Within the schema."""

    @property
    def schema(self) -> pa.Schema:
        """Its columns; the same for everybody."""

    def read(self, access: Access) -> pa.Table:
        """The rows that a principal may see, as they are now.

        Raises:
            LanceGatewayError: what they tell about can't be read.
        """
