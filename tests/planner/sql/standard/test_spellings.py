"""Functions and forms of other databases answer as DuckDB does, or are refused with what to write instead."""

import datetime as dt
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError
from planner.tables.state.catalog import View
from tests.support.judged import Judged, open_judged
from tests.support.results import rows_of

UUID = "550e8400-e29b-41d4-a716-446655440000"
T = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5], pa.int64()),
        "k": ["a", "b", "a", None, "b"],
        "n": pa.array([3, -1, None, 0, 3], pa.int32()),
        "f": [1.5, -2.25, 0.0, None, 3.0],
        "b": [True, False, None, True, True],
        "s": ["Hello World", "abc123", "", None, "x,y,z"],
        "d": [dt.date(2024, 2, 29), dt.date(2023, 12, 31), None, dt.date(2024, 1, 1), dt.date(1999, 7, 4)],
        "ts": pa.array(
            [
                dt.datetime(2024, 2, 29, 13, 5, 9, 123456),
                dt.datetime(2023, 12, 31),
                None,
                dt.datetime(2024, 1, 1, 12),
                dt.datetime(1999, 7, 4, 23, 59, 59, 999000),
            ],
            pa.timestamp("us"),
        ),
        "st": [{"a": 1, "b": "x"}, {"a": 2, "b": None}, None, {"a": 3, "b": "z"}, {"a": None, "b": "q"}],
        "u": [UUID] * 5,
        "tm": pa.array(
            [dt.time(10), dt.time(23, 30), None, dt.time(0, 0, 1, 5), dt.time(10)], pa.time64("us")
        ),
    }
)
SPELLINGS = Path(__file__).parents[2] / "data" / "spellings.sql"


def read_spellings() -> Iterator[tuple[str, str]]:
    """Yield each statement, and the one by which DuckDB judges it."""
    statements = [
        line.rstrip(";") for line in SPELLINGS.read_text().splitlines() if line and line[:2] != "--"
    ]
    for statement, judge in zip(statements, [*statements[1:], ""], strict=True):
        if not statement.startswith("-> "):
            yield statement, judge[3:] if judge.startswith("-> ") else statement


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("spellings"), {"t": T}) as opened:
        yield opened


def sorted_rows(rows: list[Any]) -> list[Any]:
    """Return rows in one order, numbers of all types alike."""
    return sorted(
        (tuple(float(value) if isinstance(value, int) else value for value in row) for row in rows), key=repr
    )


@pytest.mark.parametrize(("sql", "judge"), list(read_spellings()))
def test_what_other_databases_write_is_answered(judged: Judged, sql: str, judge: str) -> None:
    found = rows_of(judged.engine.execute(sql).read_all())
    assert sorted_rows(found) == sorted_rows(judged.judge.execute(judge).fetchall())


REFUSED = {
    "SELECT mode(k) FROM t": "GROUP BY v",
    "SELECT mode() WITHIN GROUP (ORDER BY k) FROM t": "GROUP BY v",
    "SELECT age(d, d) FROM t": "a - b",
    "SELECT format('%s', k) FROM t": "||",
    "SELECT regexp_extract(s, 'a', n) FROM t": "literal number",
    "SELECT date_diff('week', d, d) FROM t": "'epoch'",
    "SELECT json_extract(s, '$.a') FROM t": "structs",
    "SELECT [x * 2 FOR x IN l] FROM t": "array_agg",
    "PIVOT t ON k USING sum(n)": "FILTER",
    "SELECT * FROM t PIVOT (sum(n) FOR k IN ('a'))": "FILTER",
    "SELECT * FROM t UNPIVOT (v FOR c IN (n, id))": "UNION ALL",
    "SELECT sum(n) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) FROM t": "- n",
    "SELECT * FROM t ORDER BY ALL": "names its columns",
    "SELECT to_char(ts, 'WW') FROM t": "pattern WW",
    "SELECT id FROM t WHERE random() BETWEEN SYMMETRIC 1 AND 0": "compute them in a subquery",
    "SELECT to_char(n, 'FM999.00') FROM t": "of numbers",
    "SELECT date_format(ts, 'yyyy') FROM t": "'%Y-%m-%d'",
}


@pytest.mark.parametrize(("sql", "way_out"), REFUSED.items())
def test_what_is_not_offered_is_refused_with_the_way_out(judged: Judged, sql: str, way_out: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"(?s){re.escape(way_out)}.*at line 1, column \d+"):
        judged.engine.execute(sql)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT sign(n, 1) FROM t", r"sign\(\) has 2 arguments here, and takes 1"),
        ("SELECT if(b) FROM t", r"if\(\) has 1 arguments here, and takes 2 or 3"),
        ("SELECT 'zz'::uuid", "'zz' is no UUID, which is written xxxxxxxx"),
        ("SELECT CAST(s AS UUID) FROM t", "no UUID, which is written xxxxxxxx"),
        ("SELECT 1_000", "without _"),
    ],
)
def test_bad_input_is_named(judged: Judged, sql: str, message: str) -> None:
    with pytest.raises(LanceGatewayError, match=message) as caught:
        judged.engine.execute(sql).read_all()
    assert isinstance(caught.value, InvalidInputError)


def test_results_are_called_as_in_postgresql(judged: Judged) -> None:
    sql = "SELECT sign(n), if(b, 1, 2), u::uuid, localtimestamp, sign(f) AS own FROM t"
    assert judged.engine.execute(sql).schema.names == ["sign", "if", "u", "localtimestamp", "own"]


def test_parameters_are_copied_with_their_numbers(judged: Judged) -> None:
    sql = "SELECT id FROM t WHERE n BETWEEN SYMMETRIC ? AND ? AND u = ?::uuid AND if(id > ?, true, false)"
    values = [pa.scalar(3), pa.scalar(0), pa.scalar(UUID.upper()), pa.scalar(1)]
    assert sorted_rows(rows_of(judged.engine.execute(sql, parameters=values).read_all())) == [(4.0,), (5.0,)]


def test_views_are_written_so_too(judged: Judged) -> None:
    select = "SELECT to_char(ts, 'YYYY') AS y, count(*) AS c FROM t WHERE sign(n) = 1 GROUP BY 1 ORDER BY ALL"
    assert judged.engine.catalog.write_view("spelled", View(select), replaces=False)
    found = rows_of(judged.engine.execute("SELECT y, if(c > 0, 'some', 'none') FROM spelled").read_all())
    assert sorted(found) == [("1999", "some"), ("2024", "some")]


def test_settings_are_listed(judged: Judged) -> None:
    for name in ("pg_settings", "pg_catalog.pg_settings"):
        found = judged.engine.execute(f"SELECT setting FROM {name} WHERE name = 'server_encoding'").read_all()
        assert rows_of(found) == [("UTF8",)]
