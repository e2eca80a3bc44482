"""Many rows are written in parts as they come, and an error tells what was written before it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, UnavailableError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.memwal.writing import WriteReceipt
from lance_gateway.planner.access.rights import FULL_ACCESS
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import DEFAULT_SETTINGS, QueryEngine
from lance_gateway.planner.writes.dml import ingest as stream
from lance_gateway.planner.writes.dml.ingest import prepare_ingest, split_into_parts, write_parts
from tests.planner.writes.dml.lake import PEOPLE, Lake, make_lake


@pytest.fixture
def lake(tmp_path: Path, open_engine: Callable[[Path], QueryEngine]) -> Lake:
    make_lake(tmp_path)
    return Lake(open_engine(tmp_path))


def numbers(rows: int, first: int = 0) -> pa.Table:
    return pa.table({"n": pa.array(range(first, first + rows), pa.int64())})


def ingest(lake: Lake, rows: pa.Table, batch_rows: int = 1000) -> int:
    prepared = prepare_ingest(lake.engine, TableName("people"), rows.schema, DEFAULT_SETTINGS, FULL_ACCESS)
    return prepared.execute(iter(rows.to_batches(batch_rows)), RunControl()).affected


class TestParts:
    def test_small_tables_are_joined_up_to_the_limit(self) -> None:
        parts = list(split_into_parts([numbers(4), numbers(4), numbers(4), numbers(1)], rows=9))
        assert [part.num_rows for part in parts] == [8, 5]

    def test_large_tables_are_cut(self) -> None:
        parts = list(split_into_parts([numbers(25)], rows=10))
        assert [part.num_rows for part in parts] == [9, 9, 7]
        assert pa.concat_tables(parts).equals(numbers(25))

    def test_large_rows_are_cut_by_their_bytes(self) -> None:
        parts = list(split_into_parts([numbers(100)], nbytes=200))
        assert sum(part.num_rows for part in parts) == 100
        assert max(part.num_rows for part in parts) <= 25

    def test_no_rows_are_no_parts(self) -> None:
        assert list(split_into_parts([numbers(0), numbers(0)])) == []

    def test_parts_are_written_in_order_while_the_next_is_read(self) -> None:
        written: list[int] = []

        def write(rows: pa.Table) -> WriteReceipt:
            written.append(rows.column(0)[0].as_py())
            return WriteReceipt({"r": rows.num_rows})

        receipt = write_parts(write, (numbers(10, first) for first in range(0, 100, 10)), RunControl())
        assert written == list(range(0, 100, 10))
        assert receipt.num_rows == 100

    def test_an_error_tells_what_was_written_before(self) -> None:
        def write(rows: pa.Table) -> WriteReceipt:
            if rows.column(0)[0].as_py() == 20:
                msg = "no more"
                raise UnavailableError(msg)
            return WriteReceipt({"abcdefghij": rows.num_rows})

        with pytest.raises(
            UnavailableError, match=r"no more; 20 rows had been written .*abcdefgh: 20\), and stay"
        ):
            write_parts(write, (numbers(10, first) for first in range(0, 100, 10)), RunControl())

    def test_an_error_of_the_first_part_is_told_as_it_is(self) -> None:
        def write(rows: pa.Table) -> WriteReceipt:
            raise UnavailableError(str(rows.num_rows))

        with pytest.raises(UnavailableError, match=r"^10$"):
            write_parts(write, iter([numbers(10)]), RunControl())

    def test_stopping_lets_the_part_finish_that_is_under_way(self) -> None:
        control = RunControl()
        written: list[int] = []

        def parts() -> Iterator[pa.Table]:
            yield numbers(10)
            yield numbers(10)
            control.cancel(UnavailableError("stopped"))
            yield numbers(10)

        def write(rows: pa.Table) -> WriteReceipt:
            written.append(rows.num_rows)
            return WriteReceipt({"r": rows.num_rows})

        with pytest.raises(UnavailableError, match="stopped; 20 rows had been written"):
            write_parts(write, parts(), control)
        assert written == [10, 10]

    def test_a_source_that_breaks_is_passed_on(self) -> None:
        def parts() -> Iterator[pa.Table]:
            yield numbers(10)
            yield numbers(10)
            raise ConnectionError

        with pytest.raises(ConnectionError):
            write_parts(lambda rows: WriteReceipt({"r": rows.num_rows}), parts(), RunControl())


class TestIngest:
    def test_columns_find_the_table_s_by_name_and_are_cast(self, lake: Lake) -> None:
        rows = pa.table({"age": pa.array([1, 2], pa.int64()), "id": pa.array(["50", "51"])})
        assert ingest(lake, rows) == 2
        assert lake.read("SELECT * FROM people WHERE id >= 50 ORDER BY id") == [
            {"id": 50, "name": None, "age": 1, "score": None},
            {"id": 51, "name": None, "age": 2, "score": None},
        ]

    def test_many_batches_are_written_whole(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stream, "PART_ROWS", 2500)
        rows = pa.table({"id": pa.array(range(1000, 11_000), pa.int64())})
        assert ingest(lake, rows) == 10_000
        assert lake.read("SELECT count(*) AS n FROM people WHERE id >= 1000") == [{"n": 10_000}]

    def test_the_last_of_several_rows_of_a_key_stays(self, lake: Lake) -> None:
        rows = pa.table({"id": pa.array([70, 70, 70], pa.int64()), "age": pa.array([1, 2, 3], pa.int32())})
        assert ingest(lake, rows, batch_rows=1) == 3
        assert lake.read("SELECT age FROM people WHERE id = 70") == [{"age": 3}]

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            (
                pa.table({"id": [1], "nme": ["x"]}),
                r"column 'nme' of the stream is none .* did you mean 'name'",
            ),
            (
                pa.table({"name": ["x"]}),
                "column 'id' of table 'people' must not be NULL, and the stream gives",
            ),
            (pa.table({"id": [1], "age": [[1]]}), "column 'age' is int32, and is given list"),
            (pa.table({"id": pa.array([1, None], pa.int64())}), "column 'id' of row 2 is NULL"),
            (
                pa.table({"id": [1, 2, 3], "age": ["1", "2", "x"]}),
                r"column 'age' .*, row 3: 'x' does not fit",
            ),
        ],
    )
    def test_what_does_not_fit_is_refused(self, lake: Lake, rows: pa.Table, message: str) -> None:
        before = lake.rows("people")
        with pytest.raises(InvalidInputError, match=message):
            ingest(lake, rows)
        assert lake.rows("people") == before

    def test_rows_that_are_like_the_table_are_not_copied(self, lake: Lake) -> None:
        rows = pa.Table.from_pylist([{"id": 1, "name": "x", "age": 1, "score": 1.0}], PEOPLE)
        prepared = prepare_ingest(
            lake.engine, TableName("people"), rows.schema, DEFAULT_SETTINGS, FULL_ACCESS
        )
        (made,) = prepared._read_rows(iter(rows.to_batches()))
        assert (
            made.column("id").chunk(0).buffers()[1].address == rows.column("id").chunk(0).buffers()[1].address
        )


class TestInsertSelect:
    def test_reads_one_snapshot_of_the_table_that_it_writes(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stream, "PART_ROWS", 3)
        assert lake.write("INSERT INTO people (id, age) SELECT id + 100, age FROM people").affected == 12
        assert lake.read("SELECT count(*) AS n FROM people") == [{"n": 24}]

    def test_an_error_in_a_later_part_tells_what_stays(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stream, "PART_ROWS", 10_000)
        with pytest.raises(LanceGatewayError, match=r"row \d+: .* rows had been written before"):
            lake.write(
                "INSERT INTO people (id, age) SELECT value + 1000, "
                "CASE WHEN value = 30001 THEN 3000000000 ELSE value END "
                "FROM generate_series(1, 40000) AS g(value) ORDER BY 1"
            )

    def test_parameters_in_sets_are_one_write(self, lake: Lake) -> None:
        prepared = lake.engine.prepare_statement("INSERT INTO people (id, name) VALUES ($2, $1)")
        values = pa.table({"$1": ["a", "b", "c"], "$2": [200, 201, 202]})
        assert prepared.execute_many(values).affected == 3  # type: ignore[union-attr]
        table = lake.engine.catalog.table("people")
        assert sum(len(table.read_unflushed(one)) for one in table.read_manifests()) <= 3
        assert [row["name"] for row in lake.read("SELECT name FROM people WHERE id >= 200 ORDER BY id")] == [
            "a",
            "b",
            "c",
        ]
