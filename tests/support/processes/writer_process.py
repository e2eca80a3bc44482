"""The test's side of the writer process: start it, command it, end it by its id."""

import base64
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import lance
import pyarrow as pa

_CHILD = Path(__file__).with_name("writer_main.py")


class WriteRefusedError(Exception):
    """Lance refused a write; the text is Lance's own."""


class FencedError(WriteRefusedError):
    """The writer lost its region to a newer writer."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What the writer process reported once a write was durable.

    Attributes:
        generation: The generation that the write went into, as its WAL entry records it.
        current_generation: The generation that is being filled now; all before it are flushed.
    """

    generation: int
    current_generation: int


class WriterProcess:
    """A child process that holds real Lance region writers."""

    def __init__(self) -> None:
        self._names = 0
        self._child = self._start()

    @staticmethod
    def _start() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def open(self, uri: str | Path, region: str, **config: Any) -> "RegionWriter":
        """Claim ``region`` of the table at ``uri``; another writer of it is fenced from now on."""
        self._names += 1
        name = f"writer-{self._names}"
        dataset = lance.dataset(str(uri))
        # Every put is written at once; a writer that a test forgets looks seldom whether there is more.
        settings = {"max_wal_buffer_size": 1, "max_wal_flush_interval_ms": 5_000, **config}
        answer = self.command(do="open", name=name, uri=str(uri), region=region, config=settings)
        field_ids = {column.name(): column.id() for column in dataset.lance_schema.fields()}
        return RegionWriter(self, name, region, dataset.schema, field_ids, answer["current_generation"])

    def command(self, **command: Any) -> dict[str, Any]:
        """Send one command and wait for its answer."""
        stdin, stdout = self._child.stdin, self._child.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(command) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise RuntimeError(
                f"the writer process ended with code {self._child.wait()} during {command['do']}"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise (FencedError if "fenced" in answer["error"] else WriteRefusedError)(answer["error"])
        return answer

    def kill(self) -> None:
        """End the process at once, as a power cut would, and start a new one that holds no writer."""
        self._end()
        self._child = self._start()

    def close(self) -> None:
        """End the process; open writers are not flushed."""
        self._end()

    def _end(self) -> None:
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass
class RegionWriter:
    """One Lance region writer in the writer process.

    Attributes:
        schema: The table's schema when the writer was opened; its rows must have exactly these columns.
        field_ids: The field id of each of these columns.
        current_generation: The generation that is being filled.
    """

    process: WriterProcess
    name: str
    region: str
    schema: pa.Schema
    field_ids: Mapping[str, int]
    current_generation: int
    closed: bool = field(default=False, init=False)

    def put(self, rows: pa.Table | list[dict[str, Any]]) -> Acknowledgement:
        """Upsert rows, durably."""
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, schema=self.schema)
        return self._write("put", table)

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Upsert rows, durably, while others may claim the region."""
        table = pa.Table.from_pylist(rows, schema=self.schema)
        self.process.command(do="append", name=self.name, rows=_encode_rows(table))

    def delete(self, keys: pa.Table | list[dict[str, Any]]) -> Acknowledgement:
        """Write tombstones for keys, durably."""
        if not isinstance(keys, pa.Table):
            keys = pa.Table.from_pylist(keys, schema=pa.schema([self.schema.field(name) for name in keys[0]]))
        return self._write("delete", keys)

    def close(self) -> None:
        """Flush what is in memory and release the region."""
        self.closed = True
        self.process.command(do="close", name=self.name)

    def abandon(self) -> None:
        """Forget the writer without flushing, as a crash does."""
        self.closed = True
        self.process.command(do="abandon", name=self.name)

    def _write(self, command: str, rows: pa.Table) -> Acknowledgement:
        acknowledgement = Acknowledgement(
            **self.process.command(do=command, name=self.name, rows=_encode_rows(rows))
        )
        self.current_generation = acknowledgement.current_generation
        return acknowledgement


def _encode_rows(rows: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return base64.b64encode(sink.getvalue()).decode()
