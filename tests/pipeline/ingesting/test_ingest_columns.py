"""Which rows fit a table: what is refused before anything is written, and what it says."""

import datetime as dt
import pickle
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, PreconditionError
from lance_gateway.memwal.writing import OpenTable
from lance_gateway.pipeline.ingesting.columns import Columns, find_failing_row
from lance_gateway.pipeline.ingesting.options import IngestOptions
from lance_gateway.pipeline.jobs.lake import LakeTable
from tests.pipeline.attempts import routed, write
from tests.support.lake.ingesting import Batch
from tests.support.lake.manifests import SpecField
from tests.support.lake.tables import LsmTable, by_spec, key_field
from tests.support.processes.gateways import EngineGateway
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema(
    [
        key_field("tenant", pa.string(), 1),
        key_field("id", pa.int32(), 2),
        pa.field("day", pa.date32()),
        pa.field("score", pa.float32()),
        pa.field("place", pa.list_(pa.float32(), 2)),
        pa.field("must", pa.string(), metadata={"lance-gateway:not-null": "true"}),
    ]
)
OPTIONS = IngestOptions(deleted_column="gone")
ROW = {"tenant": "a", "id": 1, "must": "x"}


@pytest.fixture
def table(root: Path) -> LakeTable:
    dataset = lance.write_dataset(SCHEMA.empty_table(), root / "orders.lance")
    dataset.initialize_mem_wal(bucket_column="id", num_buckets=2)
    return LakeTable.at(str(root / "orders.lance"))


def refused(table: LakeTable, rows: pa.Table, options: IngestOptions | None = None) -> str:
    with pytest.raises(InvalidInputError) as caught:
        routed(table, rows, options or IngestOptions())
    return str(caught.value)


def rows(*changes: dict[str, object], **types: pa.DataType) -> pa.Table:
    found = pa.Table.from_pylist([{**ROW, **one} for one in changes])
    for name, kind in types.items():
        found = found.set_column(found.column_names.index(name), name, found.column(name).cast(kind))
    return found


def test_columns_are_found_by_name_cast_and_filled_with_null(root: Path, table: LakeTable):
    given = pa.table(
        {
            "must": ["x", "y"],
            "day": ["2024-02-29", None],
            "id": pa.array([1, 2], pa.int64()),
            "place": pa.array([[1.0, 2.0], None], pa.list_(pa.float64())),
            "tenant": ["a", "a"],
        }
    )
    write(table, given)
    gateway = EngineGateway(root)
    assert gateway.read("SELECT * FROM orders ORDER BY id").to_pylist() == [
        {**ROW, "day": dt.date(2024, 2, 29), "score": None, "place": [1.0, 2.0]},
        {**ROW, "id": 2, "must": "y", "day": None, "score": None, "place": None},
    ]
    gateway.close()


def test_an_unknown_column(table: LakeTable):
    assert (
        refused(table, rows({"Score": 1.0})) == "table 'orders' has no column 'Score': did you mean 'score'?"
    )
    assert refused(table, rows({"zzz": 1.0})) == (
        "table 'orders' has no column 'zzz': it has tenant, id, day, score, place, must"
    )


def test_a_column_that_is_missing(table: LakeTable):
    assert refused(table, rows({}).drop_columns(["id"])) == (
        "table 'orders': column 'id' belongs to its key, but the rows have tenant, must"
    )
    assert refused(table, rows({}).drop_columns(["must"])) == (
        "table 'orders': column 'must' must not be NULL, but the rows have tenant, id"
    )


def test_a_column_that_is_there_twice(table: LakeTable):
    twice = rows({}).append_column("id", pa.array([2]))
    assert "have column 'id' twice" in refused(table, twice)


def test_types_that_do_not_fit(table: LakeTable):
    assert refused(table, rows({"score": {"a": 1}})) == (
        "table 'orders': column 'score' is float, which struct<a: int64> does not fit: cast it"
    )
    assert refused(table, rows({"day": 5})) == (
        "table 'orders': column 'day' is date32[day], which int64 does not fit: cast it"
    )


