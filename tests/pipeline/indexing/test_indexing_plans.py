"""What is planned for indexes and files, from numbers alone."""

import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.pipeline.indexing import IndexPolicy
from lance_gateway.pipeline.indexing.indexes import Fragment, IndexState, Segment, TableIndexes, Training
from lance_gateway.pipeline.indexing.planning import (
    count_folded_segments,
    count_spare_fragments,
    plan_gathering,
)


class Base:
    """Stands in for a Lance dataset."""

    def __init__(self, *, stable: bool) -> None:
        self.has_stable_row_ids = stable


def indexes(*states: IndexState, fragments: tuple[Fragment, ...] = (), stable: bool = False) -> TableIndexes:
    return TableIndexes(None, Base(stable=stable), fragments, states, None)  # type: ignore[arg-type]


def index(*segment_rows: int, unindexed: int, kind: str = "BTree") -> IndexState:
    segments = tuple(
        Segment(f"s{place}", frozenset([place]), rows, place) for place, rows in enumerate(segment_rows)
    )
    return IndexState("i", kind, segments, (99,) if unindexed else (), unindexed)


@pytest.mark.parametrize(
    ("segments", "unindexed", "expected"),
    [
        ((1000, 400, 100), 60, 0),
        ((1000, 400, 100), 100, 1),
        ((1000, 400, 100), 300, 2),
        ((1000, 400, 100), 500, 3),
        ((1000, 400, 100), 0, 0),
        ((0,), 5, 1),  # of an index that was built when the table was empty
        ((), 5, 0),
    ],
)
def test_segments_are_folded_that_are_no_larger(segments: tuple[int, ...], unindexed: int, expected: int):
    state = index(*segments, unindexed=unindexed)
    assert count_folded_segments(state, indexes(state)) == expected


def test_many_small_additions_leave_few_segments_and_rewrite_each_row_rarely():
    segments: list[int] = [1000]
    written = 0
    for _ in range(1000):
        state = index(*segments, unindexed=1)
        count = count_folded_segments(state, indexes(state))
        taken = segments[len(segments) - count :]
        del segments[len(segments) - count :]
        segments.append(1 + sum(taken))
        written += segments[-1]
    assert len(segments) <= 11
    assert written <= 1000 * 12


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("BTree", 0),
        ("ZoneMap", 0),
        ("IVF_PQ", 0),
        ("Inverted", 0),
        ("LabelList", 3),
        ("Bitmap", 3),
        ("RTree", 3),
    ],
)
def test_where_rows_have_stable_ids_some_indexes_are_written_whole(kind: str, expected: int):
    for unindexed in (1, 0):
        state = index(1000, 400, 100, unindexed=unindexed, kind=kind)
        assert count_folded_segments(state, indexes(state, stable=True)) == expected
    single = index(1000, unindexed=0, kind=kind)
    assert count_folded_segments(single, indexes(single, stable=True)) == 0


@pytest.mark.parametrize(
    ("segments", "unindexed", "expected"),
    [((1000, 10), 10, 0), ((1000, *[10] * 7), 10, 8), ((1000, 600), 400, 2), ((0,), 5, 1), ((), 5, 0)],
)
def test_where_rows_have_stable_ids_all_segments_are_folded_or_none(
    segments: tuple[int, ...], unindexed: int, expected: int
):
    state = index(*segments, unindexed=unindexed)
    assert count_folded_segments(state, indexes(state, stable=True)) == expected


@pytest.mark.parametrize("kind", ["Inverted", "Bitmap"])
def test_one_segment_of_rows_with_stable_ids_stays_one(kind: str):
    single = index(1000, unindexed=1, kind=kind)
    assert count_folded_segments(single, indexes(single, stable=True)) == 1


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((), 0),
        ((10,), 0),
        ((10, 10), 1),
        ((10, 200, 10), 0),  # no neighbours
        ((200, 10, 10, 10), 2),
        ((60, 60), 0),  # of two that are more than half full there would be two again
        ((60, 60, 60), 1),
        ((200, 200), 0),
    ],
)
def test_what_putting_files_together_spares(rows: tuple[int, ...], expected: int):
    fragments = [Fragment(number, one, 0) for number, one in enumerate(rows)]
    assert count_spare_fragments(fragments, 100) == expected


def test_deleted_rows_do_not_make_a_large_fragment_small():
    assert count_spare_fragments([Fragment(0, 100, 90), Fragment(1, 100, 90)], 100) == 0
    assert count_spare_fragments([Fragment(0, 90, 80), Fragment(1, 90, 80)], 100) == 1


def test_small_fragments_are_gathered_in_one_segment():
    fragments = tuple(Fragment(number, rows, 0) for number, rows in enumerate((200, 10, 10)))
    apart, together = index(200, 10, 10, unindexed=0), index(200, 10, unindexed=0)
    (found,) = plan_gathering(indexes(apart, together, fragments=fragments), 100)
    assert found.fold == 2
    assert plan_gathering(indexes(together, fragments=fragments[:2]), 100) == ()


def test_vector_indexes_wear_out():
    policy = IndexPolicy(retrain_after=3, retrain_growth=2)
    assert Training(1, 100, 2).find_retrain_reason(200, policy) is None
    assert (
        Training(1, 100, 3).find_retrain_reason(200, policy) == "rows were added 3 times since it was trained"
    )
    assert (
        Training(1, 100, 0).find_retrain_reason(201, policy)
        == "it was trained on 100 rows, and there are 201"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_unindexed_rows": -1}, "max_unindexed_rows is -1, but must be 0 or more"),
        ({"max_unindexed_fraction": 1.5}, "max_unindexed_fraction is 1.5, but must be from 0 to 1"),
        ({"deleted_fraction": -0.1}, "deleted_fraction is -0.1, but must be from 0 to 1"),
        ({"target_rows": 0}, "target_rows is 0, but must be 1 or more"),
        ({"retrain_growth": 1.0}, "retrain_growth is 1.0, but must be more than 1"),
    ],
)
def test_policies_that_make_no_sense(arguments: dict[str, float], message: str):
    with pytest.raises(InvalidInputError, match=message):
        IndexPolicy(**arguments)  # type: ignore[arg-type]
