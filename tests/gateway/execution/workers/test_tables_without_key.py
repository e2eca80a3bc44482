"""Statements that change rows of tables without a key, by a gateway whose workers read the rows for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_manager
import lance
import pyarrow as pa
import pytest

from tests.support.processes.servers import GatewayProcess, open_connection

ROWS = pa.table({"id": pa.array([1, 2, 2, 3], pa.int64()), "text": ["a", "b", "b", None]})
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("without_key")
    lance.write_dataset(ROWS, str(made / "plain.lance"), max_rows_per_file=2)
    return made


@pytest.fixture(scope="module")
def cursor(root: Path) -> Iterator[Any]:
    with (
        GatewayProcess(root, "--set", "server.workers=2") as server,
        open_connection(server.uri) as connection,
        connection.cursor() as cursor,
    ):
        cursor.adbc_ingest("logged", ROWS, mode="create")
        yield cursor


@pytest.mark.parametrize("table", ["plain", "logged"])
def test_counts_rows_and_parameters(cursor: Any, root: Path, table: str) -> None:
    counts = []
    for text, values in (
        (f"UPDATE {table} SET text = ? WHERE id = ?", ("new", 2)),
        (f"DELETE FROM {table} WHERE text IS NULL", ()),
        (f"DELETE FROM {table} WHERE id = (SELECT max(id) + 10 FROM {table})", ()),
        (f"INSERT INTO {table} SELECT id + 10, text FROM {table}", ()),
        (f"MERGE INTO {table} t USING (SELECT 11 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE", ()),
    ):
        cursor.execute(text, values)
        counts.append(cursor.rowcount)
    assert counts == [2, 1, 0, 3, 1]
    cursor.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(20, "x"), (20, "x"), (21, "y")])
    assert cursor.rowcount == 3
    cursor.execute(f"UPDATE {table} SET id = id + 1 WHERE id >= 20 RETURNING id, text")
    assert sorted(cursor.fetchall()) == [(21, "x"), (21, "x"), (22, "y")]
    cursor.adbc_ingest(table, ROWS.slice(0, 1), mode="append")
    cursor.execute(f"DELETE FROM {table} WHERE id = 1")
    assert cursor.rowcount == 2
    cursor.execute(f"SELECT * FROM {table} ORDER BY id")
    rows = [(2, "new"), (2, "new"), (12, "new"), (12, "new"), (21, "x"), (21, "x"), (22, "y")]
    assert cursor.fetchall() == rows
    stored = lance.dataset(str(root / f"{table}.lance")).to_table().sort_by("id")
    assert list(zip(*stored.to_pydict().values(), strict=True)) == rows


def test_an_error_names_the_statement_s_own_table(cursor: Any) -> None:
    with pytest.raises(adbc_driver_manager.Error, match=r"plain.*no column 'colour'|colour") as refused:
        cursor.execute("DELETE FROM plain WHERE colour = 1")
    assert "/rows" not in str(refused.value)


def test_rows_have_numbers_for_writers_alone(cursor: Any) -> None:
    cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'")
    assert sorted(cursor.fetchall()) == [("logged",), ("plain",)]
    cursor.execute("SELECT column_name FROM information_schema.columns WHERE table_name = 'plain'")
    assert sorted(cursor.fetchall()) == [("id",), ("text",)]
