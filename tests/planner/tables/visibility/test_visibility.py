"""What decides which row is the newest: probes, layers, and the caches behind them."""

import datetime as dt
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_gateway.execnodes import LanceSource, StoredColumn
from lance_gateway.execnodes.rows.row_mask import (
    CHUNK_ROWS,
    RowMask,
    build_fragment_mask,
    build_mask,
    group_by_fragment,
)
from lance_gateway.execnodes.storage.source import ColumnMapping
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.sources.decoded_columns import DecodedColumns
from lance_gateway.planner.tables.sources.generations import LayerKeys
from lance_gateway.planner.tables.sources.keys import combine_key_columns
from lance_gateway.planner.tables.visibility.key_join import KeyJoin, split_by_layer
from lance_gateway.planner.tables.visibility.newest import find_newest_in_layers

NARROW, WIDE = st.integers(0, 20), st.sampled_from([0, 1, 2**31, 2**62, 2**63 - 1])


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    layers=st.lists(st.lists(NARROW | WIDE, max_size=8), min_size=1, max_size=4),
    stored=st.lists(NARROW | WIDE, max_size=30),
    as_text=st.booleans(),
)
def test_a_join_finds_every_row_of_every_wanted_key(
    layers: list[list[int]], stored: list[int], as_text: bool
) -> None:
    def column(values: list[int]) -> pa.Array:
        return pa.array(map(str, values), pa.string()) if as_text else pa.array(values, pa.int64())

    found = KeyJoin([[column(layer)] for layer in layers]).search([(0, [column(stored)])] if stored else [])
    assert [one.tolist() for one in split_by_layer(*found, len(layers))] == [
        [at for at, key in enumerate(stored) if key in layer] for layer in layers
    ]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    layers=st.lists(st.lists(st.tuples(NARROW | WIDE, st.booleans()), max_size=8), min_size=1, max_size=4),
    as_text=st.booleans(),
)
def test_the_last_row_of_a_key_is_the_newest_unless_it_is_a_tombstone(
    layers: list[list[tuple[int, bool]]], as_text: bool
) -> None:
    last: dict[int, tuple[int, int]] = {}
    for number, layer in enumerate(layers):
        last.update({key: (number, row) for row, (key, _) in enumerate(layer)})
    built = [
        LayerKeys(
            (
                pa.array(
                    [str(key) if as_text else key for key, _ in layer], pa.string() if as_text else pa.int64()
                ),
            ),
            np.arange(len(layer), dtype=np.uint64),
            np.array([dead for _, dead in layer], dtype=np.bool_),
        )
        for layer in layers
    ]
    assert [one.tolist() for one in find_newest_in_layers(built)] == [
        [last[key] == (number, row) and not dead for row, (key, dead) in enumerate(layer)]
        for number, layer in enumerate(layers)
    ]


@pytest.mark.parametrize(
    "keys",
    [
        [0, 2**62, 0, 2**62],
        [-(2**62), 0, -(2**62), 0],
        [2**62, 2**62],
        [0, 2**62, 0],
        [0, 0, 2**63 // 3],
        [-(2**62), 2**62, -(2**62)],
        [-(2**62), -(2**62), -(2**62)],
    ],
)
def test_keys_that_lie_far_apart_are_told_apart(keys: list[int]) -> None:
    layer = LayerKeys((pa.array(keys),), np.arange(len(keys), dtype=np.uint64), np.zeros(len(keys), np.bool_))
    (newest,) = find_newest_in_layers([layer])
    assert newest.tolist() == [key not in keys[at + 1 :] for at, key in enumerate(keys)]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=3), st.integers(-99, 99)), max_size=12)
)
def test_composite_keys_are_equal_as_one_column_exactly_if_all_parts_are(
    rows: list[tuple[str, bytes, int]],
) -> None:
    texts, blobs, numbers = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    table = pa.table(
        {
            "a": pa.array(texts, pa.string()),
            "b": pa.array(blobs, pa.binary()),
            "c": pa.array(numbers, pa.int16()),
        }
    )
    assert len(set(combine_key_columns(table).to_pylist())) == len(set(rows))


@given(
    rows=st.lists(st.tuples(st.integers(-2, 2), st.dates(), st.integers(-(2**63), 2**63 - 1)), max_size=12),
    skipped=st.integers(0, 3),
)
def test_composite_keys_of_fixed_width_are_equal_exactly_if_all_parts_are(
    rows: list[tuple[int, dt.date, int]], skipped: int
) -> None:
    numbers, dates, others = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    columns = [pa.array(numbers, pa.int8()), pa.array(dates, pa.date32()), pa.array(others, pa.int64())]
    combined = combine_key_columns(pa.table([one.slice(skipped) for one in columns], names=["a", "b", "c"]))
    combined.validate(full=True)
    assert [combined.index(key).as_py() for key in combined] == [
        rows[skipped:].index(row) for row in rows[skipped:]
    ]


