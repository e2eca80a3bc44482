"""Keys are found in a column however they lie in it, and a history of keys grows to any length."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.tables.sources.keys import KeyHistory, to_hashable
from lance_gateway.planner.tables.visibility.key_join import FoundRows, KeyJoin, split_by_layer
from lance_gateway.planner.tables.visibility.newest import find_last_of_each, sort_integers

FAR = 1 << 20
STORED: dict[str, list[int]] = {
    "none": [],
    "one": [5],
    "dense": list(range(-3, 12)),
    "dense from zero": list(range(9)),
    "dense below zero": list(range(-20, -5)),
    "ascending": [-9, -2, 0, 1, 4, 5, 11],
    "ascending, two apart": [-3, 3],
    "ascending from negative to positive": [-5, -1, 4],
    "as long as its ends add up to": [-1, 0, 3],
    "two keys are missing": [0, 1, 2, 5],
    "shuffled": [7, 1, 4, -3, 0, 5, 11, 2],
    "descending": [9, 8, 7, 6, 5],
    "shuffled far from zero": [100_007, 100_001, 100_005],
    "shuffled below zero": [-7, -1, -4, -3],
    "repeated": [4, 4, 1, 0, 4, 11, 1],
    "repeated and ascending": [0, 1, 1, 4, 5, 5],
    "spread": [FAR + 1, 0, 5, -3],
    "spread and ascending": [-FAR, 0, 5, FAR],
    "ends": [2**63 - 1, 0, 4, -(2**63)],
}
WANTED: list[list[list[int]]] = [
    [[]],
    [[4]],
    [[-100, 100]],
    [list(range(-30, 30))],
    [[0, 3, 5], [4]],
    [[5, 4, 4, 5, -3, 1], [11, 0], [], [4, 99]],
    [[-5, -1, -4, 9], [100_001, 100_006, 100_007, 100_008]],
    [[FAR, FAR + 1, -FAR, 2**63 - 1, -(2**63)], [0]],
]


def find(layers: list[list[pa.Array]], *batches: list[pa.Array]) -> list[list[int]]:
    """Search batches of key columns; return the rows of each set, numbered from 0."""
    starts = np.cumsum([0, *(len(batch[0]) for batch in batches)]).tolist()
    found = KeyJoin(layers).search(zip(starts, batches, strict=False))
    return [rows.tolist() for rows in split_by_layer(*found, len(layers))]


@pytest.mark.parametrize("layout", STORED)
@pytest.mark.parametrize("wanted", WANTED, ids=str)
def test_every_row_of_every_wanted_key_is_found(layout: str, wanted: list[list[int]]) -> None:
    stored = STORED[layout]
    for kind in (pa.int64(), pa.uint64(), pa.string(), pa.int32(), pa.int8()):

        def column(values: list[int], kind: pa.DataType = kind) -> pa.Array:
            return pa.array([str(value) if kind == pa.string() else value for value in values], kind)

        try:
            layers, keys = [[column(layer)] for layer in wanted], column(stored)
        except (OverflowError, pa.ArrowInvalid):
            continue  # no values of this type
        half = len(keys) // 2
        batches = [[part] for part in (keys[:half], keys[half:]) if len(part)]
        assert find(layers, *batches) == [
            [at for at, key in enumerate(stored) if key in layer] for layer in wanted
        ]


def test_ascending_keys_of_a_narrow_type_are_found_over_its_whole_range() -> None:
    stored = pa.array(range(-128, 128), pa.int8())
    assert find([[pa.array([127, -128], pa.int8())]], [stored]) == [[0, 255]]


def test_no_set_of_keys_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least one is needed"):
        KeyJoin([])


def test_ascending_integers_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[pa.RecordBatch] = []

    def join(_: KeyJoin, batches: Iterator[pa.RecordBatch]) -> list[FoundRows]:
        joined.extend(batches)
        return []

    monkeypatch.setattr(KeyJoin, "_join", join)
    layers = [[pa.array([4, 5])]]
    assert find(layers, [pa.array([1, 4, 9])], [pa.array([10, 11])]) == [[1]]
    assert not joined
    find(layers, [pa.array([1, 4, 9])], [pa.array([5, 4])], [pa.array([4, 4])])
    assert [batch.column("row").to_pylist() for batch in joined] == [[3, 4], [5, 6]]


def test_rows_ascend_where_some_batches_were_joined() -> None:
    layers = [[pa.array([1, 2, 3])], [pa.array([3])]]
    batches = [[3, 1], [1, 2, 3], [2, 2], [0, 3]]
    assert find(layers, *[[pa.array(batch)] for batch in batches]) == [[0, 1, 2, 3, 4, 5, 6, 8], [0, 4, 8]]


def test_many_keys_of_many_sets_are_found_in_order() -> None:
    rng = np.random.default_rng(3)
    stored = rng.integers(0, 200, 1000)
    layers = [rng.integers(0, 200, 150) for _ in range(5)]
    found = find([[pa.array(layer)] for layer in layers], *[[pa.array(part)] for part in np.split(stored, 4)])
    assert found == [np.flatnonzero(np.isin(stored, layer)).tolist() for layer in layers]


def test_an_error_of_the_storage_keeps_its_type() -> None:
    def fail() -> Iterator[tuple[int, list[pa.Array]]]:
        yield 0, [pa.array(["a"])]
        raise FileNotFoundError("x is gone")

    with pytest.raises(FileNotFoundError, match="x is gone"):
        KeyJoin([[pa.array(["a"])]]).search(fail())


NAN, OTHER_NAN = np.array([0x7FF8 << 48, -1], dtype=np.int64).view(np.float64)
VALUES: list[tuple[list[Any], pa.DataType]] = [
    (["", "a", "ä", "a\u0308", "\U0001f600", "a\0", "A", " a"], pa.string()),
    (["", "ä", "b"], pa.large_string()),
    ([b"", b"\0", b"\0\0", b"\xff"], pa.binary()),
    ([b"ab", b"cd", b"\0\0"], pa.binary(2)),
    ([0.0, -0.0, float(NAN), 1.5, float("inf"), 5e-324], pa.float64()),
    ([0.0, -0.0, 1.5], pa.float32()),
    ([True, False], pa.bool_()),
    ([0, 2**63, 2**64 - 1], pa.uint64()),
    ([-5, 0, 5], pa.timestamp("us", "Europe/Berlin")),
    ([-5, 0, 5], pa.date32()),
    ([0, 5], pa.time64("ns")),
    ([Decimal("-1.50"), Decimal("0.00"), Decimal("99.99")], pa.decimal128(10, 2)),
]


@pytest.mark.parametrize(
    ("values", "kind"), VALUES, ids=lambda one: str(one) if isinstance(one, pa.DataType) else ""
)
def test_a_key_of_any_type_is_found_by_its_own_value_alone(values: list[Any], kind: pa.DataType) -> None:
    stored = pa.array(values, kind)
    for at, value in enumerate(values):
        assert find([[pa.array([value], kind)]], [stored], [stored]) == [[at, at + len(values)]]


def test_one_nan_is_as_good_as_another() -> None:
    assert find([[pa.array([float(OTHER_NAN)])]], [pa.array([1.0, float(NAN)])]) == [[1]]


def test_a_composite_key_is_found_where_all_parts_are_equal() -> None:
    wanted = [pa.array(["a", "ab", ""]), pa.array(["bc", "c", "x"]), pa.array([1, 1, 2])]
    texts, others, numbers = (
        ["a", "ab", "a", "", "", "a"],
        ["bc", "c", "c", "x", "x", "bc"],
        [1, 1, 1, 2, 1, 1],
    )
    assert find([wanted], [pa.array(texts), pa.array(others), pa.array(numbers)]) == [[0, 1, 3, 5]]


@pytest.mark.parametrize("step", [1, 7, 63, 64, 65, 500])
def test_a_history_of_many_rows_is_right_after_every_step(step: int) -> None:
    rng = np.random.default_rng(step)
    keys, dead = rng.integers(0, 40, 500), rng.integers(0, 4, 500) == 0
    history = KeyHistory()
    for start in range(0, 500, step):
        part = slice(start, start + step)
        history.extend(pa.array(keys[part]), dead[part], [0, len(keys[part])])
        rows = history.rows
        assert rows == min(start + step, 500)
        last = {int(key): row for row, key in enumerate(keys[:rows])}
        shown = [row for row in sorted(last.values()) if not dead[row]]
        assert np.flatnonzero(history.find_newest(rows)).tolist() == shown
        found = history.find(pa.array(range(50)), rows)
        assert found is not None
        assert found.tolist() == sorted(last.values())
    for stop in range(0, 501, step):
        assert history.count_keys(0, stop) == len(set(keys[:stop].tolist()))
        assert history.count_keys(stop // 2, stop) <= len(set(keys[stop // 2 : stop].tolist()))
    assert history.find(pa.array([int(keys[0])]), 1) is None


def test_one_step_may_have_several_cuts() -> None:
    history = KeyHistory()
    history.extend(pa.array([1, 2, 1, 3, 2]), np.zeros(5, np.bool_), [0, 2, 2, 4, 5])
    for rows, shown in ((2, [0, 1]), (4, [1, 2, 3]), (5, [2, 3, 4])):
        assert np.flatnonzero(history.find_newest(rows)).tolist() == shown
        assert history.count_keys(0, rows) == len(shown)
    assert history.count_keys(2, 4) == 2
    assert history.find(pa.array([1]), 2) is None


def test_unknown_keys_are_in_no_row() -> None:
    found = KeyHistory().find(pa.array([1, 2]), 0)
    assert found is not None
    assert (found.tolist(), found.dtype) == ([], np.dtype(np.int64))


@pytest.mark.parametrize(
    ("values", "kind", "equal"),
    [
        ([1, 2, 1], pa.int32(), [0, 1, 0]),
        ([2**64 - 1, 2**63 - 1], pa.uint64(), [0, 1]),
        (["a", "", "a"], pa.string(), [0, 1, 0]),
        ([b"a", None, None], pa.binary(), [0, 1, 1]),
        ([0.0, -0.0, float(NAN), float(OTHER_NAN), 1.5, 1.5], pa.float64(), [0, 1, 2, 2, 3, 3]),
        ([0.0, -0.0, 1.5, 1.5], pa.float32(), [0, 1, 2, 2]),
        ([5, 6, 5], pa.timestamp("ns"), [0, 1, 0]),
        ([5, 6, 5], pa.date32(), [0, 1, 0]),
        ([5, 6, 5], pa.time32("s"), [0, 1, 0]),
        ([True, False, True], pa.bool_(), [0, 1, 0]),
    ],
    ids=str,
)
def test_values_are_equal_where_keys_are(values: list[Any], kind: pa.DataType, equal: list[int]) -> None:
    found = to_hashable(pa.array(values, kind))
    assert len(found) == len(values)
    if pa.types.is_temporal(kind):
        assert found == values
    numbers: dict[Any, int] = {}
    assert [numbers.setdefault(one, len(numbers)) for one in found] == equal


@pytest.mark.parametrize("layout", [*STORED, "as far apart as can be"])
def test_keys_are_ordered_by_value_then_by_row(layout: str) -> None:
    ends = [2**63 - 1, -(2**63), 0, 2**63 - 1, -(2**63)]
    keys = np.array(STORED.get(layout, ends), dtype=np.int64)
    ordered, rows = sort_integers(keys)
    assert rows.tolist() == np.argsort(keys, kind="stable").tolist()
    assert ordered.tolist() == sorted(keys.tolist())
    last = {key: row for row, key in enumerate(keys.tolist())}
    assert np.flatnonzero(find_last_of_each(pa.array(keys))).tolist() == sorted(last.values())
