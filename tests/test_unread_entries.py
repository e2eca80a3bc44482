"""Log entries that are not read fail who would miss their rows: none is passed over in silence."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from memwal.errors import UnsupportedError
from memwal.regions.manifest import format_reversed_bits, read_latest_manifest
from memwal.regions.wal import find_last_wal_position, has_unflushed_rows, wal_directory, wal_entry_path
from memwal.storage.files import Storage
from memwal.writing import WriteOptions
from planner.engine import QueryEngine
from planner.tables.state.catalog import Catalog
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64())])


@pytest.fixture
def table(root: Path, writers: WriterProcess) -> LsmTable:
    """A table of one region, whose log has two entries that are not flushed."""
    made = LsmTable.create(root, "t", SCHEMA.empty_table(), bucketed("id", 1, recorded=True), writers)
    made.put([{"id": 1, "v": 1}])
    made.put([{"id": 2, "v": 2}])
    return made


def read(engine: QueryEngine) -> int:
    count: int = engine.prepare("SELECT count(*) FROM t").execute().read_all().column(0)[0].as_py()
    return count


@pytest.mark.parametrize(
    ("position", "suffix", "kind"),
    [
        (0, ".arrow", "at position 0"),
        (0, ".lance", "of an older layout"),
        (1, ".lance", "of an older layout"),
        (None, ".lance", "of an older layout"),
    ],
)
def test_it_is_named_with_the_way_out(
    table: LsmTable,
    root: Path,
    open_engine: Callable[[Path], QueryEngine],
    position: int | None,
    suffix: str,
    kind: str,
) -> None:
    region, storage = table.region_of({"id": 1}), Storage.open(str(table.path))
    last = find_last_wal_position(storage, region, after=0)
    position = last + 1 if position is None else position
    path = f"{wal_directory(region)}/{format_reversed_bits(position)}{suffix}"
    storage.put(path, storage.read(wal_entry_path(region, last)))
    message = f"{format_reversed_bits(position)}{suffix} is a log entry {kind}, .* Flush the region with"
    with pytest.raises(UnsupportedError, match=message):
        read(open_engine(root))
    manifest = read_latest_manifest(storage, region)
    assert manifest is not None
    with pytest.raises(UnsupportedError, match=message):
        has_unflushed_rows(storage, manifest)
    table.close_writers()
    storage.delete(path)
    assert read(open_engine(root)) == 2


def test_whoever_claims_a_region_notices_too(table: LsmTable, root: Path) -> None:
    region, storage = table.region_of({"id": 1}), Storage.open(str(table.path))
    storage.put(f"{wal_directory(region)}/{format_reversed_bits(0)}.lance", b"rows of long ago")
    with (
        closing(QueryEngine(Catalog.open(str(root), writing=WriteOptions(hold_ms=0)))) as engine,
        pytest.raises(UnsupportedError, match="is a log entry of an older layout"),
    ):
        engine.prepare_statement("INSERT INTO t VALUES (3, 3)").execute()
