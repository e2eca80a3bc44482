"""The 99 queries of TPC-DS over fresh tables."""

from collections.abc import Iterator

from benchmarks.reports.context import BenchContext
from benchmarks.reports.report import Bar, Finding
from benchmarks.scans.suites import (
    DUCKDB,
    GATEWAY,
    PARQUET,
    find_slowest,
    summarize,
    time_queries,
)
from benchmarks.tables.fresh_tables import ensure_fresh_tables
from benchmarks.tables.tpcds_data import TpcdsData

_ROWS_PER_SCALE = 6_000_000
"""What `rows` is for the scale factor 1, as for TPC-H; the largest table of TPC-DS has twice as many."""
_MULTIPLYING = "72"
"""In the order of its text, this query's joins multiply rows before others select among them."""


def run(context: BenchContext) -> Iterator[Finding]:
    """Time the gateway, DataFusion and DuckDB."""
    scale = round(min(context.settings.rows / _ROWS_PER_SCALE, 1.0), 3)
    data = TpcdsData(context.settings.data_dir / f"tpcds-source-scale{scale:g}", scale)
    tables = ensure_fresh_tables(context.settings.data_dir / f"tpcds-scale{scale:g}", data.generate)
    rounds = max(1, context.settings.rounds // 3)
    samples = time_queries(tables, data.read_queries(), (GATEWAY, PARQUET, DUCKDB), rounds)
    yield summarize(f"99 queries of TPC-DS, scale {scale:g}", samples, GATEWAY, Bar(1))
    yield find_slowest(samples, Bar(3))
    yield find_slowest({_MULTIPLYING: samples[_MULTIPLYING]}, Bar(3))
    yield summarize("the same by DuckDB, over Parquet", samples, DUCKDB)
