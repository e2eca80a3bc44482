"""Types that follow from those of columns are those that DataFusion plans."""

from collections.abc import Iterator
from importlib import import_module
from itertools import product

import pyarrow as pa
import pytest
from datafusion import SessionContext
from sqlglot import exp

from lance_gateway.planner.plans.contexts import ContextOptions, Contexts
from lance_gateway.planner.sql.rules import RULES, apply_rules
from lance_gateway.planner.sql.tree.dialect import parse_query, write_sql
from lance_gateway.planner.sql.tree.tree import Tree
from tests.planner.sql.rules import test_rules, test_same_plans
from tests.planner.titled import Case
from tests.support.sampling import sample

lists = import_module("lance_gateway.planner.sql.rules.lists")
TYPES = {
    "i8": pa.int8(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "d10": pa.decimal128(10, 2),
    "d38": pa.decimal128(38, 10),
    "d50": pa.decimal256(50, 3),
    "s": pa.string(),
    "b": pa.bool_(),
    "y": pa.binary(),
    "day": pa.date32(),
    "us": pa.timestamp("us"),
    "at": pa.timestamp("s", "Europe/Berlin"),
    "tm": pa.time64("us"),
    "k": pa.dictionary(pa.int32(), pa.string()),
    "l": pa.list_(pa.decimal128(10, 2)),
    "st": pa.struct({"x": pa.int32(), "y": pa.list_(pa.string())}),
}
LITERALS = ("1", "-1", "4.44", "9223372036854775808", "'1'", "NULL", "INTERVAL '1 day'")
NUMBERS = ("i32", "u64", "f32", "f64", "d10", "d38", "d50")
BESIDE = ("i8", "u32", "d10", "f64", "s", "day", "us", *LITERALS)
EXPRESSIONS = (
    *(f"{a} {sign} {b}" for a, b in product(NUMBERS, (*NUMBERS, *LITERALS)) for sign in "+/"),
    *(f"{a} {sign} {b}" for a, b in product(("d10", "u32", "day", "us"), BESIDE) for sign in "-*%"),
    *(f"coalesce({a}, {b}) || {b}" for a, b in product(("i32", "d38", "s", "us", "y"), BESIDE)),
    *(f"CASE WHEN b THEN {a} ELSE {b} END" for a, b in product(("i32", "d10", "s", "at"), BESIDE)),
    *(f"{call}({a})" for a in TYPES for call in ("abs", "sum", "avg", "min", "max", "count", "upper", "-")),
    *(f"round({a}, {digits})" for a in ("d10", "d38", "f32") for digits in ("1", "-1", "i32", "1 + 1", "20")),
    *(f"CAST(s AS {kind})" for kind in ("INT", "DECIMAL(5, 1)", "TIMESTAMP(3)", "TEXT", "VARCHAR(3)")),
    *("i8::REAL", "s::TIMESTAMPTZ", "s::DATE", "[i8]::BIGINT[]", "TRY_CAST(s AS DECIMAL(40, 2))", "X'00'"),
    *("arrow_cast(i8, 'Decimal128(7, 2)')", "arrow_cast(s, 'Date64')", "arrow_try_cast(s, 'Int8')"),
    *("l[1]", "l[1:2]", "st['x']", "st.x", "t.st.x", "t.st.y[1]", "(st).x", "nullif(l, l)", "greatest(k, s)"),
    *("b AND NOT b", "i8 IN (1, 2)", "s LIKE 'a'", "l = l", "1 = ANY(l)", "EXISTS (SELECT 1)", "b IS TRUE"),
    *("(SELECT max(d10) FROM t AS u)", "(SELECT f32 UNION SELECT d10)", "date_trunc('day', us)", "now()"),
    *("date_part('year', us)", "extract(year FROM us)", "ceil(d10)", "power(d10, 2)", "nvl2(i8, d10, f64)"),
    *("row_number() OVER (ORDER BY i8)", "sum(i8) OVER ()", "to_timestamp(s)", "count(*)"),
    *("lag(d10, 1) OVER (ORDER BY i8)", "ntile(3) OVER (ORDER BY i8)", "avg(d10) OVER ()", "rank() OVER ()"),
    *("count(*) OVER (PARTITION BY s)", "first_value(s) OVER (ORDER BY i8)", "nth_value(d38, 2) OVER ()"),
)  # fmt: skip
QUERIES = (
    "SELECT x.d10 + 1 FROM (SELECT f64 AS d10 FROM t) AS x",
    "SELECT d10 + 1 FROM (SELECT d10 FROM t UNION ALL SELECT f64 FROM t) AS x",
    "SELECT d10 + 1 FROM t WHERE i8 IN (SELECT d10 + t.f64 FROM (SELECT i64 AS d10 FROM t) AS u)",
    "SELECT a + 1, b FROM (SELECT i8, f32 FROM t) AS x(a, b)",
    "SELECT a + c.b FROM t AS c(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, u)",
    "WITH c AS (SELECT f64 AS d10 FROM t), d AS (SELECT d10 AS i8 FROM c) SELECT i8 + 1 FROM d",
    "WITH c(i8) AS (SELECT d10 FROM t) SELECT i8 + 1 FROM c WHERE EXISTS (SELECT i8 * 2 FROM t)",
    "WITH t AS (SELECT f64 AS d10 FROM t) SELECT d10 + 1 FROM t",
    "WITH RECURSIVE r AS (SELECT i8 AS n FROM t UNION ALL SELECT 2 FROM r WHERE n < 2) SELECT n + 1 FROM r",
    "SELECT i8 + 1 FROM (VALUES (1.5)) AS v(i8)",
    "SELECT i8 + 1, value FROM t CROSS JOIN generate_series(1, 2)",
    "SELECT d10 + 1 FROM t JOIN (SELECT f32 AS d10, i8 FROM t) AS u USING (d10)",
    "SELECT a.d10 + b.d10 FROM t AS a LEFT JOIN (SELECT f32 AS d10, i8 FROM t) AS b USING (i8)",
    "SELECT q.* FROM (SELECT *, i8 + d10 AS z FROM t) AS q WHERE z + 1 > 1",
    "SELECT st.d10 + 1 FROM t AS st",
    "SELECT x + 1 FROM (SELECT t.st.x FROM t) AS q",
    "SELECT (SELECT d10 + 1) FROM t ORDER BY d10 + 1",
    "SELECT e + 1 FROM t CROSS JOIN UNNEST(t.l) AS u(e)",
    "SELECT f64 AS d10 FROM t GROUP BY f64 HAVING sum(d10) > 1 ORDER BY d10 + 1",
)


@pytest.fixture(scope="module")
def context() -> SessionContext:
    context = Contexts(None).make(ContextOptions(1))
    rows = pa.RecordBatch.from_pylist([], pa.schema(list(TYPES.items())))
    context.register_record_batches("t", [[rows]])
    return context


def make_tree(context: SessionContext, sql: str, schemas: dict[str, pa.Schema]) -> Tree:
    reader = SessionContext()

    def find_schema(text: str) -> pa.Schema:
        plan = context.sql(text).optimized_logical_plan()
        return reader.create_dataframe_from_logical_plan(plan).schema()

    root = parse_query(sql)
    assert root is not None
    return Tree(root, find_schema, schemas, {}, {})


def compare(tree: Tree) -> Iterator[tuple[str, pa.DataType | None, pa.DataType | None]]:
    """Yield the expressions of a query, with their types that follow and that are planned."""
    for node in tree.root.walk():
        found = tree._types.find(node) if isinstance(node, exp.Condition) else None
        if found is not None:
            field = tree.find_field(node)
            yield write_sql(node), found, None if field is None else field.type


@pytest.mark.slow
def test_expressions_have_the_types_that_are_planned(context: SessionContext) -> None:
    tree = make_tree(
        context, f"SELECT {', '.join(EXPRESSIONS)} FROM t", {"t": pa.schema(list(TYPES.items()))}
    )
    known = planned = 0
    for item in tree.root.expressions:
        found, field = tree._types.find(item), tree.find_field(item)
        if field is not None:
            planned += 1
            assert found in (None, field.type), write_sql(item)
            known += found is not None
    assert known > 0.9 * planned > 300


@pytest.mark.parametrize("sql", QUERIES)
def test_columns_have_the_types_of_their_sources(sql: str, context: SessionContext) -> None:
    tree = make_tree(context, sql, {"t": pa.schema(list(TYPES.items()))})
    compared = list(compare(tree))
    assert compared
    for text, found, planned in compared:
        assert None in (found, planned) or found == planned, text


def write_nested_case(depth: int) -> str:
    text = "1.5"
    for at in range(depth):
        text = f"CASE WHEN round(d10, 1) > {at}.25 THEN {text} ELSE abs(d10) + {at} END"
    return f"SELECT {text} AS x FROM t"


@pytest.mark.parametrize(
    "sql",
    [
        write_nested_case(12),
        f"SELECT i8 FROM t WHERE {' AND '.join(f'd10 <> 1.{at}' for at in range(200))}",
        f"SELECT i8 FROM t WHERE {' OR '.join(f'd10 = 1.{at} OR d38 = 1.{at}' for at in range(100))}",
        " UNION ALL ".join(f"SELECT d10 AS x, 1.{at} AS y FROM t WHERE d10 > {at}.5" for at in range(60)),
    ],
    ids=["nested CASE", "AND", "OR", "UNION"],
)
def test_a_long_statement_asks_for_few_types(
    sql: str, context: SessionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    named: list[exp.Expr] = []
    name = lists._name
    monkeypatch.setattr(lists, "_name", lambda value: named.append(value) or name(value))

    def find_schema(text: str) -> pa.Schema:
        asked.append(text)
        return context.sql(text).schema()

    assert apply_rules(sql, {"t": pa.schema(list(TYPES.items()))}, {}, find_schema).text != sql
    assert len(asked) < 10
    assert len(named) < 500


@pytest.mark.slow
def test_statements_of_rules_have_the_types_that_are_planned() -> None:
    context, known = test_same_plans.rules_context(), 0
    schemas = {name: pa.schema(list(columns.items())) for name, columns in test_rules.TABLES.items()}
    for _, case in test_rules.list_cases():
        for text, found, planned in compare(make_tree(context, case.parts[1], schemas)):
            # A column of UUIDs is a text where statements are planned, and bytes in expressions here.
            is_uuid = planned == pa.uuid() or found == pa.string()
            assert None in (found, planned) or found == planned or is_uuid, (str(case), text)
            known += None not in (found, planned)
    assert known > 300


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "case"), sample(test_rules.list_cases(), 100), ids=str)
def test_a_rule_forgets_the_types_that_it_changes(rule: str, case: Case) -> None:
    context = test_same_plans.rules_context()
    schemas = {name: pa.schema(list(columns.items())) for name, columns in test_rules.TABLES.items()}
    tree = make_tree(context, case.parts[0], schemas)
    for node in tree.root.walk():
        tree._types.find(node)
    next(one for one in RULES if one.__name__ == rule)(tree)
    fresh = make_tree(context, case.parts[1], schemas)._types
    found = [(write_sql(node), tree._types.find(node), fresh.find(node)) for node in tree.root.walk()]
    assert [one for one in found if None not in one and one[1] != one[2]] == []
