"""RESTORE TABLE: what it gives back, to whom, beside whom, and what it refuses."""

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UnavailableError,
)
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.memwal.writing.region import region_writer
from lance_gateway.memwal.writing.region.claim import Claim
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging import merge
from lance_gateway.planner.access.rights import TableAccess
from tests.support.judging.principals import create_principal
from tests.support.sampling import sample

Sql = Any
READ = "SELECT id, s FROM t ORDER BY id"


def flush(sql: Sql, name: str = "t") -> None:
    sql.engine.catalog.table(TableName(name)).writer().flush()


def merge_all(sql: Sql, name: str = "t") -> int:
    """Merge what was flushed; return the version of the base table."""
    flush(sql, name)
    merge(LakeTable.at(str(sql.root / f"{name}.lance")))
    version: int = sql.dataset(name).version
    return version


@pytest.fixture
def table(sql: Sql) -> Sql:
    """Table t of four regions, whose tag 'first' has rows 1 to 3; then each kind of change."""
    sql("CREATE TABLE t (id INT PRIMARY KEY, s TEXT) WITH (region_by = 'bucket(id, 4)')")
    sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    merge_all(sql)
    sql("CREATE TAG first ON t")
    sql("UPDATE t SET s = 'z' WHERE id = 1")
    sql("DELETE FROM t WHERE id = 3")
    sql("INSERT INTO t VALUES (4, 'd')")
    return sql


FIRST = [(1, "a"), (2, "b"), (3, None)]


@pytest.mark.parametrize("merged", [False, True])
def test_the_rows_of_a_former_state_are_back_for_every_reader(
    table: Sql, open_gateway: Callable[[Path], Sql], *, merged: bool
) -> None:
    if merged:
        merge_all(table)
    details = table.details("t")
    assert table("RESTORE TABLE t TO TAG 'first'") == 3
    assert table(READ) == open_gateway(table.root)(READ) == FIRST
    # Nothing is undone of what was merged, so no reader takes a merged generation for a fresh one.
    assert table.details("t").merged_generations == details.merged_generations
    merge_all(table)
    assert sorted(map(tuple, map(dict.values, table.dataset("t").to_table().to_pylist()))) == FIRST
    assert table("RESTORE TABLE t TO TAG 'first'") == 0


def test_a_state_is_named_in_every_way(table: Sql) -> None:
    version = table.dataset("t").tags.list()["first"]["version"]
    moment = table(f"SELECT committed_at FROM system.versions WHERE version = {version}")[0][0]
    for state in (
        f"VERSION {version}",
        f"VERSION AS OF {version}",
        "VERSION AS OF 'first'",
        "TAG 'first'",
        f"TIMESTAMP '{moment}'",
        f"TIMESTAMP AS OF '{moment}'",
        f"TIMESTAMP AS OF (TIMESTAMP '{moment}' + INTERVAL '0 s')",
    ):
        table("INSERT INTO t VALUES (9, 'i')")
        table(f"RESTORE main.t TO {state}")
        assert table(READ) == FIRST, state


def test_what_was_flushed_and_not_merged_then_comes_back(table: Sql) -> None:
    flush(table)
    version = table.dataset("t").version
    sets_comment = "COMMENT ON TABLE t IS 'a version with flushed generations on top'"
    table(sets_comment)
    version, before = table.dataset("t").version, table(READ)
    table("TRUNCATE t")
    merge_all(table)
    table(f"RESTORE TABLE t TO VERSION {version}")
    assert table(READ) == before == [(1, "z"), (2, "b"), (4, "d")]


def test_changes_show_it_and_it_can_be_undone(table: Sql) -> None:
    merge_all(table)
    table("CREATE TAG second ON t")
    table("RESTORE TABLE t TO TAG 'first'")
    changes = table(
        "SELECT id, s, _change FROM lance_changes('t', since => 'second') ORDER BY id, _change DESC"
    )
    assert changes == [
        (1, "z", "update_before"),
        (1, "a", "update_after"),
        (3, None, "insert"),
        (4, "d", "delete"),
    ]
    table("RESTORE TABLE t TO TAG 'second'")
    assert table(READ) == [(1, "z"), (2, "b"), (4, "d")]


