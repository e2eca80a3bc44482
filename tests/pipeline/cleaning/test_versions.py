"""Versions of the base table: whichever is kept shows what it showed."""

import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import CorruptDataError, NotFoundError, PreconditionError, UnavailableError
from lance_gateway.pipeline.cleaning import CleanPolicy, CleanReport, Kind, versions
from lance_gateway.pipeline.cleaning.versions import (
    find_expired,
    find_old_versions,
    list_named_versions,
    remove_versions,
)
from tests.support.lake.cleaning import HOUR, NEWEST_ONLY, CleanedTable, Open, filter_kind, read_rows
from tests.support.processes.writer_process import WriterProcess


@pytest.mark.slow
def test_every_version_and_tag_that_is_kept_shows_what_it_showed(
    root: Path, writers: WriterProcess, open_engine: Open
):
    kept = CleanedTable.create(root, writers)
    for number in range(1, 6):
        kept.write_generation(f"g{number}")
        if number == 2:
            kept.table.dataset().update_config({"noted": "yes"})
            kept._record_state()
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
                assert read_rows(engine, f"t FOR VERSION AS OF {version}") == kept.versions[version], version
            assert read_rows(engine, "t FOR VERSION AS OF 'release'") == kept.versions[tagged]
    assert {name.rpartition("_")[2] for name in kept.list_generation_names()} == {"1", "2", "5"}, (
        "the tag's, and the newest"
    )
    kept.table.dataset().tags.delete("release")
    for hours in (1, 2):
        kept.clean(hours=hours)
    assert {name.rpartition("_")[2] for name in kept.list_generation_names()} == {"5"}


@pytest.mark.slow
def test_a_moment_whose_version_is_gone_is_refused_and_never_shown_in_part(
    root: Path, writers: WriterProcess, open_engine: Open
):
    kept = CleanedTable.create(root, writers)
    kept.table.dataset().tags.create("first", 2)
    moments = {}
    for number in range(1, 7):
        kept.write_generation(f"g{number}")
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
            shown = read_rows(open_engine(root), f"t FOR TIMESTAMP AS OF '{text}'")
        except (PreconditionError, NotFoundError):
            refused += 1
        else:
            assert shown == expected, text
    assert 0 < refused < len(moments)
    assert read_rows(open_engine(root), "t FOR VERSION AS OF 'first'") == kept.versions[2]


def test_versions_go_by_age_and_by_number_and_never_those_that_readers_have(kept: CleanedTable):
    def gone(policy: CleanPolicy, hours: float) -> list[int]:
        return [one.first for one in filter_kind(kept.find(policy, hours=hours), Kind.VERSIONS)]

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


def list_gone(report: CleanReport) -> list[int]:
    return [one.first for one in filter_kind(report, Kind.VERSIONS)]


def test_versions_that_a_branch_begins_with_stay_and_are_not_told_as_removed(kept: CleanedTable):
    dataset = kept.table.dataset()
    dataset.create_branch("trial", (None, 2))
    dataset.checkout_version(("trial", None)).create_branch("trial/more", ("trial", None))
    newest = dataset.version
    assert list_gone(kept.clean()) == [1, *range(3, newest)]
    assert list_gone(kept.clean()) == []
    assert [one["version"] for one in kept.table.dataset().versions()] == [2, newest]


def test_a_version_that_lance_keeps_is_not_told_as_removed(
    kept: CleanedTable, monkeypatch: pytest.MonkeyPatch
):
    kept.table.dataset().create_branch("trial", (None, 2))
    monkeypatch.setattr(versions, "_find_branches", lambda _: {})
    assert list_gone(kept.clean()) == [1, *range(3, kept.table.dataset().version)]


def test_bytes_are_those_that_come_free(kept: CleanedTable):
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


def test_versions_that_another_run_removed_meanwhile_are_left_out(kept: CleanedTable):
    table = kept.lake
    listed = list_named_versions(table)
    gone = find_expired(listed, NEWEST_ONLY, time.time_ns() // 1000 + 3_600_000_000)
    numbers = [one.number for one in gone]
    assert len(numbers) > 2
    remove_versions(table, numbers[:2])

    found = list(find_old_versions(table, listed, gone))
    assert sorted(one.first for one in found) == numbers[2:]
    # Neither are they missing among those that stay.
    assert [one.first for one in find_old_versions(table, listed, gone[-1:])] == numbers[-1:]


def test_a_version_that_is_there_and_cannot_be_read_is_told(kept: CleanedTable):
    table = kept.lake
    listed = list_named_versions(table)
    gone = find_expired(listed, NEWEST_ONLY, time.time_ns() // 1000 + 3_600_000_000)
    (manifest,) = (kept.path / "_versions").glob(f"{(1 << 64) - 1 - gone[0].number:020d}.manifest")
    manifest.write_bytes(b"torn")
    with pytest.raises(UnavailableError, match=f"table 't': version {gone[0].number} can't be read"):
        list(find_old_versions(table, listed, gone))
    with pytest.raises(CorruptDataError, match=f"version {gone[0].number} of the base table can't be read"):
        list_named_versions(table)
