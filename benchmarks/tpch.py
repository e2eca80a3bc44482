"""22 queries in the shape of TPC-H over fresh tables, against DataFusion and DuckDB over Parquet files.

The files have the newest rows alone, so neither has to find out which these are.
"""

import math
import os
from collections.abc import Iterator, Mapping

import duckdb
import numpy as np
import pyarrow as pa
from datafusion import SessionConfig, SessionContext

from benchmarks.answers import WrongAnswerError
from benchmarks.context import BenchContext
from benchmarks.report import Bar, Finding, format_milliseconds
from benchmarks.timing import Samples, interleave
from benchmarks.wholesale import read_queries
from benchmarks.wholesale_tables import WholesaleTables, ensure_wholesale
from planner.engine import QueryEngine
from planner.scans.settings import ALL_SHORTCUTS, SessionSettings, Shortcut
from planner.tables.state.catalog import Catalog

_LINES_PER_SCALE = 6_000_000
_GENERATIONS = 4
_CACHE_BYTES = 6 << 30
"""All columns fit, also masked."""
_WARMUPS = 5
"""Columns are decoded in the second run, and masked in the third."""
_LEAVES = SessionSettings(shortcuts=ALL_SHORTCUTS - {Shortcut.RESIDENT_TABLES})


def run(context: BenchContext) -> Iterator[Finding]:
    """Time all sides in turn, query by query; their answers are compared before."""
    scale = min(context.settings.rows / _LINES_PER_SCALE, 1.0)
    tables = ensure_wholesale(context.settings.data_dir, round(scale, 3), _GENERATIONS)
    samples = _time_queries(tables, max(1, context.settings.rounds // 3))
    cache = f"cache {_CACHE_BYTES >> 30} GiB"
    note = f"scale {scale:.2g}, a tenth of the rows fresh in {_GENERATIONS} generations; {cache}"
    ratios = {
        side: {title: one.ratio(side, "Parquet") for title, one in samples.items()}
        for side in ("gateway", "leaves", "DuckDB")
    }
    yield _summarize("22 queries like TPC-H", ratios["gateway"], samples, Bar(0.8), note)
    title = max(ratios["gateway"], key=ratios["gateway"].__getitem__)
    yield Finding(
        f"the slowest of them by ratio: {title}",
        format_milliseconds(samples[title].median_ms("gateway")),
        f"Parquet {format_milliseconds(samples[title].median_ms('Parquet'))}",
        ratios["gateway"][title],
        bar=Bar(2),
    )
    yield _summarize("the same without resident tables", ratios["leaves"], samples, None, "", "leaves")
    yield _summarize("the same by DuckDB, over Parquet", ratios["DuckDB"], samples, None, "", "DuckDB")


def _summarize(
    title: str,
    ratios: Mapping[str, float],
    samples: Mapping[str, Samples],
    bar: Bar | None,
    note: str,
    side: str = "gateway",
) -> Finding:
    total, other = (sum(one.median_ms(each) for one in samples.values()) for each in (side, "Parquet"))
    return Finding(
        f"{title}, geometric mean",
        f"{format_milliseconds(total)} together",
        f"DataFusion over Parquet {format_milliseconds(other)}",
        math.exp(float(np.mean(np.log(list(ratios.values()))))),
        bar=bar,
        note=note,
    )


def _time_queries(tables: WholesaleTables, rounds: int) -> dict[str, Samples]:
    engine = QueryEngine(Catalog.open(str(tables.root), cache_bytes=_CACHE_BYTES))
    context = SessionContext(SessionConfig().with_target_partitions(os.cpu_count() or 1))
    for name, path in tables.files.items():
        context.register_parquet(name, path)
    found = {}
    try:
        with duckdb.connect(config={"threads": os.cpu_count() or 1}) as database:
            for name, path in tables.files.items():
                database.execute(f"CREATE VIEW {name} AS SELECT * FROM '{path}'")
            for title, sql in read_queries().items():
                sides = {
                    "gateway": lambda sql=sql: engine.execute(sql).read_all(),
                    "leaves": lambda sql=sql: engine.execute(sql, _LEAVES).read_all(),
                    "Parquet": lambda sql=sql: context.sql(sql).to_arrow_table(),
                    "DuckDB": lambda sql=sql: database.sql(sql).to_arrow_table(),
                }
                expected = _round_values(sides["DuckDB"]())
                for name, ask in sides.items():
                    if _round_values(ask()) != expected:
                        raise WrongAnswerError(f"query {title}: {name} and DuckDB do not agree")
                found[title] = interleave(
                    {name: (lambda _, ask=ask: ask()) for name, ask in sides.items()},
                    rounds=rounds,
                    warmups=_WARMUPS,
                )
    finally:
        engine.close()
    return found


def _round_values(rows: pa.Table) -> list[tuple[object, ...]]:
    """Return the rows in any order, numbers to nine digits."""
    columns = [[_round(value) for value in column.to_pylist()] for column in rows.columns]
    return sorted(zip(*columns, strict=True), key=repr)


def _round(value: object) -> object:
    is_number = isinstance(value, int | float) or hasattr(value, "as_tuple")
    return float(f"{float(value):.9g}") if is_number else value  # type: ignore[arg-type]
