"""Runs the due jobs of all tables of a root, in rounds.

Logs whose owners are gone are flushed first, so that merges find their rows.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from lance_gateway.memwal.errors import LanceGatewayError, NotFoundError, PreconditionError, UnsupportedError
from lance_gateway.memwal.regions.manifest import RegionManifest
from lance_gateway.memwal.writing import flush_abandoned, forget_signs, is_abandoned
from lance_gateway.pipeline.cleaning import clean
from lance_gateway.pipeline.indexing import maintain
from lance_gateway.pipeline.jobs.lake import Lake, LakeTable, NoMemWalError, TableState
from lance_gateway.pipeline.jobs.progress import Track, ignore_job
from lance_gateway.pipeline.jobs.runners import Progress, Runner, Threads, format_count, ignore_progress
from lance_gateway.pipeline.keeping.policy import Policies, RunPolicy
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.snapshotting import snapshot


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


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step for a table.

    Attributes:
        what: description for people; empty if there was nothing to do.
        counts: numbers for logs and metrics.
        waits: whether the policy leaves work for later.
    """

    what: str = ""
    counts: Mapping[str, int] | None = None
    waits: bool = False


Step: TypeAlias = Callable[[LakeTable, Policies, Runner, Progress], StepResult]


def flush_step(table: LakeTable, policies: Policies, runner: Runner, progress: Progress) -> StepResult:
    """Flush logs whose owners are gone."""
    if not policies.run.flush:
        return StepResult()
    # In this process, whatever runs the other jobs: there are few such logs.
    del runner
    report = flush_logs(table, policies.run.flush_after_seconds, progress=progress)
    if not report.regions:
        return StepResult()
    count = len(report.regions)
    return StepResult(
        f"flushed the logs of {format_count(count, 'region')} without owner", {"regions": count}
    )


def merge_step(table: LakeTable, policies: Policies, runner: Runner, progress: Progress) -> StepResult:
    """Merge pending generations, if the policy says so."""
    report = merge(table, policies.merge, runner=runner, progress=progress)
    if not report.batches:
        return StepResult(waits=report.left > 0)
    counts = {"generations": report.generations, "upserted": report.upserted, "deleted": report.deleted}
    generations, regions = (
        format_count(report.generations, "generation"),
        format_count(report.regions, "region"),
    )
    rows = format_count(report.upserted, "row")
    return StepResult(
        f"merged {generations} of {regions}: {rows} upserted, {report.deleted:,} deleted", counts
    )


def index_step(table: LakeTable, policies: Policies, runner: Runner, progress: Progress) -> StepResult:
    """Update indexes and compact files, if the policy says so."""
    report = maintain(table, policies.index, runner=runner, progress=progress)
    if not report.reasons:
        return StepResult()
    counts = {
        "indexes": len(report.optimised) + len(report.retrained),
        "indexes_built": len(report.built),
        "fragments_removed": report.fragments_removed,
        "fragments_added": report.fragments_added,
    }
    names = ", ".join((*report.optimised, *report.retrained))
    actions = [f"built for the primary key: {', '.join(report.built)}"] if report.built else []
    if names:
        actions.append(f"brought up to date: {names}")
    if report.fragments_removed:
        actions.append(
            f"{format_count(report.fragments_removed, 'fragment')} became {report.fragments_added}"
        )
    return StepResult("; ".join(actions) or "; ".join(report.reasons), counts)


def snapshot_step(table: LakeTable, policies: Policies, _runner: Runner, progress: Progress) -> StepResult:
    """Commit a snapshot of regions, if they have changed and the last snapshot is old enough."""
    if not policies.run.snapshot or table.storage.committed_by:
        return StepResult()
    report = snapshot(table, policies.snapshot, progress=progress)
    if report.committed is None:
        return StepResult(waits=not report.is_current)
    counts = {"regions": report.regions, "hints": report.hints}
    return StepResult(f"remembered {format_count(report.regions, 'region')}", counts)


def clean_step(table: LakeTable, policies: Policies, runner: Runner, progress: Progress) -> StepResult:
    """Remove garbage."""
    report = clean(table, policies.clean, delete=True, runner=runner, progress=progress)
    if not report.garbage:
        return StepResult()
    counts = {"removed": len(report.garbage), "bytes": report.bytes}
    return StepResult(
        f"removed {format_count(len(report.garbage), 'thing')}, {format_count(report.bytes, 'byte')}", counts
    )


STEPS: Final[Mapping[str, Step]] = {
    "flush": flush_step,
    "merge": merge_step,
    "index": index_step,
    "snapshot": snapshot_step,
    "clean": clean_step,
}


