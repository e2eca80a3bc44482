"""A repeated statement is planned once; each execution reads the newest state, which an idle plan drops."""

import gc
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from weakref import ref

import pyarrow as pa
import pytest

from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import PreparedQuery, QueryEngine
from lance_gateway.planner.plans.dataframes import SMALL_ROWS, Frames
from lance_gateway.planner.scans.settings import ALL_SHORTCUTS, SessionSettings, Shortcut
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.writes.transactions.transaction import Transaction
from tests.support.judging.results import rows_of
from tests.support.processes.gateways import EAGER

STATEMENTS = {
    "a scan": "SELECT id, n FROM t WHERE n > 15",
    "a count": "SELECT count(*) FROM t WHERE n > 15",
    "groups": "SELECT s, sum(n) AS n FROM t GROUP BY s ORDER BY s",
    "a join with itself": "SELECT a.id, b.n FROM t AS a JOIN t AS b ON a.id = b.id AND b.n > 15 ORDER BY 1",
    "a join": "SELECT t.id, u.name FROM t JOIN u ON t.s = u.s WHERE t.n > 5 ORDER BY 1",
    "a subquery": "SELECT id FROM t WHERE n = (SELECT max(n) FROM t) AND s IN (SELECT s FROM u)",
    "a view": "SELECT * FROM large ORDER BY id",
    "a limit": "SELECT id FROM t ORDER BY n DESC LIMIT 2",
}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[QueryEngine]:
    opened = QueryEngine(Catalog.open(str(tmp_path), writing=EAGER))
    for sql in (
        "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT, s TEXT)",
        "CREATE TABLE u (s TEXT PRIMARY KEY, name TEXT)",
        "CREATE VIEW large AS SELECT id, n FROM t WHERE n > 15",
        "INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y')",
        "INSERT INTO u VALUES ('x', 'ex'), ('y', 'why')",
    ):
        write(opened, sql)
    yield opened
    opened.close()


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often statements are planned."""
    found: Counter[str] = Counter()
    plan = Frames.plan

    def note(frames: Frames, bound: object, *arguments: object, **options: object) -> object:
        found[bound.sql] += 1  # type: ignore[attr-defined]
        return plan(frames, bound, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Frames, "plan", note)
    return found


def write(engine: QueryEngine, sql: str) -> None:
    prepared = engine.prepare_statement(sql)
    assert not isinstance(prepared, PreparedQuery)
    prepared.execute()


def run_reused(engine: QueryEngine, sql: str) -> list[tuple[object, ...]]:
    return rows_of(engine.prepare(sql).execute().read_all())


def run_replanned(engine: QueryEngine, sql: str) -> list[tuple[object, ...]]:
    settings = SessionSettings(shortcuts=ALL_SHORTCUTS - {Shortcut.KEPT_PLANS})
    return rows_of(engine.prepare(sql, settings).execute().read_all())


@pytest.mark.parametrize("sql", STATEMENTS.values(), ids=STATEMENTS)
def test_each_run_reads_the_newest_state(engine: QueryEngine, plans: Counter[str], sql: str) -> None:
    before = run_reused(engine, sql)
    assert before == run_replanned(engine, sql)
    changes = (
        "UPDATE t SET n = 21, s = 'x' WHERE id = 2",
        "INSERT INTO t VALUES (3, 30, 'z')",
        "DELETE FROM t WHERE id = 1",
    )
    planned = plans[sql]
    answers = []
    for change in changes:
        write(engine, change)
        answers.append(run_reused(engine, sql))
    assert plans[sql] == planned
    engine.catalog.table("t").writer().flush()
    assert run_reused(engine, sql) == answers[-1] == run_replanned(engine, sql)
    assert answers[-1] != before


def test_what_has_parameters_has_the_values_of_its_run(engine: QueryEngine) -> None:
    prepared = engine.prepare("SELECT id FROM t WHERE n > $1 ORDER BY id", bound=[pa.int64()])
    answers = [rows_of(prepared.execute([pa.scalar(one)]).read_all()) for one in (5, 15, 25)]
    assert answers == [[(1,), (2,)], [(2,)], []]


def test_runs_at_the_same_time_have_plans_of_their_own(engine: QueryEngine) -> None:
    prepared = engine.prepare(STATEMENTS["a join with itself"])
    first = prepared.execute()
    assert first.read_next_batch().num_rows
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: rows_of(prepared.execute().read_all()), range(40)))
    assert answers == [[(2, 20)]] * 40


@pytest.mark.parametrize("sql", STATEMENTS.values(), ids=STATEMENTS)
def test_a_transaction_reads_its_own_rows_and_nobody_else_does(
    engine: QueryEngine, plans: Counter[str], sql: str
) -> None:
    before = run_reused(engine, sql)
    planned = plans[sql]
    transaction = Transaction(engine, 1 << 30)

    def within(statement: str) -> list[tuple[object, ...]]:
        control = RunControl()
        control.transaction = transaction
        prepared = engine.prepare_statement(statement)
        with transaction.statement():
            if isinstance(prepared, PreparedQuery):
                return rows_of(prepared.execute(control=control).read_all())
            prepared.execute((), control)
        return []

    assert within(sql) == before
    within("UPDATE t SET n = n + 40, s = 'y' WHERE id = 1")
    changed = within(sql)
    assert changed != before
    assert run_reused(engine, sql) == before
    assert within(sql) == changed
    assert plans[sql] == planned
    transaction.commit()
    assert run_reused(engine, sql) == changed


def test_a_plan_that_waits_holds_nothing_that_was_read(engine: QueryEngine) -> None:
    prepared, control = engine.prepare(STATEMENTS["groups"]), RunControl()
    prepared.execute(control=control).read_all()
    (run,) = control.runs
    last = ref(run)
    del run, control
    gc.collect()  # A run and its scans know each other.
    assert last() is None


def test_a_plan_over_tables_that_have_grown_is_made_anew(engine: QueryEngine, plans: Counter[str]) -> None:
    sql = STATEMENTS["groups"]
    run_reused(engine, sql)
    write(engine, f"INSERT INTO t SELECT value, 1, 'many' FROM generate_series(10, {SMALL_ROWS + 10})")
    # How many rows are fresh is known once they were read.
    assert [row[0] for row in run_reused(engine, sql)] == ["many", "x", "y"]
    planned = plans[sql]
    assert run_reused(engine, sql)[0] == ("many", SMALL_ROWS + 1)
    assert plans[sql] == planned + 1
    run_reused(engine, sql)
    assert plans[sql] == planned + 1


@pytest.mark.parametrize(
    "sql",
    ["SELECT id FROM t WHERE now() > TIMESTAMP '2020-01-01'", "SELECT table_name FROM system.tables"],
)
def test_what_depends_on_more_than_tables_is_planned_by_each_run(
    engine: QueryEngine, plans: Counter[str], sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lance_gateway.planner.plans.forms.planned_frame.MAX_PLAN_SECONDS", 0.0)
    for number in range(1, 4):
        run_reused(engine, sql)
        assert plans[sql] == number + 1
