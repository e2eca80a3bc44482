"""A process of its own that writes through Lance's region writers, one JSON command a line.

Run as ``python writer_main.py``: it reads commands on stdin and answers each with one line on stdout once the
write is durable. It imports Lance and nothing of ours, so what lies on disk afterwards is Lance's own work.
"""

import base64
import json
import sys
import time
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance.mem_wal import ShardWriter


class Writers:
    """The open region writers of this process, by the name that the client gave them."""

    def __init__(self) -> None:
        self._writers: dict[str, ShardWriter] = {}
        self._wals: dict[str, Path] = {}

    def open(self, name: str, uri: str, region: str, config: dict[str, Any]) -> dict[str, Any]:
        dataset = lance.dataset(uri)
        self._writers[name] = dataset.mem_wal_writer(region, **config)
        self._wals[name] = Path(uri) / "_mem_wal" / region / "wal"
        return self.status(name)

    def put(self, name: str, rows: str) -> dict[str, Any]:
        return self._write(name, lambda writer: writer.put(_decode_table(rows)))

    def delete(self, name: str, rows: str) -> dict[str, Any]:
        return self._write(name, lambda writer: writer.delete(_decode_table(rows)))

    def append(self, name: str, rows: str) -> dict[str, Any]:
        """Put rows while others may claim the region."""
        self._writers[name].put(_decode_table(rows))
        return {}

    def close(self, name: str) -> dict[str, Any]:
        self._writers.pop(name).close()
        return {}

    def abandon(self, name: str) -> dict[str, Any]:
        """Forget the writer as a crash would: nothing is flushed, nothing is closed."""
        del self._writers[name]
        return {}

    def status(self, name: str) -> dict[str, Any]:
        """Return the generation that is now being filled, once every full one is flushed."""
        writer = self._writers[name]
        while (stats := writer.memtable_stats())["frozen_count"]:
            time.sleep(0.001)  # Spinning would take the processor from the flush.
        return {"current_generation": stats["generation"]}

    def _write(self, name: str, write: Any) -> dict[str, Any]:
        before = _read_last_position(self._wals[name])
        write(self._writers[name])
        after = _read_last_position(self._wals[name])
        if after != before + 1:
            raise AssertionError(f"one write made the WAL entries {before + 1}..{after}")
        return {"generation": _find_generation(self._wals[name], after), **self.status(name)}


def _decode_table(encoded: str) -> pa.Table:
    # Lance's FFI import panics on decimals that sit at 8-byte boundaries.
    options = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)
    return pa.ipc.open_stream(base64.b64decode(encoded), options=options).read_all()


def _read_last_position(wal: Path) -> int:
    return max((int(entry.stem[::-1], 2) for entry in wal.glob("*.arrow")), default=0)


def _find_generation(wal: Path, position: int) -> int:
    with pa.ipc.open_stream((wal / f"{position:064b}"[::-1]).with_suffix(".arrow").read_bytes()) as entry:
        return int(entry.schema.metadata[b"generation"])


def main() -> None:
    writers = Writers()
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(writers, command.pop("do"))(**command)
        except Exception as error:  # noqa: BLE001 - every failure is the client's to judge
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)  # noqa: T201 - stdout is the protocol


if __name__ == "__main__":
    main()
