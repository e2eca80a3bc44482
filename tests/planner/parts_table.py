"""A table in many layers, read in parts: what tests of `planner.plans.scan_parts` share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from lance_gateway.planner.engine import PreparedQuery
from lance_gateway.planner.plans.scan_parts import OfferedParts, ScanPart
from lance_gateway.protos import snapshot_pb2
from tests.support.lake.tables import Layout, LsmTable, key_field
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("n", pa.int32()), pa.field("s", pa.string())])
Rows = list[tuple[Any, ...]]


@dataclass
class Written:
    """A table, and what it must read as."""

    table: LsmTable
    rows: dict[int, tuple[Any, ...]] = field(default_factory=dict)

    def put(self, *ids: int, n: int) -> None:
        self.table.put([{"id": one, "n": n, "s": f"row {one}"} for one in ids])
        self.rows |= {one: (one, n, f"row {one}") for one in ids}

    def delete(self, *ids: int) -> None:
        self.table.delete([{"id": one} for one in ids])
        for one in ids:
            self.rows.pop(one, None)

    def expected(self, keep: Callable[[tuple[Any, ...]], bool] = lambda _: True) -> Rows:
        return sorted(row for row in self.rows.values() if keep(row))


def write(root: Path, writers: WriterProcess, layout: Layout, *, name: str = "t") -> Written:
    """A base of five fragments with deleted rows, generations with and without tombstones, and log tails."""
    base = pa.Table.from_pylist([{"id": one, "n": 0, "s": f"row {one}"} for one in range(100)], schema=SCHEMA)
    table = LsmTable.create(root, name, base.slice(0, 20), layout, writers, max_memtable_rows=20)
    for start in range(20, 100, 20):
        lance.write_dataset(base.slice(start, 20), table.path, mode="append")
    table.dataset().delete("id % 10 = 3")
    written = Written(table, {one: (one, 0, f"row {one}") for one in range(100) if one % 10 != 3})
    for number, first in enumerate(range(0, 60, 6), start=1):
        written.put(*range(first, first + 9), n=number)
        written.delete(first + 1)
    written.put(7, 3, 200, 201, n=99)
    written.delete(50, 200, 999)
    return written


def rows_of(reader: pa.RecordBatchReader) -> Rows:
    table = reader.read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def carried(part: ScanPart) -> ScanPart:
    """The part as another process receives it."""
    message = part.to_message().SerializeToString()
    return ScanPart.from_message(snapshot_pb2.ScanPart.FromString(message))


def offered(query: PreparedQuery, count: int, *parameters: pa.Scalar) -> OfferedParts:
    parts = query.parts(count, parameters)
    assert parts is not None
    return parts