def test_values_that_do_not_fit_name_the_row(table: LakeTable):
    many = [{"id": one} for one in range(1000)]
    assert refused(table, rows(*many, {"id": 1 << 40})) == (
        "table 'orders': column 'id' is int32, which the row with tenant = 'a', id = 1099511627776 does not "
        "fit: Integer value 1099511627776 not in range: -2147483648 to 2147483647"
    )
    text = refused(table, rows({"id": 7, "day": "2024-02-28"}, {"id": 8, "day": "2024-02-30"}))
    assert text.startswith(
        "table 'orders': column 'day' is date32[day], which the row with tenant = 'a', id = 8 does not fit: "
    )


def test_null_where_it_must_not_be_names_the_row(table: LakeTable):
    assert refused(table, rows({"id": 3}, {"id": None})) == (
        "table 'orders': column 'id' can't be NULL, but the row with tenant = 'a', id = None has no value "
        "there; give one"
    )
    assert "column 'must' can't be NULL, but the row with tenant = 'a', id = 4 has" in refused(
        table, rows({"id": 3}, {"id": 4, "must": None})
    )


def test_rows_that_delete_need_nothing_but_the_key(root: Path, table: LakeTable):
    options = IngestOptions(deleted_column="gone", hold_ms=0)
    write(table, rows({"id": 1, "gone": False}, {"id": 2, "gone": None}), options)
    write(table, rows({"id": 1, "must": None, "gone": True}), options)
    gateway = EngineGateway(root)
    assert gateway.read("SELECT id FROM orders").column("id").to_pylist() == [2]
    gateway.close()
    assert "column 'id' can't be NULL" in refused(table, rows({"id": None, "gone": True}), options)


def test_what_marks_deleted_rows_is_a_boolean_of_the_rows_alone(table: LakeTable):
    options = IngestOptions(deleted_column="must")
    assert "column 'must' is one of table 'orders'" in refused(table, rows({}), options)
    options = IngestOptions(deleted_column="gone")
    assert refused(table, rows({}), options).endswith("must be a boolean of the rows, but it is none")
    assert refused(table, rows({"gone": 1}), options).endswith("but it is int64")


def test_what_orders_rows_must_be_there(table: LakeTable):
    options = IngestOptions(order_by=("seq",))
    assert refused(table, rows({}), options) == (
        "table 'orders': rows can't be ordered by 'seq': they have tenant, id, must"
    )


def test_a_table_without_a_key_takes_no_rows_that_may_come_twice(root: Path):
    dataset = lance.write_dataset(pa.table({"a": [1]}), root / "plain.lance")
    dataset.initialize_mem_wal()
    with pytest.raises(
        PreconditionError, match="table 'plain' has no primary key, so rows that Spark writes"
    ):
        routed(LakeTable.at(str(root / "plain.lance")), pa.table({"a": [1]}))


def test_a_table_without_mem_wal_is_refused(root: Path):
    lance.write_dataset(SCHEMA.empty_table(), root / "plain.lance")
    with pytest.raises(PreconditionError, match="table 'plain' has no MemWAL"):
        routed(LakeTable.at(str(root / "plain.lance")), rows({}))


def test_a_value_that_no_region_can_be_told_for(root: Path, writers: WriterProcess):
    schema = pa.schema([key_field("id", pa.int64()), pa.field("part", pa.string())])
    field = SpecField("rest", ("part",), "int64", expression="CAST(col0 AS BIGINT) % 3")
    layout = by_spec((field,), lambda row: (int(row["part"]) % 3,), widths=(8,))
    LsmTable.create(root, "parts", schema.empty_table(), layout, writers)
    table = LakeTable.at(str(root / "parts.lance"))
    fine = [{"id": one, "part": str(one)} for one in range(50)]
    text = refused(table, pa.Table.from_pylist([*fine, {"id": 50, "part": "many"}]))
    assert text.startswith(
        "table 'parts': the region of the row with id = 50 can't be told from part = 'many': "
    )


