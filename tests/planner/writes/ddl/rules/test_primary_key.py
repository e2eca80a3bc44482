"""ALTER TABLE ADD PRIMARY KEY: a key for rows that are there, and then fresh writes."""

from collections.abc import Callable
from pathlib import Path

import lance
import lancedb
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import LanceGatewayError, PreconditionError
from lance_gateway.memwal.writing import base_rows
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.writes.ddl.rules import primary_key
from tests.planner.writes.dml.lake import Lake

ROWS = pa.table(
    {
        "day": pa.array([1, 1, 2, 2], pa.int32()),
        "dropped": [0, 0, 0, 0],
        "page": ["a", "b", "a", None],
        "seconds": pa.array([1, 2, 3, 4], pa.int64()),
    }
)


@pytest.fixture
def lake(tmp_path: Path, open_engine: Callable[[Path], QueryEngine]) -> Lake:
    """A table as pylance writes it, without a key, and with field ids that are not those of their places."""
    written = lance.write_dataset(ROWS, str(tmp_path / "visits.lance"), max_rows_per_file=3)
    written.create_scalar_index("day", "BTREE")
    lance.dataset(written.uri).drop_columns(["dropped"])
    return Lake(open_engine(tmp_path))


def test_a_table_gets_a_key_and_takes_fresh_writes(lake: Lake, tmp_path: Path) -> None:
    lake.write("DELETE FROM visits WHERE page IS NULL")
    lake.write("ALTER TABLE visits ADD CONSTRAINT pk PRIMARY KEY (page, day)")

    dataset = lance.dataset(str(tmp_path / "visits.lance"))
    marked = {one.name(): one.unenforced_primary_key_position() for one in dataset.lance_schema.fields()}
    assert marked == {"day": 2, "page": 1, "seconds": None}
    assert [field.nullable for field in dataset.schema] == [False, False, True]
    assert dataset.to_table(filter="day = 2").to_pylist() == [{"day": 2, "page": "a", "seconds": 3}]
    assert lake.read("SELECT primary_key FROM system.tables") == [{"primary_key": ["page", "day"]}]

    lake.write("ALTER TABLE visits SET (memwal = true, region_by = 'bucket(page, 2)')")
    assert lake.write("INSERT INTO visits VALUES (1, 'a', 10), (3, 'c', 30)").affected == 2
    assert lake.write("UPDATE visits SET seconds = 20 WHERE page = 'b' AND day = 1").affected == 1
    assert lake.write("DELETE FROM visits WHERE page = 'a' AND day = 2").affected == 1
    assert lake.rows("visits") == [
        {"day": 1, "page": "a", "seconds": 10},
        {"day": 1, "page": "b", "seconds": 20},
        {"day": 3, "page": "c", "seconds": 30},
    ]
    assert lancedb.connect(str(tmp_path)).open_table("visits").count_rows() == 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "PRIMARY KEY (day)",
            r"\(day\) can't be the primary key of .*'visits', since 2 rows have day = [12]:",
        ),
        ("PRIMARY KEY (page, day)", r"since a row has page = NULL, day = 2: give it a value"),
        ("PRIMARY KEY (colour)", "no column 'colour'"),
        ("PRIMARY KEY (day, day)", "names a column twice"),
        ("PRIMARY KEY (score)", "has type double, which can't be part of a primary key"),
    ],
)
def test_rows_and_columns_that_are_no_key_are_named(
    lake: Lake, tmp_path: Path, change: str, said: str
) -> None:
    lake.write("ALTER TABLE visits ADD COLUMN score DOUBLE")
    version = lance.dataset(str(tmp_path / "visits.lance")).version
    with pytest.raises(LanceGatewayError, match=said):
        lake.write(f"ALTER TABLE visits ADD {change}")
    assert lance.dataset(str(tmp_path / "visits.lance")).version == version


def test_a_row_that_comes_meanwhile_is_checked_too(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_next = primary_key.commit_next
    came: list[int] = []

    def commit(*arguments: object) -> bool:
        if not came:
            came.append(1)
            lance.write_dataset(
                pa.table({"day": pa.array([9], pa.int32()), "page": ["z"], "seconds": [4]}),
                str(tmp_path / "visits.lance"),
                mode="append",
            )
        return commit_next(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(primary_key, "commit_next", commit)
    with pytest.raises(PreconditionError, match="2 rows have seconds = 4"):
        lake.write("ALTER TABLE visits ADD PRIMARY KEY (seconds)")


def test_a_statement_that_came_before_the_key_is_refused(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_engine: Callable[[Path], QueryEngine]
) -> None:
    other = Lake(open_engine(tmp_path))
    commit_next = base_rows.commit_next
    done: list[int] = []

    def commit(*arguments: object) -> bool:
        if not done:
            done.append(1)
            other.write("ALTER TABLE visits ADD PRIMARY KEY (seconds)")
        return commit_next(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(base_rows, "commit_next", commit)
    with pytest.raises(PreconditionError, match="was altered while the statement ran, and nothing"):
        lake.write("INSERT INTO visits VALUES (1, 'a', 1)")
    assert lake.read("SELECT count(*) AS n FROM visits") == [{"n": 4}]


def test_a_table_with_a_log_gets_no_key(lake: Lake) -> None:
    lake.write("CREATE TABLE log (a INT)")
    with pytest.raises(PreconditionError, match=r"'log' has a MemWAL, .* \(PRIMARY KEY \(a\)\)"):
        lake.write("ALTER TABLE log ADD PRIMARY KEY (a)")
