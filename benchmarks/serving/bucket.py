"""Small statements over a table in an object store, by one client over ADBC.

The store is Versity's S3 gateway behind a network with latency. The bar of a statement is the time of the
round trips that it needs, plus 15 ms. Each latency has a new gateway, whose caches are empty. Without
versitygw and Go, which builds it, nothing is measured.
"""

import shutil
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

import adbc_driver_flightsql.dbapi as flight_sql

from benchmarks.reports.context import BenchContext
from benchmarks.reports.queries import COUNT, TABLE_NAME
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import time_call
from benchmarks.servers.server import start_gateway, start_slow_network
from benchmarks.tables.write_table import WriteShape, create_table
from tests.support.stores.object_stores import start_versitygw

_LATENCIES: Final = (20, 60)
_OWN_MS: Final = 15
_BUCKET: Final = "tables"
_SHAPE: Final = WriteShape(5_000, regions=1)
_NEW_ROW: Final = "INSERT INTO " + TABLE_NAME + " (id, grp) VALUES ({key}, 1)"


@dataclass(frozen=True, slots=True)
class _Statement:
    title: str
    sql: str


_READS: Final = (
    _Statement("SELECT of ten rows", f"SELECT * FROM {TABLE_NAME} LIMIT 10"),
    _Statement("lookup by key", f"SELECT name FROM {TABLE_NAME} WHERE id = 77"),
    _Statement("count(*)", COUNT),
)


def run(context: BenchContext) -> Iterator[Finding]:
    """The first statements, then warm ones, then each after a row was written."""
    if shutil.which("versitygw") is None and shutil.which("go") is None:
        print("   skipped: neither versitygw nor go is installed")
        return
    rounds = context.settings.rounds
    with ExitStack() as stack:
        folder = context.settings.data_dir / "bucket"
        shutil.rmtree(folder / "objects", ignore_errors=True)
        (folder / "programs").mkdir(parents=True, exist_ok=True)
        store = stack.enter_context(start_versitygw(_BUCKET, folder))
        port = int(store.options["aws_endpoint"].rpartition(":")[2])
        for latency in _LATENCIES:
            root = f"s3://{_BUCKET}/{latency}"
            create_table(root, _SHAPE, store.options)
            with start_slow_network(port, latency) as url:
                yield from _measure(root, {**store.options, "aws_endpoint": url}, latency, rounds)


def _measure(root: str, options: dict[str, str], latency: int, rounds: int) -> Iterator[Finding]:
    with ExitStack() as stack:
        server = stack.enter_context(start_gateway(root, options))
        connection = stack.enter_context(flight_sql.connect(server.uri, autocommit=True))
        cursor = stack.enter_context(connection.cursor())
        keys = iter(range(_SHAPE.rows, _SHAPE.rows + 1_000_000))

        def ask(sql: str) -> float:
            def run_statement() -> None:
                cursor.execute(sql)
                cursor.fetch_arrow_table()

            return time_call(run_statement) * 1e3

        def insert() -> float:
            sql = _NEW_ROW.format(key=next(keys))
            return time_call(lambda: cursor.execute(sql)) * 1e3

        def describe(
            title: str, milliseconds: float, trips: int | None, limit: float | None = None
        ) -> Finding:
            most = limit if trips is None else trips * latency + _OWN_MS
            against = "" if trips is None else f"{trips} x {latency} ms"
            bar = None if most is None else Bar(most)
            return Finding(
                f"{title}, {latency} ms", format_milliseconds(milliseconds), against, milliseconds, "ms", bar
            )

        is_near = latency == min(_LATENCIES)
        yield describe("first lookup by key", ask(_READS[1].sql), None, 250 if is_near else None)
        yield describe("first INSERT into a region", insert(), None, 450 if is_near else None)
        for read in _READS:
            warm = _repeat(partial(ask, read.sql), rounds)
            yield describe(f"{read.title}, warm", warm, 1)
        for read in _READS:
            later = _repeat(partial(ask, read.sql), rounds, before=insert)
            yield describe(f"{read.title} after a write", later, 2)
        yield describe("INSERT of a row", _repeat(insert, rounds), 1)


def _repeat(measure: Callable[[], float], rounds: int, before: Callable[[], object] = lambda: None) -> float:
    """Return the median of some runs after two warm-ups, each after a call of `before`."""
    found = []
    for _ in range(rounds + 2):
        before()
        found.append(measure())
    return statistics.median(found[2:])
