"""Curves of the group-by: by rows, by generations, by how much of its columns is kept, by clients."""

from collections.abc import Iterator
from contextlib import closing

from benchmarks.reports.baselines import BaseOnly
from benchmarks.reports.context import BenchContext, open_engine
from benchmarks.reports.plots import Curve, Plot
from benchmarks.reports.queries import GROUP_BY, LOOKUP
from benchmarks.reports.report import Finding, format_milliseconds
from benchmarks.reports.timing import Samples, interleave
from benchmarks.servers.load import Statements, connect_clients
from benchmarks.servers.server import start_gateway
from benchmarks.tables.table import BenchTable, TableShape
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog

_COLUMN_BYTES = 4 + 8
"""Of a row of the group-by, as it is kept."""
_GENERATIONS = 4
_BASE = "base only"
_GATEWAY = "Lance Gateway"
_PER_SCAN = 4
"""A scan keeps its columns if they fit into one part in so many of the cache."""


def run(context: BenchContext) -> Iterator[Finding]:
    """Draw `scan-rows.svg`, `scan-generations.svg`, `scan-kept.svg` and `clients.svg`."""
    yield from _plot_by_rows(context)
    yield from _plot_by_generations(context)
    yield from _plot_by_kept_share(context)
    yield from _plot_by_clients(context)


def _plot_by_rows(context: BenchContext) -> Iterator[Finding]:
    counts = context.settings.curve_rows
    points = []
    for rows in counts:
        table = _open_table(context, rows, _GENERATIONS)
        with closing(QueryEngine(Catalog.open(str(table.root), cache_bytes=_measure_cache(rows)))) as engine:
            samples = _time_group_by(context, engine, table)
        points.append(samples)
        yield _build_finding(f"group-by, {rows:,} rows", samples)
    _draw(context, "scan-rows", "Group-by, all columns kept", "rows", counts, points)


def _plot_by_generations(context: BenchContext) -> Iterator[Finding]:
    counts, rows = context.settings.generation_counts, context.settings.curve_rows[0]
    points = []
    for generations in counts:
        table = _open_table(context, rows, generations)
        with closing(open_engine(table)) as engine:
            points.append(_time_group_by(context, engine, table))
        label = f"{generations} generation{'s' if generations > 1 else ''}"
        yield _build_finding(f"group-by, {rows:,} rows, {label}", points[-1])
    _draw(context, "scan-generations", f"Group-by, {rows:,} rows", "generations", counts, points)


def _plot_by_kept_share(context: BenchContext) -> Iterator[Finding]:
    rows = context.settings.curve_rows[-1]
    table = _open_table(context, rows, _GENERATIONS)
    shares = (0, 25, 50, 75, 100)
    points = []
    for share in shares:
        budget = max(_measure_cache(rows) * share // 100, 1 << 20)
        with closing(QueryEngine(Catalog.open(str(table.root), cache_bytes=budget))) as engine:
            points.append(_time_group_by(context, engine, table))
        yield _build_finding(f"group-by, {rows:,} rows, cache for {share} % of its columns", points[-1])
    title = f"Group-by, {rows:,} rows"
    _draw(context, "scan-kept", title, "cache, in % of what keeps all columns", shares, points, "")


def _plot_by_clients(context: BenchContext) -> Iterator[Finding]:
    settings = context.settings
    table = _open_table(context, settings.curve_rows[0], _GENERATIONS)
    kinds = {
        "group-by": Statements(f"SELECT max(total) AS most FROM ({GROUP_BY})"),
        "key lookups": Statements(LOOKUP, tuple(table.draw_keys(1000, seed=5))),
    }
    curves = []
    for kind, statements in kinds.items():
        points = []
        with start_gateway(table.root) as server:
            for count in settings.client_counts:
                with connect_clients(server, statements, clients=count) as clients:
                    clients.run(settings.load_seconds)
                    found = clients.run(settings.load_seconds * 4)
                points.append((float(count), found.per_second))
                yield Finding(
                    f"{kind}, {count} client{'s' if count > 1 else ''}",
                    f"{found.per_second:,.0f}/s",
                    f"p50 {format_milliseconds(found.percentile_ms(50))}, "
                    f"p99 {format_milliseconds(found.percentile_ms(99))}",
                    found.per_second,
                    "/s",
                )
        curves.append(Curve(kind, points))
    _write(
        context,
        "clients",
        Plot("Clients of one server", "clients", "statements/s", curves, "xy", settings.client_counts),
    )


def _open_table(context: BenchContext, rows: int, generations: int) -> BenchTable:
    fresh = max(generations, round(rows * context.settings.upsert_fraction))
    return context.open_table(TableShape(rows, fresh, generations, regions=1))


def _measure_cache(rows: int) -> int:
    """Return the budget with which all columns of the group-by are kept, masked ones too."""
    return 2 * _PER_SCAN * rows * _COLUMN_BYTES


def _time_group_by(context: BenchContext, engine: QueryEngine, table: BenchTable) -> Samples:
    floor = BaseOnly(table.uri)
    table.answers.check_group_by(engine.execute(GROUP_BY).read_all())
    return interleave(
        {
            _GATEWAY: lambda _: engine.execute(GROUP_BY).read_all(),
            _BASE: lambda _: floor.query(GROUP_BY),
        },
        rounds=context.settings.rounds,
        warmups=4,
    )


def _build_finding(title: str, samples: Samples) -> Finding:
    return Finding(
        title,
        format_milliseconds(samples.median_ms(_GATEWAY)),
        f"{_BASE} {format_milliseconds(samples.median_ms(_BASE))}",
        samples.ratio(_GATEWAY, _BASE),
    )


def _draw(
    context: BenchContext,
    name: str,
    title: str,
    x_label: str,
    counts: tuple[int, ...],
    points: list[Samples],
    logarithmic: str = "xy",
) -> None:
    curves = [
        Curve(
            side,
            [(count, samples.median_ms(side)) for count, samples in zip(counts, points, strict=True)],
            dashed=side == _BASE,
        )
        for side in (_GATEWAY, _BASE)
    ]
    _write(context, name, Plot(title, x_label, "median (ms)", curves, logarithmic, counts))


def _write(context: BenchContext, name: str, plot: Plot) -> None:
    plot.write(context.settings.plots_dir / f"{name}.svg")
