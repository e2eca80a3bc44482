"""From readers of record batches to a Flight stream that every client can read.

Batches arrive under the advertised schema and leave it below 4 MiB, where some gRPC clients stop. They pass
through a Python generator: it costs nothing measurable beside a stream in C++ (a batch is handed over, not
copied), errors in the middle of a stream reach the client as clean as any other, and the stream ends as soon
as its client has gone.
"""

import itertools
import threading
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyarrow import flight

from gateway.errors import answering
from memwal.errors import UnavailableError

# A gRPC message of 4 MiB also holds the header of the batch.
MAX_BATCH_BYTES = 4 * 1024 * 1024 - 64 * 1024


def slices(batch: pa.RecordBatch, limit: int = MAX_BATCH_BYTES) -> Iterator[pa.RecordBatch]:
    """Yields `batch` in slices of at most `limit` bytes on the wire; a single row is never divided.

    A batch without rows yields nothing.
    """
    rows = batch.num_rows
    if rows == 0:
        return
    # The size in memory is quick to know and, padding and header aside, the size on the wire.
    if rows == 1 or batch.nbytes < limit // 2:
        yield batch
        return
    size = pa.ipc.get_record_batch_size(batch)
    if size <= limit:
        yield batch
        return
    # Rows may differ in width: what is still too wide is divided again.
    step = max(1, min(rows - 1, rows * limit // size))
    for start in range(0, rows, step):
        yield from slices(batch.slice(start, step), limit)


class Streams:
    """The streams that a server is sending: they can be counted, and told to end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._ended = threading.Event()

    @property
    def running(self) -> int:
        """How many streams are being read by clients."""
        return self._running

    def end(self) -> None:
        """Lets every stream fail before its next batch."""
        self._ended.set()

    def send(self, schema: pa.Schema, readers: Iterable[pa.RecordBatchReader]) -> flight.FlightDataStream:
        """Returns the stream of all batches of `readers`, one reader after the other.

        The first reader is taken at once, so that what it refuses is refused before the stream begins; each
        other when the one before it is exhausted. A reader is closed before the next is taken, and when the
        client goes away.
        """
        remaining = iter(readers)
        first = next(remaining, None)
        started = remaining if first is None else itertools.chain((first,), remaining)
        return flight.GeneratorStream(schema, self._batches(started))

    def _batches(self, readers: Iterable[pa.RecordBatchReader]) -> Iterator[pa.RecordBatch]:
        with answering("DoGet"):
            self._count(1)
            try:
                for reader in readers:
                    with reader:
                        for batch in reader:
                            if self._ended.is_set():
                                raise UnavailableError(
                                    "the gateway is stopping; run the query again elsewhere"
                                )
                            yield from slices(batch)
            finally:
                self._count(-1)

    def _count(self, change: int) -> None:
        with self._lock:
            self._running += change
