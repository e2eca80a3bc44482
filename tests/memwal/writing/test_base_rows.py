"""Row addresses of a base table, as the rows of its fragments."""

import numpy as np
import pytest

from lance_gateway.memwal.writing import group_by_fragment


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ([], {}),
        ([[]], {}),
        ([[7]], {0: [7]}),
        ([[1 << 32, 2, 1], [1, (1 << 32) + 3]], {0: [1, 2], 1: [0, 3]}),
        ([[(5 << 32) + (1 << 32) - 1]], {5: [(1 << 32) - 1]}),
    ],
    ids=["nothing", "an empty batch", "one row", "rows that are there twice", "the last offset"],
)
def test_addresses_are_grouped_by_fragment(
    addresses: list[list[int]], expected: dict[int, list[int]]
) -> None:
    grouped = group_by_fragment([np.array(one, np.uint64) for one in addresses])
    assert {fragment: offsets.tolist() for fragment, offsets in grouped.items()} == expected
