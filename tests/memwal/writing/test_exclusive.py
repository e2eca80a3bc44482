"""A statement that reads and then writes: nobody comes in between."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from lance_gateway.memwal.writing import Changes, FencedError, TableWriter
from tests.memwal.writing.reading import rows_by_key
from tests.memwal.written import WrittenTable

Writing = Callable[..., TableWriter]
INCREMENTS = 15


def increment(table: WrittenTable, writer: TableWriter) -> None:
    """Adds 1 to key 1, beginning again as often as it takes."""
    while True:
        try:
            with writer.exclusive() as held:
                qty = rows_by_key(table).get(1, {"qty": 0})["qty"]
                held.write(Changes(table.rows(id=[1], qty=[qty + 1], name=[""])))
        except FencedError:
            continue
        return


@pytest.mark.slow
def test_increments_of_several_writers_all_count(table: WrittenTable, writing: Writing):
    writers = [writing(table), writing(table)]

    with ThreadPoolExecutor(4) as clients:
        list(clients.map(lambda at: increment(table, writers[at % 2]), range(INCREMENTS)))

    assert rows_by_key(table)[1]["qty"] == INCREMENTS


def test_what_was_acknowledged_before_is_read_inside(table: WrittenTable, writing: Writing):
    writer = writing(table)
    for key in range(20):
        writer.write(Changes(table.rows(id=[key], qty=[0], name=[""])), durable=False)
    with writer.exclusive():
        assert len(rows_by_key(table)) == 20


def test_where_one_of_several_regions_was_lost_none_is_written(bucketed: WrittenTable, writing: Writing):
    writer, other = writing(bucketed), writing(bucketed)
    everything = Changes(bucketed.rows(id=range(100), qty=[0] * 100))
    writer.write(everything)
    with writer.exclusive() as held:
        other.write(Changes(bucketed.rows(id=[1], qty=[5])))
        with pytest.raises(FencedError, match="nothing was written, retry"):
            held.write(Changes(bucketed.rows(id=range(100), qty=[7] * 100)))
    assert sorted({one["qty"] for one in rows_by_key(bucketed).values()}) == [0, 5]


def test_regions_that_were_lost_before_are_claimed_back(bucketed: WrittenTable, writing: Writing):
    writer, other = writing(bucketed), writing(bucketed)
    everything = Changes(bucketed.rows(id=range(100), qty=[0] * 100))
    writer.write(everything)
    other.write(Changes(bucketed.rows(id=[1], qty=[1])))
    with writer.exclusive() as held:
        assert held.write(everything).num_rows == 100


def test_other_requests_wait_until_it_is_over(table: WrittenTable, writing: Writing):
    writer = writing(table)
    writer.write(Changes(table.rows(id=[1], qty=[0], name=[""])))
    with ThreadPoolExecutor(1) as client, writer.exclusive() as held:
        answer = client.submit(writer.write, Changes(table.rows(id=[1], qty=[2], name=[""])))
        held.write(Changes(table.rows(id=[1], qty=[1], name=[""])))
        assert not answer.done()
        assert rows_by_key(table)[1]["qty"] == 1
        held.write(Changes(deletes=pa.table({"id": [1]})))
    assert rows_by_key(table)[1]["qty"] == 2


def test_regions_that_come_into_being_inside_are_held_too(bucketed: WrittenTable, writing: Writing):
    writer = writing(bucketed)
    with writer.exclusive() as held:
        assert held.regions == frozenset()
        receipt = held.write(Changes(bucketed.rows(id=range(100), qty=[0] * 100)))
        assert held.regions == frozenset(receipt.regions)
        assert len(held.regions) == 4


def test_a_region_that_others_filled_meanwhile_begins_it_anew(bucketed: WrittenTable, writing: Writing):
    writer, other = writing(bucketed), writing(bucketed)
    rows = Changes(bucketed.rows(id=[1], qty=[0]))
    with writer.exclusive() as held:
        other.write(rows)
        with pytest.raises(FencedError, match="nothing was written, retry"):
            held.write(rows)


def test_a_region_that_is_not_held_but_was_written_here_begins_it_anew(
    bucketed: WrittenTable, writing: Writing
):
    writer = writing(bucketed)
    rows = Changes(bucketed.rows(id=[1], qty=[0]))
    with writer.exclusive() as held:
        writer.write(rows)
        with pytest.raises(FencedError, match="nothing was written, retry"):
            held.write(rows)


def test_only_the_regions_that_are_named_are_held(bucketed: WrittenTable, writing: Writing):
    writer = writing(bucketed)
    everything = bucketed.rows(id=range(100), qty=[0] * 100)
    writer.write(Changes(everything))
    (mine,) = writer.find_regions(everything.slice(0, 1))
    others = [key for key in range(100) if writer.find_regions(everything.slice(key, 1)) != (mine,)]
    with writer.exclusive([mine]) as held:
        assert held.regions == {mine}
        writer.write(Changes(bucketed.rows(id=others, qty=[1] * len(others))))
    assert sum(one["qty"] for one in rows_by_key(bucketed).values()) == len(others)
