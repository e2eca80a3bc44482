"""Statements that were prepared before are found again, for as long as they mean the same."""

from datetime import UTC, datetime
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import NotFoundError, PreconditionError, UnavailableError
from lance_gateway.planner.access.rights import FullAccess
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.tables.state.catalog import Catalog


@pytest.fixture
def root(tmp_path: Path) -> Path:
    lance.write_dataset(pa.table({"id": [1, 2], "name": ["a", "b"]}), tmp_path / "people.lance")
    (tmp_path / "names.view.sql").write_text("SELECT name FROM people")
    return tmp_path


@pytest.fixture
def engine(root: Path) -> QueryEngine:
    return QueryEngine(Catalog.open(str(root)))


def rows(engine: QueryEngine, sql: str) -> list[dict[str, object]]:
    return engine.prepare(sql).execute().read_all().to_pylist()


@pytest.mark.parametrize(
    "sql", ["SELECT 1", "SELECT * FROM people", "SELECT * FROM names", "EXPLAIN SELECT 1"]
)
def test_a_statement_is_planned_once(engine: QueryEngine, sql: str) -> None:
    assert engine.prepare(sql) is engine.prepare(sql)


def test_settings_and_principals_have_plans_of_their_own(engine: QueryEngine) -> None:
    plans = {
        engine.prepare("SELECT 1"),
        engine.prepare("SELECT 1", SessionSettings(consistency="flushed")),
        engine.prepare("SELECT 1", access=FullAccess("ada")),
        engine.prepare("SELECT 1", access=FullAccess("ada")),
    }
    assert len(plans) == 4


def test_what_lists_tables_lists_those_of_its_run(engine: QueryEngine, root: Path) -> None:
    count = "SELECT count(*) AS n FROM information_schema.tables WHERE table_schema = 'main'"
    assert rows(engine, count) == [{"n": 2}]
    lance.write_dataset(pa.table({"id": [1]}), root / "more.lance")
    assert rows(engine, count) == [{"n": 3}]


def test_a_plan_that_lists_tables_lists_those_of_its_run(engine: QueryEngine, root: Path) -> None:
    plan = engine.prepare("SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'")
    assert plan.execute().read_all().num_rows == 2
    lance.write_dataset(pa.table({"id": [1]}), root / "more.lance")
    assert plan.execute().read_all().num_rows == 3


def test_new_rows_keep_the_plan_and_new_columns_do_not(engine: QueryEngine, root: Path) -> None:
    plan = engine.prepare("SELECT * FROM people")
    dataset = lance.dataset(root / "people.lance")
    dataset.insert(pa.table({"id": [3], "name": ["c"]}))
    assert engine.prepare("SELECT * FROM people") is plan
    assert plan.execute().read_all().num_rows == 3
    dataset.add_columns({"twice": "id * 2"})
    again = engine.prepare("SELECT * FROM people")
    assert again.schema.names == ["id", "name", "twice"]
    assert again.execute().read_all().column("twice").to_pylist() == [2, 4, 6]


def test_a_view_that_was_changed_is_read_anew(engine: QueryEngine, root: Path) -> None:
    assert rows(engine, "SELECT * FROM names") == [{"name": "a"}, {"name": "b"}]
    (root / "names.view.sql").write_text("SELECT id AS name FROM people")
    assert rows(engine, "SELECT * FROM names") == [{"name": 1}, {"name": 2}]
    (root / "names.view.sql").unlink()
    with pytest.raises(NotFoundError):
        engine.prepare("SELECT * FROM names")


@pytest.mark.slow
def test_long_statements_leave_sooner(engine: QueryEngine) -> None:
    short, long = "SELECT id FROM people", f"SELECT id FROM people -- {'x' * 3_000_000}"
    plan = engine.prepare(short)
    assert engine.prepare(short) is plan
    assert engine.prepare(long) is engine.prepare(long)
    engine.prepare(f"{long} again")
    assert engine.prepare(short) is not plan


@pytest.mark.slow
def test_a_statement_that_is_too_long_to_be_kept_runs(engine: QueryEngine) -> None:
    sql = f"SELECT id FROM people -- {'x' * 5_000_000}"
    plan = engine.prepare(sql)
    again = engine.prepare(sql, promised=plan.digest)
    assert again is not plan
    assert again.execute().read_all().num_rows == 2


