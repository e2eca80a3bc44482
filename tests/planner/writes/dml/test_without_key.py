"""Tables without a key take every statement: rows are found by number, and changed in one commit."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    PreconditionError,
    UnavailableError,
)
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.writes.dml import prepared_write
from lance_gateway.planner.writes.dml.ingest import prepare_ingest
from tests.planner.writes.dml.lake import Lake, news, ordered, rows_of
from tests.planner.writes.dml.test_concurrent_changes import together
from tests.planner.writes.dml.titled import Case, read_titled
from tests.planner.writes.dml.visits import VISITS, before_commit, stored, write_visits
from tests.support.sampling import sample


@pytest.fixture
def lake(tmp_path: Path, open_engine: Callable[[Path], QueryEngine]) -> Lake:
    write_visits(tmp_path)
    return Lake(open_engine(tmp_path))


@pytest.fixture(scope="module", params=["addresses", "stable row ids", "log"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Lake, duckdb.DuckDBPyConnection, Path]]:
    """The same tables here and in DuckDB; every statement does the same to both."""
    root = tmp_path_factory.mktemp("plain")
    lance.write_dataset(news(), str(root / "news.lance"))
    lake, twin = Lake(QueryEngine(Catalog.open(str(root)))), duckdb.connect(":memory:")
    if request.param == "log":
        lake.write(
            "CREATE TABLE visits (id BIGINT, page TEXT, seconds INT) WITH (region_by = 'bucket(id, 2)')"
        )
        ingest = prepare_ingest(lake.engine, TableName("visits"), VISITS.schema, lake.settings, lake.access)
        ingest.execute(iter(VISITS.to_batches()), RunControl())
    else:
        write_visits(root, stable_row_ids=request.param == "stable row ids")
    for name, rows in (("visits", VISITS), ("news", news())):
        twin.register("given", rows)
        twin.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        twin.unregister("given")
    yield lake, twin, root
    lake.engine.close()
    twin.close()


@pytest.mark.parametrize("case", sample(read_titled("without_key.sql"), 40), ids=str)
def test_does_what_duckdb_does(case: Case, both: tuple[Lake, duckdb.DuckDBPyConnection, Path]) -> None:
    lake, twin, root = both
    done = lake.write(case.parts[0])
    answer = rows_of(twin, case.parts[-1])

    if done.rows is not None:
        assert ordered(done.rows.to_pylist()) == ordered(answer)
        assert done.affected == len(answer)
    else:
        assert [done.affected] == list(answer[0].values())
    everything = ordered(rows_of(twin, "SELECT * FROM visits"))
    assert lake.rows("visits") == everything
    if not case.title.startswith("INSERT"):
        assert stored(root) == everything
    for one in (2, 5, 80):
        by_index = lake.read(f"SELECT * FROM visits WHERE id = {one}")
        assert ordered(by_index) == [row for row in everything if row["id"] == one]


def test_an_unknown_column_is_named_beside_those_of_the_table(lake: Lake) -> None:
    with pytest.raises(
        InvalidInputError, match=r"Valid fields are visits.id, visits.page, visits.seconds\.$"
    ):
        lake.write("UPDATE visits SET page = 'x' WHERE nope = 1")


def test_statements_with_parameters(lake: Lake, tmp_path: Path) -> None:
    assert lake.write("UPDATE visits SET page = $1 WHERE id = $2", "set", 2).affected == 2
    assert lake.write("DELETE FROM visits WHERE id < $1 RETURNING id + $2 AS n", 1, 40).rows.to_pylist() == [
        {"n": 40}
    ]
    inserts = lake.engine.prepare_statement("INSERT INTO visits (id) VALUES ($1)")
    version = lance.dataset(str(tmp_path / "visits.lance")).version
    assert inserts.execute_many(pa.table({"$1": pa.array(range(100, 200), pa.int64())})).affected == 100
    assert lance.dataset(str(tmp_path / "visits.lance")).version == version + 1
    deletes = lake.engine.prepare_statement("DELETE FROM visits WHERE id = $1")
    assert deletes.execute_many(pa.table({"$1": pa.array([2, 2, 150], pa.int64())})).affected == 3
    assert lake.read("SELECT count(*) AS n FROM visits WHERE id > 99") == [{"n": 99}]


def test_a_stream_is_one_commit_and_appends_all_or_nothing(lake: Lake, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("page", pa.string())])
    ingest = prepare_ingest(lake.engine, TableName("visits"), schema, lake.settings, lake.access)
    batches = [pa.record_batch([[number], ["new"]], schema=schema) for number in range(300, 305)]
    version = lance.dataset(str(tmp_path / "visits.lance")).version

    assert ingest.execute(iter(batches), RunControl()).affected == 5

    def broken() -> Iterator[pa.RecordBatch]:
        yield batches[0]
        raise UnavailableError("the client went away")

    with pytest.raises(UnavailableError, match="went away"):
        ingest.execute(broken(), RunControl())
    assert len(stored(tmp_path)) == VISITS.num_rows + 5
    assert lance.dataset(str(tmp_path / "visits.lance")).version == version + 1


def test_columns_that_were_dropped_and_added_keep_their_values(lake: Lake, tmp_path: Path) -> None:
    lake.write("ALTER TABLE visits DROP COLUMN page")
    lake.write("ALTER TABLE visits ADD COLUMN page TEXT")
    lake.write("ALTER TABLE visits RENAME COLUMN seconds TO length")
    assert lake.write("UPDATE visits SET page = 'p', length = length + 100 WHERE id = 5").affected == 2
    assert lake.write("INSERT INTO visits (id, length, page) VALUES (11, 1, 'q')").affected == 1
    assert lake.write("OPTIMIZE visits").affected == -1
    assert lake.read("SELECT * FROM visits WHERE page IS NOT NULL ORDER BY id") == [
        {"id": 5, "length": 105, "page": "p"},
        {"id": 5, "length": 105, "page": "p"},
        {"id": 11, "length": 1, "page": "q"},
    ]
    assert stored(tmp_path) == lake.rows("visits")


def test_rows_must_meet_the_rules_of_the_table(lake: Lake, tmp_path: Path) -> None:
    lake.write("ALTER TABLE visits ALTER COLUMN page TYPE VARCHAR(4)")
    lake.write("ALTER TABLE visits ADD CHECK (seconds < 100)")
    lake.write("ALTER TABLE visits ALTER COLUMN seconds SET NOT NULL")
    lake.write("ALTER TABLE visits ALTER COLUMN page SET DEFAULT 'none'")
    before = stored(tmp_path)
    for sql, said in (
        ("UPDATE visits SET page = 'longer' WHERE id = 1", "page"),
        ("UPDATE visits SET seconds = seconds * 100", "visits_check"),
        ("UPDATE visits SET seconds = NULL WHERE id = 3", "must not be NULL"),
        ("INSERT INTO visits (id) VALUES (20)", "must not be NULL"),
        (
            "MERGE INTO visits USING (SELECT 1) s ON id = 1 WHEN MATCHED THEN UPDATE SET seconds = 100",
            "check",
        ),
    ):
        with pytest.raises(LanceGatewayError, match=said) as refused:
            lake.write(sql)
        assert refused.value.status in {"INVALID_ARGUMENT", "FAILED_PRECONDITION"}
    assert stored(tmp_path) == before
    assert lake.write("INSERT INTO visits (id, seconds) VALUES (20, 1) RETURNING page").rows.to_pylist() == [
        {"page": "none"}
    ]
    assert lake.write("UPDATE visits SET page = DEFAULT WHERE id = 1").affected == 1


def test_a_rule_that_is_added_counts_for_statements_that_run(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = Lake(QueryEngine(Catalog.open(str(tmp_path))))
    before_commit(monkeypatch, lambda: other.write("ALTER TABLE visits ADD CHECK (seconds < 100)"))
    with pytest.raises(PreconditionError, match="'visits' was altered while the statement ran, and nothing"):
        lake.write("INSERT INTO visits VALUES (1, 'x', 100)")
    assert lake.read("SELECT count(*) AS n FROM visits") == [{"n": VISITS.num_rows}]
    other.engine.close()


OTHERS: dict[str, Callable[[str], object]] = {
    "appends": lambda uri: lance.write_dataset(VISITS.slice(1, 1), uri, mode="append"),
    "deletes the same rows": lambda uri: lance.dataset(uri).delete("id = 1"),
    "deletes other rows of the fragment": lambda uri: lance.dataset(uri).delete("id = 0"),
    "updates the same rows": lambda uri: lance.dataset(uri).update({"seconds": "seconds + 10"}, "id = 1"),
    "deletes rows of another fragment": lambda uri: lance.dataset(uri).delete("id = 9"),
    "compacts": lambda uri: lance.dataset(uri).optimize.compact_files(),
}


@pytest.mark.parametrize(
    "sql", ["UPDATE visits SET seconds = seconds + 1 WHERE page = 'b'", "DELETE FROM visits WHERE page = 'b'"]
)
@pytest.mark.parametrize("what", OTHERS)
def test_what_others_commit_meanwhile_is_not_lost(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, sql: str
) -> None:
    """The statement has the effect of one that ran after them, or just before they appended."""
    uri = str(tmp_path / "visits.lance")
    twin = duckdb.connect()
    before_commit(monkeypatch, lambda: OTHERS[what](uri))

    done = lake.write(sql)

    twin.register("given", VISITS)
    twin.execute("CREATE TABLE visits AS SELECT * FROM given")
    theirs = {
        "deletes the same rows": "DELETE FROM visits WHERE id = 1",
        "deletes other rows of the fragment": "DELETE FROM visits WHERE id = 0",
        "updates the same rows": "UPDATE visits SET seconds = seconds + 10 WHERE id = 1",
        "deletes rows of another fragment": "DELETE FROM visits WHERE id = 9",
    }
    if what in theirs:
        twin.execute(theirs[what])
    (count,) = rows_of(twin, sql)[0].values()
    if what == "appends":
        twin.execute("INSERT INTO visits SELECT * FROM given WHERE page = 'b'")
    assert done.affected == count
    assert stored(tmp_path) == ordered(rows_of(twin, "SELECT * FROM visits")) == lake.rows("visits")


REPLACING: dict[str, Callable[[str], object]] = {
    "restores": lambda uri: lance.dataset(uri, version=1).restore(),
    "overwrites": lambda uri: lance.write_dataset(VISITS.slice(1), uri, mode="overwrite"),
}


@pytest.mark.parametrize(
    "sql", ["UPDATE visits SET seconds = seconds + 1 WHERE page = 'b'", "DELETE FROM visits WHERE page = 'b'"]
)
@pytest.mark.parametrize("what", REPLACING)
def test_rows_of_a_state_that_was_replaced_are_not_changed(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, sql: str
) -> None:
    uri = str(tmp_path / "visits.lance")
    lance.dataset(uri).delete("id = 9")
    before_commit(monkeypatch, lambda: REPLACING[what](uri))
    with pytest.raises(PreconditionError, match="'visits' was restored or overwritten while the statement"):
        lake.write(sql)
    expected = VISITS if what == "restores" else VISITS.slice(1)
    assert stored(tmp_path) == ordered(expected.to_pylist())


@pytest.mark.parametrize(
    "sql", ["UPDATE visits SET seconds = 50 WHERE id = 1", "DELETE FROM visits WHERE id = 0"]
)
def test_lance_s_own_writers_notice_what_a_statement_has_committed(
    lake: Lake, tmp_path: Path, sql: str
) -> None:
    """They opened the table before, and change rows of the same fragment."""
    uri = str(tmp_path / "visits.lance")
    deleting, committing = lance.dataset(uri), lance.dataset(uri)
    assert lake.write(sql).affected == 1
    after = lake.rows("visits")

    fragment = committing.get_fragment(0).delete_rows([3])
    with pytest.raises(OSError, match="conflict"):
        lance.LanceDataset.commit(
            committing,
            lance.LanceOperation.Delete([fragment], [], "id = 3"),
            read_version=committing.version,
            max_retries=0,
        )
    assert stored(tmp_path) == after
    deleting.delete("id = 3")
    assert stored(tmp_path) == lake.rows("visits") == [row for row in after if row["id"] != 3]


def test_a_statement_that_others_are_always_quicker_than_says_so(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "visits.lance")
    before_commit(monkeypatch, lambda: lance.dataset(uri).update({"seconds": "seconds + 1"}, "id = 1"), 100)
    monkeypatch.setattr(prepared_write, "ATTEMPTS", 3)
    with pytest.raises(UnavailableError, match="3 times, and nothing was written: send the statement again"):
        lake.write("UPDATE visits SET page = 'mine' WHERE id = 1")
    assert lake.read("SELECT page FROM visits WHERE id = 1") == [{"page": "b"}]


@pytest.mark.slow
def test_two_gateways_lose_no_increment_and_no_row(tmp_path: Path) -> None:
    write_visits(tmp_path)
    lakes = [Lake(QueryEngine(Catalog.open(str(tmp_path)))) for _ in range(2)]

    def increments(lake: Lake) -> None:
        for _ in range(5):
            assert lake.write("UPDATE visits SET seconds = seconds + 1 WHERE id = 1").affected == 1

    def inserts(lake: Lake) -> None:
        for _ in range(10):
            assert lake.write("INSERT INTO visits VALUES (99, 'n', 0)").affected == 1

    steps = [lambda lake=lake, do=do: do(lake) for lake in lakes for do in (increments, increments, inserts)]  # type: ignore[misc]
    together(steps)
    for lake in lakes:
        assert lake.read("SELECT seconds FROM visits WHERE id = 1") == [{"seconds": 21}]
        assert lake.read("SELECT count(*) AS n FROM visits WHERE id = 99") == [{"n": 20}]
        lake.engine.close()


def test_threads_delete_each_row_once(lake: Lake) -> None:
    counts: list[int] = []
    lock = threading.Lock()

    def deletes() -> None:
        done = lake.write("DELETE FROM visits WHERE id > 4").affected
        with lock:
            counts.append(done)

    together([deletes] * 4)
    assert sum(counts) == 6


def test_a_row_that_is_matched_twice_is_named_by_its_values(lake: Lake) -> None:
    with pytest.raises(
        InvalidInputError, match=r"with id = 1, page = 'b', seconds = 1 matches several rows of FROM"
    ):
        lake.write("UPDATE visits SET page = x.p FROM (VALUES (1, 'x'), (1, 'y')) AS x (i, p) WHERE id = x.i")
    with pytest.raises(
        InvalidInputError, match=r"with id = 1, page = 'b', seconds = 1 matches several rows of 'x'"
    ):
        lake.write(
            "MERGE INTO visits USING (VALUES (1, 'x'), (1, 'y')) AS x (i, p) ON id = x.i "
            "WHEN MATCHED THEN UPDATE SET page = x.p"
        )


def test_a_table_made_anew_gets_no_rows_of_the_former_one(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of new rows were written below a directory that is gone."""

    def remake() -> None:
        lake.write(
            "CREATE OR REPLACE TABLE visits WITH (memwal = false) AS "
            "SELECT 1 AS id, 'x' AS page, 2 AS seconds"
        )

    before_commit(monkeypatch, remake)
    with pytest.raises(LanceGatewayError, match="nothing was written"):
        lake.write("UPDATE visits SET seconds = 1 WHERE id = 1")
    assert len(stored(tmp_path)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("log", [False, True], ids=["plain", "log"])
def test_searches_find_what_statements_have_changed(
    tmp_path: Path, open_engine: Callable[[Path], QueryEngine], log: bool
) -> None:
    lake = Lake(open_engine(tmp_path))
    lake.write(f"CREATE TABLE notes (id INT, text TEXT, at FLOAT[2]) WITH (memwal = {str(log).lower()})")
    lake.write("INSERT INTO notes SELECT i, 'old', [i, 0] FROM generate_series(1, 20) AS g (i)")
    lake.write("DELETE FROM notes WHERE id = 20")
    lake.write("CREATE INDEX ON notes USING FTS (text)")
    lake.write("CREATE INDEX ON notes USING IVF_FLAT (at) WITH (num_partitions = 2)")
    lake.write("INSERT INTO notes VALUES (21, 'new', [100, 0])")
    lake.write("UPDATE notes SET text = 'new', at = [200, id] WHERE id IN (3, 4)")
    for _ in range(2):
        texts = lake.read("SELECT id FROM lance_fts('notes', 'text', 'new', k => 10) ORDER BY id")
        assert [row["id"] for row in texts] == [3, 4, 21]
        old = lake.read("SELECT id FROM lance_fts('notes', 'text', 'old', k => 50)")
        assert len(old) == 17
        near = lake.read("SELECT id FROM lance_vector_search('notes', 'at', [200, 4], k => 3)")
        assert [row["id"] for row in near] == [4, 3, 21]
        lake.write("OPTIMIZE notes")


@pytest.mark.slow
@pytest.mark.parametrize("log", [False, True], ids=["plain", "log"])
@pytest.mark.soak
def test_statements_on_s3(s3_location: tuple[str, dict[str, str]], log: bool) -> None:
    uri, options = s3_location
    first, second = (Lake(QueryEngine(Catalog(Storage.open(uri, options)))) for _ in range(2))
    first.write(f"CREATE TABLE visits (id INT, page TEXT) WITH (memwal = {str(log).lower()})")
    first.write("INSERT INTO visits VALUES (1, 'a'), (2, 'b'), (2, 'b')")
    assert second.write("UPDATE visits SET page = 'c' WHERE id = 2").affected == 2
    assert first.write("DELETE FROM visits WHERE id = 1").affected == 1
    found = lance.dataset(f"{uri}/visits.lance", storage_options=options).to_table().to_pylist()
    assert found == second.rows("visits") == first.rows("visits") == [{"id": 2, "page": "c"}] * 2
    for lake in (first, second):
        lake.engine.close()


def test_explain_names_the_commit(lake: Lake) -> None:
    plan = lake.write("EXPLAIN UPDATE visits SET page = 'x' WHERE id = 1").rows.to_pylist()
    assert plan[0]["plan"] == "UpdateExec: table=visits, key=[row#], one commit of the base table"


def test_rows_are_read_under_every_setting(lake: Lake, tmp_path: Path) -> None:
    bare = replace(lake, settings=replace(lake.settings, shortcuts=frozenset()))
    assert (
        bare.write("UPDATE visits SET seconds = 7 WHERE id IN (SELECT id FROM visits WHERE id = 2)").affected
        == 2
    )
    assert bare.write("DELETE FROM visits WHERE id = 2").affected == 2
    assert stored(tmp_path) == lake.rows("visits")
