"""Queries of analysts over fresh tables, against DataFusion and DuckDB over Parquet files.

The files have the newest rows alone, so neither has to find out which these are.
"""

import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Final, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
from datafusion import SessionConfig, SessionContext

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import Candidate, Samples, interleave
from benchmarks.tables.fresh_tables import GENERATIONS, FreshTables
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.scans.settings import ALL_SHORTCUTS, SessionSettings, Shortcut
from lance_gateway.planner.tables.state.catalog import Catalog

CACHE_BYTES: Final = 6 << 30
"""All columns fit, also masked; the default on a machine with 24 GiB."""
GATEWAY, LEAVES, PARQUET, DUCKDB = "gateway", "leaves", "Parquet", "DuckDB"
_WARMUPS = 5
"""Columns are decoded in the second run, and masked in the third."""
_LEAVES = SessionSettings(shortcuts=ALL_SHORTCUTS - {Shortcut.RESIDENT_TABLES})

Ask: TypeAlias = Callable[[str], pa.Table]


def time_queries(
    tables: FreshTables, queries: Mapping[str, str], sides: Collection[str], rounds: int
) -> dict[str, Samples]:
    """Time all sides in turn, query by query; their answers are compared before.

    Args:
        tables: to be asked.
        queries: by title.
        sides: that are timed.
        rounds: of each query.

    Raises:
        WrongAnswerError: a side does not agree with DuckDB.
    """
    found = {}
    with _open_sides(tables) as all_sides:
        for title, sql in queries.items():
            expected = round_values(all_sides[DUCKDB](sql))
            for name in sides:
                if round_values(all_sides[name](sql)) != expected:
                    raise WrongAnswerError(f"query {title}: {name} and DuckDB do not agree")
            for name in {GATEWAY, LEAVES}.intersection(sides):
                for _ in range(_WARMUPS):
                    all_sides[name](sql)
            found[title] = interleave(
                {name: _ask_each_time(all_sides[name], sql) for name in sides},
                rounds=rounds,
                warmups=1,
            )
    return found


def summarize(title: str, samples: Mapping[str, Samples], side: str, bar: Bar | None = None) -> Finding:
    """Return the geometric mean of all queries' ratios to DataFusion over Parquet files."""
    total, other = (sum(one.median_ms(each) for one in samples.values()) for each in (side, PARQUET))
    return Finding(
        f"{title}, geometric mean",
        f"{format_milliseconds(total)} together",
        f"DataFusion over Parquet {format_milliseconds(other)}",
        math.exp(float(np.mean([math.log(one.ratio(side, PARQUET)) for one in samples.values()]))),
        bar=bar,
        note=f"a tenth of the rows fresh in {GENERATIONS} generations; cache {CACHE_BYTES >> 30} GiB",
    )


def find_slowest(samples: Mapping[str, Samples], bar: Bar) -> Finding:
    """Return the query with the largest ratio to DataFusion over Parquet files."""
    title = max(samples, key=lambda one: samples[one].ratio(GATEWAY, PARQUET))
    return Finding(
        f"the slowest of them by ratio: {title}",
        format_milliseconds(samples[title].median_ms(GATEWAY)),
        f"Parquet {format_milliseconds(samples[title].median_ms(PARQUET))}",
        samples[title].ratio(GATEWAY, PARQUET),
        bar=bar,
    )


def _ask_each_time(ask: Ask, sql: str) -> Candidate:
    return lambda _: ask(sql)


def open_parquet(tables: FreshTables) -> Ask:
    """Return DataFusion over the Parquet files of tables."""
    context = SessionContext(SessionConfig().with_target_partitions(os.cpu_count() or 1))
    for name, path in tables.files.items():
        context.register_parquet(name, path)
    return lambda sql: context.sql(sql).to_arrow_table()


@contextmanager
def _open_sides(tables: FreshTables) -> Iterator[Mapping[str, Ask]]:
    cores = os.cpu_count() or 1
    with ExitStack() as stack:
        engine = stack.enter_context(
            closing(QueryEngine(Catalog.open(str(tables.root), cache_bytes=CACHE_BYTES)))
        )
        database = stack.enter_context(duckdb.connect(config={"threads": cores}))
        for name, path in tables.files.items():
            database.execute(f"CREATE VIEW {name} AS SELECT * FROM '{path}'")
        yield {
            GATEWAY: lambda sql: engine.execute(sql).read_all(),
            LEAVES: lambda sql: engine.execute(sql, _LEAVES).read_all(),
            PARQUET: open_parquet(tables),
            DUCKDB: lambda sql: database.sql(sql).to_arrow_table(),
        }


def round_values(rows: pa.Table) -> list[tuple[object, ...]]:
    """Return the rows in any order, numbers to hundredths: engines divide decimals to different digits."""
    columns = [[_round(value) for value in column.to_pylist()] for column in rows.columns]
    return sorted(zip(*columns, strict=True), key=repr)


def _round(value: object) -> object:
    is_number = isinstance(value, int | float) or hasattr(value, "as_tuple")
    # There are zeros with a sign.
    return round(float(value), 2) + 0.0 if is_number else value  # type: ignore[arg-type]
