"""Unflushed rows: what is derived of them grows with them, and what this process wrote is not read again."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memwal.wal import WalEntry
from memwal.writing import Changes
from planner import log_reading, visibility
from planner.byte_cache import ByteCache
from planner.engine import QueryEngine, SessionSettings
from planner.key_history import KeyHistory
from planner.known_state import KnownState
from planner.snapshot import RegionSnapshot, TableSnapshot
from planner.tail import TailRows
from tests.support.merging import merge_generations
from tests.support.results import rows_of
from tests.support.tables import LsmTable, bucketed, key_field, unpartitioned
from tests.support.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64())])
NAN = float("nan")
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integer": (pa.int64(), [0, 1, 2, -5, 2**62]),
    "text": (pa.string(), ["", "a", "b", "ab"]),
    "float": (pa.float64(), [0.0, -0.0, NAN, 1.5]),
    "time": (pa.timestamp("ns"), [0, 1, 2, 10**18]),
    "binary": (pa.binary(), [b"", b"a", b"\0"]),
}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from(sorted(KEYS)),
    entries=st.lists(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=5), max_size=5),
)
def test_a_history_knows_the_newest_rows_as_of_every_entry(
    kind: str, entries: list[list[tuple[int, bool]]]
) -> None:
    dtype, values = KEYS[kind]
    history, written = KeyHistory(), []
    for entry in entries:
        chosen = [number % len(values) for number, _ in entry]
        keys = pa.array([values[number] for number in chosen], dtype)
        history.extend(keys, np.array([dead for _, dead in entry], np.bool_), [0, len(entry)])
        written += [(number, dead) for number, (_, dead) in zip(chosen, entry, strict=True)]
    for rows in np.cumsum([0, *map(len, entries)]).tolist():
        last = {number: row for row, (number, _) in enumerate(written[:rows])}
        shown = [row for number, row in last.items() if not written[row][1]]
        assert np.flatnonzero(history.newest(rows)).tolist() == sorted(shown)
        found = history.find(pa.array(values, dtype), rows)
        assert found is None or found.tolist() == sorted(last.values())
    assert history.distinct(0, len(written)) == len({number for number, _ in written})


@pytest.mark.parametrize("sizes", [[63, 1, 1], [64, 65, 300], [200, 1, 0, 500], [1] * 140])
def test_a_history_knows_the_newest_of_any_number_of_rows(sizes: list[int]) -> None:
    rng = np.random.default_rng(3)
    history = KeyHistory()
    written, dead, ends = np.empty(0, np.int64), np.empty(0, np.bool_), [0]
    for size in sizes:
        keys, gone = rng.integers(0, 90, size), rng.random(size) < 0.2
        history.extend(pa.array(keys), gone, [0, size])
        written, dead = np.append(written, keys), np.append(dead, gone)
        ends.append(len(written))
    assert history.rows == len(written)
    for rows in ends:
        last = {key: row for row, key in enumerate(written[:rows].tolist())}
        assert np.flatnonzero(history.newest(rows)).tolist() == sorted(
            row for row in last.values() if not dead[row]
        )
    for start, stop in zip([*ends, 0], [*ends[1:], len(written), len(written)], strict=True):
        assert history.distinct(start, stop) == len(set(written[start:stop].tolist()))


@pytest.fixture
def base(root: Path, open_engine: Callable[[Path], QueryEngine]) -> Any:
    lance.write_dataset(pa.table([[0], [0]], schema=SCHEMA), root / "t.lance")
    return open_engine(root).catalog.table("t").base()


def entry(position: int, generation: int, keys: list[int]) -> WalEntry:
    fields = [
        pa.field(name, pa.int64(), metadata={"lance:field_id": str(number)})
        for number, name in enumerate(("id", "v"))
    ]
    rows = pa.table([keys, keys], schema=pa.schema(fields))
    return WalEntry(position, 1, generation, is_fence=False, rows=rows)


def test_rows_are_located_once_and_in_any_stretch(base: Any) -> None:
    source, asked = pa.array([7, 3, 5, 3, 1]), []

    def find(wanted: pa.Array) -> np.ndarray:
        asked.extend(wanted.to_pylist())
        return np.flatnonzero(pc.is_in(source, value_set=wanted).to_numpy(zero_copy_only=False))

    def located(start: int, stop: int) -> set[int]:
        return {int(place) for part in log.located("s", start, stop, find) for place in part}

    log = TailRows("r", base)
    log.append([entry(1, 1, [1, 2]), entry(2, 1, [3])], base)
    assert located(0, 3) == {1, 3, 4}
    log.append([entry(3, 2, [5, 7]), entry(5, 2, [1])], base)
    assert located(3, 6) == {0, 2, 4}
    assert asked == [1, 2, 3, 5, 7, 1]
    assert located(0, 6) == {0, 1, 2, 3, 4}
    assert len(asked) == 6
    assert (located(0, 1), located(1, 4), located(4, 6)) == ({4}, {1, 2, 3}, {0, 4})
    assert (log.stretch(1), log.stretch(2), log.stretch(3)) == ((0, 3), (3, 6), None)


def test_what_was_located_is_told_by_generation(base: Any) -> None:
    source, asked = pa.array([7, 3, 5, 3, 1]), []

    def find(wanted: pa.Array) -> np.ndarray:
        asked.append(wanted.to_pylist())
        return np.flatnonzero(pc.is_in(source, value_set=wanted).to_numpy(zero_copy_only=False))

    def so_far(start: int, stop: int) -> list[list[int]] | None:
        found = log.located_so_far("s", start, stop)
        return None if found is None else [places.tolist() for places in found]

    log = TailRows("r", base)
    entries = [entry(1, 1, [1]), entry(2, 1, [9, 3]), entry(3, 2, [8]), entry(4, 3, [5, 7]), entry(5, 4, [1])]
    log.append(entries, base)
    assert so_far(0, 3) is None
    for start, stop in ((0, 3), (3, 6), (0, 6), (0, 3), (3, 6)):
        log.located("s", start, stop, find)
    assert asked == [[1, 9, 3], [8], [5, 7]]
    assert (so_far(0, 3), so_far(3, 4), so_far(4, 6)) == ([[1, 3, 4]], [], [[0, 2]])
    assert (so_far(0, 4), so_far(3, 6), so_far(0, 6)) == ([[1, 3, 4]], [[0, 2]], [[1, 3, 4], [0, 2]])
    # Of a part of what was located together it is not known which rows it has.
    assert (so_far(1, 3), so_far(0, 2), so_far(5, 6), so_far(3, 5)) == (None, None, None, None)
    assert so_far(6, 7) is None
    assert log.located_so_far("another source", 0, 3) is None
    assert len(asked) == 3


def test_a_tail_stays_what_it_was_while_its_log_grows(base: Any) -> None:
    log = TailRows("r", base)
    log.append([entry(1, 1, [1, 2]), entry(2, 1, [2])], base)
    before = log.tail()
    assert before is not None
    assert before is log.tail()
    log.append([entry(2, 1, [9]), entry(4, 1, [1, 1])], base)  # what is there already is left out
    after = log.tail()
    assert after is not None
    assert (before.positions, after.positions) == ((1, 2), (1, 2, 4))
    assert before.newest().tolist() == [True, False, True]
    assert after.newest().tolist() == [False, False, True, False, True]
    found = before.find(pa.table({"id": [2, 3]}))
    assert found is not None
    assert found.tolist() == [2]
    assert before.find(pa.table({"id": [1]})) is None  # a later row hides which one it was
    rest = log.since(2, base).tail()
    assert rest is not None
    assert rest.rows.column("id").to_pylist() == [2, 1, 1]
    assert (rest.log.stretch(1), rest.log.stretch(2)) == ((0, 3), None)
    assert len({log.number, rest.log.number, TailRows("r", base).number}) == 3


def test_keys_of_a_stretch_are_distinct_and_made_once(base: Any) -> None:
    log = TailRows("r", base)
    log.append([entry(1, 1, [1, 2, 1]), entry(2, 1, [2, 3])], base)
    first = log.keys(0, 3)
    assert first.to_pylist() == [1, 2]
    assert log.keys(0, 3) is first
    assert log.keys(2, 5).to_pylist() == [1, 2, 3]
    assert log.keys(0, 3).to_pylist() == [1, 2]
    assert [log.distinct_keys(*one) for one in ((0, 3), (0, 5), (1, 4), (3, 5), (4, 4))] == [2, 3, 2, 2, 0]


def test_entries_without_rows_are_a_tail_without_rows(base: Any) -> None:
    log = TailRows("r", base)
    log.append([entry(1, 1, []), entry(2, 1, [])], base)
    for one in (log, log.since(2, base)):
        tail = one.tail()
        assert tail is not None
        assert (tail.last, tail.rows.schema.names, tail.rows.num_rows) == (2, ["id", "v", "_tombstone"], 0)
        assert (one.keys(0, 0).to_pylist(), tail.newest().tolist()) == ([], [])


def test_masks_of_one_tail_are_not_those_of_another(base: Any) -> None:
    with ThreadPoolExecutor(1) as executor:
        masks = visibility.Visibility(ByteCache(1 << 20), executor)
        for keys in ([0, 1, 1], [1, 1, 2], [5, 6, 7]):
            log = TailRows("r", base)
            log.append([entry(1, 1, keys)], base)
            found = masks.masks(TableSnapshot(base, {"r": RegionSnapshot("r", (), log.tail())}))
            newest = [key not in keys[at + 1 :] for at, key in enumerate(keys)]
            assert found.tails["r"].fragments[0].visible.to_pylist() == newest
            hidden = found.base.fragments.get(0)
            assert (hidden is not None and hidden.visible.to_pylist() == [False]) is (0 in keys)


def test_columns_of_an_entry_are_told_by_their_field_ids(base: Any) -> None:
    """A column that was dropped and added anew has the name and the type of the one before."""

    def stored(position: int, second_id: str) -> WalEntry:
        ids = {"id": "0", "v": second_id}
        fields = [pa.field(name, pa.int64(), metadata={"lance:field_id": one}) for name, one in ids.items()]
        rows = pa.table([[position], [position]], schema=pa.schema(fields))
        return WalEntry(position, 1, 1, is_fence=False, rows=rows)

    log = TailRows("r", base)
    log.append([stored(1, "1"), stored(2, "7"), stored(3, "1")], base)
    tail = log.tail()
    assert tail is not None
    assert tail.rows.column("id").to_pylist() == [1, 2, 3]
    assert tail.rows.column("v").to_pylist() == [1, None, 3]


def test_an_entry_may_have_no_rows(base: Any) -> None:
    log = TailRows("r", base)
    log.append([entry(1, 1, []), entry(2, 1, [7])], base)
    tail = log.tail()
    assert tail is not None
    assert (tail.positions, tail.rows.column("id").to_pylist()) == ((1, 2), [7])
    assert tail.rows.schema.equals(base.schema.append(pa.field("_tombstone", pa.bool_())))


def test_many_small_entries_make_few_batches(base: Any) -> None:
    log = TailRows("r", base)
    log.append([entry(position, 1, [position]) for position in range(1, 1000)], base)
    tail = log.tail()
    assert tail is not None
    assert tail.rows.column("id").to_pylist() == list(range(1, 1000))
    assert tail.rows.column("id").num_chunks <= 12


COMPOSITE = pa.schema(
    [key_field("a", pa.string(), 1), key_field("b", pa.int32(), 2), pa.field("v", pa.int64())]
)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "indexed"), [("integer", False), ("integer", True), ("composite", False)])
def test_an_engine_that_followed_every_step_answers_like_one_that_sees_the_table_first(
    root: Path,
    writers: WriterProcess,
    open_engine: Callable[[Path], QueryEngine],
    kind: str,
    *,
    indexed: bool,
) -> None:
    def row(key: int, value: int) -> dict[str, Any]:
        head = {"id": key} if kind == "integer" else {"a": f"k{key % 3}", "b": key}
        return head | {"v": value}

    schema = SCHEMA if kind == "integer" else COMPOSITE
    start = pa.Table.from_pylist([row(key, 0) for key in range(20)], schema=schema)
    table = LsmTable.create(root, "t", start, unpartitioned(tuple(schema.names[:-1]), 2), writers)
    if indexed:
        table.dataset().create_scalar_index("id", "BTREE")
    follower, rng = open_engine(root), np.random.default_rng(5)
    expected = dict.fromkeys(range(20), 0)
    for step in range(1, 25):
        keys = rng.integers(0, 30, 3).tolist()
        table.put([row(key, step) for key in keys])
        expected |= dict.fromkeys(keys, step)
        table.delete([row(keys[0], 0)])
        expected.pop(keys[0], None)
        if step % 7 == 0:
            table.close_writers()
        if step % 14 == 0:
            for region in table.regions.values():
                merge_generations(table.path, region, 1)
        newcomer = open_engine(root) if step % 6 == 0 else follower
        for engine in {follower, newcomer}:
            found = engine.execute(f"SELECT {schema.names[-2]}, v FROM t").read_all()
            assert sorted(rows_of(found)) == sorted(expected.items())
            key = schema.names[-2]
            one = engine.execute(f"SELECT v FROM t WHERE {key} = {keys[1]}").read_all()
            assert rows_of(one) == ([(expected[keys[1]],)] if keys[1] in expected else [])


@pytest.fixture
def engine(root: Path, open_engine: Callable[[Path], QueryEngine]) -> QueryEngine:
    """Over a table of its own, with two regions."""
    dataset = lance.write_dataset(pa.table([[0, 1], [0, 0]], schema=SCHEMA), root / "t.lance")
    dataset.initialize_mem_wal(bucket_column="id", num_buckets=2)
    return open_engine(root)


def write(engine: QueryEngine, **values: int) -> None:
    """Upsert rows: k5=7 is id 5 with v 7."""
    rows = pa.table([[int(key[1:]) for key in values], list(values.values())], schema=SCHEMA)
    engine.catalog.table("t").writer().write(Changes(upserts=rows))


def read(engine: QueryEngine, options: SessionSettings | None = None) -> dict[int, int]:
    found = engine.prepare("SELECT id, v FROM t", options or SessionSettings()).execute().read_all()
    rows = rows_of(found)
    assert len(dict(rows)) == len(rows)
    return dict(rows)


class TestOwnRows:
    def test_they_are_not_read_from_storage(
        self, engine: QueryEngine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(engine, k1=1, k2=2)
        assert read(engine) == {0: 0, 1: 1, 2: 2}

        def refused(*_: object, **__: object) -> Any:
            pytest.fail("storage was asked for what is in memory")

        monkeypatch.setattr(log_reading, "last_wal_position", refused)
        monkeypatch.setattr(log_reading, "read_wal_entry", refused)
        write(engine, k2=3, k4=4)
        assert read(engine) == {0: 0, 1: 1, 2: 3, 4: 4}

    def test_reading_makes_no_writer(self, engine: QueryEngine) -> None:
        assert read(engine) == {0: 0, 1: 0}
        assert engine.catalog.table("t").opened_writer is None

    def test_a_region_that_another_writer_took_over_is_read_from_storage(
        self, engine: QueryEngine, root: Path, open_engine: Callable[[Path], QueryEngine]
    ) -> None:
        write(engine, k1=1, k2=2)
        other = open_engine(root)
        write(other, k1=5, k3=6)
        assert read(engine) == read(other) == {0: 0, 1: 5, 2: 2, 3: 6}
        write(engine, k1=7)
        assert read(engine) == read(other) == {0: 0, 1: 7, 2: 2, 3: 6}

    @pytest.mark.slow
    def test_a_flush_neither_loses_nor_doubles_rows(self, engine: QueryEngine) -> None:
        last, failures = 60, []

        def ingest() -> None:
            try:
                for number in range(1, last + 1):
                    write(engine, **{f"k{number}": number, "k0": number})
                    if number % 15 == 0:
                        engine.catalog.table("t").writer().flush()
            except BaseException as error:  # noqa: BLE001 - the test raises it
                failures.append(error)

        thread = threading.Thread(target=ingest)
        thread.start()
        seen = 0
        while thread.is_alive():
            found = read(engine)
            assert found[0] >= seen
            seen = found[0]
            assert all(found.get(number, number) in {0, number} for number in range(2, seen))
            assert set(range(seen)) <= found.keys()
        thread.join()
        assert not failures
        assert read(engine) == {0: last} | {number: number for number in range(1, last + 1)}

    def test_a_session_that_wrote_does_not_read_a_snapshot_of_before(self, engine: QueryEngine) -> None:
        patient = SessionSettings(max_staleness_ms=3_600_000)
        assert read(engine, patient) == {0: 0, 1: 0}
        write(engine, k1=1)
        assert read(engine, patient) == {0: 0, 1: 1}

    def test_what_a_flushed_generation_supersedes_is_known_before_it_is_flushed(
        self, engine: QueryEngine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(engine, k0=1, k5=1)
        engine.catalog.table("t").writer().flush()
        assert read(engine) == {0: 1, 1: 0, 5: 1}
        write(engine, k0=2, k1=2, k5=2)
        assert read(engine) == {0: 2, 1: 2, 5: 2}
        write(engine, k1=3)  # of which no query has heard when it is flushed
        engine.catalog.table("t").writer().flush()

        def refused(*_: object, **__: object) -> Any:
            pytest.fail("keys were searched again")

        monkeypatch.setattr(visibility, "KeyProbe", refused)
        monkeypatch.setattr(visibility, "newest_of_layers", refused)
        monkeypatch.setattr(visibility, "newest", lambda layer: np.ones(len(layer.keys), np.bool_))
        assert read(engine) == {0: 2, 1: 3, 5: 2}

    def test_a_table_made_anew_has_none_of_them(self, engine: QueryEngine, root: Path) -> None:
        write(engine, k1=1)
        assert read(engine) == {0: 0, 1: 1}
        (root / "t.lance").rename(root / "old")
        dataset = lance.write_dataset(pa.table([[7], [7]], schema=SCHEMA), root / "t.lance")
        dataset.initialize_mem_wal(bucket_column="id", num_buckets=2)
        assert read(engine) == {7: 7}
        write(engine, k8=8)
        assert read(engine) == {7: 7, 8: 8}


class TestMonotonicReads:
    def test_an_older_snapshot_is_not_kept_over_a_newer_one(self, base: Any) -> None:
        known = KnownState(base.place, base.session)
        older, newer = TableSnapshot(base, {}), TableSnapshot(base, {})
        for taken_at, taken in ((1.0, older), (2.0, newer), (1.0, older)):
            known.keep_last("snapshot", taken_at, taken)
        assert known.last["snapshot"] == (2.0, newer)

    @pytest.mark.slow
    @pytest.mark.parametrize("consistency", ["snapshot", "flushed", "strong"])
    @pytest.mark.parametrize("max_staleness_ms", [0, 5])
    def test_a_later_read_never_shows_an_older_state(
        self,
        root: Path,
        writers: WriterProcess,
        open_engine: Callable[[Path], QueryEngine],
        consistency: Any,
        max_staleness_ms: int,
    ) -> None:
        start = pa.table([[0], [0]], schema=SCHEMA)
        table = LsmTable.create(root, "t", start, bucketed("id", 1, recorded=True), writers)
        engine = open_engine(root)
        options = SessionSettings(consistency=consistency, max_staleness_ms=max_staleness_ms)
        done, failures = threading.Event(), []

        def watch() -> None:
            seen = 0
            try:
                while not done.is_set():
                    value = read(engine, options)[0]
                    assert value >= seen, f"{value} after {seen}"
                    seen = value
            except BaseException as error:  # noqa: BLE001 - the test raises it
                failures.append(error)

        threads = [threading.Thread(target=watch) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for number in range(1, 6):
                table.put([{"id": 0, "v": number}])
                table.close_writers()
                merge_generations(table.path, table.region_of({"id": 0}), number)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        assert not failures
        assert read(engine, SessionSettings(consistency=consistency)) == {0: 5}
