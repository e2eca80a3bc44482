"""Hybrid top-10 over base, generations and log, against the two searches of the base alone."""

from collections.abc import Iterator

import pyarrow as pa

from benchmarks.reports.context import BenchContext, open_engine
from benchmarks.reports.queries import build_hybrid_search
from benchmarks.reports.report import Finding, format_milliseconds
from benchmarks.reports.timing import interleave
from benchmarks.searches.search_sides import (
    Effort,
    create_parameter,
    open_adbc_search,
    open_base_knn,
    open_base_text,
)
from benchmarks.searches.vector_search import build_adbc_finding
from benchmarks.servers.server import start_gateway
from benchmarks.tables.search_content import Vectors
from benchmarks.tables.search_table import K, SearchTable

_CANDIDATES = 4 * K
"""What the gateway fuses of each search by default."""


def run(context: BenchContext) -> Iterator[Finding]:
    """Reciprocal rank fusion; Lance on the base alone finds candidates of both, one after the other."""
    table = context.open_search_table()
    effort = Effort()
    knn, text = open_base_knn(table.uri, effort, _CANDIDATES), open_base_text(table.uri, _CANDIDATES)
    sql = build_hybrid_search("$1", "$2", k=K, nprobes=effort.nprobes, refine_factor=effort.refine_factor)

    def base(number: int) -> None:
        vector, words = _get_query(table, number)
        knn(vector)
        text(words)

    engine = open_engine(table)
    try:
        prepared = engine.prepare(sql)

        def gateway(number: int) -> pa.Table:
            vector, words = _get_query(table, number)
            return prepared.execute((create_parameter(vector), pa.scalar(words))).read_all()

        samples = interleave(
            {"gateway": gateway, "base": base}, rounds=context.settings.search_rounds, warmups=20
        )
    finally:
        engine.close()
    yield Finding(
        f"hybrid top-{K}, against both searches of the base alone",
        format_milliseconds(samples.median_ms("gateway")),
        f"base only {format_milliseconds(samples.median_ms('base'))}",
        samples.ratio("gateway", "base"),
        "x",
        None,
        f"p99 {format_milliseconds(samples.percentile_ms('gateway', 99))}",
    )
    with (
        start_gateway(table.root) as server,
        open_adbc_search(server.uri, sql) as bound,
        open_adbc_search(server.uri, "SELECT 1") as nothing,
    ):

        def by_adbc(number: int) -> pa.Table:
            vector, words = _get_query(table, number)
            return bound(vector.tolist(), words)

        samples = interleave(
            {"gateway": by_adbc, "nothing": lambda _: nothing(), "base": base},
            rounds=context.settings.search_rounds,
            warmups=20,
        )
    yield build_adbc_finding(f"hybrid top-{K} by ADBC", samples)


def _get_query(table: SearchTable, number: int) -> tuple[Vectors, str]:
    return table.vectors[number % len(table.vectors)], table.texts[number % len(table.texts)]
