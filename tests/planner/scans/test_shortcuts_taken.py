"""Each shortcut is taken where it is on and not where it is off, and the answer is the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.execnodes import ExecNode
from lance_gateway.execnodes.search.knn import KnnExec
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.planner.access.rights import FULL_ACCESS, Access, TableAccess
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import PreparedQuery, QueryEngine
from lance_gateway.planner.plans import prepared_query
from lance_gateway.planner.plans.dataframes import Frames
from lance_gateway.planner.scans import query_run, run_tables
from lance_gateway.planner.scans.settings import DEFAULT_SETTINGS, NO_SHORTCUTS, SessionSettings, Shortcut
from lance_gateway.planner.search.conditions.row_admission import Admission
from lance_gateway.planner.search.search_scan import SearchScan
from lance_gateway.planner.tables.state import log_reader
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.visibility import key_search, visibility
from lance_gateway.planner.writes.dml.prepared_write import PreparedChange
from lance_gateway.planner.writes.dml.reading.key_rows import KeyRows
from tests.planner.search.policy.policy_lake import Lake
from tests.support.judging.principals import create_principal
from tests.support.processes.writer_process import WriterProcess

SOMEBODY = create_principal(
    docs=TableAccess(
        row_filter="tenant = 'a' AND note <> 'x'",
        masks={"pages": "pages % 5"},
        hidden_columns=frozenset({"secret"}),
    )
)
NEAR = "[0.5, 0.5, 0.5, 0.5]"
SEARCH = f"lance_vector_search('docs', 'vec', {NEAR}, k => 7)"


@dataclass
class Watched:
    """What a run of a statement did."""

    calls: Counter[str] = field(default_factory=Counter)
    control: RunControl = field(default_factory=RunControl)
    columns_found: int = 0

    def trees(self) -> Iterator[ExecNode]:
        waiting = [scan.planned_tree for scan in self.control.scans if scan.planned_tree is not None]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children()


Watch = Callable[[QueryEngine, str, SessionSettings, Access], tuple[Watched, list[Any]]]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Iterator[QueryEngine]:
    lake = Lake(tmp_path_factory.mktemp("shortcuts"), shared_writers)
    yield lake.engine
    lake.engine.close()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often some functions, which do what they always do, were called."""
    counted: Counter[str] = Counter()

    def count(owner: Any, name: str, called: str) -> None:
        original = getattr(owner, name)

        def counting(*args: Any, **more: Any) -> Any:
            counted[called] += 1
            return original(*args, **more)

        monkeypatch.setattr(owner, name, counting)

    count(prepared_query, "stream_batches", "DataFusion runs")
    count(prepared_query, "plain_system_rows", "system rows")
    count(Frames, "plan", "plans")
    count(query_run, "plan_lookup", "lookups")
    for module in (key_search, run_tables):
        count(module, "read_physical_keys", "keys of fragments")
    for module in (visibility, key_search):
        count(module, "find_rows", "keys of fragments")
    count(log_reader, "read_wal_entry", "log entries")
    count(Admission, "_scan_source", "conditions evaluated")
    return counted


@pytest.fixture
def watch(calls: Counter[str]) -> Watch:
    def run(
        engine: QueryEngine, sql: str, settings: SessionSettings, access: Access
    ) -> tuple[Watched, list[Any]]:
        """The third run: what can be kept is kept by then."""
        for _ in range(2):
            engine.prepare(sql, settings, access).execute().read_all()
        calls.clear()
        columns = engine.catalog.caches["columns"]
        watched, found = Watched(), columns.hits
        rows = engine.prepare(sql, settings, access).execute((), settings, watched.control).read_all()
        watched.calls, watched.columns_found = calls.copy(), columns.hits - found
        return watched, _rows(rows)

    return run


def _rows(answer: pa.Table) -> list[Any]:
    """In any order, numbers to five digits."""
    rows = [
        tuple(float(f"{one:.5g}") if isinstance(one, float) else one for one in row.values())
        for row in answer.to_pylist()
    ]
    return sorted(rows, key=repr)


