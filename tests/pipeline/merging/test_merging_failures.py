"""What a merge says when storage fails or files are missing, and that it can be repeated."""

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import CorruptDataError, UnavailableError
from lance_gateway.pipeline.merging import MergePolicy, merge
from tests.faults.blocking import in_the_way
from tests.support.lake import manifests
from tests.support.lake.merged import MergedTable, run_between
from tests.support.lake.tables import key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess
from tests.support.stores.faults import open_faulty_storage

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])


@pytest.fixture
def kept(root: Path, writers: WriterProcess) -> MergedTable:
    base = [{"id": one, "v": "base"} for one in range(5)]
    kept = MergedTable.create(root, writers, unpartitioned(("id",), 1), SCHEMA, base)
    kept.put({"id": 1, "v": "new"}, {"id": 9, "v": "new"})
    kept.delete({"id": 2})
    kept.flush()
    return kept


def generation(kept: MergedTable) -> tuple[str, Path]:
    (region,) = manifests.list_region_ids(kept.table.path)
    return region, kept.table.generation_directory(region, 1)


def test_a_generation_that_is_missing_is_named(kept: MergedTable):
    region, directory = generation(kept)
    shutil.rmtree(directory)
    with pytest.raises(CorruptDataError) as raised:
        merge(kept.lake_table)
    for named in ("'t'", region, "generation 1", str(directory)):
        assert named in str(raised.value)
    assert manifests.read_merged_generations(kept.table.path) == {}


def test_a_data_file_that_is_missing_is_named(kept: MergedTable):
    region, directory = generation(kept)
    for file in (directory / "data").iterdir():
        file.unlink()
    with pytest.raises(CorruptDataError, match=f"generation 1 of region {region} is missing"):
        merge(kept.lake_table)


def test_a_generation_that_is_damaged_is_named(kept: MergedTable):
    region, directory = generation(kept)
    for file in (directory / "data").iterdir():
        file.write_bytes(b"\x00" * file.stat().st_size)
    with pytest.raises(CorruptDataError, match=f"generation 1 of region {region}"):
        merge(kept.lake_table)
    assert manifests.read_merged_generations(kept.table.path) == {}


@pytest.mark.parametrize("policy", [MergePolicy(), MergePolicy(batch_bytes=1)], ids=["at once", "streamed"])
def test_a_generation_that_goes_missing_during_a_merge_is_named(
    kept: MergedTable, policy: MergePolicy, monkeypatch: pytest.MonkeyPatch
):
    region, directory = generation(kept)
    run_between(monkeypatch, lambda: directory.rename(directory.with_name("aside")), before_pass=2)
    with pytest.raises(CorruptDataError, match=f"generation 1 of region {region} is missing"):
        merge(kept.lake_table, policy)
    directory.with_name("aside").rename(directory)
    merge(kept.lake_table)
    kept.check()


@pytest.mark.parametrize("directory", ["data", "_deletions"])
def test_a_base_table_that_can_t_be_written_is_left_as_it_was(kept: MergedTable, directory: str):
    with in_the_way(kept.table.path / directory), pytest.raises(UnavailableError, match="merge again"):
        merge(kept.lake_table)
    merge(kept.lake_table)
    kept.check()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("call", ["put_if_absent", "list", "directories", "read", "delete"])
def test_storage_that_fails_once_is_told_of_and_the_next_merge_finishes(
    kept: MergedTable, call: str, how: str
):
    storage, backend = open_faulty_storage(kept.table.path)
    table = replace(kept.lake_table, storage=storage)
    failed = False

    def fail_once(_number: int, name: str, path: str) -> str | None:
        nonlocal failed
        if failed or name != call or "version_hint" in path:
            return None
        failed = True
        return how

    backend.arm(fail_once)  # type: ignore[arg-type]
    if call == "delete":  # what is left behind is removed by the next merger
        merge(table)
        kept.put({"id": 1, "v": "newer"})
        kept.flush()
    else:
        with pytest.raises(UnavailableError, match="injected"):
            merge(table)
    assert failed
    merge(table)
    kept.check()
    assert kept.list_extents() == []