def test_options_refuse_what_cannot_be():
    for wrong in (
        {"chunk_rows": 0},
        {"tasks": 0},
        {"hold_ms": -1},
        {"order_by": ("a", "a")},
        {"order_by": ("a",), "deleted_column": "a"},
    ):
        with pytest.raises(InvalidInputError):
            IngestOptions(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", range(9))
def test_the_row_at_fault_is_found(bad: int):
    def attempt(start: int, length: int) -> None:
        if start <= bad < start + length:
            raise ValueError

    assert find_failing_row(9, attempt) == bad


def test_columns_travel_to_executors(table: LakeTable):
    opened = OpenTable.open(table.name, table.storage)
    columns = Columns.match_schema(rows({}).schema, opened, IngestOptions())
    assert pickle.loads(pickle.dumps(columns)) == columns


class TestRules:
    """Lengths, checks and defaults of a table that SQL made."""

    @pytest.fixture
    def notes(self, root: Path) -> LakeTable:
        gateway = EngineGateway(root)
        gateway.write(
            "CREATE TABLE notes (id INT PRIMARY KEY, text VARCHAR(4) NOT NULL DEFAULT 'none', stars INT, "
            "day DATE DEFAULT current_date, CONSTRAINT few CHECK (stars < 6)) "
            "WITH (region_by = 'bucket(id, 2)')"
        )
        gateway.close()
        return LakeTable.at(str(root / "notes.lance"))

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"id": [1, 2], "text": ["abcd", "abcde"]}, "the row with id = 2 has 5 there ('abcde')"),
            ({"id": [1, 2], "stars": [5, 6]}, "the row with id = 2 violates constraint 'few'"),
        ],
    )
    def test_rows_that_violate_one_are_refused_before_the_shuffle(
        self, notes: LakeTable, given: dict[str, list[object]], said: str
    ):
        assert said in refused(notes, pa.table(given))

    def test_rows_that_are_deleted_may_violate_one(self, notes: LakeTable):
        given = pa.table({"id": [1, 2], "stars": [6, 5], "gone": [True, False]})
        routed(notes, given, OPTIONS)
        assert "id = 1" in refused(notes, given.set_column(2, "gone", pa.array([False, False])), OPTIONS)

    def test_columns_that_rows_lack_have_their_defaults(self, root: Path, notes: LakeTable):
        write(notes, pa.table({"id": [1, 2], "stars": [1, None]}))
        gateway = EngineGateway(root)
        assert gateway.read(
            "SELECT id, text, stars, day IS NOT NULL AS d FROM notes ORDER BY id"
        ).to_pylist() == [
            {"id": 1, "text": "none", "stars": 1, "d": True},
            {"id": 2, "text": "none", "stars": None, "d": True},
        ]
        gateway.close()

    def test_a_default_that_differs_by_row_must_be_given(self, root: Path, notes: LakeTable):
        gateway = EngineGateway(root)
        gateway.write("ALTER TABLE notes ALTER COLUMN text SET DEFAULT left(uuid(), 4)")
        gateway.close()
        assert refused(notes, pa.table({"id": [1]})) == (
            "table 'notes': column 'text' has the default left(uuid(), 4), which Spark would evaluate again "
            "for each attempt of a task: give the column"
        )

    def test_a_rule_that_comes_while_a_job_runs_binds_its_writers(self, root: Path, notes: LakeTable):
        batch = Batch(notes, pa.table({"id": [1, 2], "stars": [4, 4]}), "job", 0)
        tasks = batch.route_tasks()
        gateway = EngineGateway(root)
        gateway.write("ALTER TABLE notes ADD CONSTRAINT fewer CHECK (stars < 4)")
        for task in tasks:
            with pytest.raises(InvalidInputError, match="'fewer'"):
                batch.write(task)
        assert gateway.read("SELECT * FROM notes").num_rows == 0
        gateway.close()

    def test_they_are_sent_to_executors(self, notes: LakeTable):
        opened = OpenTable.open(notes.name, notes.storage)
        columns = Columns.match_schema(pa.schema([("id", pa.int32())]), opened, IngestOptions())
        assert pickle.loads(pickle.dumps(columns)) == columns
