"""Full-text top-10 over base, generations and log, against the base alone."""

from collections.abc import Callable, Iterator

import pyarrow as pa

from benchmarks.answers import check_same_ranking
from benchmarks.context import BenchContext, open_engine
from benchmarks.queries import text_search
from benchmarks.report import Bar, Finding, milliseconds
from benchmarks.search_sides import adbc_search, base_text
from benchmarks.search_table import K, SearchTable, ensure_merged
from benchmarks.server import gateway_server
from benchmarks.timing import interleave, timed
from benchmarks.vector_search import adbc_finding


def run(context: BenchContext) -> Iterator[Finding]:
    """Queries of two or three words; every ranking must be that of all rows merged and indexed anew.

    The base alone ranks stale rows, by statistics of stale rows: a floor, not a peer. Lance has no full-text
    search over generations in Python.
    """
    table = context.search_table()
    yield from _in_process(context, table)
    yield from _by_adbc(context, table)


def _in_process(context: BenchContext, table: SearchTable) -> Iterator[Finding]:
    base = base_text(table.uri)
    base(table.texts[0])
    engine = open_engine(table)
    try:
        prepared = engine.prepare(text_search("$1", k=K))

        def gateway(text: str) -> pa.Table:
            return prepared.execute((pa.scalar(text),)).read_all()

        first = timed(lambda: gateway(table.texts[0])) * 1e3
        new_words = timed(lambda: [gateway(text) for text in table.texts[1:]]) * 1e3 / (len(table.texts) - 1)
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
    p99 = f"p99 {milliseconds(samples.percentile_ms('gateway', 99))}"
    yield Finding(
        f"full text top-{K}, warm, against the base alone",
        milliseconds(ours),
        f"base only {milliseconds(other)}",
        samples.ratio("gateway", "base"),
        "x",
        Bar(3),
        f"{p99} against {milliseconds(samples.percentile_ms('base', 99))}; "
        "every ranking equals that of all rows merged and indexed anew",
    )
    against = f"base only, warm {milliseconds(other)}"
    yield Finding(
        f"full text top-{K}, words not met before", milliseconds(new_words), against, new_words / other
    )
    yield Finding(
        f"full text top-{K}, first search of an engine", milliseconds(first), against, first / other
    )


def _by_adbc(context: BenchContext, table: SearchTable) -> Iterator[Finding]:
    base = base_text(table.uri)
    with (
        gateway_server(table.root) as server,
        adbc_search(server.uri, text_search("$1", k=K)) as bound,
        adbc_search(server.uri, "SELECT 1") as nothing,
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
    yield adbc_finding(f"full text top-{K} by ADBC", samples)


def check_rankings(search: Callable[[str], pa.Table], table: SearchTable) -> None:
    """Raises WrongAnswerError unless each of the table's texts is answered as the merged table answers it."""
    merged = base_text(ensure_merged(table))
    for text in table.texts:
        check_same_ranking(search(text), merged(text), text)
