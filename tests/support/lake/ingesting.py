"""Ingestion of a batch as Spark does it, without Spark: rows are routed, and each region has one task."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lance_gateway.memwal.writing import OpenTable
from lance_gateway.pipeline.ingesting.columns import REGION, Columns, Router
from lance_gateway.pipeline.ingesting.options import IngestOptions, RegionReport
from lance_gateway.pipeline.ingesting.writing import BatchMarkers, RegionsWriter
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.spark.runner import versions


@dataclass(frozen=True)
class Batch:
    """A batch of a job.

    Attributes:
        rows: with the table's columns by name.
        number: of the batch in its job.
    """

    table: LakeTable
    rows: pa.Table
    job: str
    number: int
    options: IngestOptions = field(default_factory=IngestOptions)

    def route_tasks(self) -> list[pa.Table]:
        """Routed rows, of one task each, as the shuffle brings them together."""
        opened = OpenTable.open(self.table.name, self.table.storage)
        columns = Columns.match_schema(self.rows.schema, opened, self.options)
        output = self.rows.schema.append(pa.field(REGION, pa.int64()))
        numbers = {region: number for number, region in enumerate(opened.regions.list_existing())}
        router = Router(self.table, columns, output, numbers, versions())
        if not self.rows.num_rows:
            return []
        routed = router.route(opened, self.rows)
        keys = [*columns.key, *self.options.order_by] if self.options.keeps_last else []
        ordered = routed.sort_by([(name, "ascending") for name in (REGION, *keys)])
        found = ordered.column(REGION).unique().to_pylist()
        return [ordered.filter(pa.compute.equal(ordered.column(REGION), number)) for number in found]

    def write(self, task: pa.Table) -> tuple[RegionReport, ...]:
        """Write the rows of a task, as one attempt does."""
        opened = OpenTable.open(self.table.name, self.table.storage)
        columns = Columns.match_schema(self.rows.schema, opened, self.options)
        writer = RegionsWriter(self.table, columns, self.job, self.number, self.options, versions())
        return writer.write(iter(task.to_batches()))

    def run(self) -> tuple[RegionReport, ...]:
        """Run all tasks, then mark the batch as complete, as the driver does."""
        if BatchMarkers(self.table.storage, self.job).is_complete(self.number):
            return ()
        found = [one for task in self.route_tasks() for one in self.write(task)]
        BatchMarkers(self.table.storage, self.job).mark_complete(self.number)
        return tuple(found)


def build_table(rows: Sequence[dict[str, object]], schema: pa.Schema) -> pa.Table:
    """Return rows as Spark sends them: without key marks, every column nullable."""
    plain = pa.schema([pa.field(one.name, one.type) for one in schema])
    return pa.Table.from_pylist(list(rows), schema=plain)
