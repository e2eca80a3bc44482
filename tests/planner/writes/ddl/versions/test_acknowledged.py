"""What was acknowledged is part of a tag and of a moment: in logs, generations and the base alike."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from lance_gateway.memwal.errors import PreconditionError, UnavailableError
from lance_gateway.memwal.writing import NotOwnerError, OwnershipPolicy, WriteOptions
from lance_gateway.pipeline.cleaning import CleanPolicy, clean
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging import merge
from lance_gateway.planner.writes.ddl.versions import tags
from tests.support.lake.moments import write_moment

Sql = Any
READ = "SELECT id, v FROM r {} ORDER BY id"
ROWS = [(1, "a"), (2, "b")]


@pytest.fixture(params=["", " WITH (region_by = 'bucket(id, 2)')"], ids=["one region", "two regions"])
def table(sql: Sql, request: pytest.FixtureRequest) -> Sql:
    """Table r with two rows in its log."""
    sql(f"CREATE TABLE r (id BIGINT PRIMARY KEY, v TEXT){request.param}")
    sql("INSERT INTO r VALUES (1, 'a'), (2, 'b')")
    return sql


def lake(sql: Sql) -> LakeTable:
    return LakeTable.at(str(sql.root / "r.lance"))


def change(sql: Sql) -> None:
    sql("UPDATE r SET v = 'x'")
    sql("DELETE FROM r WHERE id = 2")
    sql("INSERT INTO r VALUES (3, 'c')")


def test_a_tag_has_the_rows_of_the_log(table: Sql, open_gateway: Callable[..., Sql]) -> None:
    table("CREATE TAG before ON r")
    change(table)
    assert table(READ.format("VERSION AS OF 'before'")) == ROWS
    assert table("RESTORE TABLE r TO TAG 'before'") == 3
    assert table(READ.format("")) == open_gateway(table.root)(READ.format("")) == ROWS


def test_a_tag_keeps_its_rows_through_merges_and_cleaning(table: Sql) -> None:
    table("CREATE TAG before ON r")
    change(table)
    for _ in range(2):
        table("FLUSH TABLE r")
        merge(lake(table))
        clean(lake(table), CleanPolicy(grace_seconds=0, older_than_seconds=0), delete=True)
        assert table(READ.format("VERSION AS OF 'before'")) == ROWS
        table("INSERT INTO r VALUES (4, 'd')")
    table("RESTORE TABLE r TO TAG 'before'")
    assert table(READ.format("")) == ROWS


def test_each_of_several_tags_has_its_own_rows(table: Sql) -> None:
    expected = {}
    for number in range(4):
        table(f"INSERT INTO r VALUES ({number}, 'n{number}')")
        if number % 2:
            table("FLUSH TABLE r")
        table(f"CREATE OR REPLACE TAG t{number} ON r")
        expected[f"t{number}"] = table(READ.format(""))
    for tag, rows in expected.items():
        assert table(READ.format(f"VERSION AS OF '{tag}'")) == rows


def test_no_version_is_committed_where_the_newest_has_all_rows(table: Sql) -> None:
    table("CREATE TAG one ON r")
    version = table.dataset("r").version
    table("CREATE TAG two ON r")
    assert table.dataset("r").version == version
    table("CREATE TAG IF NOT EXISTS two ON r")
    assert {one["version"] for one in table.dataset("r").tags.list().values()} == {version}


def test_rows_that_another_process_left_are_part_of_a_tag(
    table: Sql, open_gateway: Callable[..., Sql]
) -> None:
    other = open_gateway(table.root)
    other("CREATE TAG before ON r")
    table("UPDATE r SET v = 'x'")
    assert table(READ.format("VERSION AS OF 'before'")) == ROWS


def test_a_tag_is_refused_where_rows_are_left_to_another_process(
    table: Sql, open_gateway: Callable[..., Sql]
) -> None:
    other = open_gateway(table.root, WriteOptions(ownership=OwnershipPolicy.REFUSE))
    with pytest.raises(NotOwnerError, match="leaves it so"):
        other("CREATE TAG before ON r")
    assert not table.dataset("r").tags.list()


def test_a_clock_of_storage_that_is_ahead_is_waited_for(table: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []
    pauses: list[float] = []
    lists_all = tags.lists_all

    def lists_all_at_last(*states: Any) -> bool:
        shown.append(1)
        return len(shown) > 2 and lists_all(*states)

    monkeypatch.setattr(tags, "lists_all", lists_all_at_last)
    monkeypatch.setattr(time, "sleep", pauses.append)
    table("CREATE TAG before ON r")
    assert len(pauses) >= 2
    monkeypatch.setattr(tags, "lists_all", lambda *_: False)
    with pytest.raises(UnavailableError, match="clock of its storage is more than 8 s ahead"):
        table("CREATE TAG never ON r")
    assert list(table.dataset("r").tags.list()) == ["before"]


def test_a_moment_has_the_rows_of_the_log(table: Sql) -> None:
    first = write_moment(table.root)
    change(table)
    second, rows = write_moment(table.root), table(READ.format(""))
    states = {first: ROWS, second: rows}
    for step in ("log", "flushed", "merged"):
        if step == "flushed":
            table("FLUSH TABLE r")
        elif step == "merged":
            merge(lake(table))
        for moment, expected in states.items():
            assert table(READ.format(f"TIMESTAMP AS OF {moment}")) == expected, step
    assert table(f"SELECT count(*) FROM lance_changes('r', since => {first}, until => {second})") == [(4,)]
    table(f"RESTORE TABLE r TO TIMESTAMP AS OF {first}")
    assert table(READ.format("")) == ROWS


def test_what_was_just_written_is_restored(table: Sql) -> None:
    table("RESTORE TABLE r TO TIMESTAMP AS OF now()")
    assert table(READ.format("")) == ROWS


def test_a_moment_whose_entries_are_cleaned_up_is_refused(table: Sql) -> None:
    first = write_moment(table.root)
    change(table)
    table("FLUSH TABLE r")
    merge(lake(table))
    last = write_moment(table.root)
    clean(lake(table), CleanPolicy(grace_seconds=0), delete=True)
    with pytest.raises(PreconditionError, match=r"cleaned up since.*FOR VERSION AS OF \d+ reads"):
        table(READ.format(f"TIMESTAMP AS OF {first}"))
    with pytest.raises(PreconditionError, match="no longer known"):
        table(f"RESTORE TABLE r TO TIMESTAMP AS OF {first}")
    assert table(READ.format(f"TIMESTAMP AS OF {last}")) == table(READ.format("")) == [(1, "x"), (3, "c")]


def test_a_token_is_a_version(table: Sql) -> None:
    ((token,),) = table("SELECT DISTINCT _position FROM lance_changes('r', since => 1)")
    change(table)
    for clause in (f"VERSION AS OF '{token}'", f"FOR VERSION AS OF '{token}'"):
        assert table(READ.format(clause)) == ROWS
    table(f"CREATE TABLE copy CLONE r VERSION AS OF '{token}'")
    assert table("SELECT id, v FROM copy ORDER BY id") == ROWS
    table(f"RESTORE TABLE r TO VERSION AS OF '{token}'")
    assert table(READ.format("")) == ROWS


@pytest.mark.parametrize("state", ["moment", "token"])
def test_a_state_with_fresh_rows_is_not_tagged(table: Sql, state: str) -> None:
    ((token,),) = table("SELECT DISTINCT _position FROM lance_changes('r', since => 1)")
    clause = (
        f"TIMESTAMP AS OF {write_moment(table.root)}" if state == "moment" else f"VERSION AS OF '{token}'"
    )
    with pytest.raises(PreconditionError, match=r"tag 'x' of table 'r' can't be created .* leave AS OF out"):
        table(f"CREATE TAG x ON r {clause}")
    with pytest.raises(PreconditionError, match="are not merged"):
        table(f"CREATE BRANCH x ON r FROM {clause}")
    table("CREATE TAG now ON r")
    table(f"CREATE TAG later ON r TIMESTAMP AS OF {write_moment(table.root)}")
    assert table(READ.format("VERSION AS OF 'later'")) == ROWS


def test_a_table_without_a_key_is_tagged_and_restored(sql: Sql) -> None:
    sql("CREATE TABLE u (n INT)")
    sql("INSERT INTO u VALUES (1), (1)")
    sql("CREATE TAG before ON u")
    sql("INSERT INTO u VALUES (2)")
    assert sql("SELECT n FROM u VERSION AS OF 'before'") == [(1,), (1,)]
    sql("RESTORE TABLE u TO TAG 'before'")
    assert sql("SELECT n FROM u") == [(1,), (1,)]
