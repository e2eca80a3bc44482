"""Rows of Spark into the regions of a table, each exactly once in effect."""

from lance_gateway.pipeline.ingesting.job import ingest
from lance_gateway.pipeline.ingesting.options import IngestOptions, IngestReport, RegionReport
from lance_gateway.pipeline.ingesting.streaming import stream

__all__ = ["IngestOptions", "IngestReport", "RegionReport", "ingest", "stream"]
