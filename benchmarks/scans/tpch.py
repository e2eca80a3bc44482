"""22 queries in the shape of TPC-H over fresh tables."""

from collections.abc import Iterator

from benchmarks.reports.context import BenchContext
from benchmarks.reports.report import Bar, Finding
from benchmarks.scans.suites import (
    DUCKDB,
    GATEWAY,
    LEAVES,
    PARQUET,
    find_slowest,
    summarize,
    time_queries,
)
from benchmarks.tables.wholesale import ensure_wholesale_tables, read_queries


def run(context: BenchContext) -> Iterator[Finding]:
    """Time the gateway with resident tables and without, DataFusion and DuckDB."""
    scale, tables = ensure_wholesale_tables(context.settings)
    rounds = max(1, context.settings.rounds // 3)
    samples = time_queries(tables, read_queries(), (GATEWAY, LEAVES, PARQUET, DUCKDB), rounds)
    yield summarize(f"22 queries like TPC-H, scale {scale:g}", samples, GATEWAY, Bar(0.8))
    yield find_slowest(samples, Bar(2))
    yield summarize("the same without resident tables", samples, LEAVES)
    yield summarize("the same by DuckDB, over Parquet", samples, DUCKDB)
