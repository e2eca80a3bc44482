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

import adbc_driver_flightsql.dbapi as flight_sql
import numpy as np

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.context import BenchContext
from benchmarks.reports.plots import Curve, Plot
from benchmarks.reports.queries import COUNT, GROUP_BY, TABLE_NAME
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import time_call
from benchmarks.servers.server import start_gateway
from benchmarks.tables.write_table import WriteShape, create_scratch, create_table, generate_new_keys

_REGIONS = 4
_BATCH_ROWS = 500
_MEMTABLE_ROWS = 10_000
_AT_FIRST = 40_000
_STRETCHES = 3
_SCANS = 25


def run(context: BenchContext) -> Iterator[Finding]:
    """One rate after the other; the second one is judged."""
    settings = context.settings
    shape = WriteShape(max(1_000, settings.rows // 5), _REGIONS)
    points = []
    with create_scratch(settings) as directory, ExitStack() as stack:
        table = create_table(directory / "root", shape)
        configured = {"writes.max_memtable_rows": _MEMTABLE_ROWS}
        server = stack.enter_context(start_gateway(table.root, configured=configured))
        connection = stack.enter_context(flight_sql.connect(server.uri, autocommit=True))
        cursor = stack.enter_context(connection.cursor())
        writer = stack.enter_context(start_paced_writer(server.uri, shape))
        cursor.adbc_ingest(TABLE_NAME, shape.rows_of(generate_new_keys(shape, 0, _AT_FIRST)), mode="append")
        for rate in settings.ingest_rates:
            finding = _measure(cursor, writer, rate, min(_SCANS, 2 * settings.rounds), settings.ingest_rates)
            points.append((rate, finding.value))
            yield finding
        cursor.execute(COUNT)
        found = cursor.fetchone()
        if found != (shape.rows + _AT_FIRST + writer.rows,):
            raise WrongAnswerError(f"{found} rows after {writer.rows} were acknowledged")
    title = f"Group-by over {shape.rows:,} rows while rows are written"
    plot = Plot(title, "rows/s written", "time against rest", [Curve("group-by", [(0, 1.0), *points])])
    plot.write(settings.plots_dir / "writes-scans.svg")


def _measure(
    cursor: flight_sql.Cursor, writer: "PacedWriter", rate: int, scans: int, rates: tuple[int, ...]
) -> Finding:
    def scan() -> None:
        cursor.execute(GROUP_BY)
        cursor.fetch_arrow_table()

    def time_scan() -> float:
        return float(np.median([time_call(scan) for _ in range(scans)]))

    for _ in range(3):
        scan()
    rows, seconds = writer.rows, writer.seconds
    rests, stretches = [time_scan()], []
    for _ in range(_STRETCHES):
        writer.resume(rate)
        stretches.append(time_scan())
        writer.pause()
        scan()
        rests.append(time_scan())
    reached = (writer.rows - rows) / (writer.seconds - seconds)
    ratios = [
        writing / ((before + after) / 2)
        for writing, before, after in zip(stretches, rests, rests[1:], strict=False)
    ]
    return Finding(
        f"group-by while {rate:,} rows/s are written",
        format_milliseconds(float(np.median(stretches)) * 1e3),
        f"at rest {format_milliseconds(float(np.median(rests)) * 1e3)}",
        float(np.median(ratios)),
        bar=Bar(1.5) if rate == rates[:2][-1] else None,
        note=f"{reached:,.0f} rows/s were acknowledged, in batches of {_BATCH_ROWS}, into {_REGIONS} regions "
        f"with MemTables of {_MEMTABLE_ROWS:,} rows",
    )


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

    def resume(self, rate: int) -> None:
        """Write so many rows per second; return when the first batch was acknowledged."""
        self._pipe.send(rate)
        self._receive()

    def pause(self) -> None:
        """Write no more; return when the last batch was acknowledged."""
        self._pipe.send(0)
        self._receive()

    def _receive(self) -> None:
        answer = self._pipe.recv()
        if isinstance(answer, str):
            raise WrongAnswerError(f"the writer failed: {answer}")
        self.rows, self.seconds = answer


@contextmanager
def start_paced_writer(uri: str, shape: WriteShape) -> Iterator[PacedWriter]:
    """Start a process that writes through the gateway at `uri` when resumed."""
    spawning = mp.get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=_write, args=(theirs, uri, shape), daemon=True)
    process.start()
    theirs.close()
    try:
        if isinstance(problem := ours.recv(), str):
            raise WrongAnswerError(f"the writer failed: {problem}")
        yield PacedWriter(ours)
    finally:
        ours.close()
        process.join()


def _write(pipe: Connection, uri: str, shape: WriteShape) -> None:
    """Body of the writing process; the end of the pipe ends it."""
    try:
        with flight_sql.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
            pipe.send(None)
            _write_when_told(pipe, cursor, shape)
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001 - the parent raises it
        pipe.send(repr(error))


def _write_when_told(pipe: Connection, cursor: flight_sql.Cursor, shape: WriteShape) -> None:
    rows, seconds, pause = 0, 0.0, threading.Event()
    rng = np.random.default_rng(3)
    while True:
        rate = pipe.recv()
        started, before = time.perf_counter(), rows
        while not pipe.poll():
            keys = generate_new_keys(shape, _AT_FIRST + rows, _BATCH_ROWS)
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
