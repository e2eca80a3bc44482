"""Calls of `lance_changes`: what they show, to whom, how much they read, and what they refuse."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, NotFoundError, PreconditionError, UnsupportedError
from lance_gateway.planner.access.rights import FULL_ACCESS, Access, TableAccess
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.scans.settings import ALL_SHORTCUTS, NO_SHORTCUTS, Shortcut
from tests.support.judging.principals import create_principal
from tests.support.judging.results import rows_of
from tests.support.lake import manifests
from tests.support.lake.merging import clean_up_merged, merge_generations
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("v", pa.int64()),
        pa.field("tenant", pa.string()),
        pa.field("vec", pa.list_(pa.float32(), 2)),
        pa.field("more", pa.struct([("a", pa.list_(pa.float64()))])),
    ]
)
ROWS = 20_000
NEW = {"v": None, "tenant": "b", "vec": [1.0, float("nan")], "more": {"a": [None, 1.0]}}
"""Of what changes, so that nothing is left of the old row."""


def row(key: int, **values: Any) -> dict[str, Any]:
    old = {"v": key, "tenant": "a", "vec": [0.0, float("nan")], "more": {"a": [None]}}
    return {"id": key, **old, **values}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> LsmTable:
    """Version 2 has rows 0 to 19999; then 1000 to 1009 change, 2000 goes, 30000 comes; 1001 stays what it is.

    Half of it is merged, which deletes rows of the fragment, and 5 is written then, and is not flushed.
    """
    root = tmp_path_factory.mktemp("lake")
    rows = pa.Table.from_pylist([row(key) for key in range(ROWS)], schema=SCHEMA)
    table = LsmTable.create(root, "t", rows, bucketed("id", 2, recorded=True), shared_writers)
    table.dataset().tags.create("loaded", 2)
    table.put([row(key, **NEW) for key in range(1000, 1010) if key != 1001] + [row(1001), row(30_000)])
    table.delete([{"id": 2000}])
    table.close_writers()
    region = manifests.list_region_ids(table.path)[0]
    merge_generations(table.path, region, 1)
    table.put([row(5, tenant="b")])
    (root / "recent.view.sql").write_text("SELECT * FROM lance_changes('t', since => 'loaded')")
    return table


UPDATED = (5, 1000, *range(1002, 1010))
CHANGES = sorted(
    [(key, kind) for key in UPDATED for kind in ("update_after", "update_before")]
    + [(2000, "delete"), (30_000, "insert")]
)


@pytest.fixture
def engine(lake: LsmTable, open_engine: Callable[[Path], QueryEngine]) -> QueryEngine:
    return open_engine(lake.path.parent)


def read(
    engine: QueryEngine, sql: str, access: Access = FULL_ACCESS, **settings: Any
) -> list[tuple[Any, ...]]:
    prepared = engine.prepare(sql, SessionSettings(**settings), access)
    return sorted(rows_of(prepared.execute().read_all()))


class TestWhatChanged:
    @pytest.mark.parametrize(
        "shortcuts", [ALL_SHORTCUTS, NO_SHORTCUTS, ALL_SHORTCUTS - {Shortcut.SHARED_ROWS}]
    )
    def test_each_row_at_most_once_whatever_its_types(self, engine: QueryEngine, shortcuts: Any) -> None:
        sql = "SELECT id, _change FROM lance_changes('t', since => 2, mode => 'net')"
        assert read(engine, sql, shortcuts=shortcuts) == CHANGES

    def test_duckdb_finds_the_same_in_both_states(self, engine: QueryEngine) -> None:
        before = engine.execute("SELECT id, v, tenant FROM t FOR VERSION AS OF 2").read_all()
        after = engine.execute("SELECT id, v, tenant FROM t").read_all()
        with duckdb.connect() as judge:
            judge.register("before", before)
            judge.register("after", after)
            gone, come = (
                sorted(judge.execute(f"SELECT * FROM {one} EXCEPT SELECT * FROM {other}").fetchall())
                for one, other in (("before", "after"), ("after", "before"))
            )
        found = "SELECT id, v, tenant FROM lance_changes('t', since => 2) WHERE _change IN {}"
        assert read(engine, found.format("('delete', 'update_before')")) == gone
        assert read(engine, found.format("('insert', 'update_after')")) == come

    def test_nothing_happened_between_a_state_and_itself(self, engine: QueryEngine) -> None:
        assert read(engine, "SELECT * FROM lance_changes('t', since => 2, until => 2)") == []

    def test_a_token_has_the_rows_that_are_not_flushed(self, engine: QueryEngine) -> None:
        ((token,),) = set(read(engine, "SELECT _position FROM lance_changes('t', since => 2)"))
        assert read(engine, f"SELECT * FROM lance_changes('t', since => '{token}')") == []
        until = f"SELECT id, _change FROM lance_changes('t', since => 'loaded', until => '{token}')"
        assert read(engine, until) == CHANGES
        assert read(engine, "SELECT id, _change FROM lance_changes('t', since => now())") == []

    def test_only_flushed_rows_at_that_consistency(self, engine: QueryEngine) -> None:
        sql = "SELECT count(*) FROM lance_changes('t', since => 2) WHERE id = 5"
        assert read(engine, sql, consistency="flushed") == [(0,)]


class TestAsATable:
    def test_it_is_filtered_joined_and_counted(self, engine: QueryEngine) -> None:
        joined = """
            SELECT c.id, c.v, t.tenant FROM lance_changes('t', since => 2) AS c JOIN t ON t.id = c.id
            WHERE c._change = 'update_before' AND c.v BETWEEN 1002 AND 1003
        """
        assert read(engine, joined) == [(1002, 1002, "b"), (1003, 1003, "b")]
        counted = "WITH c AS (SELECT * FROM lance_changes('t', since => 2)) SELECT count(*), max(id) FROM c"
        assert read(engine, counted) == [(len(CHANGES), 30_000)]
        assert read(engine, "SELECT count(*) FROM recent") == [(len(CHANGES),)]
        outside = "SELECT count(*) FROM t WHERE id IN (SELECT id FROM lance_changes('t', since => 2))"
        assert read(engine, outside) == [(11,)]

    @pytest.mark.parametrize("key", [5, 1000, 1001, 1003, 2000, 30_000, 40_000])
    def test_conditions_on_the_key_reach_both_states(self, engine: QueryEngine, key: int) -> None:
        sql = f"SELECT id, _change FROM lance_changes('t', since => 2) WHERE id = {key}"
        assert read(engine, sql) == [one for one in CHANGES if one[0] == key]
        plan = engine.execute(f"EXPLAIN {sql}").read_all().column("plan")[-1].as_py()
        assert len(re.findall(rf"filter_expr=\(id == {key}\)", plan)) == 4
        assert "regions=1/2" in plan

    def test_no_more_rows_are_read_than_changed(self, engine: QueryEngine) -> None:
        sql = "EXPLAIN ANALYZE SELECT * FROM lance_changes('t', since => 2)"
        plan = engine.execute(sql).read_all().column("plan")[-1].as_py()
        read_rows = [int(rows) for rows in re.findall(r"ScanExec:.*output_rows=(\d+)", plan)]
        assert read_rows
        assert sum(read_rows) <= 4 * len(CHANGES)

    def test_a_condition_on_the_token(self, engine: QueryEngine) -> None:
        sql = "SELECT count(*) FROM lance_changes('t', since => 2) WHERE _position LIKE '{}%'"
        assert read(engine, sql.format("lance-changes:1:")) == [(len(CHANGES),)]
        assert read(engine, sql.format("x")) == [(0,)]


class TestPositions:
    def test_the_token_of_now_and_of_former_states(self, engine: QueryEngine) -> None:
        ((now,),) = read(engine, "SELECT * FROM lance_position('t')")
        ((told,),) = set(read(engine, "SELECT _position FROM lance_changes('t', since => 2)"))
        assert now == told
        one = "SELECT _position FROM lance_changes('t', since => 2) WHERE id = {}"
        assert {row for key in UPDATED for row in read(engine, one.format(key))} == {(now,)}
        for state in ("2", "'loaded'", f"'{now}'"):
            ((token,),) = read(engine, f"SELECT p._position FROM lance_position('t', at => {state}) AS p")
            between = f"SELECT * FROM lance_changes('t', since => {state}, until => '{token}')"
            assert read(engine, between) == []
        beside = "SELECT count(*), max(_position) FROM t CROSS JOIN lance_position('t')"
        assert read(engine, beside) == [(ROWS, now)]

    @pytest.mark.parametrize("arguments", ["", "t", "'t', 2", "'t', until => 2", "'t', at => 2, at => 2"])
    def test_what_is_refused(self, engine: QueryEngine, arguments: str) -> None:
        with pytest.raises(InvalidInputError, match=r"as in lance_position\('orders', at => 12\)"):
            read(engine, f"SELECT * FROM lance_position({arguments})")

    def test_a_table_without_a_grant(self, engine: QueryEngine) -> None:
        with pytest.raises(NotFoundError, match="'t' does not exist"):
            read(engine, "SELECT * FROM lance_position('t')", create_principal())


class TestAccess:
    def test_rows_enter_and_leave_the_sight_of_a_row_filter(self, engine: QueryEngine) -> None:
        sql = "SELECT id, _change FROM lance_changes('t', since => 2) WHERE id < 2000"
        of_a, of_b = (create_principal(t=TableAccess(row_filter=f"tenant = '{one}'")) for one in "ab")
        keys = sorted({key for key, _ in CHANGES if key < 2000})
        assert read(engine, sql, of_a) == [(key, "delete") for key in keys]
        assert read(engine, sql, of_b) == [(key, "insert") for key in keys]

    def test_what_is_hidden_or_masked_does_not_change(self, engine: QueryEngine) -> None:
        hidden = create_principal(t=TableAccess(hidden_columns=frozenset({"tenant"})))
        sql = "SELECT count(*) FROM lance_changes('t', since => 2) WHERE id = 5"
        assert read(engine, sql, hidden) == [(0,)]
        with pytest.raises(InvalidInputError, match="tenant"):
            read(engine, "SELECT tenant FROM lance_changes('t', since => 2)", hidden)
        masked = create_principal(t=TableAccess(masks={"tenant": "'?'"}))
        assert read(engine, sql, masked) == [(0,)]
        shown = "SELECT DISTINCT tenant FROM lance_changes('t', since => 2)"
        assert read(engine, shown, masked) == [("?",)]

    def test_without_a_grant_or_a_key_there_is_nothing(self, engine: QueryEngine) -> None:
        sql = "SELECT * FROM lance_changes('t', since => 2)"
        with pytest.raises(NotFoundError, match="'t' does not exist"):
            read(engine, sql, create_principal())
        with pytest.raises(UnsupportedError, match="compared by their primary key, and table 't' shows none"):
            read(engine, sql, create_principal(t=TableAccess(hidden_columns=frozenset({"id"}))))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ("'t'", InvalidInputError, r"needs since: lance_changes\('orders', since => 12\)"),
        ("'t', 2", InvalidInputError, "arguments behind the table have names"),
        ("t, since => 2", InvalidInputError, "the table is named by a string"),
        ("'nothing', since => 2", NotFoundError, "'nothing' does not exist"),
        ("'recent', since => 2", InvalidInputError, "reads tables, and 'recent' is none"),
        ("'t', sinse => 2", InvalidInputError, "no option 'sinse'; did you mean since"),
        ("'t', since => 2, since => 3", InvalidInputError, "since is given twice"),
        ("'t', since => 2 until => 3", InvalidInputError, "found: until"),
        ("'t', since => $1", InvalidInputError, "a constant: write it into the text"),
        ("'t', since => 77", NotFoundError, "has no version 77"),
        ("'t', since => 'gone'", NotFoundError, "has no tag 'gone'; it has 'loaded'"),
        ("'t', since => TIMESTAMP '1999-01-01'", NotFoundError, "the oldest version that is kept is 1"),
        ("'t', since => 3, until => 2", InvalidInputError, "came after that of until.*: exchange them"),
        ("'t', since => 2, mode => 'some'", InvalidInputError, "mode is 'net' or 'all'"),
        (
            "'t', since => 'lance-changes:2:CgF0'",
            InvalidInputError,
            "format 2, and this gateway reads format 1",
        ),
        ("'t', since => 'lance-changes:1:CgF'", InvalidInputError, "is not a token of a state"),
        ("'t', since => 'lance-changes:1:?'", InvalidInputError, "is not a token of a state"),
        ("'t', since => 'lance-changes:x'", InvalidInputError, "is not a token of a state"),
        ("'t', since => 'lance-changes:1:CgF1EAE'", InvalidInputError, "is of table 'u', and not of 't'"),
        (
            "'t', since => 'lance-changes:1:CgF0EAI'",
            PreconditionError,
            "oldest version that is left is 1",
        ),
    ],
)
def test_what_is_refused(engine: QueryEngine, arguments: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read(engine, f"SELECT * FROM lance_changes({arguments})")


@pytest.fixture
def small(root: Path, writers: WriterProcess) -> LsmTable:
    schema = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int32()), pa.field("w", pa.string())])
    rows = pa.Table.from_pylist([{"id": key, "v": key, "w": "x"} for key in range(4)], schema=schema)
    return LsmTable.create(root, "t", rows, bucketed("id", 2, recorded=True), writers)


def test_columns_are_those_of_the_newer_state_whatever_their_names_were(
    small: LsmTable, open_engine: Callable[[Path], QueryEngine]
) -> None:
    small.dataset().alter_columns({"path": "v", "name": "value"})
    small.dataset().drop_columns(["w"])
    small.dataset().add_columns(pa.schema([pa.field("extra", pa.string())]))
    engine = open_engine(small.path.parent)
    sql = "SELECT * FROM lance_changes('t', since => 2) ORDER BY id, _change DESC"
    assert engine.execute(sql).read_all().num_rows == 0
    small.put([{"id": 1, "value": 40, "extra": "new"}])
    found = engine.execute(sql).read_all()
    assert found.schema.names == ["id", "value", "extra", "_change", "_position", "_changed_at"]
    assert [tuple(one.values())[:4] for one in found.to_pylist()] == [
        (1, 1, None, "update_before"),
        (1, 40, "new", "update_after"),
    ]
    before = engine.execute("SELECT * FROM lance_changes('t', since => 1, until => 2)").read_all()
    assert before.schema.names[:3] == ["id", "v", "w"]


def test_a_column_that_took_the_name_of_another_is_another(
    small: LsmTable, open_engine: Callable[[Path], QueryEngine]
) -> None:
    engine = open_engine(small.path.parent)
    small.put([{"id": 1, "v": 7, "w": "y"}])
    sql = "SELECT _change, v, w FROM lance_changes('t', since => 2)"
    assert read(engine, sql) == [("update_after", 7, "y"), ("update_before", 1, "x")]
    small.dataset().drop_columns(["w"])
    small.dataset().add_columns(pa.schema([pa.field("w", pa.string())]))
    assert read(engine, sql) == [("update_after", 7, None), ("update_before", 1, None)]


def test_a_fragment_that_got_values_of_a_new_column_has_changed(
    root: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    schema = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64())])
    dataset = lance.write_dataset(pa.table([[0, 1], [None, 1]], schema=schema), root / "t.lance")
    dataset.add_columns({"doubled": "v * 2"})
    sql = "SELECT id, _change, doubled FROM lance_changes('t', since => 1)"
    assert read(open_engine(root), sql) == [(1, "update_after", 2), (1, "update_before", None)]


def test_an_open_state_whose_files_were_cleaned_up(
    small: LsmTable, open_engine: Callable[[Path], QueryEngine]
) -> None:
    engine = open_engine(small.path.parent)
    version = small.dataset().version
    sql = f"SELECT count(*) FROM lance_changes('t', since => {version})"
    assert read(engine, sql) == [(0,)]
    rows = pa.Table.from_pylist(
        [{"id": key, "v": -1, "w": "z"} for key in range(4)], schema=small.dataset().schema
    )
    upsert = small.dataset().merge_insert(["id"]).when_matched_update_all()
    upsert.when_not_matched_insert_all().execute(rows)
    assert read(engine, sql) == [(8,)]
    small.dataset().cleanup_old_versions(retain_versions=1)
    with pytest.raises(PreconditionError, match="files of this state were cleaned up"):
        read(engine, sql)


def test_a_token_ends_with_what_was_cleaned_up(
    small: LsmTable, open_engine: Callable[[Path], QueryEngine]
) -> None:
    small.put([{"id": 1, "v": 10, "w": "y"}])
    small.close_writers()
    engine = open_engine(small.path.parent)
    ((token,),) = set(read(engine, "SELECT _position FROM lance_changes('t', since => 2)"))
    since = f"SELECT id, v, _change FROM lance_changes('t', since => '{token}')"
    for region in manifests.list_region_ids(small.path):
        if manifests.read_manifest(small.path, region).flushed_generations:
            merge_generations(small.path, region, 1)
    assert read(engine, since) == []
    small.put([{"id": 1, "v": 11, "w": "y"}])
    assert read(engine, since) == [(1, 10, "update_before"), (1, 11, "update_after")]
    for region in manifests.read_merged_generations(small.path):
        clean_up_merged(small.path, region)
    other = open_engine(small.path.parent)
    with pytest.raises(PreconditionError, match=r"was cleaned up.*version that is left is 1.*since => 1"):
        read(other, since)


def test_tables_without_key_and_with_names_of_the_changes(
    root: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    lance.write_dataset(pa.table({"x": [1]}), root / "keyless.lance")
    lance.write_dataset(
        pa.table(
            [[1], ["x"]], schema=pa.schema([key_field("id", pa.int64()), pa.field("_change", pa.string())])
        ),
        root / "taken.lance",
    )
    engine = open_engine(root)
    with pytest.raises(UnsupportedError, match="table 'keyless' shows none"):
        read(engine, "SELECT * FROM lance_changes('keyless', since => 1)")
    with pytest.raises(InvalidInputError, match="table 'taken' has a column '_change'"):
        read(engine, "SELECT * FROM lance_changes('taken', since => 1)")
