"""Distances are Lance's, whatever the vectors are made of."""

from pathlib import Path

import numpy as np
import pytest

from lance_gateway.execnodes.node import ROW_ADDRESS
from lance_gateway.execnodes.search.distances import METRICS, NearestRows, compute_distances, select_nearest
from tests.planner.search.sources.vector_sources import dataset_of, rows_of, true_distances

FLOATS = (np.float16, np.float32, np.float64)


def by_lance(path: Path, vectors: np.ndarray, query: np.ndarray, metric: str) -> dict[int, float]:
    """Row -> distance, as Lance's own search over all rows tells."""
    rows = (
        dataset_of(path, rows_of(vectors))
        .scanner(
            columns=["_distance"],
            nearest={"column": "vec", "q": query, "k": len(vectors), "use_index": False, "metric": metric},
            with_row_address=True,
            disable_scoring_autoprojection=True,
        )
        .to_table()
    )
    return dict(zip(rows[ROW_ADDRESS].to_pylist(), rows["_distance"].to_pylist(), strict=True))


def ours(vectors: np.ndarray, query: np.ndarray, metric: str) -> dict[int, float]:
    found = compute_distances(metric, vectors, query)
    assert found.dtype == np.float32
    return {row: value for row, value in enumerate(found.tolist()) if not np.isnan(value)}


@pytest.mark.parametrize("dimension", [3, 64])
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("element", FLOATS)
def test_distances_of_floats_are_lances(tmp_path: Path, element: type, metric: str, dimension: int):
    random = np.random.default_rng(dimension)
    vectors = random.normal(size=(200, dimension)).astype(element)
    query = random.normal(size=dimension).astype(np.float32)
    assert ours(vectors, query, metric) == pytest.approx(
        by_lance(tmp_path / "t", vectors, query, metric), rel=1e-5, abs=1e-5
    )


def test_hamming_distances_are_lances(tmp_path: Path):
    random = np.random.default_rng(0)
    vectors = random.integers(0, 256, (200, 9)).astype(np.uint8)
    query = random.integers(0, 256, 9).astype(np.uint8)
    assert ours(vectors, query, "hamming") == by_lance(tmp_path / "t", vectors, query, "hamming")


@pytest.mark.parametrize("query", [[1, 2, 3], [0, 0, 0]])
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_zero_nan_and_infinity_are_treated_as_lance_does(tmp_path: Path, metric: str, query: list[int]):
    odd = [[0, 0, 0], [np.nan, 1, 1], [np.inf, 1, 1], [-np.inf, 1, 1], [1, 2, 3], [3e38, 3e38, 3e38]]
    vectors, wanted = np.array(odd, np.float32), np.array(query, np.float32)
    assert ours(vectors, wanted, metric) == pytest.approx(
        by_lance(tmp_path / "t", vectors, wanted, metric), abs=1e-6
    )


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("element", [np.uint8, np.int8])
def test_integers_have_all_distances(element: type, metric: str):
    """Lance has none but the hamming distance of uint8; an index of another kind never meets these."""
    limits = np.iinfo(element)
    vectors = np.random.default_rng(1).integers(limits.min, limits.max + 1, (50, 12)).astype(element)
    query = vectors[7]
    assert compute_distances(metric, vectors, query) == pytest.approx(
        true_distances(metric, vectors.view(np.uint8) if metric == "hamming" else vectors, query), rel=1e-5
    )


def test_more_vectors_than_are_worked_on_together_are_all_compared():
    vectors = np.arange(100_000, dtype=np.float32).reshape(-1, 1)
    assert compute_distances("l2", vectors, np.array([5])).tolist()[:8] == [25, 16, 9, 4, 1, 0, 1, 4]
    assert int(compute_distances("l2", vectors, np.array([77_777])).argmin()) == 77_777


class TestNearest:
    def test_equal_distances_are_ordered_by_address_even_at_the_edge(self):
        addresses = np.array([9, 3, 7, 1, 5], np.uint64)
        _, places = select_nearest(np.array([1, 1, 0, 1, 1], np.float32), addresses, 3)
        assert places.tolist() == [7, 1, 3]

    @pytest.mark.parametrize("k", [1, 2, 3, 10])
    def test_what_has_no_distance_is_never_near(self, k: int):
        values = np.array([np.nan, 2, np.nan, 1, np.inf], np.float32)
        _, places = select_nearest(values, np.arange(5, dtype=np.uint64), k)
        assert places.tolist() == [3, 1, 4][:k]

    def test_pieces_give_what_the_whole_gives(self):
        values = np.random.default_rng(3).integers(0, 50, 5000).astype(np.float32)
        addresses = np.random.default_rng(4).permutation(5000).astype(np.uint64)
        collected = NearestRows(20)
        for start in range(0, 5000, 30):
            collected.add(values[start : start + 30], addresses[start : start + 30])
        whole = select_nearest(values, addresses, 20)
        assert [part.tolist() for part in collected.result()] == [part.tolist() for part in whole]

    def test_nothing_gives_nothing(self):
        distances_found, places = NearestRows(3).result()
        assert (len(distances_found), len(places)) == (0, 0)


@pytest.mark.parametrize("length", [1e-18, 1e-12, 1e12, 1e18])
def test_the_angle_of_very_short_and_very_long_vectors_is_their_angle(length: float):
    vectors = np.array([[1, 2, 0, 0], [0, 1, 1, 0]], np.float32)
    query = np.array([1, 1, 1, 0], np.float32)
    found = compute_distances("cosine", vectors * np.float32(length), query * np.float32(length))
    assert found == pytest.approx(compute_distances("cosine", vectors, query), rel=1e-5)
