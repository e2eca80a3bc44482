"""Passes of 22 queries like TPC-H by one client, while another one upserts, against DataFusion over Parquet.

A pass asks each query once, by ADBC; a pass over the files follows each of the gateway's. The rows that are
written are those that the tables have, so the answers are the same throughout.
"""

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final

import adbc_driver_flightsql.dbapi as flight_sql
import numpy as np
import psutil  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.context import BenchContext
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import Samples, interleave
from benchmarks.scans.suites import GATEWAY, PARQUET, Ask, open_parquet, round_values
from benchmarks.servers.paced_writer import PacedWriter, start_paced_writer
from benchmarks.servers.server import start_gateway
from benchmarks.tables.wholesale import ensure_wholesale_tables, read_queries
from benchmarks.tables.write_table import create_scratch

_RATE: Final = 2_000
_BATCH_ROWS: Final = 250
_WRITTEN: Final = ("orders", "lineitem")
_PASSES: Final = 4
_ALONE_SECONDS: Final = 3.0
_CHANGING: Final = {"any rows": 1.0, "mostly of the newest 5 %": 0.05}
"""Which rows are written: one in ten is any row, and the others are of this part at the end."""


def run(context: BenchContext) -> Iterator[Finding]:
    """One pass after the other of a new server; then with rows of two distributions being written."""
    settings = context.settings
    scale, tables = ensure_wholesale_tables(settings)
    queries = read_queries()
    ask_files = open_parquet(tables)
    with create_scratch(settings) as directory, ExitStack() as stack:
        root = directory / "root"
        shutil.copytree(tables.root, root)
        server = stack.enter_context(start_gateway(root))
        connection = stack.enter_context(flight_sql.connect(server.uri, autocommit=True))
        cursor = stack.enter_context(connection.cursor())

        def ask(sql: str) -> pa.Table:
            cursor.execute(sql)
            return cursor.fetch_arrow_table()

        def run_passes(count: int, warmups: int = 0) -> Samples:
            sides = {GATEWAY: ask, PARQUET: ask_files}
            passes = {name: partial(_ask_all, side, queries.values()) for name, side in sides.items()}
            return interleave(passes, rounds=count, warmups=warmups)

        yield _compare(f"22 queries like TPC-H, scale {scale:g}, first pass", run_passes(1), Bar(1.0))
        yield _compare("second pass", run_passes(1), Bar(0.6))
        yield _compare("passes at rest", run_passes(_PASSES, warmups=1))
        for title, part in _CHANGING.items():
            upserts = _Upserts({name: tables.files[name] for name in _WRITTEN}, part)
            with start_paced_writer(server.uri, upserts) as writer:
                share = _measure_share(writer, server.pid)
                live = run_passes(_PASSES, warmups=1)
                writer.pause()
            note = (
                f"{writer.rows / writer.seconds:,.0f} rows/s were acknowledged in {' and '.join(_WRITTEN)}, "
                f"in batches of {_BATCH_ROWS}; alone, writer and ingest take {share:.2f} cores"
            )
            bar = Bar(1 / (1 - share / 2) if share > 0.4 else 1.0)
            yield _compare(f"passes while {_RATE:,} rows/s are written, {title}", live, bar, note)
        for title, sql in queries.items():
            if round_values(ask(sql)) != round_values(ask_files(sql)):
                raise WrongAnswerError(f"query {title}: the gateway and DataFusion do not agree")


def _ask_all(ask: Ask, queries: Iterable[str], _: int) -> None:
    for sql in queries:
        ask(sql)


def _compare(title: str, passes: Samples, bar: Bar | None = None, note: str = "") -> Finding:
    return Finding(
        title,
        format_milliseconds(passes.median_ms(GATEWAY)),
        f"DataFusion over Parquet {format_milliseconds(passes.median_ms(PARQUET))}",
        passes.ratio(GATEWAY, PARQUET),
        bar=bar,
        note=note,
    )


def _measure_share(writer: PacedWriter, server: int) -> float:
    """Begin to write; return the cores that writer and server take meanwhile."""
    writer.resume(_RATE)
    one = psutil.Process(server)
    processes = [psutil.Process(writer.pid), one, *one.children(recursive=True)]
    before, started = sum(map(_read_cpu, processes)), time.perf_counter()
    time.sleep(_ALONE_SECONDS)
    return float((sum(map(_read_cpu, processes)) - before) / (time.perf_counter() - started))


def _read_cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@dataclass(frozen=True)
class _Upserts:
    """Rows of tables as they are, some at a time.

    Attributes:
        files: Of the tables.
        part: At the end of a table, which most rows are of.
    """

    files: Mapping[str, Path]
    part: float

    def __call__(self, written: int) -> Sequence[tuple[str, pa.Table]]:
        rng = np.random.default_rng(written)
        return [(name, self._draw(_read_rows(path), rng)) for name, path in self.files.items()]

    def _draw(self, rows: pa.Table, rng: np.random.Generator) -> pa.Table:
        first = np.where(rng.random(_BATCH_ROWS) < 0.1, 0.0, 1.0 - self.part)
        places = (first + (1.0 - first) * rng.random(_BATCH_ROWS)) * rows.num_rows
        return rows.take(pa.array(np.unique(places.astype(np.int64))))


@cache
def _read_rows(path: Path) -> pa.Table:
    return pq.read_table(path)
