"""Keys of the base table that are looked up often are found by their place."""

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_gateway.execnodes import KeySet
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.sources.base_table import BaseTable, open_base_table
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.sources.keys import (
    LARGEST_SHARE,
    LOOKUPS_BEFORE,
    FragmentKeys,
    KeyPlaces,
    KeyRanges,
)
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.lake.tables import key_field

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])


def write(root: Path, ids: list[int]) -> Path:
    table = pa.table({"id": ids, "v": [f"v{key}" for key in ids]}, schema=SCHEMA)
    path = root / "t.lance"
    lance.write_dataset(table, str(path), max_rows_per_file=4)
    return path


def opened(path: Path) -> BaseTable:
    return open_base_table("t", Storage.open(str(path)), None, lance.Session())


def ask(places: KeyPlaces, base: BaseTable, *keys: int) -> dict[int, list[int]] | None:
    found = places.find(base, KeySet(pa.table({"id": pa.array(keys, pa.int64())})))
    return None if found is None else {fragment: offsets.tolist() for fragment, offsets in found.items()}


@given(st.lists(st.integers(-5, 5), min_size=1), st.sets(st.integers(-6, 6), min_size=1))
def test_a_fragment_finds_all_rows_of_its_keys(stored: list[int], wanted: set[int]) -> None:
    found = FragmentKeys.of(pa.array(stored, pa.int64())).find(np.array(sorted(wanted)))
    assert found.tolist() == [row for row, key in enumerate(stored) if key in wanted]


def test_nothing_is_known_until_a_table_has_been_asked_for_often_enough(tmp_path: Path) -> None:
    base = opened(write(tmp_path, [5, 1, 9, 3, 7, 2]))
    with ThreadPoolExecutor(1) as executor:
        places = KeyPlaces(ByteCache(1 << 20), executor)
        assert [ask(places, base, 7) for _ in range(LOOKUPS_BEFORE)] == [None] * LOOKUPS_BEFORE
    first, second = (fragment.fragment_id for fragment in base.fragments)
    assert ask(places, base, 7, 1, 4) == {first: [1], second: [0]}
    assert ask(places, base, 4) == {}


class Waiting(Executor):
    """Does what it is given when it is told to."""

    def __init__(self) -> None:
        self.route_tasks: list[Callable[[], object]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.route_tasks.append(lambda: fn(*args, **kwargs))
        return Future()

    def run(self) -> None:
        """Do the only task."""
        (task,) = self.route_tasks
        self.route_tasks.clear()
        task()


def test_keys_are_read_once_when_the_last_of_so_many_lookups_asks(tmp_path: Path) -> None:
    path = write(tmp_path, [5, 1, 9, 3, 7, 2])
    base, executor = opened(path), Waiting()
    places = KeyPlaces(ByteCache(1 << 20), executor)
    for asked in range(1, 2 * LOOKUPS_BEFORE):
        assert ask(places, base, 7) is None
        assert len(executor.route_tasks) == (asked >= LOOKUPS_BEFORE)
    executor.run()
    assert ask(places, base, 7) == {base.fragments[1].fragment_id: [0]}
    # Who asked that often need not wait so long for the next version.
    lance.dataset(str(path)).delete("id = 1")
    lance.write_dataset(pa.table({"id": [11], "v": ["v11"]}, schema=SCHEMA), str(path), mode="append")
    newer = opened(path)
    for _ in range(3):
        assert ask(places, newer, 11) is None
        assert len(executor.route_tasks) == 1
    executor.run()
    assert ask(places, newer, 11) == {newer.fragments[-1].fragment_id: [0]}
    assert executor.route_tasks == []


def test_keys_that_left_the_cache_wait_for_as_many_lookups_again(tmp_path: Path) -> None:
    base, cache, executor = opened(write(tmp_path, [5, 1, 9])), ByteCache(1 << 20), Waiting()
    places = KeyPlaces(cache, executor)
    for _ in range(LOOKUPS_BEFORE):
        ask(places, base, 9)
    executor.run()
    assert ask(places, base, 9) == {base.fragments[0].fragment_id: [2]}
    cache.put("something else", None, cache.max_bytes)
    # The one that missed them is the first.
    for asked in range(1, LOOKUPS_BEFORE + 3):
        assert ask(places, base, 9) is None
        assert len(executor.route_tasks) == (asked >= LOOKUPS_BEFORE)


def test_tables_are_counted_apart(tmp_path: Path) -> None:
    roots = [tmp_path / name for name in ("one", "other")]
    for root in roots:
        root.mkdir()
    one, other = (opened(write(root, [5, 1, 9])) for root in roots)
    executor = Waiting()
    places = KeyPlaces(ByteCache(1 << 20), executor)
    for _ in range(LOOKUPS_BEFORE - 1):
        assert (ask(places, one, 9), ask(places, other, 9)) == (None, None)
    assert executor.route_tasks == []
    assert ask(places, one, 9) is None
    executor.run()
    assert ask(places, other, 9) is None
    executor.run()
    assert ask(places, one, 1, 9) == {one.fragments[0].fragment_id: [1, 2]}
    assert ask(places, other, 5) == {other.fragments[0].fragment_id: [0]}


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.uint32(), pa.string()])
def test_only_signed_integers_are_kept(tmp_path: Path, kind: pa.DataType) -> None:
    schema = pa.schema([key_field("id", kind)])
    lance.write_dataset(pa.table([pa.array([3, 1, 2]).cast(kind)], schema=schema), tmp_path / "t.lance")
    base, executor = opened(tmp_path / "t.lance"), Waiting()
    places = KeyPlaces(ByteCache(1 << 20), executor)
    wanted = KeySet(pa.table([pa.array([1]).cast(kind)], names=["id"]))
    assert [places.find(base, wanted) for _ in range(LOOKUPS_BEFORE)] == [None] * LOOKUPS_BEFORE
    assert len(executor.route_tasks) == pa.types.is_signed_integer(kind)


