"""Rows that joins would drop are found, and no others, whatever the types and values of the keys."""

import datetime as dt
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_gateway.planner.bridge.join_graph import Edge, JoinGraph, LeafColumn
from lance_gateway.planner.scans.key_reduction import (
    Relation,
    build_member,
    keep_selected,
    reduce_relations,
    to_flags,
)
from tests.support.sampling import sample


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


VALUES = {
    "int64": (pa.int64(), [0, 1, -1, 7, None, -(2**63), 2**63 - 1, 2**31]),
    "int8": (pa.int8(), [0, 1, -128, 127, None]),
    "uint32": (pa.uint32(), [0, 1, 2**32 - 1, None]),
    "uint64": (pa.uint64(), [0, 1, 2**64 - 1, 2**63, None]),
    "date": (pa.date32(), [dt.date(1970, 1, 1), dt.date(9999, 12, 31), dt.date(1, 1, 1), None]),
    "timestamp": (pa.timestamp("us"), [dt.datetime(2024, 2, 29), dt.datetime(1, 1, 1), None]),
    "text": (pa.string(), ["", "a", "ä", None]),
    "decimal": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-3.00"), None]),
    "bytes": (pa.binary(), [b"", b"\0", None]),
}


@pytest.mark.parametrize(("kind", "values"), sample(VALUES.values(), 4), ids=VALUES.keys())
@given(data=st.data())
def test_members_are_what_equals_a_key(kind: pa.DataType, values: list[object], data: st.DataObject) -> None:
    keys, column = (data.draw(st.lists(st.sampled_from(values), max_size=9)) for _ in range(2))
    padded = pa.array([*values[:2], *column], kind).slice(2)
    flags = build_member(pa.array(keys, kind))(padded)
    assert flags.tolist() == [one is not None and one in keys for one in column]


def select(rows: Sequence[pa.RecordBatch], most: int, executor: Executor) -> Relation:
    relation = Relation(rows, executor)
    relation.select(lambda number: to_flags(pc.less_equal(rows[number].column("n"), most)))
    return relation


def batches(*rows: Sequence[tuple[int, int]]) -> list[pa.RecordBatch]:
    return [
        pa.record_batch({"k": pa.array([k for k, _ in one], pa.int64()), "n": [n for _, n in one]})
        for one in rows
    ]


def test_conditions_of_one_table_reach_those_that_are_joined_to_it(executor: Executor) -> None:
    small = batches([(one, one) for one in range(10)])
    middle = batches([(one % 10, one) for one in range(50)], [(one % 10, one) for one in range(50, 100)])
    large = batches([(one % 100, one) for one in range(1000)])
    relations = [select(small, 1, executor), Relation(middle, executor), Relation(large, executor)]
    edges = [
        Edge(LeafColumn(0, "k"), LeafColumn(1, "k")),
        Edge(LeafColumn(1, "k"), LeafColumn(0, "k")),
        Edge(LeafColumn(1, "n"), LeafColumn(2, "k")),
        Edge(LeafColumn(2, "k"), LeafColumn(1, "n")),
    ]
    reduce_relations(relations, JoinGraph(("s", "m", "l"), tuple(edges)), 0)
    assert [one.count for one in relations] == [2, 20, 200]
    kept = keep_selected(large, [relations[2]], executor)
    assert {one for batch in kept for one in batch.column("k").to_pylist()} == {
        one for one in range(100) if one % 10 < 2
    }


def test_a_table_in_two_places_keeps_what_counts_in_either(executor: Executor) -> None:
    rows = batches([(one, one) for one in range(100)])
    few, others = (select(batches([(key, 0)] * 3 + [(key + 1, 9)] * 9), 5, executor) for key in (3, 90))
    places = [Relation(rows, executor), Relation(rows, executor)]
    graph = JoinGraph(
        ("a", "b", "t", "t"),
        (Edge(LeafColumn(0, "k"), LeafColumn(2, "k")), Edge(LeafColumn(1, "k"), LeafColumn(3, "k"))),
    )
    reduce_relations([few, others, *places], graph, 0)
    (kept,) = keep_selected(rows, places, executor)
    assert kept.column("k").to_pylist() == [3, 90]
    assert keep_selected(rows, [places[0], None], executor) == rows


def test_nothing_is_left_where_no_key_is(executor: Executor) -> None:
    rows = batches([(one, one) for one in range(20)])
    relations = [select(batches([(1, 7)] * 5), 3, executor), Relation(rows, executor)]
    graph = JoinGraph(("a", "t"), (Edge(LeafColumn(0, "k"), LeafColumn(1, "k")),))
    reduce_relations(relations, graph, 0)
    (kept,) = keep_selected(rows, relations[1:], executor)
    assert (kept.num_rows, kept.schema) == (0, rows[0].schema)


def test_small_tables_are_left_as_they_are(executor: Executor) -> None:
    rows = batches([(one, one) for one in range(20)])
    relations = [select(batches([(1, 7)] * 5), 3, executor), Relation(rows, executor)]
    graph = JoinGraph(("a", "t"), (Edge(LeafColumn(0, "k"), LeafColumn(1, "k")),))
    reduce_relations(relations, graph, 21)
    assert keep_selected(rows, relations[1:], executor) == rows


def test_no_more_is_copied_than_may_be(executor: Executor) -> None:
    rows = batches([(one, one) for one in range(20)])
    few = [select(rows, 3, executor)]
    assert keep_selected(rows, few, executor, most_bytes=63) == rows
    (kept,) = keep_selected(rows, few, executor, most_bytes=64)
    assert kept.num_rows == 4


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        (pa.timestamp("s"), pa.timestamp("ms")),
        (pa.date32(), pa.date64()),
        (pa.int32(), pa.int64()),
        (pa.float64(), pa.float64()),
    ],
    ids=str,
)
def test_keys_that_are_not_compared_as_they_are_select_nothing(
    executor: Executor, kind: pa.DataType, other: pa.DataType
) -> None:
    numbers = pa.array(range(20), pa.int32() if kind == pa.date32() else pa.int64())
    keys = pa.record_batch({"k": numbers.cast(kind), "n": list(range(20))})
    wide = numbers.cast(pa.int64()).cast(other) if other != pa.int32() else numbers
    rows = [pa.record_batch({"k": wide})]
    relations = [select([keys], 3, executor), Relation(rows, executor)]
    graph = JoinGraph(("a", "t"), (Edge(LeafColumn(0, "k"), LeafColumn(1, "k")),))
    reduce_relations(relations, graph, 0)
    assert relations[1].selected is None
