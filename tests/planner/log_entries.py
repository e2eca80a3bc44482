"""Entries of a region's log, in memory and as files."""

from collections.abc import Sequence

import pyarrow as pa

from lance_gateway.memwal.regions.wal import WalEntry, wal_entry_path
from lance_gateway.memwal.storage.files import Storage
from tests.support.lake.tables import key_field

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64())])
_STORED = pa.schema(
    [
        pa.field(name, pa.int64(), metadata={"lance:field_id": str(number)})
        for number, name in enumerate(SCHEMA.names)
    ]
)


def entry(position: int, generation: int | None, keys: Sequence[int]) -> WalEntry:
    """Rows with these keys, each with the position as its value."""
    rows = pa.table([keys, [position] * len(keys)], schema=_STORED)
    return WalEntry(position, 1, generation, is_fence=False, rows=rows)


def fence(position: int) -> WalEntry:
    return WalEntry(position, 2, None, is_fence=True, rows=None)


def write(storage: Storage, region_id: str, *entries: WalEntry) -> None:
    """Write entries where a region has its log."""
    for one in entries:
        rows = _STORED.empty_table() if one.rows is None else one.rows
        metadata = {"writer_epoch": str(one.writer_epoch)}
        metadata |= {"fence_sentinel": "1"} if one.is_fence else {}
        metadata |= {} if one.generation is None else {"generation": str(one.generation)}
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema.with_metadata(metadata)) as stream:
            stream.write_table(rows.replace_schema_metadata(metadata))
        storage.put(wal_entry_path(region_id, one.position), sink.getvalue().to_pybytes())