def test_a_promise_about_a_view_does_not_keep_what_the_view_said(engine: QueryEngine, root: Path) -> None:
    sql = "SELECT count(*) AS n FROM names"
    promised = engine.prepare(sql).digest
    (root / "names.view.sql").write_text("SELECT name FROM people WHERE id = 1")
    assert engine.prepare(sql, promised=promised).execute().read_all().to_pylist() == [{"n": 1}]
    (root / "names.view.sql").write_text("SELECT 'one' AS name")
    assert engine.prepare(sql, promised=promised).execute().read_all().to_pylist() == [{"n": 1}]
    (root / "names.view.sql").unlink()
    with pytest.raises(NotFoundError):
        engine.prepare(sql, promised=promised)


def test_a_promise_is_kept_or_broken_loudly(engine: QueryEngine, root: Path) -> None:
    plan = engine.prepare("SELECT * FROM people")
    assert engine.prepare("SELECT * FROM people", promised=plan.digest) is plan
    lance.dataset(root / "people.lance").add_columns({"twice": "id * 2"})
    elsewhere = QueryEngine(Catalog.open(str(root)))
    with pytest.raises(PreconditionError, match="prepare it again"):
        elsewhere.prepare("SELECT * FROM people", promised=plan.digest)


def test_a_promise_about_a_column_that_is_gone_is_broken_loudly(root: Path, engine: QueryEngine) -> None:
    plan = engine.prepare("SELECT id FROM people WHERE name = 'a'")
    lance.dataset(root / "people.lance").drop_columns(["name"])
    elsewhere = QueryEngine(Catalog.open(str(root)))
    with pytest.raises(PreconditionError, match="prepare it again"):
        elsewhere.prepare(plan.sql, promised=plan.digest)


@pytest.mark.parametrize(
    "sql", ["SELECT 1 AS a", "SELECT 'x' AS a WHERE 1 = 0", "SELECT 1 AS a UNION ALL SELECT 2 ORDER BY a"]
)
def test_constants_are_computed_once(engine: QueryEngine, sql: str) -> None:
    first = rows(engine, sql)
    assert [rows(engine, sql) for _ in range(3)] == [first] * 3


@pytest.mark.parametrize(
    "sql",
    ["SELECT random() AS a", "SELECT now() AS a", "SELECT current_timestamp AS a", "SELECT uuid() AS a"],
)
def test_what_changes_by_itself_is_computed_every_time(engine: QueryEngine, sql: str) -> None:
    found = {str(rows(engine, sql)) for _ in range(4)}
    assert len(found) == 4


@pytest.mark.parametrize(
    "call",
    [
        "rand()",
        '"random"()',
        "UUID()",
        "now()",
        "Current_Timestamp",
        "current_date",
        "today()",
        "current_time",
    ],
)
def test_what_changes_by_itself_is_neither_kept_nor_divided(engine: QueryEngine, call: str) -> None:
    plan = engine.prepare(f"SELECT {call} AS a")
    plan.execute().read_all()
    assert plan.constant is None
    assert engine.prepare(f"SELECT id FROM people WHERE '1' <> CAST({call} AS TEXT)").parts(2) is None
    assert engine.prepare("SELECT id FROM people").parts(2) is not None


def test_a_statement_knows_the_time_of_its_run_not_of_its_preparation(
    engine: QueryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = engine.prepare("SELECT now() AS a")
    prepared_at = pa.scalar(datetime.now(UTC).replace(tzinfo=None), pa.timestamp("ns"))
    monkeypatch.setattr("lance_gateway.planner.plans.forms.planned_frame.MAX_PLAN_SECONDS", 0.0)
    told = plan.execute().read_all().column("a")[0]
    assert told.value > prepared_at.value


@pytest.mark.parametrize(
    "sql", ["SELECT name FROM people", "SELECT id FROM names, people WHERE people.name = $1"]
)
def test_a_column_that_is_gone_since_a_run_is_told(engine: QueryEngine, root: Path, sql: str) -> None:
    prepared = engine.prepare(sql)
    values = [pa.scalar("a")] * sql.count("$")
    for _ in range(2):
        assert prepared.execute(values).read_all().num_rows == 2
    lance.dataset(root / "people.lance").drop_columns(["name"])
    with pytest.raises(PreconditionError, match="because a table was altered: prepare it again"):
        prepared.execute(values).read_all()


def test_a_column_that_was_renamed_since_it_was_planned_is_told(engine: QueryEngine, root: Path) -> None:
    prepared = engine.prepare("SELECT name FROM people")
    lance.dataset(root / "people.lance").alter_columns({"path": "name", "name": "renamed"})
    # What preparing has planned is run, unless a while has passed since.
    with pytest.raises((PreconditionError, UnavailableError), match=r"altered|prepare"):
        prepared.execute().read_all()
