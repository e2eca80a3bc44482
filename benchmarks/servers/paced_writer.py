"""A client process that writes through the gateway at a steady rate."""

import multiprocessing as mp
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa

from benchmarks.reports.answers import WrongAnswerError

Draw = Callable[[int], Sequence[tuple[str, pa.Table]]]
"""Returns the next rows to be written, by table, given how many were written before. It is pickled."""


class PacedWriter:
    """A process that writes at a steady rate between `resume` and `pause`.

    Attributes:
        pid: Of the process.
        rows: That were acknowledged.
        seconds: That it wrote for.
    """

    def __init__(self, pid: int, pipe: Connection) -> None:
        self._pipe = pipe
        self.pid = pid
        self.rows = 0
        self.seconds = 0.0

    def resume(self, rate: int) -> None:
        """Write so many rows per second; return when the first rows were acknowledged."""
        self._pipe.send(rate)
        self._receive()

    def pause(self) -> None:
        """Write no more; return when the last rows were acknowledged."""
        self._pipe.send(0)
        self._receive()

    def _receive(self) -> None:
        answer = self._pipe.recv()
        if isinstance(answer, str):
            raise WrongAnswerError(f"the writer failed: {answer}")
        self.rows, self.seconds = answer


@contextmanager
def start_paced_writer(uri: str, draw: Draw) -> Iterator[PacedWriter]:
    """Start a process that upserts rows through the gateway at `uri` when resumed."""
    spawning = mp.get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=_write, args=(theirs, uri, draw), daemon=True)
    process.start()
    theirs.close()
    try:
        if isinstance(problem := ours.recv(), str):
            raise WrongAnswerError(f"the writer failed: {problem}")
        yield PacedWriter(process.pid or 0, ours)
    finally:
        ours.close()
        process.join()


def _write(pipe: Connection, uri: str, draw: Draw) -> None:
    """Body of the writing process; the end of the pipe ends it."""
    try:
        with flight_sql.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
            pipe.send(None)
            _write_between_requests(pipe, cursor, draw)
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001 - the parent raises it
        pipe.send(repr(error))


def _write_between_requests(pipe: Connection, cursor: flight_sql.Cursor, draw: Draw) -> None:
    rows, seconds, pause = 0, 0.0, threading.Event()
    while True:
        rate = pipe.recv()
        started, before = time.perf_counter(), rows
        while not pipe.poll():
            is_first = rows == before
            for name, table in draw(rows):
                cursor.adbc_ingest(name, table, mode="append")
                rows += table.num_rows
            if is_first:
                pipe.send((rows, seconds))
            due = started + (rows - before) / rate
            pause.wait(max(0.0, due - time.perf_counter()))
        pipe.recv()
        seconds += time.perf_counter() - started
        pipe.send((rows, seconds))