_SPREAD = 0.2
_SETTLED_SECONDS = 300.0


@dataclass(slots=True)
class KeptTable:
    """A table and the state of its keeping; used by one thread.

    Attributes:
        table: the table.
        failures: number of consecutive rounds that failed on the table.
        refused: step -> why it can't be done until somebody changes the table.
        paused_until: monotonic time until which the table is skipped.
        cleaned_at: monotonic time of the last cleaning; None for never.
        settled: base version and manifests for which nothing was left to do; None if something was.
        settled_at: monotonic time when `settled` was set.
    """

    table: LakeTable
    failures: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    paused_until: float = 0.0
    cleaned_at: float | None = None
    settled: tuple[int, Mapping[str, RegionManifest]] | None = None
    settled_at: float = 0.0
    _known: Mapping[str, RegionManifest] = field(default_factory=dict)

    def read_state(self) -> TableState | None:
        """Read the state of the table, in few round trips if nothing has changed; None without MemWAL."""
        try:
            state = TableState.read(self.table, known=self._known)
        except NoMemWalError:
            return None
        self._known = {region_id: one.manifest for region_id, one in state.regions.items()}
        return state

    def is_settled(self, state: TableState, now: float) -> bool:
        """Whether the table has not changed since nothing was left to do.

        Expires after a while, since logs grow without changing a manifest.
        """
        if self.settled is None or now - self.settled_at >= _SETTLED_SECONDS:
            return False
        version, manifests = self.settled
        return version == state.version and manifests == self._known

    def settle(self, state: TableState, now: float) -> None:
        """Record that nothing is left to do."""
        self.settled = (state.version, self._known)
        self.settled_at = now

    def fail(self, policy: RunPolicy, now: float) -> float:
        """Record a failure, and skip the table for a time that grows with each; returns the seconds."""
        self.failures += 1
        self.settled = None
        pause: float = min(
            policy.first_pause_seconds * 2 ** (self.failures - 1), policy.longest_pause_seconds
        )
        # A random part keeps several processes from retrying at the same time.
        pause *= random.uniform(1 - _SPREAD, 1)  # noqa: S311 - no secret
        self.paused_until = now + pause
        return pause

    def succeed(self) -> None:
        """Record a round without failure."""
        self.failures = 0
        self.paused_until = 0.0


logger = logging.getLogger(__name__)


class KeepObserver(Protocol):
    """Observes the rounds of a keeper."""

    def on_step(self, table: str, step: str, done: StepResult | None, seconds: float) -> None:
        """Handle the end of a step; `done` is None if it failed."""

    def on_table(self, table: str, failures: int) -> None:
        """Handle the end of a table's round, with its number of consecutive failures."""

    def on_gone(self, table: str) -> None:
        """Handle the disappearance of a table."""

    def on_round(self, seconds: float) -> None:
        """Handle the end of a round."""


@dataclass(frozen=True, slots=True)
class Round:
    """The result of a round.

    Attributes:
        tables: names of the tables that were handled.
        did: number of steps that did something.
        failed: table -> error.
        paused: names of tables that were skipped after a recent failure.
    """

    tables: tuple[str, ...]
    did: int
    failed: Mapping[str, str]
    paused: tuple[str, ...]