READS: dict[Shortcut, tuple[str, Callable[[Watched], bool]]] = {
    Shortcut.DIRECT_SCANS: (
        "SELECT id, pages FROM docs WHERE pages > 2",
        lambda did: not did.calls["DataFusion runs"],
    ),
    Shortcut.DIRECT_COUNTS: (
        "SELECT count(*) FROM docs WHERE pages > 2",
        lambda did: not did.calls["DataFusion runs"],
    ),
    Shortcut.DIRECT_SEARCHES: (f"SELECT id FROM {SEARCH}", lambda did: not did.calls["plans"]),
    Shortcut.DIRECT_SYSTEM_SCANS: (
        "SELECT table_name FROM system.tables",
        lambda did: not did.calls["DataFusion runs"],
    ),
    Shortcut.KEY_QUERIES: (
        "SELECT id, body FROM docs WHERE id = 12",
        lambda did: not any(scan.reference for scan in did.control.scans),
    ),
    Shortcut.KEY_LOOKUPS: (
        "SELECT id, pages FROM docs WHERE id IN (1, 2, 9, 13) AND pages >= 0",
        lambda did: did.calls["lookups"] > 0,
    ),
    Shortcut.CONSTANTS: ("SELECT 1 + 1 AS two", lambda did: not did.calls["plans"]),
    Shortcut.KEPT_PLANS: ("SELECT upper(body) FROM docs", lambda did: not did.calls["plans"]),
    Shortcut.KEPT_COLUMNS: ("SELECT id, body FROM docs", lambda did: did.columns_found > 0),
    Shortcut.KEPT_MASKS: ("SELECT id, title FROM docs", lambda did: not did.calls["keys of fragments"]),
    Shortcut.KEPT_STATE: ("SELECT id, note FROM docs", lambda did: not did.calls["log entries"]),
    Shortcut.REGION_PRUNING: (
        "SELECT id, pages FROM docs WHERE id = 9 AND pages >= 0",
        lambda did: all(one.regions_kept < one.regions for one in did.control.reads),
    ),
    Shortcut.PUSHDOWN: (
        "SELECT id FROM docs WHERE pages > 2 AND title LIKE 'T%'",
        lambda did: all(scan.expression is not None for scan in did.control.scans),
    ),
    Shortcut.SEARCH_INDEXES: (
        f"SELECT id, _distance FROM {SEARCH}",
        lambda did: any(isinstance(node, KnnExec) and node.index is not None for node in did.trees()),
    ),
    Shortcut.KEPT_SEARCHES: (
        f"SELECT id FROM {SEARCH} WHERE title = 'T1'",
        lambda did: not did.calls["conditions evaluated"],
    ),
    Shortcut.NEAREST_ORDER: (
        f"SELECT id FROM docs ORDER BY vec <-> '{NEAR}' LIMIT 5",
        lambda did: any(isinstance(scan, SearchScan) for scan in did.control.scans),
    ),
}
"""Statements, and how one tells that they took the shortcut."""
ELSEWHERE = {
    Shortcut.PARTS,
    Shortcut.KEPT_WRITES,
    Shortcut.LITERAL_VALUES,
    Shortcut.WRITE_LOOKUPS,
    Shortcut.RESIDENT_TABLES,
    Shortcut.JOIN_KEYS,
    Shortcut.SHARED_ROWS,
}
"""Shortcuts that other tests are about: of this module, `tests/planner/plans/test_resident_tables.py`, and
`tests/planner/scans/changes/test_calls.py`."""


def test_every_shortcut_has_a_test():
    assert READS.keys() | ELSEWHERE == set(Shortcut)
    assert not READS.keys() & ELSEWHERE


def _without(*shortcuts: Shortcut) -> SessionSettings:
    return replace(DEFAULT_SETTINGS, shortcuts=DEFAULT_SETTINGS.shortcuts.difference(shortcuts))


LONG_WAY = replace(DEFAULT_SETTINGS, shortcuts=NO_SHORTCUTS)


