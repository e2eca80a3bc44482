"""Recall and latency of searches: by effort, by type of index, by number of generations."""

import dataclasses
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.reports.context import BenchContext, open_engine
from benchmarks.reports.plots import Curve, Plot
from benchmarks.reports.queries import build_hybrid_search, build_text_search
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import Candidate, interleave
from benchmarks.searches.search_sides import (
    Effort,
    VectorSearch,
    create_parameter,
    open_base_knn,
    open_base_text,
    open_gateway_knn,
    open_lsm_knn,
)
from benchmarks.tables.search_table import IndexType, K, SearchShape, SearchTable, ensure_merged

_PROBES = (1, 2, 5, 10, 20, 50)
_OTHER_INDEXES: tuple[IndexType, ...] = ("IVF_FLAT", "IVF_HNSW_SQ")
_RECALL = f"recall@{K}"
_MEDIAN = "median latency (ms)"
_OVERFETCH = 4.0
_PLANNER_ROUNDS = 15
_BARS = {"vector": Bar(2), "full text": Bar(1.5)}
"""Against the base alone, with the most generations."""


@dataclass(frozen=True, slots=True)
class _Point:
    ms: float
    recall: float


def run(context: BenchContext) -> Iterator[Finding]:
    """Draw `search-recall.svg`, `search-indexes.svg` and `search-generations.svg`."""
    table = context.open_search_table()
    yield from _plot_by_effort(context, table)
    yield from _plot_by_index(context, table.shape)
    yield from _plot_by_generations(context, table.shape)


def _plot_by_effort(context: BenchContext, table: SearchTable) -> Iterator[Finding]:
    merged = ensure_merged(table)
    labels = {
        "gateway": "Lance Gateway",
        "merged": "Lance, all rows merged and indexed again",
        "planner": "Lance's LSM planner",
        "planner, more": f"Lance's LSM planner, {_OVERFETCH:.0f} x candidates",
    }
    points: dict[str, list[_Point]] = {side: [] for side in labels}
    engine = open_engine(table)
    try:
        for probes in _PROBES:
            effort = Effort(probes)
            measured = _measure_recalls(
                context,
                table,
                {
                    "gateway": open_gateway_knn(engine, effort),
                    "merged": open_base_knn(merged, effort),
                    "planner": open_lsm_knn(table, effort),
                    "planner, more": open_lsm_knn(table, effort, _OVERFETCH),
                },
            )
            for side, point in measured.items():
                points[side].append(point)
            ours, other = measured["gateway"], measured["merged"]
            yield Finding(
                f"{_RECALL} with {probes} partitions",
                f"{ours.recall:.3f} in {format_milliseconds(ours.ms)}",
                f"merged {other.recall:.3f} in {format_milliseconds(other.ms)}; planner "
                f"{measured['planner'].recall:.3f} in {format_milliseconds(measured['planner'].ms)}",
                ours.recall,
                "recall",
            )
    finally:
        engine.close()
    _write(
        context,
        "search-recall",
        Plot(
            f"{table.shape.rows:,} x {table.shape.dimension} IVF_PQ, {table.shape.fresh_rows:,} rows on top, "
            f"{_PROBES[0]} to {_PROBES[-1]} partitions",
            _MEDIAN,
            _RECALL,
            [
                Curve(label, [(p.ms, p.recall) for p in points[side]], dashed=side != "gateway")
                for side, label in labels.items()
            ],
            "x",
        ),
    )


def _plot_by_index(context: BenchContext, shape: SearchShape) -> Iterator[Finding]:
    curves = []
    for index in (shape.index, *_OTHER_INDEXES):
        table = context.open_search_shape(
            dataclasses.replace(shape, index=index, text_index=index == shape.index)
        )
        engine = open_engine(table)
        points = []
        try:
            for probes in _PROBES:
                measured = _measure_recalls(
                    context, table, {"gateway": open_gateway_knn(engine, Effort(probes))}
                )
                points.append(measured["gateway"])
        finally:
            engine.close()
        curves.append(Curve(index, [(point.ms, point.recall) for point in points]))
        best = points[-1]
        yield Finding(
            f"{_RECALL}, {index}, {_PROBES[-1]} partitions",
            f"{best.recall:.3f} in {format_milliseconds(best.ms)}",
            "",
            best.recall,
            "recall",
        )
    title = f"Types of the base's index, {_PROBES[0]} to {_PROBES[-1]} partitions"
    _write(context, "search-indexes", Plot(title, _MEDIAN, _RECALL, curves, "x"))


