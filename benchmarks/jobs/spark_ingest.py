"""Rows from Parquet files into four regions by a Spark job, against an append and Lance's region writers.

Neither peer does the same: an append looks at no key and makes plain fragments, in one process and without
Spark; the region writers have their rows in memory, split by region beforehand.
"""

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow.dataset as ds

from benchmarks.jobs.ingest import RegionWriters
from benchmarks.jobs.spark_sides import start_spark
from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.context import BenchContext
from benchmarks.reports.queries import COUNT
from benchmarks.reports.report import Finding
from benchmarks.reports.timing import interleave
from benchmarks.tables.write_table import WriteShape, create_scratch, create_table, generate_new_keys
from lance_gateway.pipeline.ingesting import ingest
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog

_BASE_ROWS = 1_000
_REGIONS = 4
_BATCH_ROWS = 10_000
_FILES = 4
_SHAPE = WriteShape(_BASE_ROWS, _REGIONS)


def run(context: BenchContext) -> Iterator[Finding]:
    """Write the same rows three times, in turn."""
    count = context.settings.ingest_rows
    rows = _SHAPE.rows_of(generate_new_keys(_SHAPE, 0, count), seed=1)
    with create_scratch(context.settings) as directory, start_spark(2) as spark:
        files = directory / "parquet"
        ds.write_dataset(
            rows,
            files,
            format="parquet",
            max_rows_per_file=-(-count // _FILES),
            max_rows_per_group=-(-count // _FILES),
        )
        ours, appended, put = (create_table(directory / name, _SHAPE) for name in ("ours", "appended", "put"))
        table = LakeTable.at(ours.uri)
        frame = spark.read.parquet(str(files))

        def append(_: int) -> None:
            reader = ds.dataset(files).scanner().to_reader()
            lance.write_dataset(reader, appended.uri, mode="append")

        with RegionWriters(put, rows.to_batches(_BATCH_ROWS)) as writers:
            samples = interleave(
                {"spark": lambda _: ingest(frame, table), "append": append, "put": lambda _: writers.put()},
                rounds=max(1, context.settings.rounds // 5),
            )
        _check(directory / "ours", _BASE_ROWS + count)

    def rate(side: str) -> str:
        return f"{count / samples.median_ms(side) * 1e3:,.0f} rows/s"

    for side, label in (("append", "a Lance append"), ("put", "ShardWriter.put")):
        yield Finding(
            f"Spark ingest of {count:,} rows on 2 cores, against {label}",
            rate("spark"),
            f"{label} {rate(side)}",
            samples.ratio(side, "spark"),
            note=f"value = throughput; {_FILES} Parquet files, {_REGIONS} regions, durable"
            if side == "append"
            else "",
        )


def _check(root: Path, expected: int) -> None:
    engine = QueryEngine(Catalog.open(str(root)))
    try:
        found = engine.execute(COUNT).read_all()["n"].to_pylist()
    finally:
        engine.close()
    if found != [expected]:
        raise WrongAnswerError(f"{found} rows after the ingest, not {expected}")
