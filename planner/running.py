"""DataFusion's batches, one after another, for as long as somebody wants them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from datafusion import DataFrame

from planner.base_table import FilesVanishedError
from planner.control import RunControl
from planner.fresh_rows import GenerationVanishedError

RUN_ATTEMPTS = 8
"""A merger that is in a hurry may remove what a slow machine was about to read, several times in a row."""


def streamed(frame: DataFrame, control: RunControl) -> Iterator[pa.RecordBatch]:
    """DataFusion's batches. Its own stream, not an Arrow one: dropping only that stops the work behind it."""
    # In a list that is emptied at the end: the traceback of an error holds the variables of this function.
    # Not interrupted while it makes the physical plan: it panics where asking a leaf for its columns fails.
    held = [control.undisturbed(frame.execute_stream)]

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            while (batch := control.wait(lambda: next(held[0], None))) is not None:
                yield batch.to_pyarrow()
        finally:
            held.clear()

    return batches()  # what DataFusion refuses when it makes the physical plan has been raised above


def again_if_files_vanish(
    batches: Iterator[pa.RecordBatch], restart: Callable[[], Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """The same batches; begun anew, on a new snapshot, when files vanish before there is a first batch.

    What vanished was merged or compacted, so the new snapshot has its rows elsewhere.
    """
    for attempt in range(RUN_ATTEMPTS):
        try:
            first = next(batches, None)
        except (FilesVanishedError, GenerationVanishedError):
            if attempt == RUN_ATTEMPTS - 1:
                raise
            batches = restart()
            continue
        if first is not None:
            yield first
            yield from batches
        return