@pytest.mark.slow
@pytest.mark.parametrize("access", [FULL_ACCESS, SOMEBODY], ids=["everything", "restricted"])
@pytest.mark.parametrize("shortcut", READS)
def test_it_is_taken_where_it_is_on_alone(
    engine: QueryEngine, watch: Watch, shortcut: Shortcut, access: Access
):
    sql, is_taken = READS[shortcut]
    with_it, answer = watch(engine, sql, DEFAULT_SETTINGS, access)
    assert is_taken(with_it), with_it.calls
    without_it, other = watch(engine, sql, _without(shortcut), access)
    assert not is_taken(without_it), without_it.calls
    without_any, plain = watch(engine, sql, LONG_WAY, access)
    assert not is_taken(without_any), without_any.calls
    assert answer == other == plain
    assert answer


QUERIES = [
    "SELECT * FROM docs",
    "SELECT count(*), sum(pages), min(id) FROM docs",
    "SELECT a.id, b.id FROM docs a JOIN docs b ON a.pages = b.id WHERE a.title = 'T1'",
    "SELECT id FROM docs WHERE id = 51 OR id = 6",
    "SELECT id, _score FROM lance_fts('docs', 'body', 'stream merge', k => 9)",
    f"SELECT id FROM lance_hybrid_search('docs', 'vec', {NEAR}, 'body', 'stream', k => 9)",
    "SELECT id FROM docs FOR VERSION AS OF 2 WHERE pages < 9",
]


@pytest.mark.slow
@pytest.mark.parametrize("access", [FULL_ACCESS, SOMEBODY], ids=["everything", "restricted"])
@pytest.mark.parametrize("level", ["strong", "snapshot"])
@pytest.mark.parametrize("sql", QUERIES)
def test_answers_are_the_same_without_any(engine: QueryEngine, sql: str, level: Any, access: Access):
    if access is SOMEBODY:
        sql = sql.replace("*)", "1)").replace("SELECT *", "SELECT id, pages, body")
    answers = [
        _rows(engine.prepare(sql, replace(one, consistency=level), access).execute().read_all())
        for one in (DEFAULT_SETTINGS, LONG_WAY)
    ]
    assert answers[0] == answers[1]
    assert answers[0]


def test_results_are_divided_where_that_is_on(engine: QueryEngine):
    sql = "SELECT id, pages FROM docs"
    expected = _rows(engine.execute(sql, LONG_WAY).read_all())
    for settings in (DEFAULT_SETTINGS, _without(Shortcut.KEPT_STATE), _without(Shortcut.KEPT_COLUMNS)):
        divided = engine.prepare(sql, settings)
        offer = divided.parts(3)
        assert offer is not None
        assert (
            _rows(pa.concat_tables(divided.execute_part(one).read_all() for one in offer.parts)) == expected
        )
    for settings in (_without(Shortcut.PARTS), _without(Shortcut.PUSHDOWN), LONG_WAY):
        assert engine.prepare(sql, settings).parts(3) is None


@pytest.mark.slow
def test_runs_leave_nothing_in_caches_that_they_may_not_use(tmp_path: Path, writers: WriterProcess):
    lake = Lake(tmp_path / "fresh", writers)
    lake.engine.close()
    engine = QueryEngine(Catalog.open(str(lake.root)))
    caches = engine.catalog.caches
    for settings, unused in (
        (LONG_WAY, ["rows", "columns"]),
        (_without(Shortcut.KEPT_STATE), ["rows", "columns"]),
        (_without(Shortcut.KEPT_COLUMNS), ["columns"]),
    ):
        engine.execute("SELECT id, pages FROM docs", settings).read_all()
        engine.execute(f"SELECT id FROM {SEARCH} WHERE pages > 2", settings).read_all()
        assert [name for name, cache in caches.items() if not cache.nbytes] == unused
    engine.close()


# Writes


@pytest.fixture
def own(root: Path) -> Iterator[QueryEngine]:
    """An engine that writes a table itself."""
    engine = QueryEngine(Catalog.open(str(root), writing=WriteOptions(hold_ms=0)))
    _write(engine, "CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT, n INT, f DOUBLE)", DEFAULT_SETTINGS)
    _write(engine, "INSERT INTO t VALUES (1, 'a', 1, 1.5), (2, 'b', 2, NULL)", DEFAULT_SETTINGS)
    yield engine
    engine.close()


