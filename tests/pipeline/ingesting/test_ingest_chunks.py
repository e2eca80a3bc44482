"""Rows in pieces: nothing lost, nothing twice, one region at a time, the last row of each key."""

from itertools import groupby, pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_gateway.pipeline.ingesting.chunks import keep_last_rows, split_into_chunks

ROWS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc")), max_size=30).map(sorted)
CUTS = st.lists(st.integers(0, 30), max_size=6)


def batches(rows: list[tuple[int, str]], cuts: list[int]) -> list[pa.RecordBatch]:
    table = pa.table(
        {
            "region": pa.array([region for region, _ in rows], pa.int64()),
            "key": pa.array([key for _, key in rows], pa.string()),
            "at": pa.array(range(len(rows)), pa.int64()),
        }
    ).combine_chunks()
    ends = sorted({min(cut, len(rows)) for cut in cuts} | {0, len(rows)})
    found = []
    for start, end in pairwise(ends):
        found += table.slice(start, end - start).to_batches()
        found.append(pa.RecordBatch.from_pylist([], schema=table.schema))
    return found


@pytest.mark.slow
@given(ROWS, CUTS, st.integers(1, 8), st.sampled_from([1, 100, 1 << 20]))
def test_pieces_are_the_rows_in_order(rows: list[tuple[int, str]], cuts: list[int], most: int, nbytes: int):
    found = list(split_into_chunks(batches(rows, cuts), "region", rows=most, nbytes=nbytes))
    assert [at for one in found for at in one.rows.column("at").to_pylist()] == list(range(len(rows)))
    for one in found:
        assert 1 <= one.rows.num_rows <= most
        assert set(one.rows.column("region").to_pylist()) == {one.number}


@pytest.mark.slow
@given(ROWS, CUTS)
def test_pieces_are_as_large_as_they_may_be(rows: list[tuple[int, str]], cuts: list[int]):
    found = list(split_into_chunks(batches(rows, cuts), "region", rows=1000, nbytes=1 << 30))
    assert [one.number for one in found] == [region for region, _ in groupby(rows, key=lambda row: row[0])]


@pytest.mark.slow
@given(ROWS, CUTS)
def test_the_last_row_of_each_key_stays(rows: list[tuple[int, str]], cuts: list[int]):
    found = [
        at for one in keep_last_rows(batches(rows, cuts), "region", ["key"]) for at in one["at"].to_pylist()
    ]
    assert found == sorted({row: at for at, row in enumerate(rows)}.values())
