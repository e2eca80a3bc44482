"""What was read last, as those learn who start later."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lance_gateway.planner.tables.shared.files import SharedFiles
from lance_gateway.planner.tables.shared.recent_reads import MAX_COLUMNS, MAX_TABLES, RecentReads, RecentTable

BUDGET = 1 << 20


@pytest.fixture
def files(tmp_path: Path) -> Iterator[SharedFiles]:
    found = SharedFiles(tmp_path / "shared", BUDGET)
    yield found
    found.close()


def test_the_last_table_and_the_last_columns_come_first(files: SharedFiles) -> None:
    reads = RecentReads("/lake", files)
    reads.note("orders", ("id", "price"))
    reads.note("people", None)
    reads.note("orders", ("price", "day"))
    reads.note("people", None)
    expected = (RecentTable("people"), RecentTable("orders", ("price", "day", "id")))
    assert reads.list_tables() == expected
    reads.save()
    assert RecentReads("/lake", files).list_tables() == expected
    assert RecentReads("/other", files).list_tables() == ()


def test_a_table_that_was_counted_and_then_looked_up_was_scanned() -> None:
    reads = RecentReads("/lake", None)
    reads.note("orders", ())
    reads.note("orders", None)
    assert reads.list_tables() == (RecentTable("orders", ()),)


def test_only_so_many_are_remembered(files: SharedFiles) -> None:
    reads = RecentReads("/lake", files)
    for number in range(MAX_TABLES + 1):
        reads.note(f"t{number}", [f"c{column}" for column in range(MAX_COLUMNS + 1)])
    reads.save()
    tables = RecentReads("/lake", files).list_tables()
    assert [one.name for one in tables] == [f"t{number}" for number in range(MAX_TABLES, 0, -1)]
    assert all(one.columns is not None and len(one.columns) == MAX_COLUMNS for one in tables)


def test_a_damaged_note_says_nothing(files: SharedFiles, tmp_path: Path) -> None:
    reads = RecentReads("/lake", files)
    reads.note("orders", ("id",))
    reads.save()
    (note,) = (tmp_path / "shared").glob("note-*")
    note.chmod(0o600)
    note.write_bytes(note.read_bytes()[:-8])
    assert RecentReads("/lake", files).list_tables() == ()


def test_a_note_is_no_value_and_takes_nothing_of_the_budget(files: SharedFiles, tmp_path: Path) -> None:
    reads = RecentReads("/lake", files)
    reads.note("orders", ("id",))
    reads.save()
    assert files.list_names() == frozenset()
    other = SharedFiles(tmp_path / "shared", BUDGET)  # which counts all files
    assert other.read_totals().nbytes == 0
    other.close()
    assert RecentReads("/lake", files).list_tables() == (RecentTable("orders", ("id",)),)
