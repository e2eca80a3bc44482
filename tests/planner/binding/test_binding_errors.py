"""Statements that cannot be bound get the right kind of error, which names thing, place and way out."""

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, NotFoundError, UnsupportedError
from lance_gateway.planner.binding.bind import bind
from lance_gateway.planner.plans.errors import translate_error
from tests.planner.names import TABLES, Names, bound, context_with


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "The statement is empty"),
        (" ; -- nothing", "The statement is empty"),
        ("SELECT 1; SELECT 2", "allowed (line 1, column 11):\n  SELECT 1; SELECT 2\n            ^"),
        ("SELECT 'abc", "Missing ': quoted text does not end (line 1, column 8"),
        ('SELECT "a', 'Missing ": quoted text does not end'),
        ("SELECT $$ a", r"Missing $$: quoted text does not end"),
        ("SELECT 1,\n  /* a", "A comment does not end (line 2, column 3"),
        ("SELECT (1", "not closed with ')' (line 1, column 8):\n  SELECT (1\n         ^"),
        ("SELECT 1)", "Unexpected ')' (no bracket is open) (line 1, column 9"),
        ("SELECT [1)", "Unexpected ')' (']' is expected) (line 1, column 10"),
        ("SELECT" + "(" * 200, "Brackets are nested more than 100 deep"),
        ("SELECT * FROM a.b.c.d", "A table's name has at most three parts"),
        ("EXPLAIN orders", "EXPLAIN takes a query"),
        ("EXPLAIN CREATE TABLE x AS SELECT 1", "EXPLAIN takes a query"),
        ("DESCRIBE", "The name of a table is expected (line 1, column 9"),
        ("DESCRIBE orders now", "Unexpected 'now' (line 1, column 17"),
        ("SELECT ?, $1", "all ? or all $n (line 1, column 11"),
        ("SELECT $1, $3", "uses parameter $3 but never $2"),
        ("SELECT $999999999", "but never $1"),
        ("SELECT $0", "A parameter is ? or $1"),
        ("SELECT $name", "names are not supported (line 1, column 8"),
        ("SELECT ?1", "Numbered parameters are written $1"),
        ("SELECT * FROM loop", "The view 'loop' refers to itself: loop -> loop_back -> loop"),
        ("SELECT * FROM asks", "View 'asks': a view has no parameters (line 1, column 33"),
        ("SELECT * FROM writes", "View 'writes': a view is one SELECT statement, and this begins with"),
    ],
)  # fmt: skip
def test_text_that_makes_no_sense(sql: str, message: str):
    with pytest.raises(InvalidInputError) as caught:
        bound(sql)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "INSERT INTO orders VALUES (1)",
            "INSERT is not a query, and a query is expected here: SELECT, WITH",
        ),
        ("create table x as select 1", "CREATE is not a query"),
        ("COPY orders TO 'x'", "The statement 'COPY' is not supported; load rows by bulk ingestion"),
        (
            "GRANT SELECT ON orders TO ada",
            "The statement 'GRANT' is not supported; rights are in the policy file",
        ),
        ("VACUUM orders", "'VACUUM' is not supported; OPTIMIZE compacts a table"),
        ("CALL refresh()", "'CALL' is not supported; there are no procedures"),
        (
            "SELECT id INTO copy FROM orders",
            "SELECT ... INTO is not supported: use CREATE TABLE ... AS SELECT",
        ),
        ("SELECT 1 INTO copy", "use CREATE TABLE ... AS SELECT (line 1, column 15"),
        ("WITH a AS (SELECT 1) INSERT INTO orders SELECT * FROM a", "INSERT is not a query"),
        ("SELEC 1", "The statement 'SELEC' is not supported; did you mean SELECT?"),
        ("SET x = 1", "The statement 'SET' is not supported; there are SELECT"),
        ("BEGIN", "BEGIN is not a query"),
        ("SHOW ALL", "The statement 'SHOW ALL' is not supported"),
        ("PREPARE p AS SELECT 1", "The statement 'PREPARE' is not supported; clients prepare statements"),
        ("EXECUTE p", "The statement 'EXECUTE' is not supported"),
        ("SELECT q'[x]'", "String literals with the prefix q are not supported"),
    ],
)
def test_statements_that_are_not_offered(sql: str, message: str):
    with pytest.raises(UnsupportedError) as caught:
        bound(sql)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM ordres", "Table 'ordres' does not exist; did you mean 'orders'"),
        ("SELECT * FROM ordres", "(tables and views: Orders, asks, both, dangling, items,"),
        ('SELECT * FROM ITEMS, "Items"', "Table 'Items' does not exist; did you mean 'items'?"),
        ("SELECT * FROM other.orders", "Schema 'other' does not exist: CREATE SCHEMA makes one"),
        ("SELECT * FROM spark.main.orders", "Catalog 'spark' does not exist; the only one is 'lance'"),
        ("SELECT * FROM orders WHERE id IN (SELECT id FROM zzz)", "Table 'zzz' does not exist (tables"),
        ("SELECT * FROM dangling", "View 'dangling': Table 'gone' does not exist"),
        ("DESCRIBE zzz", "Table 'zzz' does not exist"),
        ("SHOW COLUMNS FROM zzz", "Table 'zzz' does not exist"),
        ('SELECT * FROM "orders#1"', "Table 'orders#1' does not exist"),
        ("SELECT * FROM orders#1", "Table 'orders#1' does not exist"),
        ("SELECT * FROM 'events/*.parquet'", "does not exist. Statements cannot read files"),
    ],
)  # fmt: skip
def test_tables_that_do_not_exist(sql: str, message: str):
    with pytest.raises(NotFoundError) as caught:
        bound(sql)
    assert message in str(caught.value)