def test_addresses_are_split_by_fragment() -> None:
    addresses = np.array([(3 << 32) | 5, 1, (3 << 32) | 2], dtype=np.uint64)
    assert {key: value.tolist() for key, value in group_by_fragment(addresses).items()} == {0: [1], 3: [2, 5]}


def test_a_mask_shows_rows_at_addresses_and_no_others() -> None:
    addresses = np.array([(3 << 32) | 1, 2], dtype=np.uint64)
    shown = build_mask(addresses, {0: 3, 1: 2, 3: 2}).fragments
    assert {key: mask.visible.to_pylist() for key, mask in shown.items()} == {
        0: [False, False, True],
        1: [False, False],
        3: [False, True],
    }
    assert all(mask.hides_deleted is True for mask in shown.values())


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    rows=st.integers(1, 200),
    hidden=st.lists(st.lists(st.integers(0, 199), max_size=5), max_size=4),
    named=st.booleans(),
)
def test_a_mask_that_hides_more_is_the_mask_of_all_that_is_hidden(
    rows: int, hidden: list[list[int]], named: bool
) -> None:
    mask, everything = build_fragment_mask(rows, np.array([], np.uint32)), set()
    for offsets in hidden:
        if named:
            assert mask.digests
        within = [one for one in offsets if one < rows]
        everything.update(within)
        mask = mask.without(np.array(within, np.uint32))
    expected = build_fragment_mask(rows, np.array(sorted(everything), np.uint32))
    assert mask.visible.equals(expected.visible)
    assert mask.digests == expected.digests


class TestByteCache:
    def test_the_least_recently_used_value_leaves_when_room_is_needed(self) -> None:
        cache = ByteCache(10)
        cache.put("a", 1, 4)
        cache.put("b", 2, 4)
        assert cache.get("a") == 1
        cache.put("c", 3, 4)
        assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
        assert cache.nbytes == 8

    def test_what_is_larger_than_the_cache_is_handed_out_but_not_kept(self) -> None:
        cache = ByteCache(10)
        assert cache.compute("a", lambda: "large", lambda _: 11) == "large"
        assert cache.get("a") is None

    def test_a_value_is_computed_once_however_many_ask(self) -> None:
        cache, calls = ByteCache(10), []
        everyone_asked = threading.Barrier(4)

        def make() -> str:
            calls.append(1)
            return "value"

        def ask(_: int) -> str:
            everyone_asked.wait()
            return cache.compute("key", make, lambda _: 1)

        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(ask, range(4))) == ["value"] * 4
        assert calls == [1]

    def test_a_failure_is_not_kept(self) -> None:
        cache = ByteCache(10)

        def fail() -> str:
            raise OSError("gone")

        with pytest.raises(OSError, match="gone"):
            cache.compute("key", fail, lambda _: 1)
        assert cache.compute("key", lambda: "back", lambda _: 1) == "back"

    def test_no_room_at_all_is_refused(self) -> None:
        with pytest.raises(ValueError, match="a cache needs room: 0 bytes given"):
            ByteCache(0)


def stored_as(schema: pa.Schema) -> ColumnMapping:
    """Columns stored as the table has them."""
    return ColumnMapping({field.name: StoredColumn(field.name, field.type) for field in schema})


def hiding(rows: int, hidden: Sequence[int]) -> RowMask:
    """A mask of fragment 0."""
    return RowMask({0: build_fragment_mask(rows, np.array(hidden, np.uint32))})


def values(columns: DecodedColumns, source: LanceSource, hidden: list[int] | None = None) -> list[str]:
    """Column v of the visible rows."""
    mask = RowMask() if hidden is None else hiding(6, hidden)
    batches, too_large = columns.read(source, (0,), ["v"], mask)
    assert not too_large
    return [value for batch in batches for value in batch.column("v").to_pylist()]


