"""How rows reach the process that owns their region: what the gateway puts in, so that no Flight is here."""

from __future__ import annotations

from typing import Protocol

from memwal.errors import UnavailableError
from memwal.writing.changes import Changes, WriteReceipt


class UnreachableError(UnavailableError):
    """Nobody answers at an owner's address, or who answers does not own the region: nothing was written."""


class Forwarder(Protocol):
    """Sends changes to the process that owns their region; safe to share between threads."""

    def forward(self, url: str, table: str, region_id: str, changes: Changes) -> WriteReceipt:
        """Have the owner write changes, durably.

        Args:
            url: of the owner, as its owner record says.
            table: name in the catalog.
            region_id: that all rows belong to.
            changes: of that region alone.

        Raises:
            UnreachableError: nothing was written, and the region may be claimed.
            OutcomeUnknownError: the connection broke while the rows were on their way.
            LanceGatewayError: the owner's own answer.
        """