def test_a_writer_of_another_gateway_comes_wholly_before_or_after(
    table: Sql, open_gateway: Callable[[Path], Sql]
) -> None:
    other = open_gateway(table.root)
    acknowledged: list[int] = []
    failures: list[Exception] = []

    def insert() -> None:
        try:
            for number in range(100, 130):
                other(f"INSERT INTO t VALUES ({number}, 'new')")
                acknowledged.append(number)
        except Exception as error:  # noqa: BLE001 - told to the test
            failures.append(error)

    thread = threading.Thread(target=insert)
    thread.start()
    for _ in range(5):
        table("RESTORE TABLE t TO TAG 'first'")
    before = len(acknowledged)
    thread.join()
    assert not failures
    # One was perhaps being written when the last of them ended; those after it began later.
    later = {(number, "new") for number in acknowledged[before + 1 :]}
    found = table(READ)
    assert later <= set(found)
    assert [row for row in found if row[1] != "new"] == FIRST


@pytest.mark.parametrize("appends", [0, 1, 2])
def test_one_that_ends_between_regions_is_finished_by_another(
    table: Sql, open_gateway: Callable[[Path], Sql], monkeypatch: pytest.MonkeyPatch, appends: int
) -> None:
    lock, made = threading.Lock(), []

    def fail_after(append: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            with lock:
                if len(made) == appends:
                    raise UnavailableError("storage is gone")
                made.append(append)
            return append(*arguments, **named)

        return call

    table("INSERT INTO t VALUES (5, 'e'), (6, 'f'), (7, 'g'), (8, 'h'), (9, 'i'), (10, 'j')")
    with monkeypatch.context() as patch:
        patch.setattr(Claim, "append", fail_after(Claim.append))
        atomically = region_writer.append_atomically
        patch.setattr(region_writer, "append_atomically", fail_after(atomically))
        with pytest.raises(LanceGatewayError, match="storage is gone"):
            table("RESTORE TABLE t TO TAG 'first'")
    other = open_gateway(table.root)
    assert other(READ) != FIRST
    assert other("RESTORE TABLE t TO TAG 'first'") > 0
    assert table(READ) == other(READ) == FIRST


@pytest.mark.parametrize("seed", sample(range(4), 1))
def test_any_remembered_state_comes_back(sql: Sql, seed: int) -> None:
    """States of a random history with flushes and merges, and restores among the writes, against a dict."""
    rng = random.Random(seed)
    sql("CREATE TABLE t (id INT PRIMARY KEY, s TEXT) WITH (region_by = 'bucket(id, 3)')")
    rows: dict[int, str | None] = {}
    remembered: dict[int, dict[int, str | None]] = {}
    for step in range(40):
        match rng.choice(("put", "put", "delete", "flush", "merge", "restore")):
            case "put":
                for key in rng.sample(range(20), 4):
                    rows[key] = rng.choice([None, f"s{step}"])
                    sql(f"INSERT INTO t VALUES ({key}, {'NULL' if rows[key] is None else repr(rows[key])})")
            case "delete":
                for key in rng.sample(range(20), 4):
                    rows.pop(key, None)
                    sql(f"DELETE FROM t WHERE id = {key}")
            case "flush":
                # Of the rows of a version, those count that were flushed when it was committed.
                flush(sql)
                sql(f"COMMENT ON TABLE t IS 'step {step}'")
                remembered[sql.dataset("t").version] = dict(rows)
            case "merge":
                remembered[merge_all(sql)] = dict(rows)
            case "restore" if remembered:
                version = rng.choice(list(remembered))
                sql(f"RESTORE TABLE t TO VERSION {version}")
                rows = dict(remembered[version])
        assert sql(READ) == sorted(rows.items()), step


def test_a_table_without_a_key_is_restored_in_one_commit(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT, s TEXT) WITH (memwal = true)")
    sql("INSERT INTO t VALUES (1, 'a'), (1, 'a'), (NULL, 'b')")
    sql("DELETE FROM t WHERE s = 'c'")  # Moves rows to the base table.
    version = sql.dataset("t").version
    sql("INSERT INTO t VALUES (5, 'e')")
    sql("UPDATE t SET s = 'z' WHERE id = 1")
    sql("ALTER TABLE t RENAME COLUMN s TO text")
    sql(f"RESTORE TABLE t TO VERSION {version}")
    assert sql("SELECT id, text FROM t ORDER BY id") == [(1, "a"), (1, "a"), (None, "b")]
    assert sql.dataset("t").count_rows() == 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("ADD COLUMN x INT", "column 'x' was added since"),
        ("DROP COLUMN s", "column 's' was dropped since"),
    ],
)
def test_a_state_with_other_columns_is_refused(table: Sql, change: str, reason: str) -> None:
    table(f"ALTER TABLE t {change}")
    with pytest.raises(PreconditionError, match=f"'t' can't be restored to version .*{reason}. Read it with"):
        table("RESTORE TABLE t TO TAG 'first'")
    assert table("SELECT count(*) FROM t") == [(3,)]


