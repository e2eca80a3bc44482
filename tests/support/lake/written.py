"""Tables to write to through a gateway: empty, with a key and regions."""

from pathlib import Path

import lance
import pyarrow as pa

from tests.support.lake.tables import key_field
from tests.support.processes.gateways import Gateway

NOTES = pa.schema(
    [key_field("id", pa.int64()), pa.field("text", pa.string()), pa.field("score", pa.float64())]
)


def make_notes(root: Path, name: str, regions: int = 2) -> str:
    """Make an empty table `name` with the columns of `NOTES`; return the name."""
    dataset = lance.write_dataset(NOTES.empty_table(), root / f"{name}.lance")
    dataset.initialize_mem_wal(bucket_column="id", num_buckets=regions)
    return name


def read_notes(gateway: Gateway) -> dict[int, str]:
    """Return id -> text of table `notes`; fail if an id is there twice."""
    rows = gateway.read("SELECT id, text FROM notes").to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["text"] for row in rows}
