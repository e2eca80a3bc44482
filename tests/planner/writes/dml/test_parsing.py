"""Statements that write are parsed as one tree, whose parts are found in the text again."""

from pathlib import Path

import pytest
from sqlglot import exp

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError
from lance_gateway.planner.writes.dml.insert import build_query
from lance_gateway.planner.writes.dml.prepared_write import PreparedChange
from lance_gateway.planner.writes.dml.statement.text import Splice, parse_write
from lance_gateway.planner.writes.dml.statement.tree import locate
from tests.planner.writes.dml.lake import open_lake


@pytest.mark.parametrize(
    "value",
    [
        "(a + 1)",
        "(a OR b) AND (c)",
        "a BETWEEN 1 AND 2",
        "NOT a IS NULL",
        "CASE WHEN a THEN 1 ELSE (2) END",
        "(SELECT max(x) FROM u WHERE u.a IN (1, 2))",
        "f(a, x -> x + 1)[1]",
        "json_object('a': 1, KEY 'b' VALUE a NULL ON NULL)",
        "sum(a) FILTER (WHERE a > 1) OVER (ORDER BY b)",
        "'a' || $1::text",
        "/* c */ a -- d\n + 2",
        "-1.5e3",
        "DATE '2020-01-01'",
    ],
)
def test_a_value_is_found_in_the_text(value: str) -> None:
    sql = f"UPDATE t SET a = {value}, b = ( 2 ) WHERE c"
    statement = parse_write(sql, exp.Update)
    shown = [
        sql[place.start : place.stop]
        for place in (locate(one.expression) for one in statement.tree.expressions)
    ]
    assert shown == [value.removeprefix("/* c */ "), "( 2 )"]


def test_parameters_are_numbered_where_a_part_is_copied() -> None:
    statement = parse_write("INSERT INTO t (a, b) VALUES ($2,$1), (1, $2 + $1)", exp.Insert)
    rows = [row.expressions for row in statement.tree.expression.expressions]
    assert [statement.parameter(value) for row in rows for value in row] == [1, 0, None, None]
    query = Splice(statement).add("SELECT ").copy(rows[1][1]).build()
    assert (query.sql, query.ordinals) == ("SELECT $1 + $2", (1, 0))


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE t SET a = 1 WHERE b WHERE c",
        "UPDATE t SET a = 1 SET b = 2",
        "UPDATE t SET a = 1,",
        "UPDATE t SET a",
        "UPDATE t SET *",
        "UPDATE t SET a = 1 WHERE id IN (1,, 2)",
        "UPDATE t SET a = 1 WHERE id = 1 AND",
        "DELETE FROM t TABLESAMPLE (10 PERCENT)",
        "DELETE FROM t WHERE a ORDER BY b LIMIT 1",
        "DELETE FROM t u (a, b)",
        "INSERT INTO t (a,) VALUES (1)",
        "INSERT INTO t VALUES (1,, 2)",
        "INSERT INTO t VALUES (1), 2",
        "INSERT INTO t VALUES (1) AS v (a)",
        "INSERT INTO t VALUES (1) ON CONFLICT (a)",
        "INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE a > 1 DO NOTHING",
        "MERGE INTO t USING u ON WHEN MATCHED THEN DELETE",
        "MERGE INTO t USING u ON a = b WHEN MATCHED AND THEN DELETE",
        "MERGE INTO t USING u ON a = b WHEN THEN DELETE",
        "MERGE INTO t USING u ON a = b WHEN MATCHED DELETE",
        "MERGE INTO t USING u ON a = b WHEN NOT MATCHED THEN DELETE",
        "MERGE INTO t USING u ON a = b WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *",
        "MERGE INTO t USING u ON a = b WHEN NOT MATCHED THEN INSERT (a)",
        "MERGE INTO t USING u USING (a) WHEN MATCHED THEN DELETE",
    ],
)
def test_nothing_is_left_out_of_a_statement(sql: str) -> None:
    kind = {"UPDATE": exp.Update, "DELETE": exp.Delete, "INSERT": exp.Insert, "MERGE": exp.Merge}
    with pytest.raises(InvalidInputError, match=r"line 1, column \d+"):
        parse_write(sql, kind[sql.split(maxsplit=1)[0]])


