"""CREATE TABLE .. CLONE: rows, rules, options and indexes of the source, and nothing that ties the two."""

from typing import Any

import lance
import pytest

from lance_gateway.memwal.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedError
from lance_gateway.planner.access.rights import TableAccess
from tests.planner.writes.ddl.versions.test_restore import merge_all
from tests.support.judging.principals import ALL, Principal

Sql = Any


@pytest.fixture
def source(sql: Sql) -> Sql:
    """Table t: rows 1 and 2 are merged (tag 'old'), row 3 is in the log."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, s TEXT NOT NULL DEFAULT 'none' COMMENT 'a word', n INT, "
        "v FLOAT[2], CONSTRAINT small CHECK (n < 100)) "
        "WITH (region_by = 'bucket(id, 4)', max_memtable_rows = 5000) COMMENT 'words'"
    )
    sql("INSERT INTO t VALUES (1, 'one', 1, [1, 0]), (2, 'two', NULL, [0, 1])")
    merge_all(sql)
    sql("CREATE INDEX n_idx ON t USING BITMAP (n)")
    sql("CREATE INDEX words ON t USING FTS (s) WITH (stem = false, with_position = true)")
    sql("CREATE INDEX near ON t USING IVF_FLAT (v) WITH (metric = 'cosine', num_partitions = 1)")
    sql("CREATE INDEX pair ON t (n, s)")
    sql("CREATE TAG old ON t")
    sql("INSERT INTO t VALUES (3, 'three', 3, [1, 1])")
    return sql


def indexes(sql: Sql, name: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    found = lance.dataset(sql.root / f"{name}.lance").describe_indices()
    return {
        one.name: (one.index_type, tuple(one.field_names)) for one in found if one.name != "__lance_mem_wal"
    }


@pytest.mark.parametrize("form", ["CLONE t", "DEEP CLONE main.t", "CLONE t VERSION AS OF 'old'"])
def test_a_clone_has_the_rows_rules_options_and_indexes(source: Sql, form: str) -> None:
    rows = [(1, "one", 1), (2, "two", None), (3, "three", 3)]
    expected = rows[:2] if "old" in form else rows
    assert source(f"CREATE TABLE c {form}") == len(expected)
    assert source("SELECT id, s, n FROM c ORDER BY id") == expected
    for table in ("system.columns", "system.constraints"):
        of_each = [source(f"SELECT * FROM {table} WHERE table_name = '{name}'") for name in ("c", "t")]
        assert str(of_each[0]).replace("'c'", "'t'").replace("c_pkey", "t_pkey") == str(of_each[1])
    assert source("SELECT comment FROM system.tables WHERE table_name = 'c'") == [("words",)]
    # That of the key as well, which a table has once it has rows.
    assert indexes(source, "c") == {**indexes(source, "t"), "id_idx": ("BTree", ("id",))}
    text = next(one for one in source.dataset("c").describe_indices() if one.name == "words").details
    assert (text["stem"], text["with_position"]) == (False, True)
    near = next(one for one in source.dataset("c").describe_indices() if one.name == "near").details
    assert near["metric_type"] == "COSINE"
    details, of_source = source.details("c"), source.details("t")
    assert details.region_specs == of_source.region_specs
    assert details.writer_config_defaults == of_source.writer_config_defaults == {"max_memtable_rows": "5000"}
    assert details.merged_generations == {}
    source("DROP INDEX pair ON c")
    assert "pair_n" not in indexes(source, "c")


def test_a_clone_goes_on_without_its_source(source: Sql) -> None:
    source("CREATE TABLE c CLONE t")
    source("INSERT INTO c (id) VALUES (9)")
    source("DROP TABLE t")
    assert source("SELECT id, s FROM c ORDER BY id") == [(1, "one"), (2, "two"), (3, "three"), (9, "none")]
    assert source.dataset("c").count_rows("id < 4") == 3
    with pytest.raises(InvalidInputError, match="small"):
        source("INSERT INTO c (id, n) VALUES (10, 100)")


def test_a_branch_becomes_a_table(source: Sql) -> None:
    source("CREATE BRANCH b ON t FROM VERSION AS OF 'old'")
    source("CREATE OR REPLACE TABLE c CLONE t FOR VERSION AS OF 'b' WITH (region_by = 'unsharded')")
    assert source("SELECT count(*) FROM c") == [(2,)]
    assert source.details("c").region_specs[-1].fields[0].transform == "unsharded"


def test_tables_without_a_key_or_a_mem_wal_are_cloned_as_such(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT) WITH (memwal = false)")
    sql("INSERT INTO t VALUES (1), (1), (NULL)")
    sql("CREATE TABLE c CLONE t")
    assert sql("SELECT count(*) FROM c") == [(3,)]
    assert list(sql.dataset("c").describe_indices()) == []


def test_keys_that_never_move_and_lists_of_indexes_are_kept(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, s TEXT) WITH (region_by = 'identity(s)', "
        "keys_never_move = true, maintained_indexes = '')"
    )
    sql("INSERT INTO t VALUES (1, 'a')")
    sql("CREATE TABLE c CLONE t")
    assert not sql.details("c").maintain_all_indexes
    assert sql.details("c").region_specs == sql.details("t").region_specs


def test_a_clone_shows_what_its_maker_sees(source: Sql) -> None:
    access = TableAccess(row_filter="id < 3", masks={"n": "0"})
    source("CREATE TABLE c CLONE t", Principal({"t": access, "c": ALL}, writes=frozenset({"c"})))
    assert source("SELECT id, n FROM c ORDER BY id") == [(1, 0), (2, 0)]
    assert "n_idx" not in indexes(source, "c")


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("CREATE TABLE c SHALLOW CLONE t", UnsupportedError, "CREATE BRANCH shares files and keeps them"),
        ("CREATE TABLE c CLONE nope", NotFoundError, "'nope' does not exist"),
        ("CREATE TABLE c CLONE t VERSION AS OF 'nope'", NotFoundError, "has no tag 'nope'"),
        ("CREATE TABLE t CLONE t", AlreadyExistsError, "'t' exists already"),
        ("CREATE TABLE c CLONE t AS SELECT 1", InvalidInputError, "SELECT"),
    ],
)
def test_what_is_wrong_is_named(source: Sql, statement: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        source(statement)


def test_a_clone_that_is_there_is_left(source: Sql) -> None:
    source("CREATE TABLE c CLONE t")
    source("DELETE FROM c")
    source("CREATE TABLE IF NOT EXISTS c CLONE t")
    assert source("SELECT count(*) FROM c") == [(0,)]
