"""Tables as they were: by version and tag as flushed, and by time with their logs, against replays."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, NotFoundError, PreconditionError, UnsupportedError
from lance_gateway.memwal.writing import Changes
from lance_gateway.planner.access.rights import FULL_ACCESS, Access, TableAccess
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.tables.state.past import past_tables
from tests.support.judging.principals import create_principal
from tests.support.judging.results import rows_of
from tests.support.lake import manifests
from tests.support.lake.merging import clean_up_merged, merge_generations
from tests.support.lake.moments import take_moment
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64())])
KEYS = 12


def rows(engine: QueryEngine, sql: str, access: Access = FULL_ACCESS) -> list[tuple[Any, ...]]:
    found = engine.prepare(sql, access=access).execute().read_all()
    return rows_of(found)


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def text(moment: int) -> str:
    """A moment as SQL takes it."""
    return str(pa.scalar(moment, pa.timestamp("us")).as_py())


@dataclass
class History:
    """A table, what was flushed of it at each of its versions, and what it had at some moments in between."""

    table: LsmTable
    flushed: dict[int, int]
    pending: dict[int, int | None] = field(default_factory=dict)
    versions: dict[int, dict[int, int]] = field(default_factory=dict)
    moments: dict[int, dict[int, int]] = field(default_factory=dict)

    @staticmethod
    def begin(root: Path, writers: WriterProcess) -> "History":
        base = dict.fromkeys(range(KEYS // 2), 0)
        made = LsmTable.create(
            root,
            "t",
            pa.table([list(base), list(base.values())], schema=SCHEMA),
            bucketed("id", 2, recorded=True),
            writers,
        )
        history = History(made, base)
        history.note()
        return history

    def put(self, values: dict[int, int]) -> None:
        self.table.put({"id": key, "v": value} for key, value in values.items())
        self.pending |= values

    def delete(self, *keys: int) -> None:
        self.table.delete({"id": key} for key in keys)
        self.pending |= dict.fromkeys(keys)

    def flush(self) -> None:
        self.table.close_writers()
        state = self.flushed | self.pending
        self.flushed = {key: value for key, value in state.items() if value is not None}
        self.pending = {}

    def merge(self, rng: random.Random) -> None:
        """Some generations of each region move into the base; what is flushed stays what it is."""
        merged = manifests.read_merged_generations(self.table.path)
        for region in manifests.list_region_ids(self.table.path):
            listed = manifests.read_manifest(self.table.path, region).flushed_generations
            unmerged = [one.generation for one in listed if one.generation > merged.get(region, 0)]
            if unmerged:
                merge_generations(self.table.path, region, rng.choice(unmerged))

    def note(self) -> None:
        """Take down what every version since the last note shows, and what this moment does."""
        newest = self.table.dataset().version
        for version in range(max(self.versions, default=0) + 1, newest + 1):
            self.versions[version] = dict(self.flushed)
        state = self.flushed | self.pending
        self.moments[take_moment(self.table.path.parent)] = {
            key: value for key, value in state.items() if value is not None
        }


@pytest.mark.slow
def test_every_version_and_moment_shows_what_it_had_then(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
) -> None:
    rng = random.Random(7)
    history = History.begin(root, writers)
    engine = open_engine(root)
    for number in range(1, 9):
        history.put(dict.fromkeys(rng.sample(range(KEYS), 4), number))
        history.delete(*rng.sample(range(KEYS), 2))
        history.note()
        if number % 4:
            history.flush()
            history.note()
        if number % 2:
            history.merge(rng)
            history.note()
        if number == 5:
            history.table.dataset().create_scalar_index("id", "BTREE")
            history.note()
        rows(engine, "SELECT count(*) FROM t")  # What is known of the newest state helps nobody astray.
    for clause, expected in [
        *((f"VERSION AS OF {version}", state) for version, state in history.versions.items()),
        *((f"TIMESTAMP AS OF '{text(moment)}'", state) for moment, state in history.moments.items()),
    ]:
        assert rows(engine, f"SELECT id, v FROM t FOR {clause} ORDER BY id") == sorted(expected.items()), (
            clause
        )
        assert rows(engine, f"SELECT count(*) FROM t FOR {clause}") == [(len(expected),)]
        key = rng.randrange(KEYS)
        found = [(expected[key],)] if key in expected else []
        assert rows(engine, f"SELECT v FROM t FOR {clause} WHERE id = {key}") == found
        assert rows(engine, f"SELECT count(*) FROM t FOR {clause} WHERE v = 1") == [
            (sum(value == 1 for value in expected.values()),)
        ]
    newest = {key: value for key, value in (history.flushed | history.pending).items() if value is not None}
    assert rows(engine, "SELECT id, v FROM t ORDER BY id") == sorted(newest.items())


@pytest.fixture
def history(root: Path, writers: WriterProcess) -> History:
    """Version 2 (tag "first") has the base; version 3 has what was flushed on top; then rows that are not."""
    made = History.begin(root, writers)
    made.table.dataset().tags.create("first", 2)
    made.put({1: 10, 20: 20})
    made.flush()
    made.table.dataset().update_config({"noted": "yes"})
    made.note()
    made.put({1: 11})
    return made


@pytest.fixture
def engine(history: History, open_engine: Callable[[Path], QueryEngine]) -> QueryEngine:
    return open_engine(history.table.path.parent)


@pytest.mark.slow
@pytest.mark.parametrize(
    "clause",
    [
        "FOR VERSION AS OF 3",
        "FOR SYSTEM_VERSION AS OF 3",
        "VERSION AS OF 3",
        "for version as of 'third'",
        "FOR TIMESTAMP AS OF now()",
        "FOR SYSTEM_TIME AS OF (now() - INTERVAL '0 seconds')",
        "TIMESTAMP AS OF TIMESTAMP '2100-01-01 00:00:00'",
        "FOR TIMESTAMP AS OF '2100-01-01T00:00:00+02:00'",
        "FOR TIMESTAMP AS OF TIMESTAMP '2100-01-01' - INTERVAL '1 day'",
        "FOR TIMESTAMP AS OF to_timestamp('2100-01-01')",
    ],
)
def test_spellings(history: History, engine: QueryEngine, clause: str) -> None:
    history.table.dataset().tags.create("third", 3)
    # What is in the log belongs to a moment, and to no version.
    expected = 10 if "version" in clause.lower() else 11
    assert rows(engine, f"SELECT v FROM t {clause} WHERE id = 1") == [(expected,)]
    assert rows(engine, f"SELECT x.v FROM t {clause} AS x WHERE x.id = 20") == [(20,)]
    assert rows(engine, f"SELECT x.v FROM main.t {clause} x WHERE x.id = 20") == [(20,)]


@pytest.mark.parametrize("dialect", ["spark", "trino", "snowflake", "duckdb", "mysql"])
def test_other_dialects_say_it_too(engine: QueryEngine, dialect: str) -> None:
    settings = SessionSettings(dialect=dialect)
    for clause in ("FOR VERSION AS OF 2", "VERSION AS OF 2"):
        statement = engine.prepare(f"SELECT x.v FROM t {clause} AS x WHERE x.id = 1", settings)
        assert statement.execute().read_all().to_pylist() == [{"v": 0}]


def test_versions_of_one_table_are_joined(engine: QueryEngine) -> None:
    changed = """
        SELECT n.id, o.v, n.v FROM t n LEFT JOIN t FOR VERSION AS OF 'first' o ON n.id = o.id
        WHERE o.v IS DISTINCT FROM n.v ORDER BY 1
    """
    assert rows(engine, changed) == [(1, 0, 11), (20, None, 20)]


def test_a_view_reads_the_past(engine: QueryEngine, root: Path) -> None:
    (root / "before.view.sql").write_text("SELECT * FROM t FOR VERSION AS OF 2")
    assert rows(engine, "SELECT b.v, t.v FROM before b JOIN t USING (id) WHERE b.id = 1") == [(0, 11)]


def test_explain_shows_the_version_and_the_time(engine: QueryEngine) -> None:
    plans = engine.execute("EXPLAIN SELECT * FROM t FOR VERSION AS OF 2 JOIN t n USING (id)").read_all()
    text = "\n".join(plans.column("plan").to_pylist())
    assert "t: base v2, as of 20" in text
    assert "t: base v3, consistency=strong" in text


def test_regions_are_pruned_in_the_past_too(engine: QueryEngine) -> None:
    plans = engine.execute("EXPLAIN SELECT v FROM t FOR VERSION AS OF 3 WHERE id = 1 AND v > 3").read_all()
    assert "regions=1/2" in "\n".join(plans.column("plan").to_pylist())


def test_a_prepared_statement_follows_its_tag(history: History, engine: QueryEngine) -> None:
    statement = engine.prepare("SELECT v FROM t FOR VERSION AS OF 'first' WHERE id = 1")
    assert statement.execute().read_all().to_pylist() == [{"v": 0}]
    history.table.dataset().tags.update("first", 3)
    assert statement.execute().read_all().to_pylist() == [{"v": 10}]
    assert engine.prepare(statement.sql) is statement


def test_versions_that_come_while_a_statement_looks_for_its_own_are_found(
    history: History, engine: QueryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit_before(listing: str) -> None:
        listed = getattr(past_tables, listing)

        def commit_and_list(newest: Any) -> Any:
            if pending:
                history.table.dataset().update_config({"number": pending.pop()})
                history.table.dataset().tags.create("now", history.table.dataset().version)
            return listed(newest)

        pending = ["1"]
        monkeypatch.setattr(past_tables, listing, commit_and_list)

    expected = rows(engine, "SELECT id, v FROM t FOR VERSION AS OF 3")
    newest = history.table.dataset().version
    commit_before("read_tags")
    assert rows(engine, "SELECT id, v FROM t FOR VERSION AS OF 'now'") == expected
    assert history.table.dataset().version == newest + 1


def test_a_version_has_its_own_columns(history: History, engine: QueryEngine) -> None:
    sql = "SELECT * FROM t FOR VERSION AS OF 'moving' WHERE id = 2"
    history.table.dataset().tags.create("moving", 2)
    assert rows(engine, sql) == [(2, 0)]
    history.table.close_writers()
    history.table.dataset().add_columns(pa.schema([pa.field("w", pa.int64())]))
    newest = history.table.dataset().version
    with pytest.raises(InvalidInputError, match="w"):
        rows(engine, "SELECT w FROM t FOR VERSION AS OF 2")
    history.table.dataset().tags.update("moving", newest)
    assert rows(engine, sql) == [(2, 0, None)]
    assert rows(engine, "SELECT * FROM t FOR VERSION AS OF 2 WHERE id = 2") == [(2, 0)]


def test_what_this_gateway_has_not_flushed_is_part_of_moments_and_not_of_versions(
    history: History, engine: QueryEngine
) -> None:
    history.table.close_writers()
    writer = engine.catalog.table("t").writer()
    writer.write(Changes(upserts=pa.table([[1], [99]], schema=SCHEMA)))
    assert rows(engine, "SELECT v FROM t WHERE id = 1") == [(99,)]
    assert rows(engine, "SELECT v FROM t FOR VERSION AS OF 3 WHERE id = 1") == [(10,)]
    assert rows(engine, "SELECT v FROM t FOR TIMESTAMP AS OF now() WHERE id = 1") == [(99,)]


class TestErrors:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("sql", "error", "message"),
        [
            ("t FOR VERSION AS OF 77", NotFoundError, "has no version 77; it has versions 1 to 3"),
            ("t FOR VERSION AS OF 'gone'", NotFoundError, "has no tag 'gone'; it has 'first'"),
            ("t FOR VERSION AS OF '2'", NotFoundError, "version 2 is written without quotes"),
            (
                "t FOR TIMESTAMP AS OF '1999-01-01'",
                NotFoundError,
                "the oldest version that is kept is 1, of 20",
            ),
            ("t FOR TIMESTAMP AS OF 'soon'", InvalidInputError, "'soon' is not a moment: write it like"),
            ("t FOR TIMESTAMP AS OF nothing(1)", InvalidInputError, "this is not a constant moment"),
            ("t FOR TIMESTAMP AS OF (NULL)", InvalidInputError, "this is NULL, and no moment"),
            ("t FOR TIMESTAMP AS OF (SELECT 1)", InvalidInputError, "it can't be read from a table"),
            ("t FOR TIMESTAMP AS OF 5", InvalidInputError, "A moment is a text like"),
            ("t FOR TIMESTAMP AS OF", InvalidInputError, "A moment is a text like"),
            ("t FOR TIMESTAMP AS OF (now()", InvalidInputError, "is not closed"),
            ("t FOR VERSION AS OF", InvalidInputError, "A version is a number from 1 on"),
            ("t FOR VERSION", UnsupportedError, "must be followed by AS OF"),
            ("t FOR VERSION AS OF 0", InvalidInputError, "A version is a number from 1 on"),
            ("t FOR VERSION AS OF $1", InvalidInputError, "takes a constant, and no parameter"),
            ("t FOR SYSTEM_TIME BETWEEN 1 AND 2", UnsupportedError, "must be followed by AS OF"),
            ("old FOR VERSION AS OF 2", InvalidInputError, "and not a view"),
            ("system.tables FOR VERSION AS OF 2", InvalidInputError, "and not a system table"),
            ("lance_fts('t', 'v', 'x') FOR VERSION AS OF 2", InvalidInputError, "functions are not"),
        ],
    )
    def test_what_there_is_not(
        self, engine: QueryEngine, root: Path, sql: str, error: type[Exception], message: str
    ) -> None:
        (root / "old.view.sql").write_text("SELECT 1 AS x")
        with pytest.raises(error, match=message):
            rows(engine, f"SELECT * FROM {sql}")

    def test_a_generation_that_was_cleaned_up(self, history: History, engine: QueryEngine) -> None:
        history.table.close_writers()
        history.merge(random.Random(1))
        for region in history.table.regions.values():
            clean_up_merged(history.table.path, region)
        with pytest.raises(PreconditionError, match=r"cleaned up; version \d+ has their rows"):
            rows(engine, "SELECT * FROM t FOR VERSION AS OF 3")
        assert len(rows(engine, "SELECT * FROM t FOR VERSION AS OF 2")) == KEYS // 2

    def test_manifests_that_were_cleaned_up(self, history: History, engine: QueryEngine) -> None:
        history.table.close_writers()
        for region in history.table.regions.values():
            newest = manifests.find_newest_version(history.table.path, region)
            for version in range(1, newest):
                manifests.build_manifest_path(history.table.path, region, version).unlink(missing_ok=True)
        with pytest.raises(PreconditionError, match="is no longer known, since its manifests of before"):
            rows(engine, "SELECT * FROM t FOR VERSION AS OF 3")

    def test_versions_that_were_cleaned_up(self, history: History, engine: QueryEngine) -> None:
        dataset = history.table.dataset()
        dataset.tags.delete("first")
        dataset.cleanup_old_versions(retain_versions=1)
        with pytest.raises(NotFoundError, match="has no version 2; it has version 3"):
            rows(engine, "SELECT * FROM t FOR VERSION AS OF 2")


class TestAccess:
    def test_row_filters_and_masks_apply_to_the_past(self, engine: QueryEngine) -> None:
        access = create_principal(t=TableAccess(row_filter="id < 3", masks={"v": "-1"}))
        assert rows(engine, "SELECT * FROM t FOR VERSION AS OF 2 ORDER BY id", access) == [
            (0, -1),
            (1, -1),
            (2, -1),
        ]

    def test_hidden_columns_stay_hidden(self, engine: QueryEngine) -> None:
        access = create_principal(t=TableAccess(hidden_columns=frozenset({"v"})))
        assert rows(engine, "SELECT * FROM t FOR VERSION AS OF 2 WHERE id = 1", access) == [(1,)]

    def test_a_column_under_its_former_name_is_not_shown_past_a_policy(
        self, history: History, engine: QueryEngine
    ) -> None:
        history.table.close_writers()
        history.table.dataset().alter_columns({"path": "v", "name": "secret"})
        access = create_principal(t=TableAccess(hidden_columns=frozenset({"secret"})))
        with pytest.raises(PreconditionError, match="columns were renamed or dropped since"):
            rows(engine, "SELECT * FROM t FOR VERSION AS OF 2", access)
        assert rows(engine, "SELECT v FROM t FOR VERSION AS OF 2 WHERE id = 1") == [(0,)]

    def test_a_table_without_a_grant_has_no_past(self, engine: QueryEngine) -> None:
        with pytest.raises(NotFoundError, match="'t' does not exist"):
            rows(engine, "SELECT * FROM t FOR VERSION AS OF 2", create_principal())


def test_rows_of_the_past_are_written_back(history: History, engine: QueryEngine) -> None:
    history.table.close_writers()
    engine.prepare_statement("INSERT INTO t SELECT * FROM t FOR VERSION AS OF 2 WHERE id = 1").execute()
    assert rows(engine, "SELECT * FROM t WHERE id IN (1, 20) ORDER BY id") == [(1, 0), (20, 20)]


def test_writes_to_the_past_are_no_syntax(engine: QueryEngine) -> None:
    with pytest.raises((InvalidInputError, UnsupportedError)):
        engine.prepare_statement("DELETE FROM t FOR VERSION AS OF 2 WHERE id = 1")


def test_the_past_leaves_what_is_known_of_the_newest_state_alone(engine: QueryEngine) -> None:
    newest = rows(engine, "SELECT * FROM t ORDER BY id")
    known = engine.catalog.table("t").last_snapshot
    for _ in range(3):
        rows(engine, "SELECT sum(v) FROM t FOR VERSION AS OF 2")
    assert engine.catalog.table("t").last_snapshot is known
    assert rows(engine, "SELECT * FROM t ORDER BY id") == newest


class TestVersions:
    def test_they_are_listed(self, engine: QueryEngine) -> None:
        sql = "SELECT version, tags, operation, rows, is_latest FROM system.versions ORDER BY version"
        assert rows(engine, sql) == [
            (1, [], "Overwrite", 6, False),
            (2, ["first"], "CreateIndex", 6, False),
            (3, [], "UpdateConfig", 6, True),
        ]

    def test_the_time_of_a_commit_finds_its_version(self, engine: QueryEngine) -> None:
        for version, at in rows(engine, "SELECT version, committed_at FROM system.versions"):
            moment = at.isoformat(sep=" ")
            (plan, *_) = rows(engine, f"EXPLAIN SELECT * FROM t FOR TIMESTAMP AS OF '{moment}'")[1:]
            assert f"base v{version}," in plan[1]

    def test_restricted_principals_learn_of_their_tables_only(self, engine: QueryEngine, root: Path) -> None:
        lance.write_dataset(pa.table({"x": [1]}), root / "other.lance")
        sql = "SELECT DISTINCT table_name, rows FROM system.versions"
        assert rows(engine, sql, create_principal(other=TableAccess())) == [("other", 1)]
        assert rows(engine, sql, create_principal(t=TableAccess(row_filter="id = 1"))) == [("t", None)]
