"""Whether keys of base tables are kept, and where rows are found by them."""

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.memwal.storage.files import Storage
from lance_gateway.planner.tables.sources.base_table import BaseTable, open_base_table
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.visibility import key_search
from lance_gateway.planner.tables.visibility.key_search import (
    INTEGER_BYTES,
    LARGEST_SHARE,
    OTHER_BYTES,
    KeySearch,
    LayerPlaces,
)
from tests.support.lake.tables import key_field

KEYS = [5, 1, 9, 3, 7, 2, 9]


class Counting(Executor):
    """Does at once what it is given, and counts it."""

    def __init__(self) -> None:
        self.route_tasks = 0

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], **_: Any) -> Any:
        results = [fn(*one) for one in zip(*iterables, strict=True)]
        self.route_tasks += len(results)
        return iter(results)


def opened(tmp_path: Path, *kinds: pa.DataType, indexed: bool = False) -> BaseTable:
    """A table in two fragments whose key columns are of these types."""
    names = "ab"[: len(kinds)]
    schema = pa.schema(
        [key_field(name, kind, at) for at, (name, kind) in enumerate(zip(names, kinds, strict=True), 1)]
    )
    path = tmp_path / "t.lance"
    columns = [pa.array(KEYS, pa.int64()).cast(kind) for kind in kinds]
    dataset = lance.write_dataset(pa.table(columns, schema=schema), path, max_rows_per_file=4)
    if indexed:
        dataset.create_scalar_index("a", "BTREE")
    return open_base_table("t", Storage.open(str(path)), None, lance.Session())


@pytest.mark.parametrize(
    ("kinds", "indexed", "size"),
    [
        ((pa.int64(),), False, INTEGER_BYTES),
        ((pa.int8(),), True, INTEGER_BYTES),
        ((pa.uint32(),), False, OTHER_BYTES),
        ((pa.string(),), False, OTHER_BYTES),
        ((pa.string(),), True, None),
        ((pa.int64(), pa.int64()), False, OTHER_BYTES),
    ],
    ids=str,
)
def test_keys_are_kept_where_they_take_a_quarter_of_the_cache_unless_an_index_has_them(
    tmp_path: Path, kinds: tuple[pa.DataType, ...], size: int | None, *, indexed: bool
) -> None:
    base = opened(tmp_path, *kinds, indexed=indexed)
    room = len(KEYS) * LARGEST_SHARE * (size or OTHER_BYTES)
    for more, enough in ((-1, False), (0, True), (1 << 20, True)):
        are_kept = KeySearch(ByteCache(room + more), Counting()).can_keep_keys(base)
        assert are_kept is (enough and size is not None)


@pytest.mark.parametrize("kind", [pa.int64(), pa.int16(), pa.string()])
def test_keys_are_read_once_and_several_fragments_at_a_time(tmp_path: Path, kind: pa.DataType) -> None:
    base, executor = opened(tmp_path, kind), Counting()
    search = KeySearch(ByteCache(1 << 20), executor)
    first, second = base.fragments
    search.read(base, [first])  # by whoever asks for it
    assert executor.route_tasks == 0
    search.read(base, base.fragments)
    search.read(base, base.fragments)
    assert executor.route_tasks == 2
    for file in (tmp_path / "t.lance" / "data").iterdir():
        file.unlink()

    def found(fragment: Any, *keys: int) -> list[int]:
        offsets = search.find_in_fragment(base, fragment, pa.array(keys, pa.int64()).cast(kind))
        assert offsets.dtype == np.uint32
        return [int(one) for one in offsets]

    assert (found(first, 9, 5, 4), found(second, 9, 5, 4), found(second, 9, 7)) == ([0, 2], [2], [0, 2])
    assert found(first, 100) == []


def test_one_that_is_missing_of_several_is_left_to_who_asks(tmp_path: Path) -> None:
    base, executor = opened(tmp_path, pa.int64()), Counting()
    search = KeySearch(ByteCache(1 << 20), executor)
    search.find_in_fragment(base, base.fragments[0], pa.array([5]))
    search.read(base, base.fragments)
    assert executor.route_tasks == 0


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_an_index_is_asked_for_few_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType
) -> None:
    monkeypatch.setattr(key_search, "INDEX_PROBE_KEYS", 3)
    base = opened(tmp_path, kind, indexed=True)
    search = KeySearch(ByteCache(1 << 20), Counting())
    second = base.fragments[1].fragment_id << 32

    def found(*keys: int) -> list[int] | None:
        addresses = search.find_by_index(base, pa.array(keys, pa.int64()).cast(kind))
        return None if addresses is None else sorted(addresses.tolist())

    assert found(9, 2, 100) == [2, second + 1, second + 2]
    assert found(100) == []
    assert found(9, 2, 100, 1) is None


def test_a_table_without_an_index_tells_nothing_by_it(tmp_path: Path) -> None:
    search = KeySearch(ByteCache(1 << 20), Counting())
    assert search.find_by_index(opened(tmp_path, pa.int64()), pa.array([9])) is None


@pytest.mark.parametrize("kind", [pa.int64(), pa.int8(), pa.uint8(), pa.string(), pa.binary()])
def test_rows_of_a_source_are_found_by_key(kind: pa.DataType) -> None:
    def column(keys: list[int]) -> pa.Array:
        words = pa.array(keys, pa.int64())
        return words.cast(pa.string()).cast(kind) if kind == pa.binary() else words.cast(kind)

    layer = LayerPlaces(column(KEYS))
    for _ in range(2 * key_search._SEARCHES_BEFORE_INDEX):
        assert layer.find(column([9, 1, 4])).tolist() == [1, 2, 6]
        assert layer.find(column([4])).tolist() == []
        assert layer.find(column([])).tolist() == []
    assert layer.nbytes >= layer.keys.nbytes


def test_different_keys_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_search, "hash_keys", lambda keys: np.zeros(keys.num_rows, np.uint64))
    monkeypatch.setattr(key_search, "_SEARCHES_BEFORE_INDEX", 0)
    layer = LayerPlaces(pa.array(["b", "a", "c", "a"]))
    assert layer.find(pa.array(["a", "x"])).tolist() == [1, 3]


def test_rows_without_a_key_are_never_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_search, "_SEARCHES_BEFORE_INDEX", 0)
    layer = LayerPlaces(pa.array(["b", None, "a"]))
    assert layer.find(pa.array(["a", "b"])).tolist() == [0, 2]
