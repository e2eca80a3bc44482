"""The nearest rows of one source: k live ones if there are k, whatever the source is made of."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_gateway.execnodes.search.source import SearchSource
from lance_gateway.memwal.errors import InvalidInputError
from tests.planner.search.sources.vector_sources import (
    DIMENSION,
    clustered,
    dataset_of,
    found,
    memory_source,
    nearest_places,
    rows_of,
    source_of,
    stored_vectors,
    true_distances,
)

ROWS = 3000
QUERIES = clustered(4, seed=9)
INDEXES: dict[str, dict[str, int]] = {
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 4},
    "IVF_SQ": {},
    "IVF_RQ": {"num_bits": 1},
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_SQ": {},
    "IVF_HNSW_PQ": {"num_sub_vectors": 8},
}
SLOW_INDEXES = ("IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ")
EVERY_INDEX = [
    pytest.param(kind, marks=pytest.mark.slow) if kind in SLOW_INDEXES else kind for kind in INDEXES
]


@dataclass(frozen=True)
class Even:
    """A row filter: the id is even."""

    columns: frozenset[str] = frozenset({"even"})
    sayable: bool = True

    def sql(self, names: dict[str, str]) -> str | None:
        return names["even"] if self.sayable else None

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return batch.column("even")


@dataclass(frozen=True)
class Below:
    """A row filter: id < bound."""

    bound: int
    columns: frozenset[str] = frozenset({"id"})

    def sql(self, names: dict[str, str]) -> str | None:
        return f"{names['id']} < {self.bound}"

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return pc.less(batch.column("id"), self.bound)


def expected(
    dataset: Any, query: np.ndarray, k: int, metric: str = "l2", hidden: Any = ()
) -> list[tuple[int, float]]:
    """What brute force finds in a dataset."""
    addresses, vectors = stored_vectors(dataset)
    live = ~np.isin(addresses, list(hidden))
    return nearest_places(true_distances(metric, vectors[live], query), addresses[live], k)


def assert_nearest(
    answer: list[tuple[int, int, float]], wanted: list[tuple[int, float]], *, rel: float = 1e-4
) -> None:
    assert [address for _, address, _ in answer] == [address for address, _ in wanted]
    distances = [distance for _, _, distance in answer]
    assert distances == pytest.approx([distance for _, distance in wanted], rel=rel, abs=1e-4)


class TestFlat:
    @pytest.mark.parametrize(
        ("element", "metric"),
        [
            *(
                (element, metric)
                for element in ("f2", "f4", "f8", "i1")
                for metric in ("l2", "cosine", "dot")
            ),
            ("u1", "hamming"),
            ("u1", "l2"),
        ],
    )
    def test_finds_what_brute_force_finds(self, tmp_path: Path, element: str, metric: str):
        values = clustered(400)
        is_float = element.startswith("f")
        vectors = values.astype(element) if is_float else (values * 20).astype("i1").astype(element)
        queries = QUERIES if is_float else np.abs(QUERIES * 20).astype(np.uint8)
        dataset = dataset_of(tmp_path / "t", rows_of(vectors, missing=range(5)), max_rows_per_file=150)
        answers = found(source_of(dataset), queries, 10, metric=metric)
        for query, answer in zip(queries, answers, strict=True):
            # Of float16, neighbours may be equally near but for the last bit.
            distances = [distance for _, _, distance in answer]
            wanted = [distance for _, distance in expected(dataset, query, 10, metric)]
            assert distances == pytest.approx(wanted, rel=1e-4, abs=1e-4)

    @pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
    def test_hidden_and_deleted_rows_are_not_found(self, tmp_path: Path, stable: bool):
        dataset = dataset_of(
            tmp_path / "t", rows_of(clustered(300)), max_rows_per_file=100, enable_stable_row_ids=stable
        )
        nearest = [address for address, _ in expected(dataset, QUERIES[0], 40)]
        hidden = nearest[::2]
        dataset.delete("id % 3 = 0")
        (answer,) = found(source_of(dataset, hidden=hidden), QUERIES[0], 20)
        assert_nearest(answer, expected(dataset, QUERIES[0], 20, hidden=hidden))

    def test_few_live_rows_of_many_are_read_alone(self, tmp_path: Path):
        dataset = dataset_of(tmp_path / "t", rows_of(clustered(2000)), max_rows_per_file=1000)
        live = [5, 1700, (1 << 32) + 3]
        addresses, _ = stored_vectors(dataset)
        hidden = sorted(set(addresses.tolist()) - set(live))
        (answer,) = found(source_of(dataset, hidden=hidden), QUERIES[0], 10)
        assert_nearest(answer, expected(dataset, QUERIES[0], 10, hidden=hidden))

    def test_only_the_fragments_of_the_source_are_searched(self, tmp_path: Path):
        dataset = dataset_of(tmp_path / "t", rows_of(clustered(300)), max_rows_per_file=100)
        (answer,) = found(source_of(dataset, fragments=(1,)), QUERIES[0], 300)
        assert {address >> 32 for _, address, _ in answer} == {1}
        assert len(answer) == 100

    def test_k_may_exceed_the_rows_and_rows_without_vector_are_none(self, tmp_path: Path):
        rows = rows_of(clustered(50), missing=[3, 4])
        dataset = dataset_of(tmp_path / "t", rows)
        for source in (source_of(dataset), memory_source(rows)):
            (answer,) = found(source, QUERIES[0], 1000)
            assert len(answer) == 48

    def test_vectors_with_a_missing_element_are_none(self, tmp_path: Path):
        vectors = pa.array([[1, 2], [None, 2], [3, None], [5, 6]], pa.list_(pa.float32(), 2))
        rows = pa.table({"id": range(4), "even": [True] * 4, "vec": vectors})
        for source in (source_of(dataset_of(tmp_path / "t", rows)), memory_source(rows)):
            (answer,) = found(source, np.zeros(2, np.float32), 10)
            assert [(address, distance) for _, address, distance in answer] == [(0, 5), (3, 61)]

    @pytest.mark.parametrize("sayable", [True, False])
    def test_a_condition_applies_before_ranking(self, tmp_path: Path, sayable: bool):
        rows = rows_of(clustered(400))
        dataset = dataset_of(tmp_path / "t", rows, max_rows_per_file=150)
        dataset.delete("id % 5 = 0")
        row_filter = Even(sayable=sayable)
        # Every fragment begins with an even id.
        odd = {(fragment << 32) + offset for fragment in range(3) for offset in range(1, 150, 2)}
        (answer,) = found(source_of(dataset), QUERIES[0], 30, row_filter=row_filter)
        assert_nearest(answer, expected(dataset, QUERIES[0], 30, hidden=odd))
        (answer,) = found(memory_source(rows), QUERIES[0], 30, row_filter=row_filter)
        assert all(address % 2 == 0 for _, address, _ in answer)
        assert len(answer) == 30

    def test_vectors_too_large_to_be_kept_are_read_every_time(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("lance_gateway.execnodes.search.vector_blocks.MAX_KEPT_BYTES", 100)
        dataset = dataset_of(tmp_path / "t", rows_of(clustered(300)), max_rows_per_file=100)
        hidden = [address for address, _ in expected(dataset, QUERIES[0], 5)]
        (answer,) = found(source_of(dataset, hidden=hidden), QUERIES[0], 20)
        assert_nearest(answer, expected(dataset, QUERIES[0], 20, hidden=hidden))
        (answer,) = found(source_of(dataset, hidden=hidden), QUERIES[0], 20, row_filter=Even())
        assert len(answer) == 20
        assert all(address & 1 == 0 for _, address, _ in answer)

    def test_columns_go_by_what_the_table_calls_them(self, tmp_path: Path):
        rows = rows_of(clustered(100)).rename_columns(["id", "even", "old name"])
        dataset = dataset_of(tmp_path / "t", rows)
        schema = pa.schema([*list(rows.schema)[:2], pa.field("vec", pa.list_(pa.float64(), DIMENSION))])
        named = {"id": "id", "even": "even", "vec": "old name"}
        (answer,) = found(source_of(dataset, stored=named, schema=schema), QUERIES[0], 5, row_filter=Even())
        assert len(answer) == 5
        without = {"id": "id", "even": "even"}
        assert found(source_of(dataset, stored=without, schema=schema), QUERIES[0], 5) == [[]]

    def test_nothing_to_search_finds_nothing(self):
        assert found((), QUERIES, 5) == [[], [], [], []]


@pytest.fixture(scope="class")
def indexed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A dataset of several fragments with an index, some rows deleted since."""
    path = tmp_path_factory.mktemp("indexed") / "t"
    dataset = dataset_of(path, rows_of(clustered(ROWS), missing=range(20)), max_rows_per_file=1000)
    partitions = 2 if "HNSW" in request.param else 16
    dataset = dataset.create_index(
        "vec", request.param, metric="l2", num_partitions=partitions, **INDEXES[request.param]
    )
    dataset.delete("id % 11 = 0")
    return lance.dataset(str(path))


