"""What is known of a table between two looks at it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from memwal.regions.manifest import RegionManifest
from pipeline.jobs.lake import LakeTable
from pipeline.jobs.state import NoMemWalError, TableState
from pipeline.keeping.policy import RunPolicy

_SPREAD = 0.2
_SETTLED_SECONDS = 300.0


@dataclass(slots=True)
class KeptTable:
    """Used by one thread.

    Attributes:
        table: which one.
        failures: rounds in a row that ended with an error on it.
        paused_until: monotonic time before which it is left alone.
        cleaned_at: monotonic time when it was cleaned; None for never.
        settled: base version and manifests with which nothing was left to do; None where something was.
        settled_at: monotonic time when that was found out.
    """

    table: LakeTable
    failures: int = 0
    paused_until: float = 0.0
    cleaned_at: float | None = None
    settled: tuple[int, Mapping[str, RegionManifest]] | None = None
    settled_at: float = 0.0
    _known: Mapping[str, RegionManifest] = field(default_factory=dict)

    def look(self) -> TableState | None:
        """The table now, for a round trip or two where nothing has changed; None where it has no MemWAL.

        Raises:
            LanceGatewayError: it can't be read.
        """
        try:
            state = TableState.read(self.table, known=self._known)
        except NoMemWalError:
            return None
        self._known = {region_id: one.manifest for region_id, one in state.regions.items()}
        return state

    def is_settled(self, state: TableState, now: float) -> bool:
        """Whether nothing has happened to the table since nothing was left to do.

        After a while it is looked at all the same: logs grow without a manifest that tells of it.
        """
        if self.settled is None or now - self.settled_at >= _SETTLED_SECONDS:
            return False
        version, manifests = self.settled
        return version == state.version and manifests == self._known

    def settle(self, state: TableState, now: float) -> None:
        """Nothing is left to do."""
        self.settled = (state.version, self._known)
        self.settled_at = now

    def fail(self, policy: RunPolicy, now: float) -> float:
        """Leave the table alone for a while, longer each time; returns for how many seconds."""
        self.failures += 1
        self.settled = None
        pause: float = min(
            policy.first_pause_seconds * 2 ** (self.failures - 1), policy.longest_pause_seconds
        )
        # Several processes that fail on one table shall not come back together.
        pause *= random.uniform(1 - _SPREAD, 1)  # noqa: S311 - no secret
        self.paused_until = now + pause
        return pause

    def succeed(self) -> None:
        """The table is as it should be."""
        self.failures = 0
        self.paused_until = 0.0
