"""The logs of regions as a test reads them, without the project's own reader."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class LoggedEntry:
    """One entry of a region's log; `rows` is None for one that only fences off older writers."""

    position: int
    writer_epoch: int
    generation: int
    rows: pa.Table | None


def read_log(table: Path, region: str, after: int = 0) -> list[LoggedEntry]:
    """Return the entries behind a position, in order."""
    files = {int(path.stem[::-1], 2): path for path in (table / "_mem_wal" / region / "wal").glob("*.arrow")}
    return [_read_entry(files[position], position) for position in sorted(files) if position > after]


def _read_entry(path: Path, position: int) -> LoggedEntry:
    with pa.ipc.open_stream(path.read_bytes()) as reader:
        metadata = reader.schema.metadata
        is_fence = b"fence_sentinel" in metadata
        rows = None if is_fence else reader.read_all()
    return LoggedEntry(position, int(metadata[b"writer_epoch"]), int(metadata.get(b"generation", b"0")), rows)