def _prepared(engine: QueryEngine, sql: str, settings: SessionSettings) -> Any:
    prepared = engine.prepare_statement(sql, settings)
    assert not isinstance(prepared, PreparedQuery)
    return prepared


def _write(engine: QueryEngine, sql: str, settings: SessionSettings) -> int:
    return int(_prepared(engine, sql, settings).execute().affected)


def _all(engine: QueryEngine, settings: SessionSettings = DEFAULT_SETTINGS) -> list[Any]:
    return _rows(engine.execute("SELECT * FROM t", settings).read_all())


def test_what_this_process_wrote_is_read_from_the_log(own: QueryEngine, calls: Counter[str]):
    rows = _all(own)
    assert not calls["log entries"]
    assert _all(own, _without(Shortcut.KEPT_STATE)) == rows
    assert calls["log entries"] == 1


@pytest.mark.slow
def test_a_strong_read_of_the_log_has_rows_that_are_not_durable_yet(own: QueryEngine):
    relaxed = replace(DEFAULT_SETTINGS, durable_writes=False)
    for number in range(20):
        _write(own, f"INSERT INTO t VALUES ({number}, 'r{number}', 0, 0)", relaxed)
        assert (number, f"r{number}", 0, 0.0) in _all(own, LONG_WAY)


def test_checked_writes_are_kept(own: QueryEngine):
    sql = "INSERT INTO t (id, name) VALUES ($1, $2)"
    assert _prepared(own, sql, DEFAULT_SETTINGS) is _prepared(own, sql, DEFAULT_SETTINGS)
    for settings in (_without(Shortcut.KEPT_WRITES), LONG_WAY):
        assert _prepared(own, sql, settings) is not _prepared(own, sql, settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (3, 'it''s', -7, 2.25), (4, NULL, DEFAULT, 1e3)",
        "INSERT INTO t (id, f, name) VALUES (5, 12345678901234567890, X'41')",
        "UPDATE t SET name = 'new', n = 9, f = -3 WHERE n >= 0",
    ],
)
def test_literals_are_read_without_a_plan(own: QueryEngine, calls: Counter[str], sql: str):
    found = []
    for settings in (DEFAULT_SETTINGS, _without(Shortcut.LITERAL_VALUES), LONG_WAY):
        calls.clear()
        statement = _prepared(own, sql, settings)
        if sql.startswith("INSERT"):
            assert bool(calls["plans"]) is (Shortcut.LITERAL_VALUES not in settings.shortcuts)
        else:
            columns = statement.rows.read.prepared.schema.names
            assert ("set#name" in columns) is (Shortcut.LITERAL_VALUES not in settings.shortcuts)
        statement.execute()
        found.append(_all(own))
    assert found[0] == found[1] == found[2]


def test_rows_that_are_changed_are_looked_up(own: QueryEngine):
    sql = "UPDATE t SET n = n + 1 WHERE id = 2"
    for settings in (DEFAULT_SETTINGS, _without(Shortcut.WRITE_LOOKUPS), LONG_WAY):
        change = _prepared(own, sql, settings)
        assert isinstance(change, PreparedChange)
        assert isinstance(change.rows, KeyRows) is (Shortcut.WRITE_LOOKUPS in settings.shortcuts)
        assert change.execute().affected == 1
    assert (2, "b", 5, None) in _all(own)


def test_keys_that_conflict_are_looked_up(own: QueryEngine, calls: Counter[str]):
    for number, settings in enumerate((DEFAULT_SETTINGS, _without(Shortcut.WRITE_LOOKUPS), LONG_WAY)):
        calls.clear()
        sql = f"INSERT INTO t (id, n) VALUES (1, 0), ({10 + number}, 0) ON CONFLICT DO NOTHING"
        assert _write(own, sql, settings) == 1
        assert bool(calls["lookups"]) is (Shortcut.WRITE_LOOKUPS in settings.shortcuts)
        sql = "INSERT INTO t (id, n) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n"
        assert _write(own, sql, settings) == 1
    assert (1, "a", 16, 1.5) in _all(own)