def recall(answers: list[list[tuple[int, int, float]]], wanted: list[list[tuple[int, float]]]) -> float:
    hits = [
        len({address for _, address, _ in answer} & {address for address, _ in truth})
        for answer, truth in zip(answers, wanted, strict=True)
    ]
    return sum(hits) / sum(map(len, wanted))


@pytest.mark.parametrize("indexed", EVERY_INDEX, indirect=True)
class TestIndexed:
    queries = clustered(20, seed=5)

    @pytest.mark.slow
    def test_by_default_most_of_the_nearest_are_found_with_their_true_distances(self, indexed: Any):
        source = source_of(indexed)
        assert source.index is not None
        answers = found(source, self.queries, 10)
        wanted = [expected(indexed, query, 10) for query in self.queries]
        assert recall(answers, wanted) >= 0.95
        addresses, vectors = stored_vectors(indexed)
        rows = dict(zip(addresses.tolist(), vectors, strict=True))
        for query, answer in zip(self.queries, answers, strict=True):
            truth = true_distances("l2", np.array([rows[address] for _, address, _ in answer]), query)
            assert [distance for _, _, distance in answer] == pytest.approx(truth, rel=1e-4)

    @pytest.mark.parametrize("superseded", [10, 100, 1000])
    def test_no_stale_row_takes_the_place_of_a_live_one(self, indexed: Any, superseded: int):
        answers, wanted = [], []
        for query in self.queries[:5]:
            hidden = [address for address, _ in expected(indexed, query, superseded)]
            answers += found(source_of(indexed, hidden=hidden), query, 10)
            wanted.append(expected(indexed, query, 10, hidden=hidden))
            assert not {address for _, address, _ in answers[-1]}.intersection(hidden)
        assert [len(answer) for answer in answers] == [10] * 5
        assert recall(answers, wanted) >= 0.95

    def test_k_rows_are_found_where_k_exist(self, indexed: Any):
        source = source_of(indexed)
        live = len(stored_vectors(indexed)[0])
        (answer,) = found(source, self.queries[0], live + 1000)
        assert len(answer) == live
        (answer,) = found(source, self.queries[0], 50, nprobes=1)
        assert len(answer) == 50
        (answer,) = found(source, self.queries[0], 10, row_filter=Below(27))
        every = expected(indexed, self.queries[0], ROWS)
        assert_nearest(answer, [place for place in every if place[0] < 27])

    def test_another_metric_than_the_indexs_is_computed_for_all_rows(self, indexed: Any):
        (answer,) = found(source_of(indexed), self.queries[0], 10, metric="cosine")
        assert_nearest(answer, expected(indexed, self.queries[0], 10, "cosine"))

    def test_an_index_need_not_be_used(self, indexed: Any):
        (answer,) = found(source_of(indexed), self.queries[0], 10, use_index=False)
        assert_nearest(answer, expected(indexed, self.queries[0], 10))


