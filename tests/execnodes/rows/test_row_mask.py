"""Masks of rows, beside the sets of offsets that they stand for."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_gateway.execnodes.rows import row_mask
from lance_gateway.execnodes.rows.row_mask import FragmentMask, RowMask, build_fragment_mask, filter_visible

CHUNK = 16
ROWS = 70


@pytest.fixture(autouse=True, scope="module")
def small_chunks() -> Iterator[None]:
    """Fragments of a few rows have several chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_mask, "CHUNK_ROWS", CHUNK)
        yield


offsets = st.lists(st.integers(0, ROWS - 1), max_size=20)


def hiding(*hidden: int, rows: int = ROWS) -> FragmentMask:
    return build_fragment_mask(rows, np.array(hidden, np.uint32))


def visible(mask: FragmentMask) -> list[int]:
    return [at for at, flag in enumerate(mask.visible.to_pylist()) if flag]


def addresses(fragment_id: int, *offsets: int) -> pa.UInt64Array:
    return pa.array([fragment_id << 32 | offset for offset in offsets], pa.uint64())


def numbered(rows: int) -> pa.RecordBatch:
    return pa.record_batch({"n": range(rows)})


class TestOfAFragment:
    @given(st.integers(1, ROWS), st.lists(offsets, max_size=3))
    def test_it_shows_the_rows_that_no_step_hid(self, rows: int, steps: list[list[int]]) -> None:
        mask, hidden = hiding(rows=rows), set()
        for step in steps:
            more = [one % rows for one in step]
            mask = build_fragment_mask(rows, np.array(more, np.uint32), mask)
            hidden.update(more)
        assert visible(mask) == sorted(set(range(rows)) - hidden)
        assert len(mask.visible) == rows
        assert mask.hidden_rows == len(hidden)
        assert mask.visible_rows == rows - len(hidden)

    @pytest.mark.slow
    @given(offsets, offsets)
    def test_a_change_leaves_the_mask_before_as_it_was(self, first: list[int], then: list[int]) -> None:
        mask = hiding(*first)
        digests = mask.digests
        mask.without(np.array(then, np.uint32))
        assert visible(mask) == sorted(set(range(ROWS)) - set(first))
        assert mask.digests is digests

    @given(st.integers(1, ROWS), offsets, offsets)
    def test_digests_follow_each_change(self, rows: int, first: list[int], then: list[int]) -> None:
        first, then = ([one % rows for one in some] for some in (first, then))
        before = hiding(*first, rows=rows)
        known = before.digests
        after = before.without(np.array(then, np.uint32))
        assert after.digests == hiding(*first, *then, rows=rows).digests
        changed = {at // CHUNK for at in set(then) - set(first)}
        assert len(after.digests) == len(known) == -(-rows // CHUNK)
        assert {at for at, (old, new) in enumerate(zip(known, after.digests, strict=True)) if old != new} == (
            changed
        )

    def test_only_digests_that_were_asked_for_are_kept(self) -> None:
        mask = hiding(1)
        assert "digests" not in vars(mask.without(np.array([2], np.uint32)))
        digests = mask.digests
        known = vars(mask.without(np.array([CHUNK], np.uint32)))["digests"]
        assert [new is old for new, old in zip(known, digests, strict=True)] == [
            True,
            False,
            True,
            True,
            True,
        ]

    @given(offsets)
    def test_chunks_are_its_parts(self, hidden: list[int]) -> None:
        mask = hiding(*hidden)
        sizes, chunks = [16, 16, 16, 16, 6], mask.chunks()
        assert {at for at, chunk in enumerate(chunks) if chunk is not None} == {at // CHUNK for at in hidden}
        whole = [
            pa.array([True] * size) if one is None else one for one, size in zip(chunks, sizes, strict=True)
        ]
        assert [len(chunk) for chunk in whole] == sizes
        assert pa.concat_arrays(whole).equals(mask.visible)

    @given(offsets, offsets)
    def test_both_show_what_each_shows(self, first: list[int], second: list[int]) -> None:
        mask = hiding(*first).both(hiding(*second))
        assert visible(mask) == sorted(set(range(ROWS)) - {*first, *second})

    def test_what_hides_deleted_rows_still_does_when_more_is_hidden(self) -> None:
        plain = hiding(1)
        told = FragmentMask(plain.visible, hides_deleted=True)
        assert not plain.hides_deleted
        assert told.without(np.array([2], np.uint32)).hides_deleted is True
        assert plain.without(np.array([2], np.uint32)).hides_deleted is False
        assert plain.both(told).hides_deleted
        assert told.both(plain).hides_deleted
        assert not plain.both(plain).hides_deleted

    @pytest.mark.slow
    @given(offsets, st.sets(st.integers(0, ROWS - 1), min_size=1), st.integers(0, 3))
    def test_flags_are_of_the_rows_that_are_asked_for(
        self, hidden: list[int], asked: set[int], fragment_id: int
    ) -> None:
        ascending = sorted(asked)
        flags = hiding(*hidden).at(addresses(fragment_id, *ascending))
        assert flags.to_pylist() == [at not in hidden for at in ascending]

    def test_a_part_of_a_mask_or_one_with_nulls_is_none(self) -> None:
        for flags in (pa.array([True, True])[1:], pa.array([True, None])):
            with pytest.raises(ValueError, match="starts at the fragment's first row and has no NULLs"):
                FragmentMask(flags)


class TestOfASource:
    mask = RowMask({2: hiding(0, 3, rows=5), 7: hiding(1, rows=2)})

    def test_rows_of_absent_fragments_are_visible(self) -> None:
        batch, of_another = numbered(3), addresses(4, 0, 1, 3)
        assert self.mask.keep(batch, of_another) is batch
        assert RowMask().keep(batch, of_another) is batch

    def test_no_rows_are_kept_as_they_are(self) -> None:
        batch = numbered(0)
        assert self.mask.keep(batch, addresses(2)) is batch

    @pytest.mark.parametrize(
        ("places", "kept"),
        [
            ([(2, 0), (2, 1), (2, 2), (2, 3)], [1, 2]),
            ([(2, 1), (2, 3), (2, 4)], [0, 2]),
            ([(2, 4), (7, 0), (7, 1)], [0, 1]),
            ([(2, 3), (4, 3), (7, 1), (9, 1)], [1, 3]),
            ([(7, 0), (7, 1), (2, 0), (2, 1)], [0, 3]),
            ([(2, 0), (2, 3)], []),
            ([(2, 1), (4, 0), (2, 3)], [0, 1]),
        ],
    )
    def test_each_row_is_kept_by_the_mask_of_its_fragment(
        self, places: list[tuple[int, int]], kept: list[int]
    ) -> None:
        at = pa.array([fragment_id << 32 | offset for fragment_id, offset in places], pa.uint64())
        assert self.mask.keep(numbered(len(places)), at).column("n").to_pylist() == kept

    def test_it_counts_what_its_fragments_hide(self) -> None:
        assert self.mask.hidden_rows == 3
        assert RowMask().hidden_rows == 0

    def test_more_rows_are_hidden_where_fragments_still_exist(self) -> None:
        hidden = {
            2: np.array([4], np.uint32),
            3: np.array([1], np.uint32),
            4: np.array([1], np.uint32),
            7: np.array([], np.uint32),
        }
        more = self.mask.without(hidden, {2: 5, 3: 3, 7: 2})
        assert {one: visible(mask) for one, mask in more.fragments.items()} == {2: [1, 2], 3: [0, 2], 7: [0]}
        assert more.fragments[7] is self.mask.fragments[7]
        assert {one: visible(mask) for one, mask in self.mask.fragments.items()} == {2: [1, 2, 4], 7: [0]}


def test_a_batch_is_filtered_only_where_something_is_hidden() -> None:
    batch = numbered(3)
    assert filter_visible(batch, pa.array([True, True, True])) is batch
    assert filter_visible(batch, pa.array([True, False, True])).column("n").to_pylist() == [0, 2]
