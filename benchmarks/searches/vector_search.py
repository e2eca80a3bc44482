"""Vector top-10 over base, generations and log, against the base alone and against Lance's LSM planner."""

from collections.abc import Iterator

from benchmarks.reports.context import BenchContext, open_engine
from benchmarks.reports.queries import build_vector_search
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import Candidate, Samples, interleave
from benchmarks.searches.search_sides import (
    Effort,
    VectorSearch,
    find_keys,
    open_adbc_search,
    open_base_knn,
    open_gateway_knn,
    open_lsm_knn,
)
from benchmarks.servers.server import start_gateway
from benchmarks.tables.search_content import Vectors
from benchmarks.tables.search_table import K, SearchTable, ensure_merged

_LOWEST_RECALL = 0.95
_OVERFETCH = 4.0


def run(context: BenchContext) -> Iterator[Finding]:
    """Compare sides that read equally many partitions and refine equally many candidates, at both sizes."""
    yield from _measure_in_process(context, context.open_search_table(), "")
    yield from _measure_by_adbc(context, context.open_search_table())
    if context.settings.large_search_rows:
        large = context.open_large_search_table()
        yield from _measure_in_process(context, large, f", {large.shape.rows:,} x {large.shape.dimension}")


def _measure_in_process(context: BenchContext, table: SearchTable, size: str) -> Iterator[Finding]:
    effort = Effort()
    engine = open_engine(table)
    try:
        sides = {
            "gateway": open_gateway_knn(engine, effort),
            "defaults": open_gateway_knn(engine, None),
            "base": open_base_knn(table.uri, effort),
            "planner": open_lsm_knn(table, effort),
            "planner, more": open_lsm_knn(table, effort, _OVERFETCH),
        }
        recalls = {
            # The planner reads no log: what only the log holds is not held against it.
            side: table.compute_recall(find_keys(search, table), flushed_only=side.startswith("planner"))
            for side, search in sides.items()
        }
        samples = interleave(
            {side: _search_in_turn(search, table.vectors) for side, search in sides.items()},
            rounds=context.settings.search_rounds,
            warmups=5,
        )
    finally:
        engine.close()
    yield _build_latency(f"vector top-{K}{size}, against the base alone", samples, "base", Bar(3))
    yield _build_latency(
        f"vector top-{K}{size}, against LsmVectorSearchPlanner", samples, "planner", Bar(2, "at least")
    )
    yield _build_latency(
        f"vector top-{K}{size}, against LsmVectorSearchPlanner with {_OVERFETCH:.0f} times the candidates",
        samples,
        "planner, more",
        None,
    )
    merged = table.compute_recall(find_keys(open_base_knn(ensure_merged(table), effort), table))
    ours, planner = recalls["gateway"], recalls["planner"]
    against = f"LsmVectorSearchPlanner {planner:.3f}, with {_OVERFETCH:.0f} times the candidates "
    against += f"{recalls['planner, more']:.3f}; all rows merged and indexed again {merged:.3f}"
    note = f"{effort.nprobes} partitions, {effort.refine_factor} times k candidates refined, by all sides"
    yield Finding(
        f"recall@{K}{size}", f"{ours:.3f}", against, ours, "recall", Bar(_LOWEST_RECALL, "at least"), note
    )
    defaults = recalls["defaults"]
    yield Finding(
        f"recall@{K}{size} by defaults",
        f"{defaults:.3f} in {format_milliseconds(samples.median_ms('defaults'))}",
        f"{effort.nprobes} partitions {ours:.3f} in {format_milliseconds(samples.median_ms('gateway'))}",
        defaults,
        "recall",
        Bar(_LOWEST_RECALL, "at least"),
    )
    gain = ours - planner
    yield Finding(
        f"recall@{K}{size} above LsmVectorSearchPlanner's",
        f"{ours:.3f}",
        f"{planner:.3f}",
        gain,
        "recall",
        Bar(0, "at least"),
    )


def _build_latency(title: str, samples: Samples, against: str, bar: Bar | None) -> Finding:
    faster = against != "base"
    ratio = samples.ratio(against, "gateway") if faster else samples.ratio("gateway", against)
    name = {"base": "base only"}.get(against, "planner")
    ours, other = samples.median_ms("gateway"), samples.median_ms(against)
    p99 = f"p99 {format_milliseconds(samples.percentile_ms('gateway', 99))}"
    note = f"{p99} against {format_milliseconds(samples.percentile_ms(against, 99))}"
    return Finding(
        title, format_milliseconds(ours), f"{name} {format_milliseconds(other)}", ratio, "x", bar, note
    )


def _measure_by_adbc(context: BenchContext, table: SearchTable) -> Iterator[Finding]:
    effort = Effort()
    options = {"nprobes": effort.nprobes, "refine_factor": effort.refine_factor}
    base = open_base_knn(table.uri, effort)
    with (
        start_gateway(table.root) as server,
        open_adbc_search(server.uri, build_vector_search("$1", k=K, **options)) as bound,
        open_adbc_search(server.uri, "SELECT 1") as nothing,
    ):

        def vector(number: int) -> list[float]:
            return table.vectors[number % len(table.vectors)].tolist()  # type: ignore[no-any-return]

        found = [bound(vector(number)).column("id").to_numpy() for number in range(len(table.vectors))]
        recall = table.compute_recall(found)
        samples = interleave(
            {
                "gateway": lambda number: bound(vector(number)),
                "nothing": lambda _: nothing(),
                "base": lambda number: base(table.vectors[number % len(table.vectors)]),
            },
            rounds=context.settings.search_rounds,
            warmups=10,
        )
    yield build_adbc_finding(f"vector top-{K} by ADBC", samples, f"recall@{K} {recall:.3f}")


def build_adbc_finding(title: str, samples: Samples, note: str = "") -> Finding:
    """Latency by ADBC of the side "gateway" beside "base", the same search without fresh rows and server."""
    ours = samples.median_ms("gateway")
    against = f"SELECT 1: {format_milliseconds(samples.median_ms('nothing'))}; "
    against += f"base only in process {format_milliseconds(samples.median_ms('base'))}"
    notes = [f"p99 {format_milliseconds(samples.percentile_ms('gateway', 99))}", *([note] if note else [])]
    return Finding(title, format_milliseconds(ours), against, ours, "ms", None, "; ".join(notes))


def _search_in_turn(search: VectorSearch, vectors: Vectors) -> Candidate:
    return lambda number: search(vectors[number % len(vectors)])