@pytest.mark.parametrize(
    ("kind", "metric", "element"),
    [
        ("IVF_FLAT", "cosine", "f4"),
        ("IVF_FLAT", "hamming", "u1"),
        ("IVF_PQ", "dot", "f4"),
        *(
            pytest.param(
                *(kind, metric, element),
                marks=[pytest.mark.slow] if element == "f4" else [pytest.mark.slow, pytest.mark.soak],
            )
            for kind in ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_SQ")
            for metric in ("l2", "cosine", "dot")
            for element in ("f2", "f4", "f8")
        ),
    ],
)
def test_indexes_of_every_metric_and_element_give_true_distances(
    tmp_path: Path, kind: str, metric: str, element: str
):
    values = clustered(ROWS)
    # A product of vectors of all lengths is largest far out, where no index looks.
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    vectors = (values * 100).astype("i1").view("u1") if element == "u1" else values.astype(element)
    dataset = dataset_of(tmp_path / "t", rows_of(vectors))
    dataset = dataset.create_index(
        "vec", kind, metric=metric, num_partitions=1 if "HNSW" in kind else 8, num_sub_vectors=4
    )
    queries = vectors[:10].astype(np.uint8 if element == "u1" else np.float32)
    source = source_of(dataset)
    answers = found(source, queries, 10)
    wanted = [expected(dataset, query, 10, metric) for query in queries]
    close = [
        sum(distance <= truth[-1][1] + 1e-3 for _, _, distance in answer)
        for answer, truth in zip(answers, wanted, strict=True)
    ]
    assert sum(close) >= 95
    for query, answer in zip(queries, answers, strict=True):
        truth = true_distances(metric, vectors[[address for _, address, _ in answer]], query)
        assert [distance for _, _, distance in answer] == pytest.approx(truth, rel=1e-3, abs=1e-3)


