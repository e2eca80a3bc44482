"""Keys are found in a column however they lie in it, and a history of keys grows to any length."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from memwal.errors import InvalidInputError
from planner.tables.sources.keys import KeyHistory, to_hashable
from planner.tables.visibility.key_probe import MAX_SLOTS_PER_ROW, KeyProbe, _OffsetTable

FAR = MAX_SLOTS_PER_ROW << 16
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


@pytest.mark.parametrize("wanted", WANTED, ids=str)
@pytest.mark.parametrize("layout", STORED)
def test_every_row_of_every_wanted_key_is_found(layout: str, wanted: list[list[int]]) -> None:
    stored = STORED[layout]
    for kind in (pa.int64(), pa.uint64(), pa.string(), pa.int32(), pa.int8()):

        def column(values: list[int], kind: pa.DataType = kind) -> pa.Array:
            return pa.array([str(value) if kind == pa.string() else value for value in values], kind)

        try:
            layers, keys = [column(layer) for layer in wanted], column(stored)
        except (OverflowError, pa.ArrowInvalid):
            continue  # no values of this type
        probe = KeyProbe(layers)
        for _ in range(2):
            found = probe.search(keys)
            assert [one.tolist() for one in found] == [
                [at for at, key in enumerate(stored) if key in layer] for layer in wanted
            ]
            assert {one.dtype for one in found} == {np.dtype(np.uint32)}


def test_no_set_of_keys_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="it needs at least one"):
        KeyProbe([])


@pytest.mark.parametrize(("layout", "hashes"), [("dense", False), ("shuffled", False), ("repeated", True)])
def test_integers_are_hashed_only_where_they_repeat_or_spread(layout: str, *, hashes: bool) -> None:
    probe = KeyProbe([pa.array([4, 5])])
    probe.search(pa.array(STORED[layout]))
    assert (probe._hashed is not None) is hashes


def test_a_table_of_offsets_is_as_long_as_the_span_of_its_keys() -> None:
    table = _OffsetTable.of(np.array([7, -3, 4]))
    assert table is not None
    assert table._table.tolist() == [1, -1, -1, -1, -1, -1, -1, 2, -1, -1, 0]
    assert table._table.dtype == np.int32
    assert _OffsetTable.of(np.array([7, -3, 7])) is None


def test_a_table_of_offsets_has_a_largest_size() -> None:
    assert _OffsetTable.of(np.array([FAR - 1, 0])) is not None
    assert _OffsetTable.of(np.array([FAR, 0])) is None
    # More keys may spread further.
    count = 2 << 16
    keys = np.arange(count)[::-1] * MAX_SLOTS_PER_ROW
    assert _OffsetTable.of(keys) is not None
    assert _OffsetTable.of(np.append(keys, count * MAX_SLOTS_PER_ROW * 2)) is None


def test_many_keys_of_many_sets_are_found_in_order() -> None:
    rng = np.random.default_rng(3)
    stored = rng.integers(0, 200, 1000)
    layers = [rng.integers(0, 200, 150) for _ in range(5)]
    found = KeyProbe([pa.array(layer) for layer in layers]).search(pa.array(stored))
    for one, layer in zip(found, layers, strict=True):
        assert one.tolist() == np.flatnonzero(np.isin(stored, layer)).tolist()


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


NAN, OTHER_NAN = np.array([0x7FF8 << 48, -1], dtype=np.int64).view(np.float64)


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
