"""What reads and writes in one step loses nothing to others who do the same."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from lance_gateway.memwal.errors import LanceGatewayError, PreconditionError, UnavailableError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.writes.dml.statement.target import Target
from tests.planner.writes.dml.lake import Lake, make_lake, ordered

ROUNDS = 15


def together(steps: Sequence[Callable[[], None]]) -> None:
    """Run all steps at once; the first error of one is raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(steps))

    def run(step: Callable[[], None]) -> None:
        try:
            start.wait()
            step()
        except BaseException as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_lake(tmp_path)
    return tmp_path


def opened(root: Path, open_engine: Callable[[Path], QueryEngine]) -> Lake:
    return Lake(open_engine(root))


INCREMENTS = {
    "by its key": "UPDATE people SET age = age + 1 WHERE id = 1",
    "by a condition": "UPDATE people SET age = age + 1 WHERE name = 'p1'",
    "by a subquery": "UPDATE people SET age = (SELECT age + 1 FROM people WHERE id = 1) WHERE id = 1",
    "by MERGE": (
        "MERGE INTO people USING (SELECT 1 AS id) AS s ON people.id = s.id "
        "WHEN MATCHED THEN UPDATE SET age = people.age + 1"
    ),
    "by ON CONFLICT": (
        "INSERT INTO people (id, age) VALUES (1, 1) "
        "ON CONFLICT (id) DO UPDATE SET age = people.age + excluded.age"
    ),
}


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param(sql, id=title, marks=() if title == "by its key" else pytest.mark.slow)
        for title, sql in INCREMENTS.items()
    ],
)
def test_threads_lose_no_increment(root: Path, open_engine: Callable[[Path], QueryEngine], sql: str) -> None:
    lake = opened(root, open_engine)
    (before,) = lake.read("SELECT age FROM people WHERE id = 1")

    def increments() -> None:
        for _ in range(ROUNDS // 3):
            assert lake.write(sql).affected == 1

    together([increments] * 4)
    assert lake.read("SELECT age FROM people WHERE id = 1") == [{"age": before["age"] + 4 * (ROUNDS // 3)}]


@pytest.mark.slow
def test_two_gateways_lose_no_increment(root: Path) -> None:
    lakes = [Lake(QueryEngine(Catalog.open(str(root)))) for _ in range(2)]
    (before,) = lakes[0].read("SELECT age FROM people WHERE id = 1")
    done: list[int] = []
    told: list[tuple[str, bool]] = []

    def increments(lake: Lake) -> None:
        for _ in range(ROUNDS):
            try:
                lake.write("UPDATE people SET age = age + 1 WHERE id = 1")
            except LanceGatewayError as error:
                # The other one was quicker too often: nothing was written, and it says so.
                told.append((error.status, "nothing was written" in str(error)))
            else:
                done.append(1)

    together([lambda lake=lake: increments(lake) for lake in lakes for _ in range(2)])  # type: ignore[misc]
    assert done
    assert set(told) <= {("UNAVAILABLE", True)}
    for lake in lakes:
        assert lake.read("SELECT age FROM people WHERE id = 1") == [{"age": before["age"] + len(done)}]
        lake.engine.close()


def test_one_of_many_wins_a_compare_and_set(root: Path, open_engine: Callable[[Path], QueryEngine]) -> None:
    lake = opened(root, open_engine)
    won: list[int] = []

    def compares_and_sets(number: int) -> None:
        won.extend(
            [number] * lake.write("UPDATE people SET age = $1 WHERE id = 1 AND age = 21", number).affected
        )

    together([lambda number=number: compares_and_sets(number) for number in range(100, 108)])  # type: ignore[misc]
    assert lake.read("SELECT age FROM people WHERE id = 1") == [{"age": one} for one in won]


def test_one_of_many_inserts_a_key_that_was_not_there(
    root: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    lake = opened(root, open_engine)
    won: list[str] = []

    def inserts(name: str) -> None:
        sql = "INSERT INTO people (id, name) VALUES (77, $1) ON CONFLICT DO NOTHING"
        won.extend([name] * lake.write(sql, name).affected)

    together([lambda name=name: inserts(name) for name in "abcdef"])  # type: ignore[misc]
    assert lake.read("SELECT name FROM people WHERE id = 77") == [{"name": one} for one in won]


@pytest.mark.slow
def test_threads_delete_each_row_once(root: Path, open_engine: Callable[[Path], QueryEngine]) -> None:
    lake = opened(root, open_engine)
    counts: list[int] = []
    together([lambda: counts.append(lake.write("DELETE FROM people WHERE age > 20").affected)] * 4)
    assert sum(counts) == 11


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE people SET age = 50 WHERE id = 1",
        "INSERT OR REPLACE INTO people (id, name, age) VALUES (1, 'new', 50)",
        "INSERT OR REPLACE INTO people (id, age) SELECT id, 50 FROM people WHERE id = 1",
        "INSERT INTO people (id, age) VALUES (1, 50) ON CONFLICT (id) DO UPDATE SET age = excluded.age",
    ],
)
@pytest.mark.parametrize("alteration", ["ADD COLUMN extra BIGINT DEFAULT 7", "DROP COLUMN score"])
def test_what_alters_a_table_just_before_rows_are_written_refuses_them(
    root: Path,
    open_engine: Callable[[Path], QueryEngine],
    monkeypatch: pytest.MonkeyPatch,
    sql: str,
    alteration: str,
) -> None:
    """The columns of the statement were looked at, and then others come, with values of their own."""
    lake, other = opened(root, open_engine), opened(root, open_engine)
    before = lake.rows("people")
    checked = Target.check_schema_unchanged

    def check_and_alter(target: Target, sql: str) -> None:
        checked(target, sql)
        monkeypatch.setattr(Target, "check_schema_unchanged", checked)
        other.write(f"ALTER TABLE people {alteration}")
        if "ADD" in alteration:
            other.write("UPDATE people SET extra = 9 WHERE id = 1")

    monkeypatch.setattr(Target, "check_schema_unchanged", check_and_alter)
    with pytest.raises((PreconditionError, UnavailableError), match="was altered"):
        lake.write(sql)
    kept = [{key: value for key, value in row.items() if key not in {"extra", "score"}} for row in before]
    assert lake.read("SELECT * FROM people WHERE id = 1 AND age <> 50") != []
    assert ordered(lake.read("SELECT id, name, age FROM people")) == ordered(kept)
    assert lake.write(sql).affected == 1
    if "ADD" in alteration and sql.startswith("UPDATE"):
        assert lake.read("SELECT extra FROM people WHERE id = 1") == [{"extra": 9}]
