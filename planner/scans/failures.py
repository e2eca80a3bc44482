"""What becomes of a statement when files can't be read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pyarrow as pa

from lance_gateway.memwal.errors import CorruptDataError, LanceGatewayError, UnavailableError
from lance_gateway.planner.tables.sources.base_table import FilesVanishedError
from lance_gateway.planner.tables.sources.generations import GenerationVanishedError

logger = logging.getLogger(__name__)

RUN_ATTEMPTS = 8
"""Merges may remove files that a slow reader is about to open, several times in a row."""


def retry_if_files_vanish(
    batches: Iterator[pa.RecordBatch], restart: Callable[[], Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """Yield batches; restart on a new snapshot if files vanish before the first batch.

    Files vanish because they were merged or compacted, so the new snapshot has their rows elsewhere.
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


def conceal_error(error: LanceGatewayError, table: str) -> LanceGatewayError:
    """Return an error without what an access policy hides; the log has all of it.

    Args:
        error: of a scan.
        table: its name.
    """
    if not isinstance(error, CorruptDataError | UnavailableError):
        return error
    logger.error("table %r, read under an access policy: %s", table, error)
    if isinstance(error, FilesVanishedError):
        return FilesVanishedError(f"table {table!r}: a file vanished: run the query again")
    if isinstance(error, UnavailableError):
        return UnavailableError(f"table {table!r} can't be read now: retry")
    return CorruptDataError(f"table {table!r} can't be read: the log of the gateway says why")
