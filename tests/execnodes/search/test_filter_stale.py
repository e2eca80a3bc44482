"""Superseded rows are kept out of what vector searches find, beside the distances of all rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_gateway.execnodes import ExecNode, KeySet, MetricsSet, TaskContext, UnionExec
from lance_gateway.execnodes.node import ROW_ADDRESS
from lance_gateway.execnodes.rows.keys import Key
from lance_gateway.execnodes.search.filter_stale import FilterStaleExec, NewerRows
from lance_gateway.execnodes.search.knn import KnnExec
from lance_gateway.execnodes.search.source import VECTOR_CANDIDATES, SearchSource, Staleness, VectorRequest
from lance_gateway.planner.tables.sources.caches import ByteCache
from tests.planner.search.sources.vector_sources import as_vectors, memory_source, source_of

QUERIES = np.array([[0.0, 0.0], [30.3, 0.0]], np.float32)
Place = tuple[int, int, int]


@dataclass(eq=False)
class Layer:
    """Newer rows with some keys, and a key filter that knows more; it notes what it was asked."""

    keys: frozenset[int]
    suspected: frozenset[int] = frozenset()
    description: str = "layer"
    asked: list[set[int]] = field(default_factory=list)
    looked_up: list[set[int]] = field(default_factory=list)

    def find_possible(self, keys: KeySet) -> frozenset[Key]:
        self.asked.append({key for (key,) in keys.rows})
        return frozenset(row for row in keys.rows if row[0] in self.keys | self.suspected)

    def confirm(self, keys: KeySet, context: TaskContext) -> frozenset[Key]:
        context.check()
        self.looked_up.append({key for (key,) in keys.rows})
        return frozenset(row for row in keys.rows if row[0] in self.keys)


def layer(*keys: int, suspected: Sequence[int] = ()) -> Layer:
    return Layer(frozenset(keys), frozenset(suspected))


def rows_at(ids: Sequence[int], shift: float = 0) -> pa.Table:
    """Rows whose vectors lie on a line, at their ids and a shift."""
    points = np.array([[number + shift, 0] for number in ids], np.float32).reshape(-1, 2)
    return pa.table({"id": pa.array(ids, pa.int64()), "vec": as_vectors(points)})


def searches(sources: Sequence[SearchSource], k: int, queries: np.ndarray = QUERIES) -> UnionExec:
    request = VectorRequest("vec", queries, k)
    return UnionExec(tuple(KnnExec(one, request, "l2", ByteCache(1 << 20)) for one in sources))


def filtering(
    sources: Sequence[SearchSource],
    k: int,
    newer: Mapping[int, tuple[NewerRows, ...]],
    staleness: Staleness = Staleness.BLOOM,
    queries: np.ndarray = QUERIES,
) -> FilterStaleExec:
    return FilterStaleExec(searches(sources, k, queries), staleness, k, ("id",), newer)


def places(node: ExecNode, context: TaskContext | None = None) -> list[Place]:
    """Query, source and offset of each candidate, nearest first for each query."""
    found = [row for batch in node.execute(0, context or TaskContext()) for row in batch.to_pylist()]
    found.sort(key=lambda row: (row["query_index"], row["_distance"], row["_source"]))
    return [(row["query_index"], row["_source"], row[ROW_ADDRESS]) for row in found]


def nearest(
    sources: Mapping[int, Sequence[int]], stale: Mapping[int, set[int]], k: int, query: int = 0
) -> list[Place]:
    """What looking at all rows gives."""
    at = QUERIES[query][0]
    live = [
        (abs(one + number // 5 / 8 - at), number, offset)
        for number, ids in sources.items()
        for offset, one in enumerate(ids)
        if one not in stale.get(number, set())
    ]
    return [(query, number, offset) for _, number, offset in sorted(live)[:k]]


def best(found: Sequence[Place], k: int, query: int = 0) -> list[Place]:
    return [one for one in found if one[0] == query][:k]


ids = st.sets(st.integers(0, 40), max_size=25)


class TestBloom:
    @given(st.sets(st.integers(0, 40), min_size=1), ids, ids, ids, ids, st.integers(1, 6))
    @settings(max_examples=30)
    def test_the_nearest_live_rows_are_found(
        self, base: set[int], flushed: set[int], tail: set[int], wrongly: set[int], moved: set[int], k: int
    ) -> None:
        stored = {0: sorted(base), 1: sorted(flushed), 5: sorted(moved)}
        # No two live rows are equally near.
        sources = [
            memory_source(rows_at(some, number // 5 / 8), number=number) for number, some in stored.items()
        ]
        newest = layer(*tail, suspected=sorted(wrongly))
        newer = {0: (newest, layer(*flushed, suspected=sorted(wrongly))), 1: (newest,)}
        stale = {0: tail | flushed, 1: tail}
        found = places(filtering(sources, k, newer))
        for query in range(len(QUERIES)):
            assert best(found, k, query) == nearest(stored, stale, k, query)
        assert all(stored[number][offset] not in stale.get(number, ()) for _, number, offset in found)

    def test_rows_are_fetched_until_nothing_nearer_is_left(self) -> None:
        stored = list(range(64))
        newest = layer(*range(20))
        metrics = MetricsSet()
        node = filtering([memory_source(rows_at(stored))], 3, {0: (newest,)}, queries=QUERIES[:1])
        found = places(node, TaskContext(metrics=metrics))
        assert found[:3] == [(0, 0, 20), (0, 0, 21), (0, 0, 22)]
        assert newest.asked == [set(range(3)), set(range(3, 6)), set(range(6, 12)), set(range(12, 24))]
        assert len(found) == 4
        assert metrics.of(node).counters == {"refills": 3, "stale_rows": 20}  # type: ignore[union-attr]

    def test_sources_that_can_give_nothing_nearer_are_not_asked_again(self) -> None:
        near, far = memory_source(rows_at(range(40))), memory_source(rows_at(range(100, 140)), number=1)
        newest = layer(*range(10))
        metrics = MetricsSet()
        node = filtering([near, far], 2, {0: (newest,), 1: (newest,)}, queries=QUERIES[:1])
        found = places(node, TaskContext(metrics=metrics))
        assert best(found, 2) == [(0, 0, 10), (0, 0, 11)]
        assert max(one for asked in newest.asked for one in asked) == 101

    def test_rows_between_the_last_two_of_the_nearest_are_fetched(self) -> None:
        sources = [memory_source(rows_at([0, 10, 11])), memory_source(rows_at([1, 2, 3, 4]), number=1)]
        found = places(filtering(sources, 2, {1: (layer(1, 2),)}, queries=QUERIES[:1]))
        assert best(found, 2) == [(0, 0, 0), (0, 1, 2)]

    def test_a_row_at_the_bound_needs_no_more_rows(self) -> None:
        newest = layer(*range(8))
        source = memory_source(rows_at([1, 1, 1, 1]))
        node = filtering([source], 1, {0: (layer(),)}, queries=QUERIES[:1])
        assert places(node) == [(0, 0, 0)]
        assert newest.asked == []

    def test_layers_are_asked_newest_first_about_rows_that_none_has_superseded(self) -> None:
        newest, older, oldest = layer(1, suspected=[2]), layer(2, 3), layer(0, 1, 2, 3)
        node = filtering(
            [memory_source(rows_at(range(4)))], 4, {0: (newest, older, oldest)}, queries=QUERIES[:1]
        )
        assert places(node) == []
        assert newest.asked == [{0, 1, 2, 3}]
        assert newest.looked_up == [{1, 2}]
        assert older.asked == [{0, 2, 3}]
        assert older.looked_up == [{2, 3}]
        assert oldest.asked == [{0}]

    def test_layers_are_not_asked_once_all_rows_are_superseded(self) -> None:
        newest, older = layer(0, 1), layer()
        node = filtering([memory_source(rows_at([0, 1]))], 2, {0: (newest, older)})
        assert places(node) == []
        assert older.asked == []

    def test_rows_are_judged_once(self) -> None:
        newest = layer(0, 1)
        node = filtering([memory_source(rows_at(range(9)))], 2, {0: (newest,)}, queries=QUERIES[:1])
        assert best(places(node), 2) == [(0, 0, 2), (0, 0, 3)]
        assert newest.asked == [{0, 1}, {2, 3}]

    def test_stored_tombstones_and_superseded_rows_of_a_dataset_are_left_out(self, tmp_path: Path) -> None:
        stored = rows_at(range(9))
        flags = pa.array([at in (0, 4) for at in range(9)])
        schema = stored.schema
        dataset = lance.write_dataset(
            stored.append_column("_tombstone", flags), str(tmp_path / "t.lance"), max_rows_per_file=4
        )
        source = source_of(dataset, schema=schema)
        plain = lance.write_dataset(rows_at([0, 50]), str(tmp_path / "plain.lance"))
        newest = layer(1, 8)
        node = filtering([source, source_of(plain, number=1)], 6, {0: (newest,), 1: ()}, queries=QUERIES[:1])
        second, third = 1 << 32, 2 << 32
        live = [(0, 1, 0), (0, 0, 2), (0, 0, 3), (0, 0, second | 1), (0, 0, second | 2), (0, 0, second | 3)]
        assert best(places(node), 6) == live
        assert (0, 0, third) not in places(node)

    def test_an_execution_that_was_stopped_fetches_nothing(self) -> None:
        def stop() -> None:
            raise TimeoutError

        with pytest.raises(TimeoutError):
            places(filtering([memory_source(rows_at([1]))], 1, {0: (layer(),)}), TaskContext(check=stop))


class TestApproximate:
    def test_suspects_are_dropped_and_nothing_more_is_fetched(self) -> None:
        newest = layer(0, suspected=[1, 2])
        node = filtering(
            [memory_source(rows_at(range(20))), memory_source(rows_at([0, 30]), number=1)],
            3,
            {0: (newest,)},
            Staleness.APPROXIMATE,
            QUERIES[:1],
        )
        assert places(node) == [(0, 1, 0), (0, 0, 3), (0, 0, 4), (0, 0, 5), (0, 1, 1)]
        assert newest.looked_up == []


class TestPassedOn:
    @pytest.mark.parametrize("staleness", list(Staleness))
    def test_what_nothing_supersedes_passes_as_it_is(self, staleness: Staleness) -> None:
        sources = [memory_source(rows_at(range(5))), memory_source(rows_at([0, 2]), number=1)]
        newer = {0: (layer(0, 1, 2),)} if staleness is Staleness.EXACT else {}
        node = filtering(sources, 2, newer, staleness)
        assert places(node) == places(searches(sources, 2))
        assert node.schema == VECTOR_CANDIDATES
        assert next(iter(node.execute(0, TaskContext()))).schema == VECTOR_CANDIDATES

    def test_every_partition_is_passed_on_or_the_first_alone(self) -> None:
        input_ = Parts()
        exact = FilterStaleExec(input_, Staleness.EXACT, 1)
        assert [batch.num_rows for batch in exact.execute(3, TaskContext())] == [3]
        sources = [memory_source(rows_at([1]))]
        assert list(filtering(sources, 1, {0: (layer(),)}).execute(1, TaskContext())) == []

    def test_newer_rows_need_a_key(self) -> None:
        sources = [memory_source(rows_at([1]))]
        with pytest.raises(ValueError, match="name its columns"):
            FilterStaleExec(searches(sources, 1), Staleness.BLOOM, 1, (), {0: (layer(1),)})
        assert FilterStaleExec(searches(sources, 1), Staleness.BLOOM, 1).newer == {}


def test_its_line_names_the_way_and_each_filter_once() -> None:
    sources = [memory_source(rows_at([1]))]
    tail, older = Layer(frozenset(), description="tail"), Layer(frozenset(), description="older")
    newer = {0: (tail, older), 1: (tail,)}
    assert filtering(sources, 1, newer).describe() == "FilterStaleExec: bloom, tail, older"
    assert filtering(sources, 1, newer, Staleness.EXACT).describe() == "FilterStaleExec: exact"


@dataclass(frozen=True, eq=False)
class Parts(ExecNode):
    """As many rows as the partition's number."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("n", pa.int64())])

    def children(self) -> tuple[ExecNode, ...]:
        return ()

    def describe(self) -> str:
        return "Parts"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": range(partition)})
