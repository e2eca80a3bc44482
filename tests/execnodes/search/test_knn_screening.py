"""Screening by squares and products loses no row that is among the nearest."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_gateway.execnodes.search.distances import compute_distances, select_nearest
from lance_gateway.execnodes.search.vector_blocks import VectorBlock
from lance_gateway.execnodes.search.vector_search import screen_nearest

ROWS = 2_100


def block(vectors: np.ndarray) -> VectorBlock:
    return VectorBlock(np.arange(len(vectors), dtype=np.uint64), vectors)


@settings(derandomize=True, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    dimension=st.integers(1, 40),
    scale=st.sampled_from([1e-22, 1e-20, 1e-3, 1.0, 1e6, 1e18]),
    shift=st.sampled_from([0.0, 1.0, 1e4]),
    hidden=st.sampled_from([0.0, 0.3, 0.97]),
)
def test_the_nearest_rows_are_those_of_all_distances(
    seed: int, dimension: int, scale: float, shift: float, hidden: float
) -> None:
    rng = np.random.default_rng(seed)
    # Few different values far from zero: squares cancel out, and many rows are equally far away.
    vectors = ((rng.integers(0, 7, (ROWS, dimension)) + shift) * scale).astype(np.float32)
    query = ((rng.integers(0, 7, dimension) + shift) * scale).astype(np.float32)
    unwanted = rng.random(ROWS) < hidden
    rows = screen_nearest(block(vectors), query, 5, unwanted)
    found = compute_distances("l2", vectors, query)
    found[unwanted] = np.nan
    expected = select_nearest(found, np.arange(ROWS, dtype=np.uint64), 5)
    if rows is not None:
        kept = select_nearest(found[rows], rows.astype(np.uint64), 5)
        assert [one.tolist() for one in kept] == [one.tolist() for one in expected]


def test_few_rows_remain_where_distances_differ() -> None:
    vectors = np.random.default_rng(0).standard_normal((8_000, 64), dtype=np.float32)
    rows = screen_nearest(block(vectors), vectors[17], 10, None)
    assert rows is not None
    assert 17 in rows
    assert len(rows) == 10


@pytest.mark.parametrize("odd", [np.nan, np.inf, 3e38])
def test_all_rows_are_looked_at_where_squares_are_no_numbers(odd: float) -> None:
    vectors = np.zeros((ROWS, 4), dtype=np.float32)
    vectors[7, 2] = odd
    assert screen_nearest(block(vectors), np.zeros(4, dtype=np.float32), 5, None) is None


def test_all_rows_are_looked_at_where_fewer_than_k_count() -> None:
    unwanted = np.ones(ROWS, dtype=np.bool_)
    unwanted[3] = False
    vectors = np.zeros((ROWS, 4), dtype=np.float32)
    assert screen_nearest(block(vectors), np.zeros(4, dtype=np.float32), 5, unwanted) is None
