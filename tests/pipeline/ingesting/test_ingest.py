"""DataFrames into the regions of a table, on Spark."""

import datetime as dt
import functools
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_gateway.memwal.errors import InvalidInputError, PreconditionError
from lance_gateway.pipeline.ingesting import IngestOptions, ingest, job
from lance_gateway.pipeline.ingesting.columns import Router
from lance_gateway.pipeline.ingesting.writing import BatchMarkers
from lance_gateway.pipeline.jobs.lake import LakeTable, TableState
from lance_gateway.pipeline.spark.runner import CarriedError, translate_error, versions
from tests.pipeline.attempts import routed, task, write
from tests.pipeline.failing_tasks import DyingWriter, FailingWriter
from tests.support.lake.tables import key_field
from tests.support.lake.written import NOTES, make_notes, read_notes
from tests.support.processes.gateways import EngineGateway

EAGER = IngestOptions(hold_ms=0)
KINDS = pa.schema(
    [
        key_field("id", pa.int32()),
        pa.field("at", pa.timestamp("us")),
        pa.field("since", pa.timestamp("ms", "UTC")),
        pa.field("place", pa.list_(pa.float32(), 2)),
        pa.field("price", pa.decimal128(8, 2)),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("who", pa.struct([pa.field("name", pa.string()), pa.field("age", pa.int16())])),
        pa.field("raw", pa.large_binary()),
        pa.field("count", pa.uint32()),
    ]
)


@pytest.fixture
def table(root: Path) -> LakeTable:
    make_notes(root, "notes", 3)
    return LakeTable.at(str(root / "notes.lance"))


@pytest.mark.slow
def test_the_last_row_of_each_key_counts(spark: SparkSession, table: LakeTable, gateway: EngineGateway):
    gateway.write("INSERT INTO notes (id, text) VALUES (0, 'old'), (5, 'old'), (99, 'old')")
    rows = [(one % 10, f"{one}", one % 10 == 5 and one > 30, one) for one in range(40)]
    frame = spark.createDataFrame(rows, "id INT, text STRING, gone BOOLEAN, seq INT").repartition(5)
    report = ingest(frame, table, IngestOptions(order_by=("seq",), deleted_column="gone", hold_ms=0))
    assert read_notes(gateway) == {99: "old"} | {one: str(one + 30) for one in range(10) if one != 5}
    assert (report.table, report.rows, report.deleted, report.is_skipped) == ("notes", 9, 1, False)
    state = TableState.read(table)
    assert {one.region_id for one in report.regions} == set(state.regions)
    assert all(one.epoch == state.regions[one.region_id].manifest.writer_epoch for one in report.regions)


@pytest.mark.slow
def test_values_of_all_kinds(spark: SparkSession, root: Path, gateway: EngineGateway):
    dataset = lance.write_dataset(KINDS.empty_table(), root / "kinds.lance")
    dataset.initialize_mem_wal()
    frame = spark.sql(
        """SELECT CAST(id AS BIGINT) AS id, TIMESTAMP '2024-02-29 12:00:00.000001' AS at,
        TIMESTAMP_NTZ '2024-02-29 12:00:00.001' AS since, array(1.5D, CAST(id AS DOUBLE)) AS place,
        1.25 AS price, array('a', NULL) AS tags, named_struct('name', 'x', 'age', 7) AS who, X'00FF' AS raw,
        CAST(4000000000 AS BIGINT) AS count FROM (SELECT explode(array(1, 2)) AS id)"""
    )
    ingest(frame, LakeTable.at(str(root / "kinds.lance")), EAGER)
    moment = dt.datetime(2024, 2, 29, 12, 0, 0)
    expected = {
        "at": moment.replace(microsecond=1),
        "since": moment.replace(microsecond=1000, tzinfo=dt.UTC),
        "price": pytest.approx(1.25),
        "tags": ["a", None],
        "who": {"name": "x", "age": 7},
        "raw": b"\x00\xff",
        "count": 4_000_000_000,
    }
    for row in gateway.read("SELECT * FROM kinds").to_pylist():
        assert row.pop("place") == [1.5, row.pop("id")]
        assert {**row, "price": float(row["price"])} == expected


@pytest.mark.slow
@pytest.mark.soak
def test_where_one_row_does_not_fit_none_is_written(
    spark: SparkSession, table: LakeTable, gateway: EngineGateway
):
    frame = spark.range(1000).selectExpr("if(id = 777, NULL, id) AS id", "concat('row ', id) AS text")
    message = "table 'notes': column 'id' can't be NULL, but the row with id = None has no value there"
    with pytest.raises(InvalidInputError, match=message):
        ingest(frame, table)
    assert read_notes(gateway) == {}
    (ended,) = BatchMarkers.jobs(table.storage)  # No attempt that is left somewhere writes any more.
    assert BatchMarkers(table.storage, ended).is_complete(0)


