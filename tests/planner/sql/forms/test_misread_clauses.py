"""Clauses that DataFusion would leave out of account are refused; words that only look like them are not."""

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.access.table_policy import plan_policy
from tests.planner.names import TABLES, bound, context_with


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT id FROM orders TABLESAMPLE SYSTEM (50)", "random() < 0.1 (line 1, column 16"),
        ("SELECT id FROM orders o TABLESAMPLE (5 ROWS)", "Sampling is not supported"),
        ("SELECT id FROM orders SAMPLE 0.1", "Sampling is not supported"),
        ("SELECT id FROM orders FOR UPDATE", "Locking rows is not supported"),
        ("SELECT id FROM (SELECT id FROM orders FOR SHARE) o", "Locking rows is not supported"),
        ("SELECT id FROM orders o FOR NO KEY UPDATE OF o", "Locking rows is not supported"),
        ("SELECT id FROM orders FOR KEY SHARE", "Locking rows is not supported"),
        ("SELECT item, sum(qty) FROM orders GROUP BY item WITH ROLLUP", "GROUP BY ROLLUP (...)"),
        ("SELECT item, sum(qty) FROM orders GROUP BY item WITH CUBE", "CUBE (...)"),
        ("SELECT id FROM orders CONNECT BY PRIOR id = id", "use WITH RECURSIVE"),
        ("WITH n AS (INSERT INTO orders VALUES (1) RETURNING id) SELECT * FROM n", "send it by itself"),
        ("WITH n AS MATERIALIZED (DELETE FROM orders RETURNING id) SELECT * FROM n", "send it by itself"),
        ("WITH n AS (UPDATE orders SET id = 1 RETURNING id) SELECT * FROM n", "send it by itself"),
        ("SELECT item SIMILAR TO 'n' FROM orders", "use LIKE, or a regular expression"),
        ("SELECT * ILIKE 'i%' FROM orders", "name the columns"),
    ],
)
def test_a_clause_that_would_change_nothing_is_refused(sql: str, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        bound(sql)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        "WITH sample (a) AS (SELECT 1), rollup AS (SELECT 2) SELECT a FROM sample, rollup",
        "SELECT o.sample FROM (SELECT 1) AS o (sample)",
        "SELECT 1 FROM (VALUES (1)) AS sample (a)",
        "WITH cube AS (SELECT 1) SELECT * FROM cube",
        "SELECT item FROM orders UNION ALL SELECT item FROM items",
        "SELECT item, sum(qty) FROM orders GROUP BY ROLLUP (item)",
        "SELECT substring(item FROM 1 FOR 2) FROM orders",
        "SELECT id FROM orders WHERE id = 1 AND (item IS DISTINCT FROM 'a') AND qty IS NOT DISTINCT FROM 1",
        "SELECT 1 IS DISTINCT FROM 2 AS x, item IS DISTINCT FROM 'AND' y FROM orders WHERE true AND true",
        "SELECT CASE WHEN item IS DISTINCT FROM 'a' THEN true AND true END FROM orders",
        "SELECT o.id FROM orders o LEFT JOIN orders p ON o.id IS DISTINCT FROM p.id WHERE o.id = 1 OR true",
        "SELECT 1 FROM orders o JOIN orders p ON o.id IS DISTINCT FROM p.id LEFT JOIN orders q ON true",
        "SELECT count(*) FILTER (WHERE id IS DISTINCT FROM (SELECT 1 WHERE true AND true)) FROM orders",
        "SELECT DISTINCT id FROM orders WHERE id = 1 AND qty = 2",
        "SELECT qty * 2 FROM orders WHERE item ILIKE 'n%'",
        "SELECT CASE WHEN qty IS DISTINCT FROM 1 THEN qty > 1 AND id > 1 END FROM orders",
        "SELECT count(DISTINCT qty) FROM orders WHERE qty IS DISTINCT FROM (1) HAVING 1 = 1 OR 1 = 2",
        "SELECT id, unnest([qty, 1]) FROM orders",
        "SELECT id, x FROM orders, UNNEST([1, make_array(2)[1]]) AS u(x)",
        "SELECT 'TABLESAMPLE (1) FOR UPDATE' -- WITH ROLLUP",
    ],
)
def test_the_same_words_elsewhere_pass(sql: str) -> None:
    statement = bound(sql)
    found = context_with({one.private_name: TABLES[one.table] for one in statement.references})
    assert found.sql(statement.text).to_arrow_table().num_columns


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT id FROM orders WHERE item IS DISTINCT FROM 'a' AND id = 1", [1]),
        ("SELECT id FROM orders WHERE NOT item IS DISTINCT FROM 'nut' AND id = 1 OR id = 2", [1, 2]),
        ("SELECT id FROM orders WHERE NOT (item IS NOT DISTINCT FROM left(item, 1) OR id = 1)", [2, 3, 5]),
        (
            "SELECT id FROM orders WHERE id IS DISTINCT FROM CASE WHEN id = 1 AND true THEN 1 END AND id < 3",
            [2],
        ),
        ("SELECT id FROM orders WHERE (qty) IS NOT DISTINCT FROM (10) OR true", [1, 2, 3, 4, 5]),
        ("SELECT id FROM orders WHERE (qty > 1) IS NOT DISTINCT FROM (id > 1) OR qty = 10", [1, 2, 4, 5]),
    ],
)
def test_and_belongs_to_no_side_of_distinct_from(sql: str, rows: list[int]) -> None:
    statement = bound(sql)
    found = context_with({one.private_name: TABLES[one.table] for one in statement.references})
    assert sorted(found.sql(statement.text).to_arrow_table()["id"].to_pylist()) == rows


def test_policies_mean_the_same() -> None:
    """Taken as DataFusion reads it, this filter would show the secret rows of other tenants."""
    schema = pa.schema([("tenant", pa.string()), ("secret", pa.bool_())])
    access = TableAccess(row_filter="secret IS DISTINCT FROM true AND tenant = 'a'")
    condition = plan_policy(schema, access).condition
    assert condition is not None
    rows = {"tenant": ["a", "b", "a"], "secret": [True, True, None]}
    found = context_with({"t": pa.table(rows, schema)}).sql(f"SELECT * FROM t WHERE {condition}")
    assert found.to_arrow_table().to_pylist() == [{"tenant": "a", "secret": None}]
