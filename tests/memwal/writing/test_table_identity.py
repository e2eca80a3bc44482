"""What a writer takes for the table that it opened, and what not."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.memwal.regions.manifest import read_latest_manifest
from lance_gateway.memwal.writing import Changes, PartlyWrittenError, TableWriter, table_writer
from lance_gateway.memwal.writing.changes import RegionOutcome
from lance_gateway.memwal.writing.region.requests import run_requests
from lance_gateway.memwal.writing.table.open_table import OpenTable
from lance_gateway.pipeline.cleaning import CleanPolicy, clean
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging import merge
from tests.memwal.writing.reading import rows_by_key
from tests.memwal.written import WrittenTable
from tests.support.lake.cleaning import create_late_clock
from tests.support.processes.gateways import EngineGateway

Writing = Callable[..., TableWriter]


def rows(table: WrittenTable, *keys: int) -> pa.Table:
    return table.rows(id=keys, qty=[1] * len(keys), name=["a"] * len(keys))


def upkeep(table: WrittenTable) -> None:
    """Merge, compact, and clean up all but the newest version."""
    lake = LakeTable.at(table.uri)
    merge(lake)
    lance.dataset(table.uri).optimize.compact_files()
    clean(lake, CleanPolicy(grace_seconds=0, retain_versions=1), delete=True, clock=create_late_clock())
    assert len(lance.dataset(table.uri).versions()) == 1


def test_old_versions_are_cleaned_up_between_opening_and_writing(table: WrittenTable) -> None:
    opened = OpenTable.open("t", table.storage)
    for n in range(3):
        lance.write_dataset(rows(table, 100 + n), table.uri, mode="append")
        upkeep(table)
        assert opened.watch.is_same()
    assert opened.watch.is_same()


@pytest.mark.slow
def test_statements_over_several_regions_are_written_whole(bucketed: WrittenTable, writing: Writing) -> None:
    """Upkeep comes after the rows were divided among regions, and before the last of them has its own."""
    writer = writing(bucketed)
    count = 8
    for n in range(5):
        held = bucketed.rows(id=list(range(count)), qty=[n] * count)
        with _between(lambda: upkeep(bucketed)):
            assert len(writer.write(Changes(held)).regions) > 1
        writer.flush()
    assert {key: row["qty"] for key, row in rows_by_key(bucketed).items()} == dict.fromkeys(range(count), 4)


@contextmanager
def _between(act: Callable[[], None]) -> Iterator[None]:
    """Has something happen before the rows of the last region of a statement are written."""

    def late(requests: Mapping[str, Any]) -> list[RegionOutcome]:
        *first, last = requests.items()
        done = run_requests(dict(first))
        act()
        return [*done, *run_requests(dict([last]))]

    with mock.patch.object(table_writer, "run_requests", late):
        yield


def test_a_gateway_keeps_its_writer_while_old_versions_are_cleaned_up(bucketed: WrittenTable) -> None:
    gateway = EngineGateway(Path(bucketed.uri).parent)
    gateway.read("SELECT * FROM b")
    gateway.write("INSERT INTO b VALUES (1, 1), (2, 1), (3, 1)")
    writer = gateway.engine.catalog.table("b").writer()
    upkeep(bucketed)
    lance.write_dataset(bucketed.rows(id=[9], qty=[9]), bucketed.uri, mode="append")
    upkeep(bucketed)
    assert gateway.write("UPDATE b SET qty = qty + 1") == 4
    assert gateway.engine.catalog.table("b").writer() is writer
    assert gateway.read("SELECT sum(qty) AS s FROM b").to_pylist() == [{"s": 16}]
    gateway.close()


def test_a_table_that_was_made_anew_is_another(table: WrittenTable) -> None:
    opened = OpenTable.open("t", table.storage)
    shutil.rmtree(table.uri)
    assert not opened.watch.is_same()
    WrittenTable.create(table.uri, table.schema, unsharded=True)
    assert not opened.watch.is_same()
    again = OpenTable.open("t", table.storage)
    assert again.watch.is_same()
    assert not opened.watch.is_same()


def test_a_copy_in_its_place_is_another(table: WrittenTable, tmp_path: Path) -> None:
    opened = OpenTable.open("t", table.storage)
    shutil.copytree(table.uri, tmp_path / "copy")
    shutil.rmtree(table.uri)
    shutil.move(tmp_path / "copy", table.uri)
    assert not opened.watch.is_same()


def _overwritten(table: WrittenTable) -> None:
    lance.write_dataset(rows(table, 50), table.uri, mode="overwrite")


def _without_index(table: WrittenTable) -> None:
    table.dataset.drop_index("__lance_mem_wal")


def _restored(table: WrittenTable) -> None:
    lance.dataset(table.uri, version=1).restore()


@pytest.mark.parametrize("lose", [_overwritten, _without_index, _restored])
def test_a_table_that_lost_its_memwal_gets_no_rows(
    table: WrittenTable, writing: Writing, lose: Callable[[WrittenTable], None]
) -> None:
    """Nobody would read them."""
    writer = writing(table)
    (region,) = writer.write(Changes(rows(table, 1))).regions
    opened = OpenTable.open("t", table.storage)
    lose(table)
    assert not opened.watch.is_same()
    with pytest.raises(PreconditionError, match="no MemWAL"):
        writer.write(Changes(rows(table, 2)))
    writer.close()
    manifest = read_latest_manifest(table.storage, region)
    assert manifest is not None
    assert not manifest.flushed_generations


def test_no_region_is_created_in_a_table_that_lost_its_memwal(bucketed: WrittenTable) -> None:
    opened = OpenTable.open("b", bucketed.storage)
    bucketed.dataset.drop_index("__lance_mem_wal")
    with pytest.raises(PreconditionError, match="no MemWAL"):
        opened.route(bucketed.rows(id=[1], qty=[1]))
    assert not bucketed.storage.list("_mem_wal")


def test_rows_on_their_way_to_a_table_that_is_overwritten_are_refused(
    bucketed: WrittenTable, writing: Writing
) -> None:
    writer = writing(bucketed)
    writer.write(Changes(bucketed.rows(id=list(range(8)), qty=[0] * 8)))

    def overwrite() -> None:
        lance.write_dataset(bucketed.rows(id=[50], qty=[50]), bucketed.uri, mode="overwrite")

    with (
        _between(overwrite),
        pytest.raises(PartlyWrittenError, match="overwritten or recreated"),
    ):
        writer.write(Changes(bucketed.rows(id=list(range(8)), qty=[1] * 8)))
