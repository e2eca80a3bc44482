"""Full-text top-10 over base, generations and log, against the base alone."""

from collections.abc import Callable, Iterator

import pyarrow as pa

from benchmarks.reports.answers import check_same_ranking
from benchmarks.reports.context import BenchContext, open_engine
from benchmarks.reports.queries import build_text_search
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import interleave, time_call
from benchmarks.searches.search_sides import open_adbc_search, open_base_text
from benchmarks.searches.vector_search import build_adbc_finding
from benchmarks.servers.server import start_gateway
from benchmarks.tables.search_table import K, SearchTable, ensure_merged


def run(context: BenchContext) -> Iterator[Finding]:
    """Search for two or three words; every ranking must equal that of all rows merged and indexed again.

    The base alone ranks stale rows, by statistics of stale rows: a floor, not a peer. Lance has no full-text
    search over generations in Python.
    """
    table = context.open_search_table()
    yield from _measure_in_process(context, table)
    yield from _measure_by_adbc(context, table)


def _measure_in_process(context: BenchContext, table: SearchTable) -> Iterator[Finding]:
    base = open_base_text(table.uri)
    base(table.texts[0])
    engine = open_engine(table)
    try:
        prepared = engine.prepare(build_text_search("$1", k=K))

        def gateway(text: str) -> pa.Table:
            return prepared.execute((pa.scalar(text),)).read_all()

        first = time_call(lambda: gateway(table.texts[0])) * 1e3
        new_words = (
            time_call(lambda: [gateway(text) for text in table.texts[1:]]) * 1e3 / (len(table.texts) - 1)
        )
        check_rankings(gateway, table)
        samples = interleave(
            {
                "gateway": lambda number: gateway(table.texts[number % len(table.texts)]),
                "base": lambda number: base(table.texts[number % len(table.texts)]),
            },
            rounds=context.settings.search_rounds,
            warmups=5,
        )
    finally:
        engine.close()
    ours, other = samples.median_ms("gateway"), samples.median_ms("base")
    p99 = f"p99 {format_milliseconds(samples.percentile_ms('gateway', 99))}"
    yield Finding(
        f"full text top-{K}, warm, against the base alone",
        format_milliseconds(ours),
        f"base only {format_milliseconds(other)}",
        samples.ratio("gateway", "base"),
        "x",
        Bar(3),
        f"{p99} against {format_milliseconds(samples.percentile_ms('base', 99))}; "
        "every ranking equals that of all rows merged and indexed again",
    )
    against = f"base only, warm {format_milliseconds(other)}"
    yield Finding(
        f"full text top-{K}, words not met before", format_milliseconds(new_words), against, new_words / other
    )
    yield Finding(
        f"full text top-{K}, first search of an engine", format_milliseconds(first), against, first / other
    )


def _measure_by_adbc(context: BenchContext, table: SearchTable) -> Iterator[Finding]:
    base = open_base_text(table.uri)
    with (
        start_gateway(table.root) as server,
        open_adbc_search(server.uri, build_text_search("$1", k=K)) as bound,
        open_adbc_search(server.uri, "SELECT 1") as nothing,
    ):
        check_rankings(bound, table)
        samples = interleave(
            {
                "gateway": lambda number: bound(table.texts[number % len(table.texts)]),
                "nothing": lambda _: nothing(),
                "base": lambda number: base(table.texts[number % len(table.texts)]),
            },
            rounds=context.settings.search_rounds,
            warmups=10,
        )
    yield build_adbc_finding(f"full text top-{K} by ADBC", samples)


def check_rankings(search: Callable[[str], pa.Table], table: SearchTable) -> None:
    """Raise WrongAnswerError unless each of the table's texts is answered as the merged table answers it."""
    merged = open_base_text(ensure_merged(table))
    for text in table.texts:
        check_same_ranking(search(text), merged(text), text)