class Keeper:
    """Maintains the tables of a root. Several processes may do so concurrently.

    Args:
        lake: the root.
        policies: policies of the jobs.
        names: names of the tables; () for all, also those created later.
        runner: runs the parts of jobs.
        track: shows jobs and their progress.
        observers: observe steps, tables and rounds.
        stop: event after which no step begins.
        steps: steps of a round, by name and in order.
        clock: monotonic clock in seconds.
    """

    def __init__(
        self,
        lake: Lake,
        policies: Policies,
        names: Collection[str] = (),
        *,
        runner: Runner | None = None,
        track: Track = ignore_job,
        observers: Collection[KeepObserver] = (),
        stop: threading.Event | None = None,
        steps: Mapping[str, Step] = STEPS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lake = lake
        self._policies = policies
        self._names = tuple(names)
        self._runner = runner or Threads()
        self._track = track
        self._observers = tuple(observers)
        self._stop = stop or threading.Event()
        self._steps = steps
        self._clock = clock
        self._kept: dict[str, KeptTable] = {}

    @property
    def tables(self) -> tuple[LakeTable, ...]:
        """Tables of the last round."""
        return tuple(kept.table for kept in list(self._kept.values()))

    def round(self, *, patient: bool = True) -> Round:
        """Run the due steps of all tables; the failure of a table does not affect others.

        A step that is refused, since the table must be changed first, does not affect the others either.

        Args:
            patient: whether to skip tables that failed recently.
        """
        began = self._clock()
        self._find_tables()
        failed: dict[str, str] = {}
        looked_at: list[str] = []
        paused = []
        did = 0
        for name, kept in list(self._kept.items()):
            if self._stop.is_set():
                break
            if patient and self._clock() < kept.paused_until:
                paused.append(name)
                continue
            looked_at.append(name)
            try:
                did += self._keep_table(kept)
                kept.succeed()
                if kept.refused:
                    failed[name] = "; ".join(kept.refused.values())
            except Exception as error:  # noqa: BLE001 - an error of one table must not stop the others
                if isinstance(error, NotFoundError) and name not in self._lake.table_names():
                    continue  # The table has been dropped; the next round removes it.
                failed[name] = self._handle_failure(kept, error)
            for observer in self._observers:
                observer.on_table(name, kept.failures + len(kept.refused))
        for observer in self._observers:
            observer.on_round(self._clock() - began)
        return Round(tuple(looked_at), did, failed, tuple(paused))

    def _find_tables(self) -> None:
        existing = self._lake.table_names()
        for name in [kept for kept in self._kept if kept not in existing]:
            del self._kept[name]
            logger.info("table %s is gone", name, extra={"table": name})
            for observer in self._observers:
                observer.on_gone(name)
        for name in existing:
            if name not in self._kept and (not self._names or name in self._names):
                with suppress(NotFoundError):  # The table is being created or dropped.
                    self._kept[name] = KeptTable(self._lake.table(name))

    def _keep_table(self, kept: KeptTable) -> int:
        """Run the due steps of a table, and return how many did something."""
        state = kept.read_state()
        is_settled = state is not None and kept.is_settled(state, self._clock())
        due = [
            step
            for step in self._steps
            if self._is_due(kept, step, has_mem_wal=state is not None, is_settled=is_settled)
        ]
        results = list(self._run(kept, due))
        is_idle = not any(result.what or result.waits for result in results)
        if state is not None and not self._stop.is_set() and is_idle:
            kept.settle(state, self._clock())
        return sum(bool(result.what) for result in results)

    def _is_due(self, kept: KeptTable, step: str, *, has_mem_wal: bool, is_settled: bool) -> bool:
        if step != "clean":
            return not is_settled and (has_mem_wal or step == "index")
        policy = self._policies.run
        if not policy.delete or not has_mem_wal:
            return False
        return kept.cleaned_at is None or self._clock() - kept.cleaned_at >= policy.clean_interval_seconds

    def _run(self, kept: KeptTable, steps: Collection[str]) -> Iterator[StepResult]:
        table = kept.table
        for name in steps:
            if self._stop.is_set():
                return
            began = self._clock()
            done: StepResult | None = None
            try:
                with self._track(name, table.name) as progress:
                    done = self._steps[name](table, self._policies, self._runner, progress)
                kept.refused.pop(name, None)
            except (PreconditionError, UnsupportedError) as error:
                self._note_refusal(kept, name, " ".join(str(error).split()))
            finally:
                for observer in self._observers:
                    observer.on_step(table.name, name, done, self._clock() - began)
            if name == "clean":
                kept.cleaned_at = self._clock()
            if done is None:
                continue
            if done.what:
                extra = {"table": table.name, "step": name, **(done.counts or {})}
                logger.info("table %s: %s", table.name, done.what, extra=extra)
            yield done

    def _note_refusal(self, kept: KeptTable, step: str, reason: str) -> None:
        """Log once that a step can't be done; the others go on, and so does the table."""
        if kept.refused.get(step) != reason:
            kept.refused[step] = reason
            extra = {"table": kept.table.name, "step": step}
            logger.warning("table %s: %s can't be done: %s", kept.table.name, step, reason, extra=extra)

    def _handle_failure(self, kept: KeptTable, error: Exception) -> str:
        """Log an error, and skip the table for a while; returns the reason."""
        pause = kept.fail(self._policies.run, self._clock())
        extra = {"table": kept.table.name, "failures": kept.failures, "pause_seconds": round(pause, 3)}
        is_expected = isinstance(error, LanceGatewayError)
        reason = " ".join(str(error).split()) if is_expected else f"{type(error).__name__}: {error}"
        logger.log(
            logging.WARNING if is_expected else logging.ERROR,
            "table %s is left alone for %.0f s: %s",
            kept.table.name,
            pause,
            reason,
            extra=extra,
            exc_info=None if is_expected else error,
        )
        return reason
