"""Attempts of tasks that bring rows in, driven step by step without Spark."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from lance_gateway.memwal.writing import OpenTable
from lance_gateway.pipeline.ingesting.columns import REGION, Columns, Router
from lance_gateway.pipeline.ingesting.options import IngestOptions, RegionReport
from lance_gateway.pipeline.ingesting.writing import RegionsWriter
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.spark.runner import versions

JOB = "stream-7"
EAGER = IngestOptions(hold_ms=0)


def routed(table: LakeTable, rows: pa.Table, options: IngestOptions = EAGER) -> tuple[Columns, pa.Table]:
    """What arrives at the writers' tasks: all rows, those of one region and key after one another."""
    opened = OpenTable.open(table.name, table.storage)
    columns = Columns.match_schema(rows.schema, opened, options)
    output = pa.schema([*rows.schema, pa.field(REGION, pa.int64())])
    numbers = {one: at for at, one in enumerate(opened.regions.list_existing())}
    router = Router(table, columns, output, numbers, versions())
    found = router.route(opened, rows) if rows.num_rows else output.empty_table()
    order = [REGION, *columns.key, *options.order_by]
    return columns, found.sort_by([(one, "ascending") for one in order])


def task(table: LakeTable, columns: Columns, options: IngestOptions = EAGER, batch: int = 0) -> RegionsWriter:
    """One task that writes a batch."""
    return RegionsWriter(table, columns, JOB, batch, options, versions())


def write(
    table: LakeTable, rows: pa.Table, options: IngestOptions = EAGER, *, batch: int = 0
) -> tuple[RegionReport, ...]:
    """One attempt, from beginning to end."""
    columns, found = routed(table, rows, options)
    return task(table, columns, options, batch).write(iter(found.to_batches()))


def write_in_steps(
    table: LakeTable,
    rows: pa.Table,
    steps: Iterator[object],
    options: IngestOptions = EAGER,
) -> tuple[RegionReport, ...]:
    """One attempt that appends row by row; before it takes a row, and before it ends, a step is taken."""
    columns, found = routed(table, rows, options)

    def batches() -> Iterator[pa.RecordBatch]:
        for at in range(found.num_rows):
            next(steps, None)
            yield found.slice(at, 1).to_batches()[0]
        next(steps, None)

    return task(table, columns, replace(options, chunk_rows=1)).write(batches())
