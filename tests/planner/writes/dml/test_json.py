"""Writes that compute JSON, over rows that are read and over those of the statement itself."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.planner.writes.dml.lake import Lake, open_lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    opened = open_lake(tmp_path)
    yield opened
    opened.engine.close()


def test_every_statement_writes_json(lake: Lake) -> None:
    lake.write("INSERT INTO people (id, name) VALUES (50, json_object('a': 1)), (51, json_array(1, 'x'))")
    rows = "SELECT id + 100, json_object('id': id, 'n': name) FROM people WHERE id < 2"
    lake.write(f"INSERT INTO people (id, name) {rows}")
    lake.write("UPDATE people SET name = json_set(name, '$.b', id + $1) WHERE id = 50", 0.5)
    lake.write("UPDATE people SET name = json_remove(name, '$.n') WHERE name IS JSON OBJECT AND id > 99")
    merge = (
        "MERGE INTO people p USING (SELECT 51 AS id, 5 AS v) s ON p.id = s.id WHEN MATCHED THEN UPDATE SET "
    )
    lake.write(merge + "name = json_array(s.v, p.name FORMAT JSON)")
    lake.write("DELETE FROM people WHERE json_array(id) = '[101]' OR to_json(id) = '3'")
    found = {row["id"]: row["name"] for row in lake.rows("people")}
    assert 3 not in found
    assert 101 not in found
    written = {number: json.loads(found[number]) for number in (50, 51, 100)}
    assert written == {50: {"a": 1, "b": 50.5}, 51: [5, [1, "x"]], 100: {"id": 0}}


def test_rows_of_the_statement_itself_are_read_and_written(lake: Lake) -> None:
    """SET of ON CONFLICT, and RETURNING, are computed over rows in memory."""
    upsert = (
        "INSERT INTO people (id, name) VALUES (1, json_object('new': 1)) ON CONFLICT (id) DO UPDATE "
        "SET name = json_object('old': people.name, 'new': json_extract(excluded.name, '$.new')) "
        "RETURNING json_array(id, name FORMAT JSON) AS j, name ->> 'old' AS old"
    )
    result = lake.write(upsert)
    assert result.rows is not None
    (row,) = result.rows.to_pylist()
    assert (json.loads(row["j"]), row["old"]) == ([1, {"old": "p1", "new": 1}], "p1")