class TestDecodedColumns:
    @pytest.fixture
    def source(self, tmp_path: Path) -> LanceSource:
        table = pa.table({"id": range(6), "v": list("abcdef")})
        dataset = lance.write_dataset(table, str(tmp_path / "t.lance"))
        return LanceSource("t", dataset, table.schema, stored_as(table.schema))

    def test_every_row_is_read_where_nothing_hides_it(self, source: LanceSource) -> None:
        assert values(DecodedColumns(1 << 20), source) == list("abcdef")

    def test_hidden_rows_are_left_out_whatever_was_kept_before(self, source: LanceSource) -> None:
        columns = DecodedColumns(1 << 20)
        assert values(columns, source) == list("abcdef")
        assert values(columns, source, hidden=[0, 5]) == list("bcde")
        assert values(columns, source, hidden=[5]) == list("abcde")
        assert values(columns, source, hidden=[0, 5]) == list("bcde")

    def test_kept_rows_of_small_fragments_are_read_together(self, source: LanceSource) -> None:
        columns = DecodedColumns(1 << 20)
        parts = [(source, (0,), RowMask()), (source, (0,), hiding(6, [1, 2])), (source, (0,), hiding(6, []))]
        assert list(columns.read_kept(parts, ["v"])[0]) == []
        values(columns, source)
        for _ in range(3):  # at first the rows are hidden, then they are kept without the hidden ones
            read, batches = columns.read_kept([*parts, (source, (0,), hiding(6, range(6)))], ["v"])
            assert set(read) == {0, 1, 2, 3}
            found = sorted(value for batch in batches for value in batch.column("v").to_pylist())
            assert found == sorted("abcdef" + "adef" + "abcdef")

    def test_parts_that_are_not_kept_as_a_whole_are_left(self, tmp_path: Path) -> None:
        table = pa.table({"id": range(6), "v": list("abcdef")})
        dataset = lance.write_dataset(table, str(tmp_path / "t.lance"), max_rows_per_file=3)
        source = LanceSource("t", dataset, table.schema, stored_as(table.schema))
        columns = DecodedColumns(1 << 20)
        batches, _ = columns.read(source, (0,), ["v"], RowMask())
        assert [batch.column("v").to_pylist() for batch in batches] == [list("abc")]
        read, kept = columns.read_kept([(source, (0, 1), RowMask()), (source, (0,), RowMask())], ["v"])
        assert set(read) == {1}
        assert [batch.column("v").to_pylist() for batch in kept] == [list("abc")]

    def test_deleted_rows_are_absent_and_older_versions_keep_theirs(self, source: LanceSource) -> None:
        columns = DecodedColumns(1 << 20)
        newer = lance.dataset(source.dataset.uri)  # type: ignore[attr-defined]
        newer.delete("id in (0, 3)")
        after = LanceSource("t", newer, source.schema, source.stored)
        assert values(columns, after) == list("bcef")
        assert values(columns, source) == list("abcdef")
        assert values(columns, after, hidden=[1, 3]) == list("cef")

    def test_a_chunk_is_masked_anew_without_being_decoded_again(self, tmp_path: Path) -> None:
        rows = 3 * CHUNK_ROWS + 7
        table = pa.table({"v": np.arange(rows)})
        dataset = lance.write_dataset(table, str(tmp_path / "c.lance"), max_rows_per_file=rows)
        source = LanceSource("c", dataset, table.schema, stored_as(table.schema))
        columns = DecodedColumns(1 << 24)
        few = hiding(rows, [5])
        for _ in range(2):  # what is read once is not kept
            list(columns.read(source, (0,), ["v"], few)[0])
        for file in (tmp_path / "c.lance" / "data").iterdir():
            file.unlink()
        gone = np.array([5, CHUNK_ROWS + 1, rows - 1], np.uint32)
        after = list(columns.read(source, (0,), ["v"], few.without({0: gone}, {0: rows}))[0])
        assert pa.concat_batches(after).column(0).to_pylist() == [
            row for row in range(rows) if row not in gone.tolist()
        ]

    def test_a_masked_chunk_is_kept_once_the_same_rows_are_asked_for_again(self, tmp_path: Path) -> None:
        table = pa.table({"v": np.arange(100)})
        dataset = lance.write_dataset(table, str(tmp_path / "c.lance"))
        source = LanceSource("c", dataset, table.schema, stored_as(table.schema))
        columns = DecodedColumns(1 << 24)
        few = hiding(100, [5])
        first, _, third, fourth = (
            next(columns.read(source, (0,), ["v"], few)[0]).column(0) for _ in range(4)
        )
        assert first.equals(fourth)
        assert third.buffers()[1].address == fourth.buffers()[1].address

    def test_a_scan_larger_than_half_the_budget_does_not_use_the_cache(self) -> None:
        columns = DecodedColumns(1600)
        assert columns.fits([pa.int64()], 100)
        assert not columns.fits([pa.int64()], 101)
        assert not columns.fits([pa.list_(pa.float32(), 128)], 2)

    def test_wide_columns_are_left_to_lance(self, tmp_path: Path) -> None:
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(1 << 20, dtype=np.float32)), 1 << 10)
        table = pa.table({"v": pa.concat_arrays([vectors] * 5)})
        dataset = lance.write_dataset(table, str(tmp_path / "v.lance"))
        source = LanceSource("v", dataset, table.schema, stored_as(table.schema))
        batches, too_large = DecodedColumns(1 << 30).read(source, (0,), ["v"], RowMask())
        assert (list(batches), too_large) == ([], (0,))