class TestSources:
    def test_results_of_several_sources_are_ranked_together(self, tmp_path: Path):
        parts = [clustered(150, seed=seed) for seed in range(3)]
        datasets = [
            dataset_of(tmp_path / str(number), rows_of(part)) for number, part in enumerate(parts[:2])
        ]
        datasets[0] = datasets[0].create_index("vec", "IVF_FLAT", num_partitions=1)
        sources: list[SearchSource] = [source_of(one, number=n) for n, one in enumerate(datasets)]
        sources.append(memory_source(rows_of(parts[2]), number=2))
        answers = found(sources, QUERIES, 25)
        for query, answer in zip(QUERIES, answers, strict=True):
            distances = np.concatenate([true_distances("l2", part, query) for part in parts])
            wanted = [(int(row) // 150, int(row) % 150) for row in np.argsort(distances)[:25]]
            assert [(number, address) for number, address, _ in answer] == wanted

    def test_equally_near_rows_are_ordered_by_source_and_address(self):
        same = np.ones((5, 3), np.float32)
        sources = [memory_source(rows_of(same), number=number) for number in range(3)]
        (answer,) = found(sources, np.zeros(3, np.float32), 8)
        assert [place[:2] for place in answer] == [(n, row) for n in range(2) for row in range(5)][:8]

    def test_the_metric_of_an_index_is_everybodys(self, tmp_path: Path):
        dataset = dataset_of(tmp_path / "t", rows_of(clustered(300)))
        dataset = dataset.create_index("vec", "IVF_FLAT", metric="cosine", num_partitions=1)
        fresh = rows_of(100 * QUERIES[:1])
        sources = [source_of(dataset), memory_source(fresh, number=1)]
        (answer,) = found(sources, QUERIES[0], 1)
        assert answer[0][:2] == (1, 0)
        assert answer[0][2] == pytest.approx(0, abs=1e-6)

    def test_an_unknown_metric_is_refused_with_those_there_are(self):
        source = memory_source(rows_of(clustered(3)))
        with pytest.raises(
            InvalidInputError, match="'chebyshev' is unknown: the metrics are l2, cosine, dot"
        ):
            found(source, QUERIES[0], 1, metric="chebyshev")


class TestMemory:
    @pytest.mark.parametrize("kept_bytes", [0, 1 << 20])
    def test_rows_that_came_in_pieces_are_one_source(self, monkeypatch: pytest.MonkeyPatch, kept_bytes: int):
        monkeypatch.setattr("lance_gateway.execnodes.search.vector_blocks.MAX_KEPT_TAIL_BYTES", kept_bytes)
        vectors = clustered(60)
        parts = [rows_of(vectors[start : start + 20], first=start) for start in (0, 20, 40)]
        source = memory_source(pa.concat_tables(parts), hidden=[5])
        (answer,) = found(source, vectors[5], 3)
        distances = true_distances("l2", vectors, vectors[5])
        distances[5] = np.nan
        assert_nearest(answer, nearest_places(distances, np.arange(60), 3))

    def test_no_rows_are_found_among_none(self):
        assert found(memory_source(rows_of(clustered(1)).slice(0, 0)), QUERIES[0], 3) == [[]]