def _plot_by_generations(context: BenchContext, shape: SearchShape) -> Iterator[Finding]:
    latencies: dict[str, list[tuple[float, float]]] = {}
    counts = context.settings.search_generation_counts
    for generations in counts:
        table = context.open_search_shape(
            dataclasses.replace(shape, generations=generations, regions=1, tail_rows=0)
        )
        medians = _measure_latencies(context, table)
        for side, median in medians.items():
            latencies.setdefault(side, []).append((generations, median))
        label = f"{generations} generation{'s' if generations > 1 else ''}"
        base = {"vector": medians["base vector"], "full text": medians["base text"]}
        base["hybrid"] = base["vector"] + base["full text"]
        for kind, floor in base.items():
            ours = medians[kind]
            against = f"base only {format_milliseconds(floor)}"
            if kind == "vector":
                against += f"; planner {format_milliseconds(medians['planner'])}"
            bar = _BARS.get(kind) if generations == counts[-1] else None
            yield Finding(
                f"{kind} top-{K}, {label}", format_milliseconds(ours), against, ours / floor, "x", bar
            )
    labels = {
        "vector": "vector",
        "full text": "full text",
        "hybrid": "hybrid",
        "base vector": "vector, base only",
        "base text": "full text, base only",
        "planner": "vector, Lance's LSM planner",
    }
    curves = [
        Curve(label, latencies[side], dashed=side in {"base vector", "base text", "planner"})
        for side, label in labels.items()
    ]
    title = f"{shape.fresh_rows:,} rows on top of {shape.rows:,}, in so many generations"
    _write(context, "search-generations", Plot(title, "generations", _MEDIAN, curves, "xy", counts))


def _measure_latencies(context: BenchContext, table: SearchTable) -> Mapping[str, float]:
    """Return the median milliseconds of every kind of search and of its peers."""
    effort = Effort()
    knn, text, planner = (
        open_base_knn(table.uri, effort),
        open_base_text(table.uri),
        open_lsm_knn(table, effort),
    )
    hybrid_sql = build_hybrid_search(
        "$1", "$2", k=K, nprobes=effort.nprobes, refine_factor=effort.refine_factor
    )
    engine = open_engine(table)
    try:
        ours, ours_text = open_gateway_knn(engine, effort), engine.prepare(build_text_search("$1", k=K))
        ours_hybrid = engine.prepare(hybrid_sql)

        def vector(number: int) -> np.ndarray:
            drawn: np.ndarray = table.vectors[number % len(table.vectors)]
            return drawn

        def words(number: int) -> str:
            return table.texts[number % len(table.texts)]

        def hybrid(number: int) -> pa.Table:
            parameters = (create_parameter(vector(number)), pa.scalar(words(number)))
            return ours_hybrid.execute(parameters).read_all()

        sides: dict[str, Candidate] = {
            "vector": lambda number: ours(vector(number)),
            "full text": lambda number: ours_text.execute((pa.scalar(words(number)),)).read_all(),
            "hybrid": hybrid,
            "base vector": lambda number: knn(vector(number)),
            "base text": lambda number: text(words(number)),
        }
        rounds = context.settings.search_rounds // 3 or 1
        samples = interleave(sides, rounds=rounds, warmups=len(table.texts))
        slow = interleave(
            {"planner": lambda number: planner(vector(number))}, rounds=min(rounds, _PLANNER_ROUNDS)
        )
    finally:
        engine.close()
    return {side: samples.median_ms(side) for side in sides} | {"planner": slow.median_ms("planner")}


def _measure_recalls(
    context: BenchContext, table: SearchTable, sides: Mapping[str, VectorSearch]
) -> dict[str, _Point]:
    """Run the sides in turn over the table's vectors, or over fewer where rounds are few."""
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    found: dict[str, list[np.ndarray]] = {side: [] for side in sides}
    for search in sides.values():
        search(table.vectors[0])
    for vector in table.vectors[: context.settings.search_rounds]:
        for side, search in sides.items():
            started = time.perf_counter()
            result = search(vector)
            seconds[side].append(time.perf_counter() - started)
            found[side].append(result.column("id").to_numpy())
    return {
        side: _Point(
            float(np.median(seconds[side])) * 1e3,
            table.compute_recall(found[side], flushed_only=side.startswith("planner")),
        )
        for side in sides
    }


def _write(context: BenchContext, name: str, plot: Plot) -> None:
    plot.write(context.settings.plots_dir / f"{name}.svg")
