"""Sets of rows, written as Lance reads them."""

import numpy as np
import pytest
from lance.lance import _serialize_row_addrs

from execnodes.roaring import bitmap, treemap
from execnodes.row_mask import fragment_mask

SETS = {
    "empty": [],
    "few": [0, 7, 65_535],
    "several containers": [1, 65_536, 65_537, 1 << 20, (1 << 32) - 1],
    "the longest list": list(range(0, 8192, 2)),
    "the shortest bits": list(range(0, 8194, 2)),
    "a run": list(range(100_000)),
}


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_a_set_of_rows_is_written_as_lance_writes_it(values: list[int]):
    written = treemap({0: bitmap(np.array(values, dtype=np.uint32))} if values else {})
    assert written == _serialize_row_addrs(values)


def test_fragments_ascend():
    rows = {7: [9], 0: [1, 2]}
    bitmaps = {one: bitmap(np.array(offsets, dtype=np.uint32)) for one, offsets in rows.items()}
    assert treemap(bitmaps) == _serialize_row_addrs([1, 2, (7 << 32) + 9])


def test_a_mask_knows_the_rows_that_it_hides():
    hidden = np.array([3, 70_000, 69_999], dtype=np.uint32)
    mask = fragment_mask(80_000, hidden)
    assert mask.hidden_offsets.tolist() == [3, 69_999, 70_000]
    assert treemap({0: mask.hidden_bitmap}) == _serialize_row_addrs([3, 69_999, 70_000])
