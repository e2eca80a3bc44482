"""Statements of other dialects become ours, and do the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.planner.access.rights import FULL_ACCESS
from lance_gateway.planner.engine import PreparedQuery
from lance_gateway.planner.writes.dml.statement.translate import translate_dml
from tests.planner.writes.dml.lake import Lake, open_lake
from tests.planner.writes.dml.titled import Case, read_titled


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    root: Path = tmp_path_factory.mktemp("lake")
    made = open_lake(root)
    yield made
    made.engine.close()


@pytest.mark.parametrize("case", read_titled("dialects.txt"), ids=str)
def test_is_translated(case: Case, lake: Lake) -> None:
    dialect, statement, expected = case.parts
    assert translate_dml(statement, dialect, lake.engine.visible_catalog(FULL_ACCESS)) == expected
    prepared = lake.engine.prepare_statement(statement, lake.speaking(dialect).settings)
    assert not isinstance(prepared, PreparedQuery)


def test_values_of_duplicates_are_those_that_were_given(lake: Lake) -> None:
    mysql = lake.speaking("mysql")
    sql = (
        "INSERT INTO `People` (`ID`, age) VALUES (2, 1000) "
        "ON DUPLICATE KEY UPDATE age = VALUES(age) + people.age"
    )
    assert mysql.write(sql).affected == 1
    assert lake.read("SELECT age FROM people WHERE id = 2") == [{"age": 1022}]


def test_a_query_that_looks_like_a_statement_stays_one(lake: Lake) -> None:
    sql = "WITH x AS (SELECT 'update' AS word) SELECT nvl(word, '') AS word FROM x"
    prepared = lake.engine.prepare_statement(sql, lake.speaking("spark").settings)
    assert isinstance(prepared, PreparedQuery)


@pytest.mark.parametrize("dialect", ["mysql", "spark", "bigquery", "snowflake"])
@pytest.mark.parametrize("text", ["a\\') DELETE FROM people -- ", "it\\'s an update"])
def test_the_end_of_a_text_is_where_its_dialect_has_it(lake: Lake, dialect: str, text: str) -> None:
    """Where a backslash hides a quote, what follows is text, and no statement."""
    query = f"WITH x AS (SELECT '{text}' AS word) SELECT word FROM x"
    settings = lake.speaking(dialect).settings
    prepared = lake.engine.prepare_statement(query, settings)
    assert isinstance(prepared, PreparedQuery)
    assert prepared.execute().read_all()["word"].to_pylist() == [text.replace("\\", "")]
    assert isinstance(lake.engine.prepare_statement(f"EXPLAIN {query}", settings), PreparedQuery)


@pytest.mark.parametrize(
    ("dialect", "sql", "message"),
    [
        ("mysql", "UPDATE people SET age = WHERE", "Syntax error in mysql SQL"),
        ("mysql", "DELETE FROM people WHERE age > 1 LIMIT 3", "Syntax error"),
        ("spark", "UPDATE people SET age = transform(age, x -> x)", "not supported"),
        ("spark", "INSERT OVERWRITE TABLE people SELECT * FROM people", "INSERT OVERWRITE is not supported"),
    ],
)
def test_what_has_no_counterpart_is_refused(lake: Lake, dialect: str, sql: str, message: str) -> None:
    with pytest.raises((InvalidInputError, UnsupportedError), match=message):
        lake.speaking(dialect).write(sql)
