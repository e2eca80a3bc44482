"""What cleaning removes, what it leaves, and what readers see before, between and after."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from memwal.errors import InvalidInputError, NotFoundError, PreconditionError
from memwal.manifest import commit_manifest, read_latest_manifest
from memwal.storage import Storage
from memwal.writing.owners import OwnerRecord, write_owner
from pipeline.cleaning import CleanPolicy, Kind, clean, find, remove
from pipeline.cli import app
from pipeline.lake import Lake
from planner.engine import QueryEngine
from tests.support import manifests
from tests.support.cleaning import HOUR, NEWEST_ONLY, SCHEMA, Kept, later, of, read
from tests.support.tables import LsmTable, unpartitioned
from tests.support.writer_process import WriterProcess

Open = Callable[[Path], QueryEngine]


@pytest.fixture
def kept(root: Path, writers: WriterProcess) -> Kept:
    """Generations 1 and 2 are merged, 3 is not, and one row is in the log alone."""
    made = Kept.create(root, writers)
    made.generation("first")
    made.generation("second")
    made.merge(2)
    made.generation("third")
    made.put({9: "log"})
    return made


# Generations


def test_merged_generations_leave_their_manifest_first_and_the_disk_a_grace_later(
    kept: Kept, root: Path, open_engine: Open
):
    engine = open_engine(root)
    kept.check(engine)
    names = kept.names()
    report = kept.clean()
    assert sorted(one.reason.split(";")[0] for one in of(report, Kind.GENERATIONS)) == [
        "generation 1 is merged",
        "generation 2 is merged",
    ]
    assert kept.listed() == [3]
    assert kept.names() == names, "readers may know them still"
    kept.check(engine)
    assert not of(kept.find(hours=0.1), Kind.DIRECTORIES), "only six minutes later"
    assert kept.clean().bytes == sum(one.bytes for one in of(report, Kind.GENERATIONS))
    assert {name.rpartition("_")[2] for name in kept.names()} == {"3"}
    kept.check(engine)
    kept.check(open_engine(root))
    assert not kept.clean().garbage


def test_nothing_is_changed_without_being_asked(kept: Kept):
    before = {one: one.stat().st_mtime_ns for one in sorted(kept.path.rglob("*"))}
    report = kept.find()
    assert report.garbage
    assert not report.is_removed
    assert {one: one.stat().st_mtime_ns for one in sorted(kept.path.rglob("*"))} == before


def test_what_is_not_merged_stays_whatever_its_age(kept: Kept, root: Path, open_engine: Open):
    for _ in range(3):
        kept.clean(CleanPolicy(0, 0, 1), hours=1000)
    assert kept.listed() == [3]
    kept.check(open_engine(root))
    kept.table.close_writers()
    kept.flushed = dict(kept.rows)
    kept.merge(4)
    for _ in range(3):
        kept.clean(CleanPolicy(0, 0, 1), hours=1000)
    assert kept.listed() == []
    assert not kept.names()
    kept.check(open_engine(root))
    assert {one["id"]: one["v"] for one in kept.table.dataset().to_table().to_pylist()} == kept.rows


def test_a_generation_waits_for_every_version_that_is_read_with_it(kept: Kept):
    report = kept.find(CleanPolicy())
    assert not of(report, Kind.GENERATIONS)
    reasons = [one.reason for one in report.kept if one.kind is Kind.GENERATIONS]
    assert len(reasons) == 2
    assert all("version 2 of the base table is not readable as it was without it" in one for one in reasons)


def test_a_generation_waits_for_maintained_indexes(root: Path, writers: WriterProcess):
    kept = Kept.create(root, writers)
    kept.table.dataset().create_scalar_index("id", "BTREE", name="by_id")
    kept.generation("first")
    kept.merge(1)
    report = kept.find()
    assert not of(report, Kind.GENERATIONS)
    assert any("index 'by_id' of the base table lacks its rows" in one.reason for one in report.kept)
    kept.table.dataset().optimize.optimize_indices()
    assert len(of(kept.find(), Kind.GENERATIONS)) == 1
    kept.table.dataset().optimize.compact_files()
    assert not manifests.index_details(kept.path).index_catchup, "compaction forgets it"
    assert len(of(kept.find(), Kind.GENERATIONS)) == 1, "but the index covers all fragments"


# The past


def test_every_version_and_tag_that_is_kept_shows_what_it_showed(
    root: Path, writers: WriterProcess, open_engine: Open
):
    kept = Kept.create(root, writers)
    for number in range(1, 6):
        kept.generation(f"g{number}")
        if number == 2:
            kept.table.dataset().update_config({"noted": "yes"})
            kept._note()
            kept.table.dataset().tags.create("release", kept.table.dataset().version)
        elif number > 2:
            kept.merge(number - 1)
    tagged = kept.table.dataset().tags.list()["release"]["version"]
    for retain in (4, 2, 1):
        for hours in (1, 2, 3):
            kept.clean(CleanPolicy(retain_versions=retain), hours=hours)
            engine = open_engine(root)
            kept.check(engine)
            left = [one["version"] for one in kept.table.dataset().versions()]
            assert tagged in left
            assert left[-retain:] == list(kept.versions)[-retain:]
            for version in left:
                assert read(engine, f"t FOR VERSION AS OF {version}") == kept.versions[version], version
            assert read(engine, "t FOR VERSION AS OF 'release'") == kept.versions[tagged]
    assert {name.rpartition("_")[2] for name in kept.names()} == {"1", "2", "5"}, "the tag's, and the newest"
    kept.table.dataset().tags.delete("release")
    for hours in (1, 2):
        kept.clean(hours=hours)
    assert {name.rpartition("_")[2] for name in kept.names()} == {"5"}


def test_a_moment_whose_version_is_gone_is_refused_and_never_shown_in_part(
    root: Path, writers: WriterProcess, open_engine: Open
):
    kept = Kept.create(root, writers)
    kept.table.dataset().tags.create("first", 2)
    moments = {}
    for number in range(1, 7):
        kept.generation(f"g{number}")
        moments[time.time_ns() // 1000] = dict(kept.flushed)
        kept.merge(number)
        if number == 3:
            kept.clean()
        moments[time.time_ns() // 1000] = dict(kept.flushed)
    kept.clean()
    refused = 0
    for moment, expected in moments.items():
        text = pa.scalar(moment, pa.timestamp("us")).as_py()
        try:
            shown = read(open_engine(root), f"t FOR TIMESTAMP AS OF '{text}'")
        except (PreconditionError, NotFoundError):
            refused += 1
        else:
            assert shown == expected, text
    assert 0 < refused < len(moments)
    assert read(open_engine(root), "t FOR VERSION AS OF 'first'") == kept.versions[2]


def test_versions_go_by_age_and_by_number_and_never_those_that_readers_have(kept: Kept):
    def gone(policy: CleanPolicy, hours: float) -> list[int]:
        return [one.first for one in of(kept.find(policy, hours=hours), Kind.VERSIONS)]

    newest = kept.table.dataset().version
    assert gone(CleanPolicy(), 167) == []
    assert gone(CleanPolicy(), 169) == list(range(1, newest)), "a week by default"
    assert gone(CleanPolicy(older_than_seconds=2 * HOUR), 1) == []
    assert gone(CleanPolicy(older_than_seconds=2 * HOUR), 3) == list(range(1, newest))
    assert gone(CleanPolicy(retain_versions=2), 3) == list(range(1, newest - 1))
    assert gone(CleanPolicy(older_than_seconds=2 * HOUR, retain_versions=2), 1) == []
    assert gone(CleanPolicy(retain_versions=1), 0) == [], "one was the newest a moment ago"
    kept.table.dataset().tags.create("release", 2)
    assert gone(CleanPolicy(retain_versions=1), 3) == [1, *range(3, newest)]


def test_bytes_are_those_that_come_free(kept: Kept):
    kept.table.close_writers()
    kept.table.dataset().optimize.compact_files()

    def size() -> int:
        return sum(one.stat().st_size for one in kept.path.rglob("*") if one.is_file())

    for kinds in ((Kind.GENERATIONS,), (Kind.VERSIONS,), (Kind.LOG,), (Kind.DIRECTORIES,)):
        before = size()
        report = kept.clean(replace(NEWEST_ONLY, kinds=kinds))
        if kinds == (Kind.GENERATIONS,):
            assert not report.garbage, "versions stay, and need them"
            continue
        freed = before - size()
        # Lance keeps a small file of transactions for each version, too.
        assert freed >= report.bytes
        if kinds != (Kind.VERSIONS,):
            assert freed == report.bytes


# Directories


def directory(kept: Kept, generation: int, hexadecimal: str = "0123abcd") -> Path:
    """As a flush leaves it that fails before its manifest."""
    made = kept.path / "_mem_wal" / kept.region / f"{hexadecimal}_gen_{generation}"
    lance.write_dataset(pa.table({"id": [1]}), made)
    return made


def test_a_directory_of_a_flush_that_failed_goes_when_the_generation_was_flushed_again(kept: Kept):
    merged, listed = directory(kept, 1), directory(kept, 3)
    assert not of(kept.find(hours=0), Kind.DIRECTORIES)
    kept.clean(CleanPolicy())
    assert not merged.exists()
    assert not listed.exists()
    assert kept.listed() == [1, 2, 3], "no version was given up"


def test_a_directory_that_may_be_on_its_way_stays(kept: Kept, root: Path, open_engine: Open):
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
    kept: Kept, root: Path, open_engine: Open
):
    coming = directory(kept, 4)
    kept.table.writers[kept.region].abandon()
    again = kept.table.process.open(kept.path, kept.region)
    kept.clean(CleanPolicy(0.0, None, None))
    assert not coming.exists()
    again.close()
    kept.flushed = dict(kept.rows)
    kept.check(open_engine(root))


def test_the_only_directory_that_has_rows_is_never_removed(kept: Kept):
    kept.flush()
    (lost,) = manifests.forget_generations(kept.path, kept.region, 3)[2:]
    for hours in (1, 1000):
        report = kept.clean(CleanPolicy(0, 0, 1), hours=hours)
    assert (kept.path / "_mem_wal" / kept.region / lost).exists()
    assert any("generation 3 is neither merged nor listed" in one.reason for one in report.kept)


def test_other_directories_are_none_of_our_business(kept: Kept):
    others = ["backup", "0123abcd_gen_0", "0123ABCD_gen_1", "0123abcd_gen_1.old", "0123abcde_gen_1"]
    for one in others:
        (kept.path / "_mem_wal" / kept.region / one).mkdir()
    (kept.path / "_mem_wal" / "no-region" / "0123abcd_gen_1").mkdir(parents=True)
    for hours in (1, 1000):
        kept.clean(hours=hours)
    assert all((kept.path / "_mem_wal" / kept.region / one).exists() for one in others)
    assert (kept.path / "_mem_wal" / "no-region" / "0123abcd_gen_1").exists()


# Manifests


def test_manifests_are_emptied_once_no_version_is_read_by_them(kept: Kept):
    newest = manifests.newest_version(kept.path, kept.region)
    assert not of(kept.find(CleanPolicy()), Kind.MANIFESTS), "all versions are kept"
    kept.clean()
    sizes = {
        version: manifests.manifest_path(kept.path, kept.region, version).stat().st_size
        for version in range(1, newest + 2)
    }
    emptied = [version for version, size in sizes.items() if not size]
    assert emptied == list(range(1, emptied[-1] + 1))
    assert emptied[-1] < newest - 1
    assert not of(kept.find(), Kind.MANIFESTS)


@pytest.mark.parametrize("hint", ['{"version":1}', '{"version":2}', "", None])
def test_an_old_hint_or_none_leads_to_the_newest_manifest(
    kept: Kept, root: Path, open_engine: Open, hint: str | None
):
    """As whoever was stopped before it wrote its hint leaves it, and storage that fails to read it."""
    kept.clean()
    epoch = manifests.read_manifest(kept.path, kept.region).writer_epoch
    path = manifests.manifest_path(kept.path, kept.region, 1).with_name("version_hint.json")
    path.unlink()
    if hint is not None:
        path.write_text(hint)
    kept.check(open_engine(root))
    assert clean(kept.lake).garbage == ()
    kept.put({3: "on"})
    kept.flush()
    kept.table.process.open(kept.path, kept.region).close()
    assert manifests.read_manifest(kept.path, kept.region).writer_epoch == epoch + 1
    kept.check(open_engine(root))


def test_a_commit_of_an_old_manifest_is_refused_however_late(kept: Kept):
    storage = kept.lake.storage
    stopped = read_latest_manifest(storage, kept.region)
    assert stopped is not None
    for value in "ab":
        kept.generation(value)
    kept.merge(6)
    kept.clean()
    assert not manifests.manifest_path(kept.path, kept.region, stopped.version + 1).stat().st_size
    assert not commit_manifest(storage, replace(stopped, version=stopped.version + 1))
    assert not commit_manifest(storage, replace(stopped, version=1))


def test_a_region_whose_manifests_were_removed_by_hand_is_left_alone(kept: Kept):
    kept.flush()
    newest = manifests.newest_version(kept.path, kept.region)
    manifests.manifest_path(kept.path, kept.region, newest - 1).unlink()
    hint = manifests.manifest_path(kept.path, kept.region, 1).with_name("version_hint.json")
    hint.write_text('{"version":2}')
    with pytest.raises(PreconditionError, match=rf"{kept.region}.*version {newest}.*version_hint.json"):
        kept.clean()


# What is left behind


def test_drafts_go_when_they_are_old(kept: Kept):
    region = kept.path / "_mem_wal" / kept.region
    drafts = [
        region / "wal" / f"{'0' * 64}.arrow.tmp.5ba3e2d4-1111-2222-3333-444455556666",
        region / "manifest" / f"{'0' * 64}.binpb.tmp.5ba3e2d4-1111-2222-3333-444455556666",
        region / "manifest" / "version_hint.json#1",
    ]
    for one in drafts:
        one.write_bytes(b"half")
    kept.clean(hours=0)
    assert all(one.exists() for one in drafts)
    kept.clean()
    assert not any(one.exists() for one in drafts)


def test_records_of_former_owners_go(kept: Kept):
    epoch = manifests.read_manifest(kept.path, kept.region).writer_epoch
    storage = kept.lake.storage
    for one in (epoch - 1, epoch):
        write_owner(storage, kept.region, OwnerRecord(one, "grpc://a", "w", 1.0))
    kept.clean()
    (left,) = (kept.path / "_gateway" / "owners" / kept.region).iterdir()
    assert json.loads(left.read_bytes())["epoch"] == epoch


def test_the_newest_marker_of_a_stream_stays_and_others_for_a_day(kept: Kept):
    storage = kept.lake.storage
    for one in ("stream/0", "stream/9", "stream/10", "once-5ba3e2d4/0"):
        storage.put(f"_gateway/ingest/{one}.done", b"")

    def markers() -> set[str]:
        return {one.name for one in storage.files("_gateway/ingest")}

    kept.clean(hours=23)
    assert len(markers()) == 4
    kept.clean(hours=25)
    assert markers() == {"stream/10.done"}


# What is asked for


def test_only_what_was_found_is_removed_and_only_if_it_is_garbage_still(kept: Kept):
    garbage = find(kept.lake, NEWEST_ONLY, clock=later())
    log = [one for one in garbage if one.kind is Kind.LOG]
    (first, *_) = log
    removed = remove(kept.lake, [replace(first, last=first.first + 1, files=2)], NEWEST_ONLY, clock=later())
    assert [(one.first, one.last) for one in removed] == [(first.first, first.first + 1)]
    assert kept.listed() == [1, 2, 3]
    kept.table.dataset().tags.create("kept", 3)
    removed = remove(kept.lake, garbage, NEWEST_ONLY, clock=later())
    assert not any(one.kind is Kind.GENERATIONS for one in removed), "a tag holds them since"
    assert 3 in [one["version"] for one in kept.table.dataset().versions()]
    assert remove(kept.lake, [], NEWEST_ONLY) == ()


def test_kinds_are_chosen(kept: Kept):
    for kind in Kind:
        report = kept.find(replace(NEWEST_ONLY, kinds=(kind,)))
        assert {one.kind for one in report.garbage} <= {kind}


def test_policies_that_can_not_be_are_refused():
    for made in (
        lambda: CleanPolicy(-1),
        lambda: CleanPolicy(older_than_seconds=-1),
        lambda: CleanPolicy(retain_versions=0),
        lambda: CleanPolicy(kinds=()),
    ):
        with pytest.raises(InvalidInputError):
            made()


def test_a_table_without_mem_wal_is_refused(root: Path):
    lance.write_dataset(pa.table({"a": [1]}), root / "plain.lance")
    with pytest.raises(PreconditionError, match="'plain' has no MemWAL"):
        clean(Lake.open(str(root)).table("plain"))


def test_a_table_that_nobody_has_written_to_has_no_garbage(root: Path, writers: WriterProcess):
    LsmTable.create(root, "new", SCHEMA.empty_table(), unpartitioned(("id",), 1), writers)
    Storage.open(str(root)).put("new.lance/_mem_wal/6b1f8ce2-7a43-4a39-9d3f-3f3f6e1f0c55/wal/x", b"")
    assert not find(Lake.open(str(root)).table("new"), clock=later())


def test_the_command_lists_by_default_and_removes_when_told(kept: Kept, root: Path):
    cli = CliRunner()
    listed = cli.invoke(app, ["clean", "t", "--root", str(root), "--grace", "0s", "--retain-versions", "1"])
    assert listed.exit_code == 0, listed.output
    assert "generation 1 is merged" in listed.output
    assert "would be removed; --delete removes them" in listed.output
    assert kept.listed() == [1, 2, 3]
    options = ["--root", str(root), "--grace", "0s", "--retain-versions", "1", "--delete", "--json"]
    done = json.loads(cli.invoke(app, ["clean", *options]).output)
    assert done["removed"]
    assert {one["kind"] for one in done["garbage"]} >= {"versions", "generations", "log"}
    assert kept.listed() == [3]
    for wrong, said in (
        (["--grace", "soon"], "--grace: pipeline.clean.grace = 'soon': it is no duration"),
        (["--kind", "wals"], "wals"),
        (["--retain-versions", "0"], "0 versions can't be retained"),
    ):
        failed = cli.invoke(app, ["clean", "--root", str(root), *wrong])
        assert failed.exit_code == 1
        assert said in failed.stderr


@pytest.mark.usefixtures("kept")
def test_one_table_does_not_keep_the_others_from_their_turn(root: Path):
    lance.write_dataset(pa.table({"a": [1]}), root / "a_plain.lance")
    lance.write_dataset(pa.table({"a": [1]}), root / "b_broken.lance")
    (version,) = (root / "b_broken.lance" / "_versions").glob("*.manifest")
    version.write_bytes(b"broken")
    cli = CliRunner()
    done = cli.invoke(app, ["clean", "--root", str(root)])
    assert done.exit_code == 1
    assert "t: " in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "b_broken" in line
    asked = cli.invoke(app, ["clean", "a_plain", "--root", str(root)])
    assert asked.exit_code == 1
    assert "'a_plain' has no MemWAL" in asked.stderr