def test_keys_of_several_columns_are_left_to_lance(tmp_path: Path) -> None:
    schema = pa.schema([key_field("a", pa.int64(), 1), key_field("b", pa.int64(), 2)])
    lance.write_dataset(pa.table([[1], [2]], schema=schema), tmp_path / "t.lance")
    base, executor = opened(tmp_path / "t.lance"), Waiting()
    places = KeyPlaces(ByteCache(1 << 20), executor)
    wanted = KeySet(pa.table({"a": [1], "b": [2]}))
    assert [places.find(base, wanted) for _ in range(LOOKUPS_BEFORE)] == [None] * LOOKUPS_BEFORE
    assert executor.route_tasks == []


def test_no_keys_are_nowhere(tmp_path: Path) -> None:
    places = KeyPlaces(ByteCache(1 << 20), Waiting())
    assert ask(places, opened(write(tmp_path, [5]))) == {}


@pytest.mark.parametrize("room", [-1, 0])
def test_keys_are_read_where_they_take_a_quarter_of_the_cache(tmp_path: Path, room: int) -> None:
    base, executor = opened(write(tmp_path, list(range(100)))), Waiting()
    places = KeyPlaces(ByteCache(100 * 12 * LARGEST_SHARE + room), executor)
    for _ in range(LOOKUPS_BEFORE):
        assert ask(places, base, 7) is None
    assert len(executor.route_tasks) == (room == 0)


def test_keys_that_would_fill_the_cache_are_left_to_lance(tmp_path: Path) -> None:
    base = opened(write(tmp_path, list(range(100))))
    with ThreadPoolExecutor(1) as executor:
        places = KeyPlaces(ByteCache(100 * 12 * 4 - 1), executor)
        for _ in range(LOOKUPS_BEFORE):
            ask(places, base, 7)
    assert ask(places, base, 7) is None


def test_keys_that_left_the_cache_are_read_again_for_who_keeps_asking(tmp_path: Path) -> None:
    base, cache = opened(write(tmp_path, [5, 1, 9, 3, 7, 2])), ByteCache(6 * 12 * 4)
    with ThreadPoolExecutor(1) as executor:
        places = KeyPlaces(cache, executor)
        for _ in range(3):
            for _ in range(LOOKUPS_BEFORE):
                assert ask(places, base, 7) is None
            executor.submit(int).result()  # the only thread has read them by then
            assert ask(places, base, 7) == {base.fragments[1].fragment_id: [0]}
            cache.put("something else", None, cache.max_bytes)


@given(st.lists(st.lists(st.integers(-20, 20), max_size=4), min_size=1, max_size=5), st.data())
def test_only_fragments_whose_keys_span_a_wanted_one_are_searched(
    fragments: list[list[int]], data: st.DataObject
) -> None:
    keys = [np.array(sorted(keys), dtype=np.int64) for keys in fragments]
    ranges = KeyRanges.of((("t", 0), 1), [(number, (number,), one) for number, one in enumerate(keys)])
    wanted = sorted(data.draw(st.sets(st.integers(-22, 22), min_size=1)))
    found = {number for number, _ in ranges.find_fragments(np.array(wanted))}
    having = {number for number, keys in enumerate(fragments) if not set(keys).isdisjoint(wanted)}
    assert having <= found
    assert all(min(fragments[one]) <= wanted[-1] and max(fragments[one]) >= wanted[0] for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("ids", [list(range(12)), [5, 1, 9, 3, 7, 2, 11, 0]], ids=["ascending", "shuffled"])
def test_answers_stay_the_same_through_deletes_and_new_versions(tmp_path: Path, ids: list[int]) -> None:
    path = write(tmp_path, ids)
    lance.dataset(str(path)).initialize_mem_wal()
    engine = QueryEngine(Catalog.open(str(tmp_path)))
    prepared = engine.prepare("SELECT v FROM t WHERE id = $1")

    def answers() -> list[list[str]]:
        rounds = [
            [
                row
                for key in range(12)
                for row in prepared.execute([pa.scalar(key)]).read_all().column("v").to_pylist()
            ]
            for _ in range(3)
        ]
        assert rounds[0] == rounds[1] == rounds[2]
        return rounds[0]

    assert answers() == [f"v{key}" for key in sorted(ids)]
    lance.dataset(str(path)).delete("id IN (1, 7)")
    assert answers() == [f"v{key}" for key in sorted(ids) if key not in (1, 7)]
    lance.dataset(str(path)).optimize.compact_files()
    assert answers() == [f"v{key}" for key in sorted(ids) if key not in (1, 7)]
    engine.close()