@pytest.mark.parametrize(
    "name", ["check", "date", "default", "desc", "drop", "end", "grant", "key", "period", "user"]
)
def test_keywords_are_names_of_columns(name: str) -> None:
    insert = parse_write(
        f"INSERT INTO t (a, {name}) VALUES (1, 2) ON CONFLICT ({name}) DO NOTHING", exp.Insert
    )
    assert [one.name for one in insert.tree.args["columns"]] == ["a", name]
    update = parse_write(f"UPDATE t SET {name} = t.{name} + 1, t.{name} = 2", exp.Update)
    assert [one.this.name for one in update.tree.expressions] == [name, name]


def test_calls_may_be_nested_deeply() -> None:
    value = f"{'abs(' * 300}a{')' * 300}"
    sql = f"UPDATE t SET a = {value}, b = 2 WHERE c"
    place = locate(parse_write(sql, exp.Update).tree.expressions[0].expression)
    assert sql[place.start : place.stop] == value
    with pytest.raises(UnsupportedError, match="nested too deeply"):
        parse_write(f"UPDATE t SET a = {'CASE WHEN a THEN ' * 300}a{' END' * 300}", exp.Update)


@pytest.mark.parametrize(
    ("condition", "is_lookup"),
    [
        ("id = 1", True),
        ("people.id IN (1, 2) AND age BETWEEN 1 AND 3", True),
        ("name LIKE 'a!%' ESCAPE '!' AND 2 > CASE WHEN age > 1 THEN 1 END AND id = 1", True),
        ("id = 1 AND (age = 1 OR name IS NULL)", True),
        ("id = 1 OR age = 1", False),
        ("NOT id = 1", False),
        ("id NOT IN (1)", False),
        ("id = 1 AND id = 2", False),
        ("id = age", False),
    ],
)
def test_conditions_that_name_keys_are_looked_up(tmp_path: Path, condition: str, is_lookup: bool) -> None:
    lake = open_lake(tmp_path)
    try:
        change = lake.engine.prepare_statement(f"UPDATE people SET age = 1 WHERE {condition}")
        assert isinstance(change, PreparedChange)
        assert ("each key is claimed" in change.summary) == is_lookup
        expected = lake.engine.prepare(f"SELECT id FROM people WHERE {condition}").execute().read_all()
        assert lake.write(f"DELETE FROM people WHERE {condition}").affected == expected.num_rows
    finally:
        lake.engine.close()


def test_errors_of_the_tokenizer_come_first() -> None:
    with pytest.raises(LanceGatewayError, match="quoted text does not end"):
        parse_write("DELETE FROM t WHERE a = 'x", exp.Delete)


@pytest.mark.parametrize(
    ("query", "read"),
    [
        (
            "SELECT n.*, 1 FROM news n JOIN orders o ON TRUE",
            "SELECT n.*, 1 FROM news n JOIN orders o ON TRUE",
        ),
        ("(SELECT DISTINCT * FROM people)", "(SELECT DISTINCT * FROM people)"),
        ("TABLE people ORDER BY id", "SELECT * FROM people ORDER BY id"),
        ("FROM people", "FROM people"),
        ("SELECT id 'x', FROM people", "SELECT id 'x', FROM people"),
        ("SELECT 1 FROM a CROSS JOIN b", "SELECT 1 FROM a CROSS JOIN b"),
        ("SELECT 1 FROM a JOIN b ON conflict = 1", "SELECT 1 FROM a JOIN b ON conflict = 1"),
        ("SELECT 1 FROM a NATURAL JOIN b c", "SELECT 1 FROM a NATURAL JOIN b c"),
    ],
)
@pytest.mark.parametrize(
    "conflict", ["ON CONFLICT (id) DO UPDATE SET age = 1", "ON DUPLICATE KEY UPDATE age = 1"]
)
def test_the_query_of_an_insert_is_its_text(query: str, read: str, conflict: str) -> None:
    sql = f"WITH a AS (SELECT 1) INSERT INTO people {query} {conflict} RETURNING *"
    statement = parse_write(sql, exp.Insert)
    assert len(statement.tree.args["conflict"].expressions) == 1
    assert build_query(statement).sql == f"WITH a AS (SELECT 1) {read}"
