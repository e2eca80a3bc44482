"""The log of a region as manifests and entries come: what is listed, what is read, and what is remembered."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pytest

from lance_gateway.memwal.regions.manifest import FlushedGeneration, RegionManifest
from lance_gateway.memwal.regions.wal import WalEntry, wal_entry_path
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.writing import OwnTail
from lance_gateway.planner.tables.sources.base_table import BaseTable, open_base_table
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.sources.log_tail import RegionLog, Tail
from lance_gateway.planner.tables.state.log_reader import (
    ENTRIES_FOR_A_GENERATION,
    FlushedGenerationName,
    FlushedRows,
    LogReader,
)
from lance_gateway.planner.tables.state.table_state import TableState
from tests.planner.log_entries import SCHEMA, entry, fence, write

REGION, OTHER = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "12")


@pytest.fixture
def base(tmp_path: Path) -> BaseTable:
    lance.write_dataset(SCHEMA.empty_table(), tmp_path / "t.lance")
    return open_base_table("t", Storage.open(str(tmp_path / "t.lance")), None, lance.Session())


def manifest(
    after: int, generation: int, *flushed: int, epoch: int = 1, region_id: str = REGION
) -> RegionManifest:
    generations = tuple(FlushedGeneration(one, f"gen_{one}") for one in flushed)
    return RegionManifest(region_id, 1, epoch, after, after, generation, generations)


def unread(position: int) -> WalEntry:
    pytest.fail(f"entry {position} was read again")


def ids(tail: Tail | None) -> list[int] | None:
    return None if tail is None else tail.rows.column("id").to_pylist()


class TestRegionLog:
    @pytest.mark.parametrize(
        ("after", "generation", "fits", "is_behind", "is_ahead"),
        [
            (5, 3, True, False, False),
            (6, 3, False, True, False),
            (5, 4, False, True, False),
            (4, 3, False, False, True),
            (5, 2, False, False, True),
            (6, 4, False, True, False),
            (4, 2, False, False, True),
            (6, 2, False, True, True),
        ],
    )
    def test_manifests_are_older_or_newer(
        self, after: int, generation: int, *, fits: bool, is_behind: bool, is_ahead: bool
    ) -> None:
        own, other = RegionLog(REGION, 5, 3).replay_start, manifest(after, generation).replay_start
        assert (own == other, own.is_behind(other), other.is_behind(own)) == (fits, is_behind, is_ahead)

    def test_what_is_flushed_known_or_a_fence_is_not_listed(self, base: BaseTable) -> None:
        log = RegionLog(REGION, 5, 3)
        assert (log.last, log.positions, log.rows, log.tail(base, unread)) == (5, (), None, None)
        entries = [entry(5, 3, [5]), entry(6, 2, [6]), entry(7, 3, [7]), fence(8), entry(9, None, [9])]
        log.advance(entries, 10)
        assert (log.last, log.positions) == (10, (7, 9))
        log.advance([entry(9, 3, [0]), entry(11, 4, [11])], 11)
        log.advance([], 4)
        assert (log.last, log.positions) == (11, (7, 9, 11))

    def test_rows_are_read_once(self, base: BaseTable) -> None:
        log, read = RegionLog(REGION, 0, 1), []

        def reading(position: int) -> WalEntry:
            read.append(position)
            return entry(position, 1, [position])

        log.advance([entry(1, 1, [1]), entry(2, 1, [2])], 2)
        assert ids(log.tail(base, reading)) == [1, 2]
        assert read == [1, 2]
        log.advance([entry(3, 1, [3])], 3)
        first = log.tail(base, unread)
        assert ids(first) == [1, 2, 3]
        assert log.tail(base, unread) is first
        assert log.rows is not None

    def test_a_version_that_reads_otherwise_reads_all_again(self, base: BaseTable) -> None:
        log = RegionLog(REGION, 0, 1)
        log.advance([entry(1, 1, [1])], 1)
        log.tail(base, lambda position: entry(position, 1, [position]))
        base.dataset.add_columns({"w": "1"})
        newer = open_base_table("t", base.storage, None, lance.Session())
        tail = log.tail(newer, lambda position: entry(position, 1, [position + 100]))
        assert ids(tail) == [101]
        assert tail is not None
        assert "w" in tail.rows.schema.names

    @pytest.fixture
    def log(self) -> RegionLog:
        log = RegionLog(REGION, 0, 1)
        log.advance([entry(at, generation, [at]) for at, generation in ((1, 1), (2, 1), (3, 2), (5, 2))], 6)
        return log

    @pytest.mark.parametrize("is_read", [False, True])
    @pytest.mark.parametrize("has_base", [False, True])
    @pytest.mark.parametrize(
        ("after", "floor", "left"),
        [(0, 1, (1, 2, 3, 5)), (2, 1, (3, 5)), (0, 2, (3, 5)), (3, 2, (5,)), (5, 3, ()), (9, 3, ())],
    )
    def test_a_flush_leaves_the_rest(
        self,
        base: BaseTable,
        log: RegionLog,
        after: int,
        floor: int,
        left: tuple[int, ...],
        *,
        has_base: bool,
        is_read: bool,
    ) -> None:
        if is_read:
            log.tail(base, lambda at: entry(at, 1 if at < 3 else 2, [at]))
            log.advance([entry(7, 2, [7])], 7)
            left = (*left, 7) if after < 7 and floor < 3 else left
        later = log.drop_flushed(after, floor, base if has_base else None)
        assert (later.region_id, later.after, later.floor) == (REGION, after, floor)
        assert (later.positions, later.last) == (left, max(log.last, after))
        assert later.replay_start == manifest(after, floor).replay_start
        later.advance([entry(10, 4, [10])], 10)
        assert ids(later.tail(base, lambda at: entry(at, 2, [at]))) == [*left, 10]
        # The log of before is still what it was.
        assert log.positions[:4] == (1, 2, 3, 5)

    def test_rows_that_are_left_are_not_read_again(self, base: BaseTable, log: RegionLog) -> None:
        log.tail(base, lambda at: entry(at, 1 if at < 3 else 2, [at]))
        log.advance([entry(7, 2, [7])], 7)
        later = log.drop_flushed(2, 2, base)
        assert later.rows is not None
        assert ids(later.tail(base, unread)) == [3, 5, 7]
        same = later.drop_flushed(2, 2, None)
        assert same.rows is later.rows
        assert ids(same.tail(base, unread)) == [3, 5, 7]
        assert RegionLog(REGION, 4, 4).drop_flushed(2, 2, base).replay_start == manifest(4, 4).replay_start

    def test_what_is_left_in_two_places_is_read_again(self, base: BaseTable) -> None:
        """Generations need not ascend with positions where writers took turns."""
        log = RegionLog(REGION, 0, 1)
        entries = [entry(1, 2, [1]), entry(2, 1, [2]), entry(3, 2, [3])]
        log.advance(entries, 3)
        log.tail(base, lambda at: entries[at - 1])
        later = log.drop_flushed(0, 2, base)
        assert later.positions == (1, 3)
        assert ids(later.tail(base, lambda at: entries[at - 1])) == [1, 3]


@dataclass
class Opened:
    """Has a base version and looks for no other."""

    last: BaseTable | None
    state: TableState

    def find(self) -> BaseTable:
        raise AssertionError


def unflushed(reader: LogReader, kept: TableState, one: RegionManifest) -> RegionLog:
    return reader.read_unflushed(kept, [one])[one.region_id]


class TestReader:
    @pytest.fixture
    def kept(self, base: BaseTable) -> TableState:
        return TableState(base.place, base.session)

    @pytest.fixture
    def own(self) -> dict[str, OwnTail]:
        """What this process owns, by region."""
        return {}

    @pytest.fixture
    def reader(self, base: BaseTable, own: dict[str, OwnTail]) -> LogReader:
        return LogReader(
            base.storage,
            ByteCache(1 << 20),
            lambda _: own,
            Opened(base, TableState(base.place, base.session)),
        )

    def tail_of(self, reader: LogReader, kept: TableState, base: BaseTable, log: RegionLog) -> Any:
        return ids(log.tail(base, lambda at: reader.read_entry(kept, log.region_id, at)))

    def test_entries_of_storage_are_found_as_they_come(
        self, reader: LogReader, kept: TableState, base: BaseTable
    ) -> None:
        assert (unflushed(reader, kept, manifest(0, 1)).positions, kept.logs[REGION].last) == ((), 0)
        state = manifest(2, 2, 1)
        write(base.storage, REGION, *(entry(at, 2, [at]) for at in (3, 4)))
        log = unflushed(reader, kept, state)
        assert (log.positions, log.last) == ((3, 4), 4)
        assert kept.logs == {REGION: log}
        write(base.storage, REGION, entry(5, 2, [5]))
        assert unflushed(reader, kept, state) is log
        assert self.tail_of(reader, kept, base, log) == [3, 4, 5]
        assert reader._read_log(kept, state, None, 5, {}).positions == (3, 4, 5)

    def test_an_older_manifest_has_a_log_of_its_own(
        self, reader: LogReader, kept: TableState, base: Any
    ) -> None:
        write(base.storage, REGION, *(entry(at, 1 + (at > 2), [at]) for at in (1, 2, 3)))
        newer = unflushed(reader, kept, manifest(2, 2, 1))
        older = unflushed(reader, kept, manifest(0, 1))
        assert (newer.positions, older.positions) == ((3,), (1, 2, 3))
        assert kept.logs == {REGION: newer}
        assert older.replay_start == manifest(0, 1).replay_start

    def test_a_newer_manifest_takes_the_place_of_the_log(
        self, reader: LogReader, kept: TableState, base: BaseTable
    ) -> None:
        write(base.storage, REGION, *(entry(at, 1 + (at > 2), [at]) for at in (1, 2, 3)))
        older = unflushed(reader, kept, manifest(0, 1))
        newer = unflushed(reader, kept, manifest(2, 2, 1))
        assert (older.positions, newer.positions) == ((1, 2, 3), (3,))
        assert kept.logs == {REGION: newer}
        assert newer.replay_start == manifest(2, 2, 1).replay_start

    def test_logs_are_asked_together_and_only_those_that_grew_are_read(
        self, reader: LogReader, kept: TableState, base: BaseTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        states = [manifest(0, 1), manifest(0, 1, region_id=OTHER)]
        for region in (REGION, OTHER):
            write(base.storage, region, entry(1, 1, [1]))
        logs = reader.read_unflushed(kept, states)
        assert {region: log.positions for region, log in logs.items()} == {REGION: (1,), OTHER: (1,)}
        write(base.storage, OTHER, entry(2, 1, [2]), entry(3, 1, [3]))
        asked: list[str] = []
        original = LogReader._read_log

        def counting(
            self: LogReader, state: Any, one: RegionManifest, own: Any, seen: int, ends: Any
        ) -> RegionLog:
            asked.append(f"{one.region_id} {seen}")
            return original(self, state, one, own, seen, ends)

        monkeypatch.setattr(LogReader, "_read_log", counting)
        again = reader.read_unflushed(kept, states)
        assert asked == [f"{OTHER} 2"]
        assert {region: log.positions for region, log in again.items()} == {REGION: (1,), OTHER: (1, 2, 3)}
        asked.clear()
        moved = [manifest(1, 2, 1), states[1]]
        third = reader.read_unflushed(kept, moved)
        assert asked == [f"{REGION} 0"]
        assert {region: log.positions for region, log in third.items()} == {REGION: (), OTHER: (1, 2, 3)}
        asked.clear()
        reader.read_unflushed(kept, moved)
        assert asked == []

    def test_a_region_of_this_process_is_read_from_memory(
        self, reader: LogReader, kept: TableState, base: BaseTable, own: dict[str, OwnTail]
    ) -> None:
        write(base.storage, REGION, *(entry(at, 1, [at]) for at in (1, 2, 3, 4, 5, 9)))
        own[REGION] = OwnTail(3, 3, 5, [entry(at, 1, [at]) for at in (3, 5)])
        log = reader.read_unflushed(kept, [manifest(0, 1, epoch=3)])[REGION]
        assert (log.positions, log.last) == ((1, 2, 3, 5), 5)
        own[REGION] = OwnTail(3, 3, 6, [entry(at, 1, [at]) for at in (3, 5, 6)])
        assert reader.read_unflushed(kept, [manifest(0, 1, epoch=3)])[REGION].positions == (1, 2, 3, 5, 6)
        # Others than the owner's manifest say that somebody else may have written.
        own[REGION] = OwnTail(3, 6, 7, [entry(at, 1, [at]) for at in (6, 7)])
        write(base.storage, REGION, *(entry(at, 1, [10 + at]) for at in (6, 7, 8)))
        log = unflushed(reader, kept, manifest(0, 1, epoch=4))
        assert log.positions == (1, 2, 3, 5, 6, 7, 8, 9)
        assert self.tail_of(reader, kept, base, log)[-4:] == [16, 17, 18, 9]

    def test_an_entry_is_read_from_storage_once(
        self, reader: LogReader, kept: TableState, base: BaseTable
    ) -> None:
        write(base.storage, REGION, entry(1, 1, [1]), fence(2))
        first, second = (reader.read_entry(kept, REGION, at) for at in (1, 2))
        assert (first.position, second.position, second.rows) == (1, 2, None)
        base.storage.delete(wal_entry_path(REGION, 1))
        assert reader.read_entry(kept, REGION, 1) is first
        assert reader.cache.nbytes >= 512 + first.rows.nbytes  # type: ignore[union-attr]
        with pytest.raises(FileNotFoundError):
            reader.read_entry(kept, OTHER, 1)

    def test_tables_that_share_a_cache_have_entries_of_their_own(
        self, reader: LogReader, kept: TableState, base: BaseTable, tmp_path: Path
    ) -> None:
        lance.write_dataset(SCHEMA.empty_table(), tmp_path / "u.lance")
        other = open_base_table("u", Storage.open(str(tmp_path / "u.lance")), None, lance.Session())
        others = LogReader(other.storage, reader.cache, lambda _: None, lambda: other)
        for storage, key in ((base.storage, 1), (other.storage, 2)):
            write(storage, REGION, entry(1, 1, [key]))
        for one, state, key in ((reader, kept, 1), (others, TableState(other.place, other.session), 2)):
            rows = one.read_entry(state, REGION, 1).rows
            assert rows is not None
            assert rows.column("id").to_pylist() == [key]

    def remembered(self, reader: LogReader, kept: TableState, generation: int) -> Any:
        return reader.cache.get(FlushedGenerationName(kept.place, REGION, generation))

    def flush(self, reader: LogReader, kept: TableState, base: BaseTable) -> RegionLog:
        """Generations 1 and 2 are read, the end of 2 is not, and both are flushed; 3 is not."""
        write(base.storage, REGION, *(entry(at, 1, [at, at]) for at in (1, 2)), entry(3, 2, [3]))
        log = unflushed(reader, kept, manifest(0, 1))
        assert self.tail_of(reader, kept, base, log) == [1, 1, 2, 2, 3]
        write(base.storage, REGION, entry(4, 2, [4]), entry(5, 3, [5]))
        return unflushed(reader, kept, manifest(4, 3, 1, 2))

    def test_rows_of_a_flushed_generation_are_remembered(
        self, reader: LogReader, kept: TableState, base: BaseTable
    ) -> None:
        log = self.flush(reader, kept, base)
        first, second = (self.remembered(reader, kept, one) for one in (1, 2))
        assert isinstance(first, FlushedRows)
        assert isinstance(second, FlushedRows)
        assert (first.start, first.stop, second.start, second.stop) == (0, 4, 4, 6)
        assert first.rows is second.rows
        assert log.rows is not None  # what is left of them is not read again
        assert first.rows.keys(4, 6).to_pylist() == [3, 4]
        assert self.remembered(reader, kept, 3) is None
        assert log.positions == (5,)
        assert self.tail_of(reader, kept, base, log) == [5]

    def test_rows_of_a_flushed_generation_are_remembered_as_the_newest_version_reads_them(
        self, reader: LogReader, kept: TableState, base: BaseTable
    ) -> None:
        write(base.storage, REGION, entry(1, 1, [1, 2]))
        assert self.tail_of(reader, kept, base, unflushed(reader, kept, manifest(0, 1))) == [1, 2]
        write(base.storage, REGION, entry(2, 1, [3]))
        base.dataset.add_columns({"w": "1"})
        newer = open_base_table("t", base.storage, None, lance.Session())
        other = LogReader(base.storage, reader.cache, lambda _: {}, Opened(newer, kept))
        unflushed(other, kept, manifest(2, 2, 1))
        found = self.remembered(reader, kept, 1)
        assert isinstance(found, FlushedRows)
        assert found.rows.has_same_columns(newer)
        assert found.rows.keys(found.start, found.stop).to_pylist() == [1, 2, 3]

    def test_a_generation_of_which_a_part_is_gone_is_not_remembered(
        self, reader: LogReader, kept: TableState, base: BaseTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original = LogReader.read_entry

        def gone(self: LogReader, state: TableState, region_id: str, position: int) -> WalEntry:
            if position == 4:
                raise FileNotFoundError(position)
            return original(self, state, region_id, position)

        monkeypatch.setattr(LogReader, "read_entry", gone)
        log = self.flush(reader, kept, base)
        assert [self.remembered(reader, kept, one) for one in (1, 2)] == [None, None]
        assert log.positions == (5,)

    def test_a_generation_that_was_flushed_before_the_log_began_is_not_remembered(
        self, reader: LogReader, kept: TableState, base: BaseTable
    ) -> None:
        write(base.storage, REGION, entry(3, 2, [3]))
        log = unflushed(reader, kept, manifest(2, 2, 1))
        self.tail_of(reader, kept, base, log)
        write(base.storage, REGION, entry(4, 3, [4]))
        unflushed(reader, kept, manifest(3, 3, 1, 2))
        assert self.remembered(reader, kept, 1) is None
        assert isinstance(self.remembered(reader, kept, 2), FlushedRows)

    def test_rows_that_nobody_asked_for_are_not_read_to_be_remembered(
        self, reader: LogReader, kept: TableState, base: BaseTable
    ) -> None:
        write(base.storage, REGION, entry(1, 1, [1]))
        unflushed(reader, kept, manifest(0, 1))
        assert unflushed(reader, kept, manifest(1, 2, 1)).rows is None
        assert self.remembered(reader, kept, 1) is None

    @pytest.mark.parametrize(("more", "is_remembered"), [(0, True), (1, False)])
    def test_many_entries_are_not_read_to_be_remembered(
        self, reader: LogReader, kept: TableState, base: BaseTable, more: int, *, is_remembered: bool
    ) -> None:
        write(base.storage, REGION, entry(1, 1, [1]))
        self.tail_of(reader, kept, base, unflushed(reader, kept, manifest(0, 1)))
        last = 1 + ENTRIES_FOR_A_GENERATION + more
        write(base.storage, REGION, *(entry(at, 1, [at]) for at in range(2, last + 1)))
        log = unflushed(reader, kept, manifest(last, 2, 1))
        assert (log.positions, log.last) == ((), last)
        assert (self.remembered(reader, kept, 1) is not None) is is_remembered
