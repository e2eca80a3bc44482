"""The schema `system` in SQL: what the catalog is made of, for those who may know."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, NotFoundError
from lance_gateway.planner.access.rights import FULL_ACCESS, Access, TableAccess
from lance_gateway.planner.engine import QueryEngine
from tests.support.judging.principals import create_principal
from tests.support.lake.merging import merge_generations
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

NAMES = [
    "branches",
    "columns",
    "constraints",
    "definitions",
    "generations",
    "indexes",
    "jobs",
    "regions",
    "tables",
    "tags",
    "versions",
    "views",
    "writers",
]
SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64())])


@dataclass(frozen=True, eq=False)
class Granted:
    """Somebody who is not an administrator."""

    tables: Mapping[str, TableAccess] = field(default_factory=dict)
    user: str = "somebody"
    is_admin: bool = False

    def of(self, table: str) -> TableAccess | None:
        return self.tables.get(table)


@pytest.fixture
def table(root: Path, writers: WriterProcess) -> LsmTable:
    """Two regions with two generations each, the first one merged in one of them, and rows in the WAL."""
    rows = pa.table([[1, 2, 3], [0, 0, 0]], schema=SCHEMA)
    made = LsmTable.create(root, "readings", rows, bucketed("id", 2, recorded=True), writers)
    for value in (1, 2):
        made.put([{"id": number, "v": value} for number in range(10)])
        made.close_writers()
    merge_generations(made.path, made.region_of({"id": 1}), 1)
    made.put([{"id": 1, "v": 3}, {"id": 1, "v": 4}])
    lance.write_dataset(pa.table({"x": [1, 2]}), root / "plain.lance")
    return made


@pytest.fixture
def engine(table: LsmTable, open_engine: Callable[[Path], QueryEngine]) -> QueryEngine:
    return open_engine(table.path.parent)


def rows(engine: QueryEngine, sql: str, access: Access = FULL_ACCESS) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = engine.prepare(sql, access=access).execute().read_all().to_pylist()
    return found


def test_tables(engine: QueryEngine, table: LsmTable) -> None:
    plain, readings = rows(engine, "SELECT * FROM system.tables ORDER BY table_name")
    assert plain == {
        "table_schema": "main",
        "table_name": "plain",
        "base_version": 1,
        "base_rows": 2,
        "base_bytes": sum(file.stat().st_size for file in (table.path.parent / "plain.lance/data").iterdir()),
        "base_fragments": 1,
        "primary_key": [],
        "region_specs": [],
        "maintained_indexes": [],
        "indexed_key_columns": [],
        "regions": 0,
        "unmerged_generations": 0,
        "comment": None,
    }
    dataset = table.dataset()
    assert readings["base_version"] == dataset.version
    assert readings["base_rows"] == dataset.count_rows()
    assert readings["primary_key"] == ["id"]
    assert readings["region_specs"] == ["1: bucket(id, 2)"]
    assert readings["indexed_key_columns"] == []
    dataset.create_scalar_index("id", "BTREE")
    assert rows(engine, "SELECT indexed_key_columns FROM system.tables ORDER BY table_name")[1] == {
        "indexed_key_columns": ["id"]
    }
    assert (readings["regions"], readings["unmerged_generations"]) == (2, 3)


def test_regions(engine: QueryEngine, table: LsmTable) -> None:
    merged = table.region_of({"id": 1})
    found = {one["region_id"]: one for one in rows(engine, "SELECT * FROM system.regions")}
    assert set(found) == set(table.regions.values())
    region = found[merged]
    assert region["table_name"] == "readings"
    assert region["status"] == "active"
    assert (region["merged_generation"], region["unmerged_generations"], region["current_generation"]) == (
        1,
        1,
        3,
    )
    assert (region["unflushed_entries"], region["unflushed_rows"]) == (1, 2)
    assert region["last_wal_position"] > region["replay_after_wal_position"]
    (other,) = (one for region_id, one in found.items() if region_id != merged)
    assert (other["merged_generation"], other["unmerged_generations"], other["unflushed_rows"]) == (0, 2, 0)
    assert sorted(region["region_values"] + other["region_values"]) == ["bucket=0", "bucket=1"]


def test_generations(engine: QueryEngine, table: LsmTable) -> None:
    found = rows(engine, "SELECT * FROM system.generations ORDER BY region_id, generation")
    assert [one["generation"] for one in found] == [1, 2, 1, 2]
    merged = table.region_of({"id": 1})
    assert [one["merged"] for one in found] == [
        (one["region_id"], one["generation"]) == (merged, 1) for one in found
    ]
    assert all(one["bytes"] > 0 and one["rows"] > 0 for one in found)
    assert all((one["lag_seconds"] == 0) == one["merged"] for one in found)
    assert sum(one["rows"] for one in found if one["generation"] == 2) == 10


def test_they_join_with_each_other_and_with_tables(engine: QueryEngine) -> None:
    sql = """
        SELECT r.table_name, count(*) AS generations, max(v) AS v
        FROM system.regions r
        JOIN lance.system.generations g ON g.region_id = r.region_id AND NOT g.merged
        CROSS JOIN (SELECT max(v) AS v FROM readings) newest
        GROUP BY r.table_name
    """
    assert rows(engine, sql) == [{"table_name": "readings", "generations": 3, "v": 4}]
    assert rows(engine, "SELECT count(*) AS n FROM system.regions a, system.regions b") == [{"n": 4}]
    assert rows(engine, "SELECT system.tables.base_rows FROM system.tables WHERE table_name = 'plain'") == [
        {"base_rows": 2}
    ]


def test_each_run_reads_anew(engine: QueryEngine, table: LsmTable) -> None:
    statement = engine.prepare("SELECT unflushed_rows FROM system.regions WHERE unflushed_rows > $1")
    two = [pa.scalar(2, pa.int64())]
    assert statement.execute(two).read_all().num_rows == 0
    table.put([{"id": 1, "v": 5}])
    assert statement.execute(two).read_all().to_pylist() == [{"unflushed_rows": 3}]


@pytest.mark.slow
def test_a_merge_in_another_process_is_seen(engine: QueryEngine, table: LsmTable) -> None:
    statement = engine.prepare("SELECT count(*) AS n FROM system.generations WHERE merged")
    assert statement.execute().read_all().to_pylist() == [{"n": 1}]
    merge_generations(table.path, table.region_of({"id": 1}), 2)
    assert statement.execute().read_all().to_pylist() == [{"n": 2}]


def test_a_principal_sees_its_own_tables_only(engine: QueryEngine) -> None:
    nobody = Granted()
    for name in ("tables", "regions", "generations"):
        assert rows(engine, f"SELECT * FROM system.{name}", nobody) == []
    reader = Granted({"readings": TableAccess()})
    (row,) = rows(engine, "SELECT table_name, regions FROM system.tables", reader)
    assert row == {"table_name": "readings", "regions": 2}
    assert len(rows(engine, "SELECT * FROM system.regions", reader)) == 2


def test_a_policy_on_rows_hides_how_many_there_are(engine: QueryEngine) -> None:
    restricted = Granted({"readings": TableAccess(row_filter="v = 0", hidden_columns=frozenset({"id"}))})
    (row,) = rows(engine, "SELECT * FROM system.tables", restricted)
    assert row["table_name"] == "readings"
    assert row["primary_key"] == []
    assert {row[name] for name in ("base_rows", "regions", "unmerged_generations")} == {None}
    assert row["region_specs"] is None
    assert rows(engine, "SELECT * FROM system.regions", restricted) == []
    assert rows(engine, "SELECT * FROM system.generations", restricted) == []


def test_a_table_that_cannot_be_read_hides_no_other(engine: QueryEngine, table: LsmTable) -> None:
    (table.path.parent / "broken.lance").mkdir()
    assert [one["table_name"] for one in rows(engine, "SELECT table_name FROM system.tables")] == [
        "plain",
        "readings",
    ]


def test_a_view_shows_everybody_what_they_may_see(engine: QueryEngine, table: LsmTable) -> None:
    view = table.path.parent / "mine.view.sql"
    view.write_text("SELECT table_name, regions FROM system.tables WHERE regions > 0")
    assert rows(engine, "SELECT * FROM mine") == [{"table_name": "readings", "regions": 2}]
    reader = Granted({"mine": TableAccess(), "plain": TableAccess()})
    assert rows(engine, "SELECT * FROM mine", reader) == []


def test_they_are_listed_and_described(engine: QueryEngine) -> None:
    listed = rows(
        engine, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'system' ORDER BY 1"
    )
    assert [one["table_name"] for one in listed] == NAMES
    shown = [one["table_name"] for one in rows(engine, "SHOW TABLES FROM system")]
    assert sorted(shown) == NAMES
    described = rows(engine, "DESCRIBE system.generations")
    assert described[1] == {"column_name": "table_name", "data_type": "Utf8", "is_nullable": "YES"}


def test_grants_and_jobs_are_shown(engine: QueryEngine) -> None:
    granted = rows(engine, "SHOW GRANTS LIKE 'read%'")
    assert granted == [
        {
            "table_schema": "main",
            "table_name": "readings",
            "privileges": "SELECT, INSERT, UPDATE, DELETE",
        }
    ]
    reader = create_principal(plain=TableAccess())
    assert [(one["table_name"], one["privileges"]) for one in rows(engine, "SHOW GRANTS", reader)] == [
        ("plain", "SELECT")
    ]
    assert rows(engine, "SHOW JOBS") == []


def test_functions_of_the_gateway_are_listed(engine: QueryEngine) -> None:
    query = "SELECT routine_name FROM information_schema.routines WHERE routine_name = '{0}'"
    for name in ("l2_distance", "json_extract", "sqrt"):
        assert {one["function_name"] for one in rows(engine, f"SHOW FUNCTIONS LIKE '{name}'")} == {name}
        assert rows(engine, query.format(name))[0] == {"routine_name": name}
    written = rows(engine, f"SELECT json_object(routine_name, 1) AS x FROM ({query.format('sqrt')}) LIMIT 1")
    assert written == [{"x": '{"sqrt":1}'}]


@pytest.mark.parametrize("listed", ["PROCESSLIST", "JOBS", "DATABASES"])
def test_lists_without_schemas_have_no_from(engine: QueryEngine, listed: str) -> None:
    with pytest.raises(InvalidInputError, match="Unexpected 'FROM'"):
        rows(engine, f"SHOW {listed} FROM x")


def test_other_names_are_refused(engine: QueryEngine) -> None:
    with pytest.raises(
        NotFoundError, match=r"system\.nope does not exist; .* generations, indexes, jobs, regions, tables"
    ):
        engine.prepare("SELECT * FROM system.nope")
    with pytest.raises(NotFoundError, match="'queries' does not exist"):
        engine.prepare("SELECT * FROM queries")


def test_explain_shows_the_leaf(engine: QueryEngine) -> None:
    plan = rows(engine, "EXPLAIN SELECT rows FROM system.generations WHERE merged = false")[1]["plan"]
    assert "DatasetExec: number_of_fragments=1" in plan
    assert "projection=[rows" in plan


def test_only_an_administrator_need_not_wait_for_others(
    open_engine: Callable[[Path], QueryEngine], root: Path
):
    """What reads system tables may go on for ever, too."""
    engine = open_engine(root)
    for sql in (
        "SELECT * FROM system.tables",
        "SELECT 1 FROM system.tables a, system.tables b",
    ):
        assert engine.prepare(sql).reads_only_system
        assert not engine.prepare(sql, access=Granted()).reads_only_system
    assert not engine.prepare("SELECT 1").reads_only_system
