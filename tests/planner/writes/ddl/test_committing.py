"""Changes of base tables that meet others on their way."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.base.versions import ATTEMPTS
from lance_gateway.memwal.creating.fields import change_fields, find_last_field_id
from lance_gateway.memwal.errors import AlreadyExistsError, PreconditionError, UnavailableError
from lance_gateway.planner.writes.ddl.statement import commit_change
from lance_gateway.planner.writes.ddl.tables.change_columns import AddColumn, ChangeColumns

Sql = Any


def append(path: Path) -> None:
    lance.write_dataset(pa.table({"n": pa.array([1], pa.int32())}), path, mode="append")


def compact(path: Path) -> None:
    append(path)
    append(path)
    lance.dataset(path).optimize.compact_files()


@pytest.mark.parametrize("other", [append, compact])
def test_a_change_that_another_came_before_is_done_on_top_of_it(sql: Sql, root: Path, other: Any) -> None:
    sql("CREATE TABLE t (n INT)")
    path = root / "t.lance"
    append(path)
    table = sql.engine.catalog.table("t")
    tries = []

    def change(dataset: Any) -> None:
        tries.append(dataset.version)
        schema = change_fields(dataset, [], [pa.field("m", pa.int32())], find_last_field_id(dataset))
        operation = lance.LanceOperation.Merge([one.metadata for one in dataset.get_fragments()], schema)
        if len(tries) == 1:
            other(path)
        lance.LanceDataset.commit(dataset, operation, read_version=dataset.version, max_retries=0)

    commit_change(table, "add a column", change)
    assert len(tries) == 2
    assert sql("SELECT count(*), count(m) FROM t") == [(sql.dataset("t").count_rows(), 0)]


def test_a_change_that_always_loses_is_given_up(sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_gateway.memwal.base.versions._LONGEST_PAUSE", 0.0)
    sql("CREATE TABLE t (n INT)")
    tries = []

    def change(dataset: Any) -> None:
        tries.append(dataset.version)
        message = "Retryable commit conflict for version 2"
        raise OSError(message)

    with pytest.raises(UnavailableError, match="another change came first; try again later"):
        commit_change(sql.engine.catalog.table("t"), "add a column", change)
    assert len(tries) == ATTEMPTS


def test_what_lance_refuses_is_told_in_one_line(sql: Sql) -> None:
    sql("CREATE TABLE t (n INT)")
    with pytest.raises(PreconditionError) as caught:
        commit_change(
            sql.engine.catalog.table("t"), "drop a column", lambda dataset: dataset.drop_columns(["missing"])
        )
    assert "can't drop a column of table 't'" in str(caught.value)
    assert ".rs" not in str(caught.value)


def test_of_two_columns_of_one_name_that_are_added_at_once_one_comes(sql: Sql) -> None:
    sql("CREATE TABLE t (n INT)")
    table = sql.engine.catalog.table("t")
    change = ChangeColumns((AddColumn(pa.field("m", pa.int32()), if_not_exists=False),))
    assert change.check(table)
    change.apply(table)
    with pytest.raises(AlreadyExistsError, match="has a column 'm' already"):
        change.apply(table)
    assert sql.dataset("t").schema.names == ["n", "m"]
