"""Rows of a region's log as they come, and what is derived of them: newest rows, and places of keys."""

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

from lance_gateway.memwal.regions.wal import WalEntry
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.sources.keys import KeyHistory
from lance_gateway.planner.tables.sources.log_tail import TailRows
from lance_gateway.planner.tables.sources.snapshot import RegionSnapshot, TableSnapshot
from lance_gateway.planner.tables.visibility import visibility
from tests.support.lake.tables import key_field

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64())])
NAN = float("nan")
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integer": (pa.int64(), [0, 1, 2, -5, 2**62]),
    "text": (pa.string(), ["", "a", "b", "ab"]),
    "float": (pa.float64(), [0.0, -0.0, NAN, 1.5]),
    "time": (pa.timestamp("ns"), [0, 1, 2, 10**18]),
    "binary": (pa.binary(), [b"", b"a", b"\0"]),
    "half": (pa.float16(), [0.0, -0.0, NAN, 1.5]),
    "date": (pa.date32(), [0, 1, -1, 20_000]),
    "instant": (pa.timestamp("us", "Europe/Berlin"), [0, 1, 10**15]),
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
        assert np.flatnonzero(history.find_newest(rows)).tolist() == sorted(shown)
        found = history.find(pa.array(values, dtype), rows)
        assert found is None or found.tolist() == sorted(last.values())
    assert history.count_keys(0, len(written)) == len({number for number, _ in written})


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
        assert np.flatnonzero(history.find_newest(rows)).tolist() == sorted(
            row for row in last.values() if not dead[row]
        )
    for start, stop in zip([*ends, 0], [*ends[1:], len(written), len(written)], strict=True):
        assert history.count_keys(start, stop) == len(set(written[start:stop].tolist()))


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
        return {int(place) for part in log.locate("s", start, stop, find) for place in part}

    log = TailRows("r", base)
    log.append([entry(1, 1, [1, 2]), entry(2, 1, [3])], base)
    assert located(0, 3) == {1, 3, 4}
    log.append([entry(3, 2, [5, 7]), entry(5, 2, [1])], base)
    assert located(3, 6) == {0, 2, 4}
    assert asked == [1, 2, 3, 5, 7, 1]
    assert located(0, 6) == {0, 1, 2, 3, 4}
    assert len(asked) == 6
    assert (located(0, 1), located(1, 4), located(4, 6)) == ({4}, {1, 2, 3}, {0, 4})
    assert (log.find_generation(1), log.find_generation(2), log.find_generation(3)) == ((0, 3), (3, 6), None)


def test_what_was_located_is_told_by_generation(base: Any) -> None:
    source, asked = pa.array([7, 3, 5, 3, 1]), []

    def find(wanted: pa.Array) -> np.ndarray:
        asked.append(wanted.to_pylist())
        return np.flatnonzero(pc.is_in(source, value_set=wanted).to_numpy(zero_copy_only=False))

    def so_far(start: int, stop: int) -> list[list[int]] | None:
        found = log.find_located("s", start, stop)
        return None if found is None else [places.tolist() for places in found]

    log = TailRows("r", base)
    entries = [entry(1, 1, [1]), entry(2, 1, [9, 3]), entry(3, 2, [8]), entry(4, 3, [5, 7]), entry(5, 4, [1])]
    log.append(entries, base)
    assert so_far(0, 3) is None
    for start, stop in ((0, 3), (3, 6), (0, 6), (0, 3), (3, 6)):
        log.locate("s", start, stop, find)
    assert asked == [[1, 9, 3], [8], [5, 7]]
    assert (so_far(0, 3), so_far(3, 4), so_far(4, 6)) == ([[1, 3, 4]], [], [[0, 2]])
    assert (so_far(0, 4), so_far(3, 6), so_far(0, 6)) == ([[1, 3, 4]], [[0, 2]], [[1, 3, 4], [0, 2]])
    # Of a part of what was located together it is not known which rows it has.
    assert (so_far(1, 3), so_far(0, 2), so_far(5, 6), so_far(3, 5)) == (None, None, None, None)
    assert so_far(6, 7) is None
    assert log.find_located("another source", 0, 3) is None
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
    assert before.find_newest().tolist() == [True, False, True]
    assert after.find_newest().tolist() == [False, False, True, False, True]
    found = before.find(pa.table({"id": [2, 3]}))
    assert found is not None
    assert found.tolist() == [2]
    assert before.find(pa.table({"id": [1]})) is None  # a later row hides which one it was
    rest = log.copy_from(2, base).tail()
    assert rest is not None
    assert rest.rows.column("id").to_pylist() == [2, 1, 1]
    assert (rest.log.find_generation(1), rest.log.find_generation(2)) == ((0, 3), None)
    assert len({log.number, rest.log.number, TailRows("r", base).number}) == 3


def test_keys_of_a_stretch_are_distinct_and_made_once(base: Any) -> None:
    log = TailRows("r", base)
    log.append([entry(1, 1, [1, 2, 1]), entry(2, 1, [2, 3])], base)
    first = log.keys(0, 3)
    assert first.to_pylist() == [1, 2]
    assert log.keys(0, 3) is first
    assert log.keys(2, 5).to_pylist() == [1, 2, 3]
    assert log.keys(0, 3).to_pylist() == [1, 2]
    assert [log.count_keys(*one) for one in ((0, 3), (0, 5), (1, 4), (3, 5), (4, 4))] == [2, 3, 2, 2, 0]


def test_entries_without_rows_are_a_tail_without_rows(base: Any) -> None:
    log = TailRows("r", base)
    log.append([entry(1, 1, []), entry(2, 1, [])], base)
    for one in (log, log.copy_from(2, base)):
        tail = one.tail()
        assert tail is not None
        assert (tail.last, tail.rows.schema.names, tail.rows.num_rows) == (2, ["id", "v", "_tombstone"], 0)
        assert (one.keys(0, 0).to_pylist(), tail.find_newest().tolist()) == ([], [])


def test_masks_of_one_tail_are_not_those_of_another(base: Any) -> None:
    with ThreadPoolExecutor(1) as executor:
        masks = visibility.Visibility(ByteCache(1 << 20), executor)
        for keys in ([0, 1, 1], [1, 1, 2], [5, 6, 7]):
            log = TailRows("r", base)
            log.append([entry(1, 1, keys)], base)
            found = masks.compute_masks(TableSnapshot(base, {"r": RegionSnapshot("r", (), log.tail())}))
            newest = [key not in keys[at + 1 :] for at, key in enumerate(keys)]
            assert found.tails["r"].fragments[0].visible.to_pylist() == newest
            hidden = found.base.fragments.get(0)
            assert (hidden is not None and hidden.visible.to_pylist() == [False]) is (0 in keys)


def test_columns_of_an_entry_are_told_by_their_field_ids(base: Any) -> None:
    """A column that was dropped and added again has the name and the type of the one before."""

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
