"""One look at all tables of a root, and what is due done to each, in order."""

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from memwal.errors import LanceGatewayError, NotFoundError
from memwal.regions.manifest import RegionManifest
from pipeline.cleaning import clean
from pipeline.indexing import maintain
from pipeline.jobs.lake import Lake, LakeTable, NoMemWalError, TableState
from pipeline.jobs.runners import Progress, Runner, Threads, format_count, ignore_progress
from pipeline.keeping.policy import Policies, RunPolicy
from pipeline.merging import merge
from pipeline.snapshotting import snapshot


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step did to a table.

    Attributes:
        what: for people; empty if there was nothing to do.
        counts: the same in numbers, for logs and metrics.
        waits: whether it left something for later, as its policy says.
    """

    what: str = ""
    counts: Mapping[str, int] | None = None
    waits: bool = False


Step: TypeAlias = Callable[[LakeTable, Policies, Runner, Progress], StepResult]


def merge_step(table: LakeTable, policies: Policies, runner: Runner, progress: Progress) -> StepResult:
    """Merge what is pending, if the policy says so."""
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
    """Bring indexes up to date and put files together, where they need it."""
    report = maintain(table, policies.index, runner=runner, progress=progress)
    if not report.reasons:
        return StepResult()
    counts = {
        "indexes": len(report.optimised) + len(report.retrained),
        "fragments_removed": report.fragments_removed,
        "fragments_added": report.fragments_added,
    }
    names = ", ".join((*report.optimised, *report.retrained))
    did = [f"brought up to date: {names}"] if names else []
    if report.fragments_removed:
        did.append(f"{format_count(report.fragments_removed, 'fragment')} became {report.fragments_added}")
    return StepResult("; ".join(did) or "; ".join(report.reasons), counts)


def snapshot_step(table: LakeTable, policies: Policies, runner: Runner, progress: Progress) -> StepResult:
    """Remember regions, if they have changed since they were remembered long enough ago."""
    if not policies.run.snapshot or table.storage.committed_by:
        return StepResult()
    report = snapshot(table, policies.snapshot, runner=runner, progress=progress)
    if report.committed is None:
        return StepResult(waits=not report.is_current)
    counts = {"regions": report.regions, "hints": report.hints}
    return StepResult(f"remembered {format_count(report.regions, 'region')}", counts)


def clean_step(table: LakeTable, policies: Policies, runner: Runner, progress: Progress) -> StepResult:
    """Remove what nobody needs any more."""
    report = clean(table, policies.clean, delete=True, runner=runner, progress=progress)
    if not report.garbage:
        return StepResult()
    counts = {"removed": len(report.garbage), "bytes": report.bytes}
    return StepResult(
        f"removed {format_count(len(report.garbage), 'thing')}, {format_count(report.bytes, 'byte')}", counts
    )


STEPS: Final[Mapping[str, Step]] = {
    "merge": merge_step,
    "index": index_step,
    "snapshot": snapshot_step,
    "clean": clean_step,
}


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

    def read_state(self) -> TableState | None:
        """The table now, for a round trip or two where nothing has changed; None where it has no MemWAL."""
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


logger = logging.getLogger(__name__)


class KeepObserver(Protocol):
    """Is told what becomes of tables."""

    def on_step(self, table: str, step: str, done: StepResult | None, seconds: float) -> None:
        """A step has ended; None where it failed."""

    def on_table(self, table: str, failures: int) -> None:
        """A table was looked at; how often in a row that has failed."""

    def on_gone(self, table: str) -> None:
        """A table is there no more."""

    def on_round(self, seconds: float) -> None:
        """All tables were looked at."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one look at all tables amounts to.

    Attributes:
        tables: that were looked at.
        did: steps that did something.
        failed: table -> why it could not be kept.
        paused: tables that were left alone, since they failed not long ago.
    """

    tables: tuple[str, ...]
    did: int
    failed: Mapping[str, str]
    paused: tuple[str, ...]


class Keeper:
    """Keeps the tables of a root healthy. Several processes may do so at once: every job allows for others.

    Args:
        lake: the root.
        policies: when each job has something to do.
        names: tables to keep; all there are where none is given, those too that come later.
        runner: where the heavy parts of jobs run.
        progress: watches jobs.
        observers: are told what becomes of tables.
        stop: set when no further step shall begin.
        steps: what is done to a table, by name and in order.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        lake: Lake,
        policies: Policies,
        names: Collection[str] = (),
        *,
        runner: Runner | None = None,
        progress: Progress = ignore_progress,
        observers: Collection[KeepObserver] = (),
        stop: threading.Event | None = None,
        steps: Mapping[str, Step] = STEPS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lake = lake
        self._policies = policies
        self._names = tuple(names)
        self._runner = runner or Threads()
        self._progress = progress
        self._observers = tuple(observers)
        self._stop = stop or threading.Event()
        self._steps = steps
        self._clock = clock
        self._kept: dict[str, KeptTable] = {}

    @property
    def tables(self) -> tuple[LakeTable, ...]:
        """That the last round knew of."""
        return tuple(one.table for one in list(self._kept.values()))

    def round(self, *, patient: bool = True) -> Round:
        """Look at all tables, and do what is due.

        A table that fails is told of, and does not keep others from being looked at.

        Args:
            patient: leave tables alone that failed not long ago.
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
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one table is not wrong with all
                if isinstance(error, NotFoundError) and name not in self._lake.table_names():
                    continue  # Dropped just now: the next round lets it go.
                failed[name] = self._handle_failure(kept, error)
            for one in self._observers:
                one.on_table(name, kept.failures)
        for one in self._observers:
            one.on_round(self._clock() - began)
        return Round(tuple(looked_at), did, failed, tuple(paused))

    def _find_tables(self) -> None:
        there = self._lake.table_names()
        for name in [one for one in self._kept if one not in there]:
            del self._kept[name]
            logger.info("table %s is gone", name, extra={"table": name})
            for observer in self._observers:
                observer.on_gone(name)
        for name in there:
            if name not in self._kept and (not self._names or name in self._names):
                with suppress(NotFoundError):  # A directory of which the table is just being made or dropped.
                    self._kept[name] = KeptTable(self._lake.table(name))

    def _keep_table(self, kept: KeptTable) -> int:
        """Do what is due to a table; how many steps did something."""
        state = kept.read_state()
        is_settled = state is not None and kept.is_settled(state, self._clock())
        due = [
            one
            for one in self._steps
            if self._is_due(kept, one, has_mem_wal=state is not None, is_settled=is_settled)
        ]
        done = list(self._run(kept, due))
        if state is not None and not self._stop.is_set() and not any(one.what or one.waits for one in done):
            kept.settle(state, self._clock())
        return sum(bool(one.what) for one in done)

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
                done = self._steps[name](table, self._policies, self._runner, self._progress)
            finally:
                for observer in self._observers:
                    observer.on_step(table.name, name, done, self._clock() - began)
            if name == "clean":
                kept.cleaned_at = self._clock()
            if done.what:
                extra = {"table": table.name, "step": name, **(done.counts or {})}
                logger.info("table %s: %s", table.name, done.what, extra=extra)
            yield done

    def _handle_failure(self, kept: KeptTable, error: Exception) -> str:
        """Tell of an error, and leave the table alone for a while."""
        pause = kept.fail(self._policies.run, self._clock())
        extra = {"table": kept.table.name, "failures": kept.failures, "pause_seconds": round(pause, 3)}
        known = isinstance(error, LanceGatewayError)
        reason = " ".join(str(error).split()) if known else f"{type(error).__name__}: {error}"
        logger.log(
            logging.WARNING if known else logging.ERROR,
            "table %s is left alone for %.0f s: %s",
            kept.table.name,
            pause,
            reason,
            extra=extra,
            exc_info=None if known else error,
        )
        return reason
