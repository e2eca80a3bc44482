"""A group-by while another process writes through the same gateway, against the same group-by at rest.

Rest and writing take turns on one table. Each stretch of writing is compared with the rest before it and the
rest after it, so both sides read as many fresh rows on the average. MemTables are a tenth of their usual
size, so that flushes fall into the measured time more often than they usually would.
"""

import multiprocessing as mp
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import numpy as np

from benchmarks.answers import WrongAnswerError
from benchmarks.context import BenchContext
from benchmarks.plots import Curve, Plot
from benchmarks.queries import COUNT, GROUP_BY, TABLE_NAME
from benchmarks.report import Bar, Finding, milliseconds
from benchmarks.server import gateway_server
from benchmarks.timing import timed
from benchmarks.write_table import WriteShape, create_table, new_keys, scratch

_REGIONS = 4
_BATCH_ROWS = 500
_MEMTABLE_ROWS = 10_000
_AT_FIRST = 40_000
_STRETCHES = 3
_SCANS = 25


def run(context: BenchContext) -> Iterator[Finding]:
    """One rate after the other, each in a table of its own; the second rate is judged."""
    settings = context.settings
    shape = WriteShape(max(1_000, settings.rows // 5), _REGIONS)
    points = []
    for rate in settings.ingest_rates:
        with scratch(settings) as directory:
            rest, writing, ratio, reached = _measure(directory, shape, rate, min(_SCANS, 2 * settings.rounds))
        points.append((rate, ratio))
        yield Finding(
            f"group-by while {rate:,} rows/s are written",
            milliseconds(writing),
            f"at rest {milliseconds(rest)}",
            ratio,
            bar=Bar(1.5) if rate == settings.ingest_rates[:2][-1] else None,
            note=(
                f"{reached:,.0f} rows/s were acknowledged, in batches of {_BATCH_ROWS}; {shape.rows:,} rows, "
                f"{_REGIONS} regions, MemTables of {_MEMTABLE_ROWS:,} rows"
            ),
        )
    title = f"Group-by over {shape.rows:,} rows while others are written"
    curve = Curve("group-by", [(1, 1.0), *points])
    plot = Plot(title, "rows/s written (1: none)", "time against rest", [curve], "x")
    plot.write(settings.plots_dir / "writes-scans.svg")


def _measure(directory: Path, shape: WriteShape, rate: int, scans: int) -> tuple[float, float, float, float]:
    """Median milliseconds at rest and while writing, the ratio, and the rows per second that were written."""
    table = create_table(directory / "root", shape)
    with ExitStack() as stack:
        configured = {"writes.max_memtable_rows": _MEMTABLE_ROWS}
        server = stack.enter_context(gateway_server(table.root, configured=configured))
        connection = stack.enter_context(flight_sql.connect(server.uri, autocommit=True))
        cursor = stack.enter_context(connection.cursor())
        writer = stack.enter_context(paced_writer(server.uri, shape, rate))

        def scan() -> None:
            cursor.execute(GROUP_BY)
            cursor.fetch_arrow_table()

        def scanned() -> float:
            return float(np.median([timed(scan) for _ in range(scans)]))

        cursor.adbc_ingest(TABLE_NAME, shape.rows_of(new_keys(shape, 0, _AT_FIRST)), mode="append")
        for _ in range(3):
            scan()
        rests, stretches = [scanned()], []
        for _ in range(_STRETCHES):
            writer.resume()
            stretches.append(scanned())
            writer.pause()
            scan()
            rests.append(scanned())
        cursor.execute(COUNT)
        found = cursor.fetchone()
        if found != (shape.rows + _AT_FIRST + writer.rows,):
            raise WrongAnswerError(f"{found} rows after {writer.rows} were acknowledged")
    ratios = [
        writing / ((before + after) / 2)
        for writing, before, after in zip(stretches, rests, rests[1:], strict=False)
    ]
    rest, stretch = (float(np.median(each)) * 1e3 for each in (rests, stretches))
    return rest, stretch, float(np.median(ratios)), writer.rows / writer.seconds


class PacedWriter:
    """A process that writes at a steady rate between `resume` and `pause`.

    Attributes:
        rows: that were acknowledged.
        seconds: that it wrote for.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.rows = 0
        self.seconds = 0.0

    def resume(self) -> None:
        """Write; returns when the first batch was acknowledged."""
        self._pipe.send("resume")
        self._receive()

    def pause(self) -> None:
        """Write no more; returns when the last batch was acknowledged."""
        self._pipe.send("pause")
        self._receive()

    def _receive(self) -> None:
        answer = self._pipe.recv()
        if isinstance(answer, str):
            raise WrongAnswerError(f"the writer failed: {answer}")
        self.rows, self.seconds = answer


@contextmanager
def paced_writer(uri: str, shape: WriteShape, rate: int) -> Iterator[PacedWriter]:
    """Starts a process that writes `rate` rows per second through the gateway at `uri`, once it is told."""
    spawning = mp.get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=_write, args=(theirs, uri, shape, rate), daemon=True)
    process.start()
    theirs.close()
    try:
        if isinstance(problem := ours.recv(), str):
            raise WrongAnswerError(f"the writer failed: {problem}")
        yield PacedWriter(ours)
    finally:
        ours.close()
        process.join()


def _write(pipe: Connection, uri: str, shape: WriteShape, rate: int) -> None:
    """Body of the writing process; the end of the pipe ends it."""
    try:
        with flight_sql.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
            pipe.send(None)
            _write_when_told(pipe, cursor, shape, rate)
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001 - the parent raises it
        pipe.send(repr(error))


def _write_when_told(pipe: Connection, cursor: flight_sql.Cursor, shape: WriteShape, rate: int) -> None:
    rows, seconds, pause = 0, 0.0, threading.Event()
    rng = np.random.default_rng(3)
    while True:
        pipe.recv()
        started, before = time.perf_counter(), rows
        while not pipe.poll():
            keys = new_keys(shape, _AT_FIRST + rows, _BATCH_ROWS)
            cursor.adbc_ingest(
                TABLE_NAME, shape.rows_of(keys, seed=int(rng.integers(1 << 30))), mode="append"
            )
            rows += _BATCH_ROWS
            if rows - before == _BATCH_ROWS:
                pipe.send((rows, seconds))
            due = started + (rows - before) / rate
            pause.wait(max(0.0, due - time.perf_counter()))
        pipe.recv()
        seconds += time.perf_counter() - started
        pipe.send((rows, seconds))
