"""Candidates are sorted, limited, and get the columns of their rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_gateway.execnodes import ExecNode, TaskContext
from lance_gateway.execnodes.search.candidates import (
    ConcurrentUnionExec,
    LimitExec,
    SortExec,
    run_concurrently,
)
from lance_gateway.execnodes.search.source import DISTANCE, VECTOR_CANDIDATES, SearchSource
from lance_gateway.execnodes.search.take_rows import TakeRowsExec
from lance_gateway.memwal.errors import CorruptDataError
from lance_gateway.planner.tables.sources.caches import ByteCache
from tests.planner.search.sources.vector_sources import (
    clustered,
    dataset_of,
    memory_source,
    rows_of,
    source_of,
)

Candidate = tuple[int, int, int, float]
"""Query, source, row address, distance."""


@dataclass(frozen=True, eq=False)
class Given(ExecNode):
    """Candidates, a batch each."""

    batches_of: tuple[tuple[Candidate, ...], ...]

    @property
    def schema(self) -> pa.Schema:
        return VECTOR_CANDIDATES

    def children(self) -> tuple[ExecNode, ...]:
        return ()

    def describe(self) -> str:
        return "Given"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        for rows in self.batches_of:
            columns = zip(*rows, strict=True)
            arrays = [
                pa.array(one, field.type) for one, field in zip(columns, VECTOR_CANDIDATES, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=VECTOR_CANDIDATES)


def rows(node: ExecNode) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in node.execute(0, TaskContext()) for row in batch.to_pylist()]


class TestSort:
    def test_best_first_within_a_query_then_by_source_and_address(self):
        given = Given((((1, 0, 5, 0.5), (0, 1, 1, 2.0), (0, 0, 9, 2.0)), ((0, 0, 3, 2.0), (0, 2, 0, 1.0))))
        assert rows(SortExec(given, DISTANCE)) == [
            (0, 2, 0, 1.0),
            (0, 0, 3, 2.0),
            (0, 0, 9, 2.0),
            (0, 1, 1, 2.0),
            (1, 0, 5, 0.5),
        ]

    def test_more_may_be_better(self):
        given = Given((((0, 0, 1, 1.0), (0, 0, 2, 3.0), (0, 1, 0, 3.0)),))
        assert [row[1:3] for row in rows(SortExec(given, DISTANCE, descending=True))] == [
            (0, 2),
            (1, 0),
            (0, 1),
        ]

    def test_a_column_that_candidates_lack_is_refused(self):
        with pytest.raises(ValueError, match="can't be sorted by '_score'"):
            SortExec(Given(()), "_score")

    def test_nothing_stays_nothing(self):
        assert rows(LimitExec(SortExec(Given(()), DISTANCE), 3)) == []


class TestLimit:
    @pytest.mark.parametrize(
        ("k", "kept"), [(1, [1, 4]), (2, [1, 2, 4]), (3, [1, 2, 3, 4]), (9, [1, 2, 3, 4])]
    )
    def test_counts_every_query_by_itself(self, k: int, kept: list[int]):
        given = Given((((0, 0, 1, 0.0), (0, 0, 2, 0.0)), ((0, 0, 3, 0.0), (2, 0, 4, 0.0))))
        assert [row[2] for row in rows(LimitExec(given, k))] == kept

    def test_must_keep_something(self):
        with pytest.raises(ValueError, match="k=0"):
            LimitExec(Given(()), 0)


class TestSideBySide:
    def test_results_are_in_the_order_of_the_tasks(self):
        assert run_concurrently([lambda n=n: n * n for n in range(50)]) == [n * n for n in range(50)]

    def test_the_first_error_is_everybodys(self):
        with pytest.raises(ZeroDivisionError):
            run_concurrently([lambda: 1, lambda: 1 // 0, lambda: 2])

    def test_inputs_of_a_union_come_in_order(self):
        given = [Given((((0, number, 0, 0.0),),)) for number in range(9)]
        assert [row[1] for row in rows(ConcurrentUnionExec(tuple(given)))] == list(range(9))


def take(
    sources: list[SearchSource],
    columns: dict[str, pa.DataType],
    *candidates: Candidate,
    row_filter: Any = None,
) -> list[tuple[Any, ...]]:
    output = pa.schema(list(columns.items()))
    node = TakeRowsExec(Given((candidates,)), tuple(sources), output, row_filter, ByteCache(1 << 20))
    return rows(node)


ID = {"id": pa.int64()}


@dataclass(frozen=True)
class Near:
    """A row filter on an added column and one of the table's: nearer than a bound, and even."""

    bound: float
    columns: frozenset[str] = frozenset({DISTANCE, "even"})

    def sql(self, names: dict[str, str]) -> str | None:
        return None

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return pc.and_(pc.less(batch.column(DISTANCE), self.bound), batch.column("even"))


