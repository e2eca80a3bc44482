"""Table of the catalog: finds its newest state with little I/O, and takes snapshots of it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from lance_gateway.execnodes.storage.data_files import Place
from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.memwal.regions.manifest import FlushedGeneration, RegionManifest
from lance_gateway.memwal.regions.wal import WalEntry
from lance_gateway.memwal.rules import Identity, IdentityNumbers
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.memwal.writing import OwnTail, TableWriter, WriteOptions
from lance_gateway.planner.predicates.pruning import RegionAssignments
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.sources.decoded_columns import DecodedColumns
from lance_gateway.planner.tables.sources.generations import GenerationDataset
from lance_gateway.planner.tables.sources.keys import KeyPlaces
from lance_gateway.planner.tables.sources.log_tail import Tail
from lance_gateway.planner.tables.sources.snapshot import Consistency, SnapshotDescription, TableSnapshot
from lance_gateway.planner.tables.state.described_snapshot import DescribedSnapshots
from lance_gateway.planner.tables.state.log_reader import LogReader, OwnTails
from lance_gateway.planner.tables.state.newest_base import NewestBase
from lance_gateway.planner.tables.state.snapshots import Snapshots
from lance_gateway.planner.tables.state.table_state import Confirmed


class Table:
    """Table of the catalog. Thread-safe.

    Args:
        name: in the catalog.
        storage: directory of the table.
        cache: for generations, WAL entries, keys and masks.
        columns: columns of flushed generations.
        places: where keys of base tables are.
        session: the `lance.Session` in which the table's files are opened, until it is recreated.
        writing: how it is written; None where it is only read.
        own_tails: what this process holds in memory of regions, by region id; None for what was written here.
    """

    def __init__(
        self,
        name: str,
        storage: Storage,
        cache: ByteCache,
        columns: DecodedColumns,
        places: KeyPlaces,
        session: Any,  # noqa: ANN401 - lance types
        writing: WriteOptions | None = None,
        own_tails: OwnTails | None = None,
        take_room: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.take_room = take_room
        """Takes room for so many bytes of rows, or raises an error."""
        self.name = TableName.parse(name)
        self.storage = storage
        self.cache = cache
        self.columns = columns
        self.places = places
        self.own_tails = own_tails or self._get_own_tails
        self._newest = NewestBase(name, storage, session)
        self._options = writing
        self._writer: TableWriter | None = None
        self._writer_place: Place | None = None
        self._writer_lock = threading.Lock()
        self._identities: dict[tuple[bytes, int], IdentityNumbers] = {}
        self._written_at = -math.inf
        """When rows were written last, in seconds of the monotonic clock."""
        self._followers: tuple[Callable[[], None], ...] = ()
        self.commit_lock = threading.Lock()
        """Held by who commits rows to the base table: within a process, nobody tries in vain."""
        self.retry_lock = threading.Lock()
        """Held by a statement that changes rows of the base table again, since others were first."""
        self._logs = LogReader(storage, cache, self.own_tails, self._newest)
        self._snapshots = Snapshots(name, cache, self._logs, self._newest)

    @property
    def session(self) -> Any:  # noqa: ANN401 - lance types
        """The `lance.Session` in which files of the table are opened."""
        return self._newest.state.session

    @property
    def last_snapshot(self) -> TableSnapshot | None:
        """Newest snapshot that a query took; None if there was none."""
        return max(self._newest.state.last.copy().values(), key=itemgetter(0), default=(0.0, None))[1]

    @property
    def last_read_at(self) -> float | None:
        """Time of the last snapshot, in seconds of the monotonic clock; None if there was none."""
        return max((taken_at for taken_at, _ in self._newest.state.last.copy().values()), default=None)

    @property
    def described_time(self) -> str:
        """Time of the table for EXPLAIN; "" for the newest state."""
        return ""

    @property
    def has_own_rows(self) -> bool:
        """Whether its snapshots have rows that are in no log: those of a transaction."""
        return False

    def writer(self) -> TableWriter:
        """Open the writer, or return the open one if the table was not recreated.

        Raises:
            PreconditionError: the gateway only reads.
        """
        if self._options is None:
            msg = f"table {self.name!r} can't be written: this gateway was started read-only"
            raise PreconditionError(msg)
        state = self._newest.state
        with self._writer_lock:
            if self._writer is not None and self._writer_place != state.place:
                if self._writer.is_there():  # Readers know a table by less than writers do.
                    self._writer_place = state.place
                else:
                    # Of a table that was dropped: to flush its rows would write them into the new one.
                    replaced, self._writer = self._writer, None
                    replaced.abandon()
            if self._writer is None:
                self._writer_place = state.place
                self._writer = TableWriter(
                    self.name, self.storage, self._options, state.session, self.note_write
                )
            return self._writer

    def identity_numbers(self, base: BaseTable, column: str, identity: Identity) -> IdentityNumbers:
        """Return the numbers that this process gives to rows of a column, as long as the table is there."""
        field_id = next(at for at, name in base.field_names.items() if name == column)
        key = (base.table_id, field_id)
        with self._writer_lock:
            known = self._identities.get(key)
            if known is None:
                known = self._identities[key] = IdentityNumbers(self.storage, field_id, identity)
            return known

    def replace_with(self, other: Table) -> Table:
        """Return the table to read, where `other` reads the table in the same directory."""
        return other

    @property
    def opened_writer(self) -> TableWriter | None:
        """The writer; None if nothing was written yet."""
        return self._writer

    def note_write(self, moment: float | None = None) -> None:
        """Note that rows may have been written: older snapshots are not reused.

        Args:
            moment: in seconds of the monotonic clock; None for now.
        """
        self._written_at = max(self._written_at, time.monotonic() if moment is None else moment)
        for wake in self._followers:
            wake()

    def wake_on_writes(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have a function called whenever this process has written rows, before they are acknowledged.

        Args:
            wake: returns at once.

        Returns:
            Ends it.
        """
        with self._writer_lock:
            self._followers += (wake,)

        def end() -> None:
            with self._writer_lock:
                self._followers = tuple(one for one in self._followers if one is not wake)

        return end

    def settle(self) -> float:
        """Wait until rows that were acknowledged early are durable, so that other processes read them.

        Returns:
            When rows were written last, in seconds of the monotonic clock; minus infinity for never.

        Raises:
            UnavailableError: such rows were lost, which is told once, or are not written in time.
        """
        if self._writer is not None:
            self._writer.settle()
        return self._written_at

    def close(self, timeout_seconds: float | None = None) -> Sequence[str]:
        """Flush and close the writer.

        Args:
            timeout_seconds: None as the options of writing say.

        Returns:
            Ids of regions that were not flushed; what was acknowledged is durable in their logs.
        """
        with self._writer_lock:
            writer, self._writer = self._writer, None
        return () if writer is None else writer.close(timeout_seconds)

    def abandon(self) -> None:
        """Discard unwritten rows: the table is being dropped."""
        with self._writer_lock:
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon(drops=True)

    def _get_own_tails(self, region_ids: Iterable[str]) -> Mapping[str, OwnTail]:
        """Return the rows that the writer holds in memory, by region id, without opening a writer.

        Waits for rows that were acknowledged before they are durable.
        """
        writer = self._writer
        if writer is None or self._writer_place != self._newest.state.place:
            return {}
        return writer.get_tails(region_ids)

    def base(self) -> BaseTable:
        """Find the newest version of the base table.

        Raises:
            NotFoundError: the table was dropped.
            CorruptDataError: its manifest can't be read.
        """
        return self._newest.find()

    def find_recent_base(self) -> BaseTable:
        """Find the newest version; on S3, the newest of up to a second ago, which is enough for columns.

        Raises:
            LanceGatewayError: as `base`.
        """
        return self._newest.recent()

    def assignments(self, base: BaseTable, consistency: Consistency) -> RegionAssignments:
        """Return all regions with their region values; the same object until they change."""
        return self._snapshots.assignments(base, consistency)

    def confirm(self) -> Confirmed | None:
        """Check, by requests that are sent in parallel, whether the known state of the table is the newest.

        Returns:
            The known state, if it was the newest when the call began. None if part of it has changed or is
            not known, and for local tables.

        Raises:
            LanceGatewayError: something can't be read.
        """
        return None if self.storage.is_local else self._snapshots.confirm()

    def take_snapshot(
        self, regions: Iterable[str], consistency: Consistency = "strong", max_staleness_ms: int = 0
    ) -> TableSnapshot:
        """Take a snapshot of some regions and the base table.

        Args:
            regions: ids of the regions that are needed.
            consistency: "strong" reads the newest manifests and the WAL, "flushed" the newest manifests,
                "snapshot" what the MemWAL index remembers.
            max_staleness_ms: a snapshot this young may be taken again.

        Raises:
            GenerationVanishedError: a generation that no base version contains is gone.
            LanceGatewayError: something can't be read.
        """
        after = math.inf
        if max_staleness_ms > 0:
            after = max(self._written_at, time.monotonic() - max_staleness_ms / 1000)
        return self._snapshots.take(tuple(regions), consistency, after)

    def take_confirmed(self, regions: Iterable[str], confirmed: Confirmed) -> TableSnapshot:
        """Take a strong snapshot of some regions of a confirmed state.

        Raises:
            LanceGatewayError: as `take_snapshot`.
        """
        return self._snapshots.take(tuple(regions), "strong", math.inf, confirmed)

    def reopen(self, description: SnapshotDescription) -> TableSnapshot:
        """Open a described snapshot, whatever the newest state of the table is.

        Raises:
            SnapshotGoneError: part of it was merged or cleaned up since, or the table was recreated.
            LanceGatewayError: something can't be read.
        """
        return self._described.open(description)

    def open_tail(self, base: BaseTable, region_id: str, positions: tuple[int, ...]) -> Tail | None:
        """Open rows of a region's log by the columns of a version.

        Args:
            base: the version.
            region_id: of the region.
            positions: of the entries, ascending; no later one with rows is left out.

        Raises:
            FileNotFoundError: an entry is gone.
            LanceGatewayError: one can't be read.
        """
        return (
            self._described.open_tail(self._newest.state, base, region_id, positions) if positions else None
        )

    @property
    def _described(self) -> DescribedSnapshots:
        return DescribedSnapshots(self.name, self._newest, self._logs, self.open_generations)

    def read_manifests(self) -> tuple[RegionManifest, ...]:
        """Read the newest manifest of every region.

        Raises:
            LanceGatewayError: one can't be read.
        """
        return self._snapshots.read_manifests()

    def read_unflushed(self, manifest: RegionManifest) -> tuple[WalEntry, ...]:
        """Read the WAL entries with rows that no generation of a region's newest manifest covers.

        Raises:
            FileNotFoundError: some were flushed and removed since the manifest was read.
            LanceGatewayError: one can't be read.
        """
        region_id, state = manifest.region_id, self._newest.state
        log = self._logs.read_unflushed(state, (manifest,))[region_id]
        return tuple(self._logs.read_entry(state, region_id, position) for position in log.positions)

    def read_log_entry(self, region_id: str, position: int) -> WalEntry:
        """Read an entry of a region's log, which may be flushed.

        Raises:
            FileNotFoundError: there is none.
            LanceGatewayError: it can't be read.
        """
        return self._logs.read_entry(self._newest.state, region_id, position)

    def generation(self, region_id: str, flushed: FlushedGeneration) -> GenerationDataset:
        """Open one flushed generation.

        Raises:
            GenerationVanishedError: it was merged and cleaned up.
            LanceGatewayError: it can't be read.
        """
        return self.open_generations(self.base(), region_id, (flushed,))[0]

    def open_generations(
        self, base: BaseTable, region_id: str, flushed: Iterable[FlushedGeneration]
    ) -> tuple[GenerationDataset, ...]:
        """Open flushed generations of a region.

        Raises:
            GenerationVanishedError: the directory of one is gone.
            LanceGatewayError: one can't be read.
        """
        return self._snapshots.open_generations(base, region_id, flushed)
