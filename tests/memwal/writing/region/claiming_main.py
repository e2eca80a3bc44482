"""Two writers claim one region back and forth; prints what the process keeps of it, as JSON.

Usage: python -m tests.memwal.writing.region.claiming_main URI CLAIMS LOG_BYTES

The log has so many bytes, which each claim reads into memory.
"""

import json
import sys
import threading
from pathlib import Path

import lance
import pyarrow as pa

from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.writing import Changes, TableWriter, WriteOptions
from tests.memwal.writing.conftest import until

WARM_UP = 6


def measure(writers: list[TableWriter]) -> dict[str, int]:
    until(lambda: not any(sum(kept_writers(one)) > 1 for one in writers))
    status = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
    return {
        "anonymous_bytes": kilobytes << 10,
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "discarded": sum(sum(kept_writers(one)) for one in writers),
    }


def kept_writers(writer: TableWriter) -> list[int]:
    return [len(region.discarded) for region in writer._regions.values()]


def main(uri: str, claims: int, log_bytes: int) -> None:
    storage, session = Storage.open(uri), lance.Session()
    schema = lance.dataset(uri).schema
    writers = [TableWriter("t", storage, WriteOptions(hold_ms=0), session) for _ in range(2)]
    before = {}
    for turn in range(WARM_UP + claims):
        if turn == WARM_UP:
            before = measure(writers)
        text = "x" * log_bytes if turn == 0 else ""
        rows = pa.table({"id": [turn], "qty": [turn], "name": [text]}, schema=schema)
        writers[turn % 2].write(Changes(rows))
    after = measure(writers)
    taken = sum(region.claims for writer in writers for region in writer.stats())
    sys.stdout.write(json.dumps({"claims": taken, "before": before, "after": after}))
    for writer in writers:
        writer.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