class TestTakeRows:
    @pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
    def test_rows_of_all_sources_come_in_the_order_of_the_candidates(self, tmp_path: Path, stable: bool):
        dataset = dataset_of(
            tmp_path / "t", rows_of(clustered(100)), max_rows_per_file=40, enable_stable_row_ids=stable
        )
        dataset.delete("id % 4 = 0")
        sources = [source_of(dataset), memory_source(rows_of(clustered(9), first=1000), number=1)]
        second = (1 << 32) + 5
        found = take(
            sources,
            {**ID, DISTANCE: pa.float32()},
            (0, 1, 8, 0.5),
            (0, 0, second, 1.0),
            (0, 0, 3, 1.5),
            (0, 1, 0, 2.0),
            (1, 0, second, 0.25),
        )
        assert found == [(1008, 0.5), (45, 1.0), (3, 1.5), (1000, 2.0), (45, 0.25)]

    def test_rows_that_moved_under_stable_ids_are_found_where_they_are(self, tmp_path: Path):
        dataset = dataset_of(tmp_path / "t", rows_of(clustered(20)), enable_stable_row_ids=True)
        dataset.update({"id": "id + 100"}, where="id >= 18")
        dataset = lance.dataset(dataset.uri)
        assert take([source_of(dataset)], ID, (0, 0, 1 << 32, 0.0), (0, 0, 3, 0.0)) == [(118,), (3,)]

    def test_columns_go_by_what_the_table_calls_them_and_absent_ones_are_null(self, tmp_path: Path):
        stored = rows_of(clustered(5)).rename_columns(["key", "even", "vec"])
        schema = pa.schema([("id", pa.int32()), ("even", pa.bool_()), ("price", pa.float64())])
        source = source_of(
            dataset_of(tmp_path / "t", stored), stored={"id": "key", "even": "even"}, schema=schema
        )
        columns = {"price": pa.float64(), "id": pa.int32()}
        assert take([source], columns, (0, 0, 4, 0.0), (0, 0, 2, 0.0)) == [(None, 4), (None, 2)]
        assert take([source], {"price": pa.float64()}, (0, 0, 4, 0.0)) == [(None,)]

    def test_a_condition_on_rows_and_distances_keeps_their_order(self, tmp_path: Path):
        source = source_of(dataset_of(tmp_path / "t", rows_of(clustered(9))))
        candidates = [(0, 0, row, float(8 - row)) for row in range(8, -1, -1)]
        assert take([source], ID, *candidates, row_filter=Near(5)) == [(8,), (6,), (4,)]
        assert take([source], {}, *candidates, row_filter=Near(5)) == [(), (), ()]

    def test_without_columns_rows_are_only_counted(self, tmp_path: Path):
        source = source_of(dataset_of(tmp_path / "t", rows_of(clustered(3))))
        assert take([source], {}, (0, 0, 1, 0.0), (0, 0, 2, 0.0)) == [(), ()]

    def test_a_row_that_is_gone_is_an_error_not_a_shift(self, tmp_path: Path):
        dataset = dataset_of(tmp_path / "t", rows_of(clustered(9)))
        dataset.delete("id = 4")
        with pytest.raises(CorruptDataError, match="source 0 has 1 of 2 rows"):
            take([source_of(dataset)], ID, (0, 0, 4, 0.0), (0, 0, 5, 0.0))

    def test_sources_are_known_by_their_numbers(self):
        source = memory_source(rows_of(clustered(2)), number=3)
        with pytest.raises(ValueError, match="numbered from 0 on"):
            take([source], ID)
