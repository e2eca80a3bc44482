"""Log entries that are not read fail who would miss their rows: none is passed over in silence."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import CorruptDataError, UnsupportedError
from lance_gateway.memwal.regions.manifest import commit_manifest, format_reversed_bits, read_latest_manifest
from lance_gateway.memwal.regions.wal import (
    find_last_wal_position,
    has_unflushed_rows,
    wal_directory,
    wal_entry_path,
)
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state import log_reader
from lance_gateway.planner.tables.state.catalog import Catalog
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
    engine = open_engine(root)
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=message):
            read(engine)
    with pytest.raises(UnsupportedError, match=message):
        engine.prepare_statement("INSERT INTO t VALUES (3, 3)").execute()
    manifest = read_latest_manifest(storage, region)
    assert manifest is not None
    with pytest.raises(UnsupportedError, match=message):
        has_unflushed_rows(storage, manifest)
    table.close_writers()
    storage.delete(path)
    assert read(engine) == 2


def test_they_are_found_after_another_writer_claimed_a_region(
    table: LsmTable, root: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    region, storage = table.region_of({"id": 1}), Storage.open(str(table.path))
    engine = open_engine(root)
    assert read(engine) == 2
    manifest = read_latest_manifest(storage, region)
    assert manifest is not None
    later = replace(manifest, version=manifest.version + 1, writer_epoch=manifest.writer_epoch + 1)
    assert commit_manifest(storage, later)
    last = find_last_wal_position(storage, region, after=0)
    path = f"{wal_directory(region)}/{format_reversed_bits(last + 1)}.lance"
    storage.put(path, b"rows of another version")
    for _ in range(2):
        with pytest.raises(UnsupportedError, match="is a log entry of an older layout"):
            read(engine)


@pytest.mark.parametrize("is_fence", [False, True])
def test_an_entry_with_an_epoch_above_the_manifests_is_refused(
    table: LsmTable, root: Path, open_engine: Callable[[Path], QueryEngine], *, is_fence: bool
) -> None:
    region, storage = table.region_of({"id": 1}), Storage.open(str(table.path))
    table.close_writers()
    engine = open_engine(root)
    assert read(engine) == 2
    manifest = read_latest_manifest(storage, region)
    assert manifest is not None
    last = find_last_wal_position(storage, region, after=0)
    put_entry(storage, region, last + 1, manifest.writer_epoch + 3, is_fence=is_fence)
    message = f"is a log entry of writer epoch {manifest.writer_epoch + 3}, and the newest manifest .* epoch"
    for _ in range(2):
        with pytest.raises(CorruptDataError, match=message):
            read(engine)
        with pytest.raises(CorruptDataError, match=message):
            engine.prepare_statement("INSERT INTO t VALUES (3, 3)").execute()
    assert read_latest_manifest(storage, region) == manifest

    claimed = replace(manifest, version=manifest.version + 1, writer_epoch=manifest.writer_epoch + 3)
    assert commit_manifest(storage, claimed)
    assert read(engine) == (2 if is_fence else 3)


def test_an_entry_of_a_claim_after_the_manifest_was_read_counts(
    table: LsmTable, root: Path, open_engine: Callable[[Path], QueryEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    region, storage = table.region_of({"id": 1}), Storage.open(str(table.path))
    table.close_writers()
    manifest = read_latest_manifest(storage, region)
    assert manifest is not None
    last = find_last_wal_position(storage, region, after=0)

    def find_after_a_claim(storage: Storage, region_id: str, *, after: int) -> int:
        claimed = replace(manifest, version=manifest.version + 1, writer_epoch=manifest.writer_epoch + 1)
        if commit_manifest(storage, claimed):
            put_entry(storage, region, last + 1, claimed.writer_epoch)
        return find_last_wal_position(storage, region_id, after=after)

    monkeypatch.setattr(log_reader, "find_last_wal_position", find_after_a_claim)
    assert read(open_engine(root)) == 3


def put_entry(storage: Storage, region: str, position: int, epoch: int, *, is_fence: bool = False) -> None:
    """Put an entry of the row (7, 7) at a position."""
    manifest = read_latest_manifest(storage, region)
    assert manifest is not None
    ids = {"id": b"0", "v": b"1"}
    fields = [field.with_metadata({b"lance:field_id": ids[field.name]}) for field in SCHEMA]
    metadata = {b"writer_epoch": str(epoch), b"generation": str(manifest.current_generation)}
    if is_fence:
        metadata[b"fence_sentinel"] = "1"
    schema = pa.schema([*fields, pa.field("_tombstone", pa.bool_())], metadata)
    rows = pa.Table.from_pylist([{"id": 7, "v": 7, "_tombstone": False}], schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        if not is_fence:
            stream.write_table(rows)
    storage.put(wal_entry_path(region, position), sink.getvalue().to_pybytes())


def test_whoever_claims_a_region_notices_too(table: LsmTable, root: Path) -> None:
    region, storage = table.region_of({"id": 1}), Storage.open(str(table.path))
    storage.put(f"{wal_directory(region)}/{format_reversed_bits(0)}.lance", b"rows of long ago")
    with (
        closing(QueryEngine(Catalog.open(str(root), writing=WriteOptions(hold_ms=0)))) as engine,
        pytest.raises(UnsupportedError, match="is a log entry of an older layout"),
    ):
        engine.prepare_statement("INSERT INTO t VALUES (3, 3)").execute()