def test_capitals_need_quotes():
    resolver = Names({"Big": TABLES["orders"]}, {})
    with pytest.raises(NotFoundError, match='write "Big" in double quotes'):
        bind("SELECT * FROM Big", resolver)


def test_an_empty_catalog_says_so():
    with pytest.raises(NotFoundError, match="there are no tables yet"):
        bind("SELECT * FROM orders", Names({}, {}))


def test_parameters_are_counted():
    statement = bound("SELECT ?, ?")
    for values in ([], [pa.scalar(1)], [pa.scalar(1)] * 3):
        message = rf"The statement has 2 parameter\(s\), and {len(values)} value\(s\) were bound"
        with pytest.raises(InvalidInputError, match=message):
            statement.with_values(values)


@pytest.mark.parametrize(
    ("sql", "line", "column", "excerpt"),
    [
        ("SELECT id FROM orders WHERE", 1, 28, "SELECT id FROM orders WHERE"),
        ("SELECT id\nFROM orders o\nWHERE o.id = = 1", 3, 14, "WHERE o.id = = 1"),
        ("SELECT id FROM orders, items, recent WHERE id = = 1", 1, 49, "recent WHERE id = = 1"),
    ],
)
def test_datafusions_syntax_errors_show_the_clients_own_text(sql: str, line: int, column: int, excerpt: str):
    statement = bound(sql)
    context = context_with({one.private_name: TABLES[one.table] for one in statement.references})
    with pytest.raises(Exception, match="ParserError") as caught:
        context.sql(statement.text)
    error = translate_error(caught.value, statement, None)
    assert isinstance(error, InvalidInputError)
    text = str(error)
    assert text.startswith("Syntax error: Expected: ")
    assert f"(line {line}, column {column}):" in text
    assert excerpt in text
    assert "orders#1" not in text


def test_long_lines_are_cut_around_the_place():
    with pytest.raises(InvalidInputError) as caught:
        bound("SELECT " + "1, " * 200 + ") + " + "1, " * 200)
    message, excerpt, caret = str(caught.value).split("\n")
    assert message == "Unexpected ')' (no bracket is open) (line 1, column 608):"
    assert excerpt.startswith("  ...")
    assert excerpt.endswith("...")
    assert excerpt[caret.index("^")] == ")"
