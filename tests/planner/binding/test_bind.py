"""Statements become what DataFusion gets, and mean the same."""

import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from datafusion import SessionConfig, SessionContext
from sqlglot import exp, parse_one
from sqlglot.errors import ParseError
from sqlglot.optimizer.scope import traverse_scope

from lance_gateway.planner.binding.bound_statement import StatementKind
from lance_gateway.planner.bridge.types.parameter_types import sql_literal
from lance_gateway.planner.sql.text.tokens import quote
from tests.planner.names import TABLES, VIEWS, bound, context_with
from tests.planner.titled import Case, read_titled

CASES = read_titled("binding.sql")
# DataFusion cannot run these as they are written; what they are rewritten to runs.
BETTER_THAN_WRITTEN = {
    "a nested CTE of the same name is renamed, since DataFusion refuses it",
    "a recursive CTE may start from the table of its own name",
    "table functions are found whatever their capitals",
    "who asks is a constant",
}
# DataFusion parses these but cannot run them in either form.
NEVER_RUN = {"lateral subqueries"}
RUNNABLE = [
    case
    for case in CASES
    if not case.parts[0].startswith(("EXPLAIN", "SHOW"))
    and not any(catalog in case.parts[0] for catalog in ("information_schema", "pg_"))
    and "parameter" not in case.title
    and case.title not in NEVER_RUN
]


def public_context() -> SessionContext:
    """DataFusion over the same tables and views by their own names, without the binder."""
    config = SessionConfig().with_target_partitions(1).with_default_catalog_and_schema("lance", "main")
    found = SessionContext(config.set("datafusion.sql_parser.map_string_types_to_utf8view", "false"))
    for name, table in TABLES.items():
        found.register_record_batches(quote(name), [table.to_batches()])
    for name in ("recent", "pricey", "both"):
        found.sql(f"CREATE VIEW {name} AS {VIEWS[name].rstrip(';')}")
    return found


def rows(found: pa.Table) -> list[str]:
    return sorted(str(row) for row in zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_statement_is_spliced(case: Case):
    statement, expected = case.parts
    # Lines of the data file end where the text does; the parameters' own spaces may stand last.
    assert bound(statement).text == expected.rstrip()


@pytest.mark.parametrize("case", RUNNABLE, ids=str)
def test_a_spliced_statement_answers_as_the_original(case: Case):
    statement = bound(case.parts[0])
    found = context_with({one.private_name: TABLES[one.table] for one in statement.references})
    answer = found.sql(statement.text).to_arrow_table()
    if case.title in BETTER_THAN_WRITTEN:
        with pytest.raises(Exception, match=r"specified more than once|not found|No field named"):
            public_context().sql(case.parts[0]).to_arrow_table()
        assert answer.num_rows
        return
    original = public_context().sql(case.parts[0]).to_arrow_table()
    assert answer.schema.names == original.schema.names
    assert answer.schema.types == original.schema.types
    assert rows(answer) == rows(original)


def full_parse(sql: str) -> list[str] | None:
    """The base tables that sqlglot's own scopes find; None for statements that it reads in another way."""
    own = ("RECURSIVE", "|>", "information_schema", "pg_", "generate_series", "`", "(orders) AS", *VIEWS)
    if not sql.startswith(("SELECT", "WITH")) or any(one in sql for one in own):
        return None
    try:
        tree = parse_one(sql.partition(";")[0], dialect="duckdb")
    except ParseError:
        return None
    tables = [
        source
        for scope in traverse_scope(tree)
        for source in scope.tables
        if source.name and isinstance(scope.sources.get(source.alias_or_name), exp.Table)
    ]
    return sorted(one.name if one.this.args.get("quoted") else one.name.lower() for one in tables)


PARSED = [(case, tables) for case in CASES if (tables := full_parse(case.parts[0])) is not None]


@pytest.mark.parametrize(("case", "tables"), PARSED, ids=[str(case) for case, _ in PARSED])
def test_references_agree_with_a_full_parser(case: Case, tables: list[str]):
    assert sorted(one.table for one in bound(case.parts[0]).references) == tables


def test_the_full_parser_had_something_to_say():
    assert len(PARSED) > 30


def test_the_kinds_of_statements():
    assert bound("(SELECT 1)").kind is StatementKind.QUERY
    assert bound("VALUES (1)").kind is StatementKind.QUERY
    assert bound("explain select 1").kind is StatementKind.EXPLAIN
    assert bound("EXPLAIN ANALYZE SELECT 1").kind is StatementKind.EXPLAIN_ANALYZE
    assert bound("DESCRIBE orders").kind is StatementKind.DESCRIBE
    assert bound("SHOW COLUMNS FROM orders").kind is StatementKind.SHOW


def test_values_that_can_not_be_bound_become_literals():
    statement = bound("SELECT ?-?, ? FROM orders WHERE item=? LIMIT ?")
    lists = pa.scalar(["a"], pa.list_(pa.string()))
    values = [pa.scalar(1), pa.scalar(-2), lists, pa.scalar("it's"), pa.scalar(5, pa.int32())]
    assert statement.parameter_count == 5
    text, bindable = statement.with_values(values)
    assert text.replace(sql_literal(lists), "$3") == statement.text
    assert bindable.keys() == {"1", "2", "4", "5"}


def test_numbered_parameters_may_repeat():
    statement = bound("SELECT $2, $1, $2")
    assert statement.parameter_count == 2
    text, values = statement.with_values([pa.scalar(True), pa.scalar("x")])
    assert (text, values["2"].as_py()) == ("SELECT $2, $1, $2", "x")


@pytest.mark.slow
def test_a_thousand_alternatives_and_deep_brackets_bind():
    alternatives = " OR ".join(f"(id = {i} AND item = 'a{i}')" for i in range(1000))
    assert len(bound(f"SELECT * FROM orders WHERE {alternatives}").references) == 1
    assert len(bound(f"SELECT {'(' * 80}1{')' * 80} FROM orders").references) == 1


def test_threads_bind_at_the_same_time():
    statements = [case.parts for case in CASES] * 10
    with ThreadPoolExecutor(4) as pool:
        rendered = pool.map(lambda parts: bound(parts[0]).text, statements)
    assert list(rendered) == [expected.rstrip() for _, expected in statements]


def test_binding_is_quick_enough_to_do_per_query():
    sql = "SELECT o.id, count(*) FROM orders o JOIN items i ON o.item = i.item WHERE o.id > ? GROUP BY o.id"
    bound(sql)
    start = time.process_time()
    for _ in range(50):
        bound(sql)
    assert (time.process_time() - start) / 50 < 0.005  # ten times what it takes, for busy machines


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT id FROM orders WHERE id IN ($1,$2)", 2),
        ("SELECT coalesce($1,$2), coalesce($1,$2) FROM orders", 2),
        ("SELECT 'costs $1,$2' FROM orders WHERE id = $1", 1),
        ("SELECT $$quoted $1,$2$$, $tag$ $3,$4 $tag$ FROM orders WHERE id = $1", 1),
    ],
)
def test_dollars_of_parameters_are_told_from_dollar_quotes(sql: str, parameters: int) -> None:
    assert bound(sql).parameter_count == parameters