@pytest.mark.slow
@pytest.mark.parametrize("writer", [DyingWriter, pytest.param(FailingWriter, marks=pytest.mark.soak)])
def test_a_task_that_is_tried_again_loses_and_doubles_nothing(
    spark: SparkSession,
    table: LakeTable,
    gateway: EngineGateway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    writer: type[DyingWriter] | type[FailingWriter],
):
    monkeypatch.setattr(job, "RegionsWriter", functools.partial(writer, notes=tmp_path))
    frame = spark.range(60).selectExpr("id % 20 AS id", "CAST(id AS STRING) AS text", "id AS seq")
    report = ingest(
        frame, table, IngestOptions(order_by=("seq",), chunk_rows=2, memtable_rows=5, tasks=2, hold_ms=0)
    )
    attempts = {one.name for one in tmp_path.iterdir() if one.is_file()}
    assert attempts == {"0-0", "0-1", "1-0", "1-1"}
    assert report.rows == 20
    assert read_notes(gateway) == {one: str(one + 40) for one in range(20)}


@pytest.mark.slow
def test_a_batch_that_is_complete_is_not_written_again(
    spark: SparkSession, table: LakeTable, gateway: EngineGateway
):
    frame = spark.range(5).selectExpr("id", "'batch' AS text")
    first = ingest(frame, table, EAGER, job="nightly", batch=20240229)
    assert first.rows == 5
    gateway.write("UPDATE notes SET text = 'newer'")
    again = ingest(frame, table, EAGER, job="nightly", batch=20240229)
    assert (again.is_skipped, again.rows) == (True, 0)
    assert read_notes(gateway) == dict.fromkeys(range(5), "newer")


def test_an_executor_with_another_pylance_writes_nothing(table: LakeTable):
    columns, rows = routed(table, pa.Table.from_pylist([{"id": 1}], schema=NOTES))
    driver = replace(versions(), pylance="99.0.0")
    for one in (
        replace(task(table, columns), versions=driver),
        Router(table, columns, rows.schema, {}, driver),
    ):
        with pytest.raises(CarriedError) as caught:
            list(one(iter(rows.to_batches())))
        message = r"^a Spark executor on .* has pylance [\d.]+, but the driver has 99.0.0: install the same"
        with pytest.raises(PreconditionError, match=message):
            raise translate_error(caught.value, "ingest")


def test_a_frame_that_does_not_fit_starts_no_job(spark: SparkSession, table: LakeTable):
    with pytest.raises(InvalidInputError, match="table 'notes' has no column 'txt': did you mean 'text'"):
        ingest(spark.range(1).selectExpr("id", "'x' AS txt"), table)
    with pytest.raises(InvalidInputError, match="column 'text' of the rows is interval"):
        ingest(spark.range(1).selectExpr("id", "make_interval(1) AS text"), table)


def test_names_of_jobs_are_names(table: LakeTable):
    with pytest.raises(InvalidInputError, match=r"'../up' can't be the name of a job or stream"):
        BatchMarkers(table.storage, "../up")


def test_markers_that_later_ones_vouch_for_go(table: LakeTable):
    markers = BatchMarkers(table.storage, "stream-1")
    for one in range(5):
        assert not markers.is_complete(one)
        markers.mark_complete(one)
    assert markers.batches() == (2, 3, 4)
    assert all(markers.is_complete(one) for one in range(5))
    assert not markers.is_complete(5)
    assert BatchMarkers.jobs(table.storage) == ("stream-1",)


@pytest.mark.slow
def test_tables_on_s3(s3_location: tuple[str, dict[str, str]]):
    root, options = s3_location
    dataset = lance.write_dataset(NOTES.empty_table(), f"{root}/notes.lance", storage_options=options)
    dataset.initialize_mem_wal(bucket_column="id", num_buckets=2)
    table = LakeTable.at(f"{root}/notes.lance", options)
    rows = pa.Table.from_pylist([{"id": one, "text": "s3"} for one in range(10)], schema=NOTES)
    assert sum(one.rows for one in write(table, rows)) == 10
    BatchMarkers(table.storage, "stream-7").mark_complete(0)
    assert write(table, rows) == ()
    state = TableState.read(table)
    assert sum(one.physical_rows or 0 for each in state.regions.values() for one in each.pending) == 10
