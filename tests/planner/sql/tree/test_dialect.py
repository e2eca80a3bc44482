"""A statement that sqlglot reads and writes again means the same to DataFusion."""

import pyarrow as pa
import pytest
from datafusion import SessionContext

from lance_gateway.planner.sql.tree import dialect


@pytest.fixture(scope="module")
def context() -> SessionContext:
    context = SessionContext()
    rows = pa.table(
        {"a": ["abcb", "b", None], "b": ["b", "abcb", "x"], "i": [1, 2, None], "f": [True, False, None]}
    )
    context.register_record_batches("t", [rows.to_batches()])
    return context


@pytest.mark.parametrize(
    "expression",
    [
        "position('b' IN a)",
        "position(a, b)",
        "strpos(a, b)",
        "trim(BOTH 'b' FROM a)",
        "trim(a, 'b')",
        "ltrim(a, 'a')",
        "substring(a FROM 2 FOR 2)",
        "substring(a, 2)",
        "overlay(a PLACING 'x' FROM 2)",
        "log(2, i)",
        "i ^ 2",
        "a !~ 'c' = f",
        "(a !~ 'c') IS NULL",
        "(i IN (1)) = f",
        "i NOT IN (1, NULL)",
        "(NOT f) IS NULL",
        "NOT f IS NULL",
        "NOT (f AND i = 1) OR f",
        "i NOT BETWEEN 1 AND 1",
        "a NOT LIKE 'a%' AND f",
        "{'x': i}['x']",
        "make_array(i, 2)[1]",
        "ARRAY[i, 2][1]",
        "a || b || 'x'",
        "- - i",
        "i - (1 - i)",
        "i / (2 * i)",
        "CASE i WHEN 1 THEN 'x' ELSE a END",
        "extract(doy FROM DATE '2024-03-10')",
        "DATE '2024-03-10' + INTERVAL '1' DAY",
        "i IS NOT DISTINCT FROM NULL",
        "CAST(i AS BIGINT UNSIGNED)",
        "i::text",
        "struct(lower(a), i - 1)",
        "(SELECT string_agg(DISTINCT a, ',' ORDER BY a) FROM t AS u)",
        "(SELECT string_agg(DISTINCT coalesce(a, 'x'), ',') FROM t AS u WHERE i = 1)",
        "count(*) FILTER (WHERE f) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        "first_value(i) IGNORE NULLS OVER (ORDER BY a)",
    ],
)
def test_an_expression_keeps_its_values(context: SessionContext, expression: str) -> None:
    sql = f"SELECT {expression} AS x, i FROM t ORDER BY b"
    tree = dialect.parse_query(sql)
    assert tree is not None
    written = dialect.write_sql(tree)
    assert context.sql(written).to_arrow_table() == context.sql(sql).to_arrow_table(), written


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM t PIVOT (sum(i) FOR a IN ('b'))",
        "SELECT id FROM t UNPIVOT (x FOR y IN (a, b))",
        "SELECT id FROM t WITH (NOLOCK)",
        "SELECT id FROM t SORT BY id",
        "FROM t |> SELECT id",
        "SHOW FUNCTIONS",
    ],
)
def test_what_would_be_lost_is_not_read(sql: str, caplog: pytest.LogCaptureFixture) -> None:
    assert dialect.parse_query(sql) is None
    assert not caplog.records
