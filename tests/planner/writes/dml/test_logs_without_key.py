"""Statements that change tables without a key, of which rows are in logs and generations."""

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import (
    PreconditionError,
)
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.pipeline.cleaning import Kind, clean
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.planner.engine import QueryEngine
from tests.planner.writes.dml.lake import Lake, Row
from tests.planner.writes.dml.visits import before_commit, stored
from tests.support.lake.cleaning import NEWEST_ONLY, create_late_clock, filter_kind

LOGGED = "CREATE TABLE visits (id BIGINT, page TEXT, seconds INT) WITH (region_by = 'bucket(id, 2)')"


@pytest.fixture
def gateways(tmp_path: Path, open_engine: Callable[[Path], QueryEngine]) -> tuple[Lake, Lake]:
    """Two gateways; the first has rows of the table in generations, and in logs that it holds."""
    first, second = Lake(open_engine(tmp_path)), Lake(open_engine(tmp_path))
    first.write(LOGGED)
    for _ in range(3):
        first.engine.catalog.table("visits").writer().flush()
        first.write("INSERT INTO visits VALUES (1, 'a', 1), (2, 'b', 2), (2, 'b', 2)")
    return first, second


def test_rows_that_another_gateway_has_in_its_log_are_changed(
    gateways: tuple[Lake, Lake], tmp_path: Path
) -> None:
    first, second = gateways
    second.write("INSERT INTO visits VALUES (2, 'mine', 3)")
    assert first.write("UPDATE visits SET id = 3 WHERE id = 2").affected == 7
    assert second.write("DELETE FROM visits WHERE page = 'mine'").affected == 1
    second.write("INSERT INTO visits VALUES (4, 'later', 4)")
    expected = [{"id": 1, "n": 3}, {"id": 3, "n": 6}, {"id": 4, "n": 1}]
    for lake in gateways:
        assert lake.read("SELECT id, count(*) AS n FROM visits GROUP BY id ORDER BY id") == expected
    assert len(stored(tmp_path)) == 9


MEANWHILE: dict[str, Callable[[Lake, str], object]] = {
    "reads": lambda _lake, _uri: None,
    "inserts": lambda lake, _uri: lake.write("INSERT INTO visits VALUES (9, 'new', 9)"),
    "moves the same rows": lambda lake, _uri: lake.write("DELETE FROM visits WHERE id = -1"),
    "deletes": lambda lake, _uri: lake.write("DELETE FROM visits WHERE id = 1"),
    "adds a column": lambda lake, _uri: lake.write("ALTER TABLE visits ADD COLUMN more INT"),
    "builds an index": lambda _lake, uri: lance.dataset(uri).create_scalar_index("id", "BTREE"),
    "appends by Lance": lambda _lake, uri: lance.write_dataset(
        pa.table({"id": [9], "page": ["new"], "seconds": pa.array([9], pa.int32())}), uri, mode="append"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", MEANWHILE)
def test_moving_rows_to_the_base_table_loses_and_doubles_none(
    gateways: tuple[Lake, Lake], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    first, second = gateways
    uri = str(tmp_path / "visits.lance")
    count = "SELECT count(*) AS n FROM visits WHERE id < 9"
    counts: list[list[Row]] = []

    def look() -> None:
        counts.extend(lake.read(count) for lake in gateways)
        MEANWHILE[what](second, uri)
        counts.extend(lake.read(count) for lake in gateways)

    done = before_commit(monkeypatch, look)
    update = "UPDATE visits SET seconds = 10 WHERE id = 2"
    if what == "adds a column":
        with pytest.raises(PreconditionError, match="because a table was altered"):
            first.write(update)
    assert first.write(update).affected == 6

    assert done
    left = 6 if what == "deletes" else 9
    assert counts == [[{"n": 9}], [{"n": 9}], [{"n": left}], [{"n": left}]]
    for lake in gateways:
        assert lake.read("SELECT count(*) AS n, sum(seconds) AS s FROM visits WHERE id < 9") == [
            {"n": left, "s": 60 + (left - 6)}
        ]
        news = 1 if what in {"inserts", "appends by Lance"} else 0
        assert lake.read("SELECT count(*) AS n FROM visits WHERE id = 9") == [{"n": news}]


def test_generations_that_were_moved_are_cleaned_up(gateways: tuple[Lake, Lake], tmp_path: Path) -> None:
    lake, other = gateways
    assert lake.write("UPDATE visits SET seconds = 10 WHERE id = 2").affected == 6
    table = LakeTable("visits", Storage.open(str(tmp_path / "visits.lance")))
    report = clean(table, NEWEST_ONLY, delete=True, clock=create_late_clock())
    assert filter_kind(report, Kind.GENERATIONS)
    for one in gateways:
        assert one.read("SELECT count(*) AS n FROM visits") == [{"n": 9}]
    other.write("INSERT INTO visits VALUES (9, 'new', 9)")
    assert lake.write("DELETE FROM visits").affected == 10
