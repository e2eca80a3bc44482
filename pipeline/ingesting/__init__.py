"""Rows of Spark into the regions of a table, each exactly once in effect."""

from pipeline.ingesting.job import ingest
from pipeline.ingesting.options import IngestOptions, IngestReport, RegionReport
from pipeline.ingesting.streaming import stream

__all__ = ["IngestOptions", "IngestReport", "RegionReport", "ingest", "stream"]
