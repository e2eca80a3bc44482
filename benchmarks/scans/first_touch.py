"""First queries: nothing opened, no mask computed, files in the page cache.

The first group-by of a fresh process, and the first count of a fresh engine over keys of several types, at
several sizes: it finds which rows the fresh ones supersede. It is measured against the least that this takes,
a semi-join of the key columns with the fresh keys.
"""

import subprocess
import sys
import time
from collections.abc import Iterator

import lance
import numpy as np
from datafusion import SessionContext

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.baselines import BaseOnly
from benchmarks.reports.context import BenchContext
from benchmarks.reports.queries import COUNT, GROUP_BY, TABLE_NAME
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.settings import REPOSITORY
from benchmarks.reports.timing import Samples, interleave
from benchmarks.tables.superseded_tables import KEYS, SupersededTable, ensure_superseded_table
from benchmarks.tables.table import BenchTable
from benchmarks.tables.write_table import create_scratch
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.shared.cache import SharedCache
from lance_gateway.planner.tables.state.catalog import Catalog

_SIDES = ("gateway", "floor")
_SIZES = (4, 10, 20)
"""Rows of the tables of several keys, in fifths of the rows of the main table."""
_FRESH_SHARE = 20
_GENERATIONS = 16
_SHARED_BYTES = 1 << 30


def run(context: BenchContext) -> Iterator[Finding]:
    """Start a fresh process per side and round, alternating; one untimed round fills the page cache."""
    table = context.open_main_table()
    rounds = max(1, context.settings.rounds // 3)
    seconds: dict[str, list[float]] = {side: [] for side in _SIDES}
    for round_number in range(-1, rounds):
        for side in _SIDES if round_number % 2 else _SIDES[::-1]:
            elapsed = _measure_in_child(side, table)
            if round_number >= 0:
                seconds[side].append(elapsed)
    samples = Samples({side: np.array(values) for side, values in seconds.items()})
    yield _describe_group_by(samples, rounds)
    for share in _SIZES:
        for kind in KEYS:
            yield from _measure_counts(context, kind, context.settings.rows * share // 5)


def _describe_group_by(samples: Samples, rounds: int) -> Finding:
    return Finding(
        "group-by scan, first touch",
        format_milliseconds(samples.median_ms("gateway")),
        f"base only {format_milliseconds(samples.median_ms('floor'))}",
        samples.ratio("gateway", "floor"),
        "x",
        Bar(3),
        f"{rounds} fresh processes per side; opening the table counts, importing modules does not",
    )


def _measure_counts(context: BenchContext, kind: str, rows: int) -> Iterator[Finding]:
    """Count the rows with fresh engines: without anything kept, and with what an earlier one has shared."""
    fresh = max(rows // _FRESH_SHARE, _GENERATIONS)
    table = ensure_superseded_table(context.settings.data_dir, kind, rows, fresh, _GENERATIONS)
    rounds = max(3, context.settings.rounds // 3)
    with create_scratch(context.settings) as scratch:
        shared = SharedCache.open(scratch / "shared", _SHARED_BYTES, is_required=True)
        _count(table, shared)
        samples = interleave(
            {
                "gateway": lambda _: _count(table, SharedCache()),
                "restarted": lambda _: _count(table, shared),
                "semi-join": lambda _: _join(table),
            },
            rounds=rounds,
        )
        shared.close()
    first = format_milliseconds(samples.median_ms("gateway"))
    label = f"{kind} keys, {rows:,} rows"
    yield Finding(
        f"first count, {label}",
        first,
        f"semi-join {format_milliseconds(samples.median_ms('semi-join'))}",
        samples.ratio("gateway", "semi-join"),
        "x",
        Bar(1.5),
        f"{fresh:,} fresh rows in {_GENERATIONS} generations",
    )
    yield Finding(
        f"first count after a restart, {label}",
        format_milliseconds(samples.median_ms("restarted")),
        f"nothing kept {first}",
        samples.ratio("restarted", "gateway"),
        "x",
        Bar(0.3),
    )


def _count(table: SupersededTable, shared: SharedCache) -> None:
    engine = QueryEngine(Catalog.open(str(table.root), shared=shared))
    found = engine.execute(COUNT).read_all().column(0)[0].as_py()
    engine.catalog.executor.shutdown(wait=False)
    if found != table.rows:
        raise WrongAnswerError(f"{found} rows were counted instead of {table.rows}")


def _join(table: SupersededTable) -> None:
    """Count the rows whose key is fresh, with DataFusion over the keys that Lance reads."""
    context = SessionContext()
    keys = lance.dataset(table.uri).to_table(columns=list(table.key))
    context.register_record_batches(TABLE_NAME, [keys.to_batches()])
    context.register_record_batches("fresh", [table.read_fresh_keys().to_batches()])
    same = " AND ".join(f"{TABLE_NAME}.{name} = fresh.{name}" for name in table.key)
    context.sql(f"SELECT count(*) FROM {TABLE_NAME} LEFT SEMI JOIN fresh ON {same}").to_arrow_table()


def _measure_in_child(side: str, table: BenchTable) -> float:
    command = [sys.executable, "-m", "benchmarks.scans.first_touch", side, str(table.root), table.uri]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the {side} process failed: {done.stderr.strip()}")
    return float(done.stdout.split()[-1])


def _first_group_by(side: str, root: str, uri: str) -> float:
    started = time.perf_counter()
    if side == "floor":
        BaseOnly(uri).query(GROUP_BY)
    else:
        QueryEngine(Catalog.open(root)).execute(GROUP_BY).read_all()
    return time.perf_counter() - started


if __name__ == "__main__":
    print(_first_group_by(*sys.argv[1:]))
