"""Generations leave their manifest when they are merged, and the disk when nobody can know them."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.pipeline.cleaning import CleanPolicy, Kind
from tests.support.lake import manifests
from tests.support.lake.cleaning import CleanedTable, Open, filter_kind
from tests.support.processes.writer_process import WriterProcess


@pytest.mark.slow
def test_merged_generations_leave_their_manifest_first_and_the_disk_a_grace_later(
    kept: CleanedTable, root: Path, open_engine: Open
):
    engine = open_engine(root)
    kept.check(engine)
    names = kept.list_generation_names()
    report = kept.clean()
    assert sorted(one.reason.split(";")[0] for one in filter_kind(report, Kind.GENERATIONS)) == [
        "generation 1 is merged",
        "generation 2 is merged",
    ]
    assert kept.list_generations() == [3]
    assert kept.list_generation_names() == names, "readers may know them still"
    kept.check(engine)
    assert not filter_kind(kept.find(hours=0.1), Kind.DIRECTORIES), "only six minutes later"
    assert kept.clean().bytes == sum(one.bytes for one in filter_kind(report, Kind.GENERATIONS))
    assert {name.rpartition("_")[2] for name in kept.list_generation_names()} == {"3"}
    kept.check(engine)
    kept.check(open_engine(root))
    assert not kept.clean().garbage


def test_nothing_is_changed_without_being_asked(kept: CleanedTable):
    before = {one: one.stat().st_mtime_ns for one in sorted(kept.path.rglob("*"))}
    report = kept.find()
    assert report.garbage
    assert not report.is_removed
    assert {one: one.stat().st_mtime_ns for one in sorted(kept.path.rglob("*"))} == before


@pytest.mark.slow
def test_what_is_not_merged_stays_whatever_its_age(kept: CleanedTable, root: Path, open_engine: Open):
    for _ in range(3):
        kept.clean(CleanPolicy(0, 0, 1), hours=1000)
    assert kept.list_generations() == [3]
    kept.check(open_engine(root))
    kept.table.close_writers()
    kept.flushed = dict(kept.rows)
    kept.merge(4)
    for _ in range(3):
        kept.clean(CleanPolicy(0, 0, 1), hours=1000)
    assert kept.list_generations() == []
    assert not kept.list_generation_names()
    kept.check(open_engine(root))
    assert {one["id"]: one["v"] for one in kept.table.dataset().to_table().to_pylist()} == kept.rows


def test_a_generation_waits_for_every_version_that_is_read_with_it(kept: CleanedTable):
    report = kept.find(CleanPolicy())
    assert not filter_kind(report, Kind.GENERATIONS)
    reasons = [one.reason for one in report.kept if one.kind is Kind.GENERATIONS]
    assert len(reasons) == 2
    assert all("version 2 of the base table is not readable as it was without it" in one for one in reasons)


def test_a_generation_waits_for_maintained_indexes(root: Path, writers: WriterProcess):
    kept = CleanedTable.create(root, writers)
    kept.table.dataset().create_scalar_index("id", "BTREE", name="by_id")
    kept.write_generation("first")
    kept.merge(1)
    report = kept.find()
    assert not filter_kind(report, Kind.GENERATIONS)
    assert any("index 'by_id' of the base table lacks its rows" in one.reason for one in report.kept)
    kept.table.dataset().optimize.optimize_indices()
    assert len(filter_kind(kept.find(), Kind.GENERATIONS)) == 1
    kept.table.dataset().optimize.compact_files()
    assert not manifests.read_index_details(kept.path).index_catchup, "compaction forgets it"
    assert len(filter_kind(kept.find(), Kind.GENERATIONS)) == 1, "but the index covers all fragments"


def directory(kept: CleanedTable, generation: int, hexadecimal: str = "0123abcd") -> Path:
    """As a flush leaves it that fails before its manifest."""
    made = kept.path / "_mem_wal" / kept.region / f"{hexadecimal}_gen_{generation}"
    lance.write_dataset(pa.table({"id": [1]}), made)
    return made


def test_a_directory_of_a_flush_that_failed_goes_when_the_generation_was_flushed_again(kept: CleanedTable):
    merged, listed = directory(kept, 1), directory(kept, 3)
    assert not filter_kind(kept.find(hours=0), Kind.DIRECTORIES)
    kept.clean(CleanPolicy())
    assert not merged.exists()
    assert not listed.exists()
    assert kept.list_generations() == [1, 2, 3], "no version was given up"


@pytest.mark.slow
def test_a_directory_that_may_be_on_its_way_stays(kept: CleanedTable, root: Path, open_engine: Open):
    coming = directory(kept, 4)
    for hours in (1, 1000):
        report = kept.clean(CleanPolicy(0, 0, 1), hours=hours)
        assert any("generation 4 may be on its way" in one.reason for one in report.kept)
    assert coming.exists()
    kept.flush()
    kept.clean(hours=2000)
    assert not coming.exists(), "it was flushed to another directory"
    kept.check(open_engine(root))


def test_a_directory_of_a_writer_that_lost_the_region_goes_before_the_next_flush(
    kept: CleanedTable, root: Path, open_engine: Open
):
    coming = directory(kept, 4)
    kept.table.writers[kept.region].abandon()
    again = kept.table.process.open(kept.path, kept.region)
    kept.clean(CleanPolicy(0.0, None, None))
    assert not coming.exists()
    again.close()
    kept.flushed = dict(kept.rows)
    kept.check(open_engine(root))


def test_the_only_directory_that_has_rows_is_never_removed(kept: CleanedTable):
    kept.flush()
    (lost,) = manifests.forget_generations(kept.path, kept.region, 3)[2:]
    for hours in (1, 1000):
        report = kept.clean(CleanPolicy(0, 0, 1), hours=hours)
    assert (kept.path / "_mem_wal" / kept.region / lost).exists()
    assert any("generation 3 is neither merged nor listed" in one.reason for one in report.kept)


def test_other_directories_are_none_of_our_business(kept: CleanedTable):
    others = ["backup", "0123abcd_gen_0", "0123ABCD_gen_1", "0123abcd_gen_1.old", "0123abcde_gen_1"]
    for one in others:
        (kept.path / "_mem_wal" / kept.region / one).mkdir()
    (kept.path / "_mem_wal" / "no-region" / "0123abcd_gen_1").mkdir(parents=True)
    for hours in (1, 1000):
        kept.clean(hours=hours)
    assert all((kept.path / "_mem_wal" / kept.region / one).exists() for one in others)
    assert (kept.path / "_mem_wal" / "no-region" / "0123abcd_gen_1").exists()
