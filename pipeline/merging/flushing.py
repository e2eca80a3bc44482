"""Flushes logs whose owners are gone, so that merges find their rows."""

from __future__ import annotations

from dataclasses import dataclass

from lance_gateway.memwal.writing import flush_abandoned, forget_signs, is_abandoned
from lance_gateway.pipeline.jobs.lake import LakeTable, TableState
from lance_gateway.pipeline.jobs.runners import Progress, Runner, Threads, ignore_progress


@dataclass(frozen=True, slots=True)
class FlushReport:
    """The result of a job that flushes logs.

    Attributes:
        table: name of the table.
        regions: ids of the regions that were flushed.
    """

    table: str
    regions: tuple[str, ...]


def flush_logs(
    table: LakeTable,
    after_seconds: float,
    *,
    runner: Runner | None = None,
    progress: Progress = ignore_progress,
) -> FlushReport:
    """Flush the logs whose owners have shown no heartbeat for a while, or let go of them unflushed.

    Args:
        table: table with a MemWAL.
        after_seconds: since the last heartbeat, and since the last entry of the log.
        runner: flushes regions.
        progress: counts regions.

    Raises:
        NoMemWalError: the table has no MemWAL.
        LanceGatewayError: a log was not flushed; its rows are there as before.
    """
    state = TableState.read(table)
    state.check_numbering()
    flush = _Flush(table, state, after_seconds)
    with progress(f"look for abandoned logs of {table.name}", len(state.regions), "region") as advance:
        flushed = []
        for region_id in (runner or Threads()).run(flush, tuple(state.regions), name=f"flush {table.name}"):
            flushed += [] if region_id is None else [region_id]
            advance(1)
    forget_signs(table.storage)
    return FlushReport(table.name, tuple(sorted(flushed)))


@dataclass(frozen=True)
class _Flush:
    table: LakeTable
    state: TableState
    after_seconds: float

    def __call__(self, region_id: str) -> str | None:
        """Flush a region if it is abandoned; return its id, or None."""
        manifest, storage = self.state.regions[region_id].manifest, self.table.storage
        is_flushed = is_abandoned(storage, manifest, self.after_seconds) and flush_abandoned(
            self.table.name, storage, manifest
        )
        return region_id if is_flushed else None