def test_a_rule_that_came_later_refuses_rows_that_violate_it(table: Sql) -> None:
    table("UPDATE t SET s = 'none' WHERE s IS NULL")
    table("ALTER TABLE t ALTER COLUMN s SET NOT NULL")
    with pytest.raises(InvalidInputError, match="'s'"):
        table("RESTORE TABLE t TO TAG 'first'")
    assert table("SELECT count(*) FROM t") == [(3,)]


def test_a_row_that_was_made_anew_in_another_region_is_named(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, s TEXT) WITH (region_by = 'identity(s)', keys_never_move = true)"
    )
    sql("INSERT INTO t VALUES (1, 'a')")
    version = merge_all(sql)
    sql("DELETE FROM t WHERE id = 1")
    sql("INSERT INTO t VALUES (1, 'b')")
    with pytest.raises(
        PreconditionError, match="the row with id = 1 was recreated with another value of 's'"
    ):
        sql(f"RESTORE TABLE t TO VERSION {version}")
    assert sql(READ) == [(1, "b")]


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("RESTORE TABLE t TO VERSION 99", NotFoundError, "'t' has no version 99"),
        ("RESTORE TABLE t TO TAG 'nope'", NotFoundError, "'t' has no tag 'nope'"),
        ("RESTORE TABLE nope TO TAG 'first'", NotFoundError, "'nope' does not exist"),
        ("RESTORE TABLE t", InvalidInputError, "TO is expected"),
        ("RESTORE TABLE t TO 3", InvalidInputError, r"VERSION \[AS OF\] n, TAG 'name'"),
        ("RESTORE TABLE t TO TAG 3", InvalidInputError, r"VERSION \[AS OF\] n, TAG 'name'"),
        ("RESTORE TABLE t TO VERSION ?", InvalidInputError, "VERSION"),
        ("RESTORE TABLE t TO VERSION 2 WHERE id = 1", InvalidInputError, "WHERE"),
    ],
)
def test_what_is_wrong_is_named(table: Sql, statement: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        table(statement)


def test_it_is_for_those_who_may_write(table: Sql) -> None:
    with pytest.raises(PermissionDeniedError, match="may not write to table 't'"):
        table("RESTORE TABLE t TO TAG 'first'", create_principal(t=TableAccess()))
    assert table("SELECT count(*) FROM t") == [(3,)]


def test_a_table_written_by_lance_alone_is_restored(sql: Sql) -> None:
    rows = pa.table({"id": [1, 2], "s": ["a", "b"]})
    lance.write_dataset(rows, sql.root / "t.lance")
    lance.write_dataset(rows, sql.root / "t.lance", mode="append")
    sql("RESTORE TABLE t TO VERSION 1")
    assert sql.dataset("t").to_table() == rows
