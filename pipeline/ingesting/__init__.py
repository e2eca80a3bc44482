"""Rows of Spark into the regions of a table, each exactly once in effect.

- `options`: what a job is told; `report`: what it did.
- `columns`: whether rows fit a table, and rows in its columns.
- `routing`: on executors, before the shuffle: rows are checked, and numbered by region.
- `chunks`: rows of one region at a time, in pieces; the last row of each key where rows have an order.
- `writing`: on executors, after the shuffle: one writer per region. `holding`: claims regions for one batch.
- `markers`: which batches of a job are complete.
- `job`: one DataFrame; `streaming`: a streaming query; `watching`: how far Spark is.
- `sources`: files, as Spark reads them.
"""

from pipeline.ingesting.job import ingest
from pipeline.ingesting.options import IngestOptions
from pipeline.ingesting.report import IngestReport, RegionReport
from pipeline.ingesting.streaming import stream

__all__ = ["IngestOptions", "IngestReport", "RegionReport", "ingest", "stream"]
