"""Ways round a policy, each by its name, and that they lead nowhere."""

import logging
import re
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError, PreconditionError
from lance_gateway.planner.access.rights import FULL_ACCESS, TableAccess
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.access_lake import (
    ANALYST,
    HIDDEN_WORDS,
    MASKED,
    NOBODY,
    VISIBLE,
    Ask,
    asker,
    write_lake,
)
from tests.support.judging.principals import ALL, Principal, create_principal
from tests.support.processes.writer_process import WriterProcess


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Iterator[QueryEngine]:
    root = tmp_path_factory.mktemp("attacks")
    write_lake(root, shared_writers)
    engine = QueryEngine(Catalog.open(str(root)), partitions=2)
    yield engine
    engine.close()


@pytest.fixture
def ask(engine: QueryEngine) -> Ask:
    return asker(engine)


SEEN = [(number,) for number in VISIBLE]


def refusal(engine: QueryEngine, sql: str, access: Principal = ANALYST) -> str:
    """What a statement that fails says."""
    with pytest.raises(LanceGatewayError) as caught:
        engine.prepare(sql, access=access).execute().read_all()
    return str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM orders",
        "WITH orders AS (SELECT * FROM orders) SELECT id FROM orders",
        "WITH private AS (SELECT * FROM orders) SELECT id FROM private",
        "WITH recent AS (SELECT 1) SELECT id FROM orders",
        "WITH o AS (SELECT * FROM orders), p AS (SELECT * FROM o) SELECT id FROM p",
        "WITH RECURSIVE o AS (SELECT id FROM orders UNION SELECT id FROM o) SELECT id FROM o",
        "SELECT id FROM lance.main.orders",
        'SELECT main.orders.id FROM "lance"."main"."orders"',
        'SELECT id FROM "orders"',
        "SELECT id FROM ORDERS",
        "SELECT id FROM `orders`",
        "SELECT id FROM (orders)",
        "SELECT id FROM (SELECT * FROM orders WHERE true OR tenant = 'b')",
        "SELECT id FROM orders WHERE true OR 1 = 1",
        "SELECT id FROM orders WHERE tenant = 'b' OR tenant <> 'b' OR tenant IS NULL",
        "SELECT id FROM orders UNION SELECT id FROM orders WHERE tenant = 'b'",
        "SELECT id FROM orders EXCEPT SELECT id FROM orders WHERE tenant = 'b'",
        "SELECT DISTINCT a.id FROM orders a JOIN orders b ON a.tenant <> b.tenant OR a.id = b.id",
        "SELECT a.id FROM orders a FULL JOIN orders b USING (id)",
        "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM orders p WHERE p.id = o.id)",
        "SELECT order_id FROM items i WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id = i.order_id)",
        "SELECT order_id FROM items WHERE order_id IN (SELECT id FROM orders)",
        "SELECT order_id FROM items i WHERE (SELECT count(*) FROM orders o WHERE o.id = i.order_id) > 0",
        "SELECT o.id FROM items i, LATERAL (SELECT * FROM orders WHERE id = i.order_id) AS o",
        "SELECT id FROM orders WHERE id IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)",
        "SELECT id FROM orders o NATURAL JOIN (SELECT id FROM orders)",
        "FROM orders SELECT id",
        "SELECT id FROM private",
        "SELECT id FROM recent",
    ],
)
def test_detours_to_hidden_rows(ask: Ask, sql: str):
    access = Principal({**ANALYST.tables, "private": ALL})
    assert ask(sql, access) == SEEN


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM payroll",
        'SELECT * FROM "payroll"',
        "SELECT * FROM lance.main.payroll",
        "SELECT * FROM PAYROLL",
        "WITH p AS (SELECT * FROM payroll) SELECT 1",
        "SELECT (SELECT max(wages) FROM payroll)",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM payroll)",
        "SELECT id FROM orders WHERE id IN (SELECT id FROM payroll)",
        "SELECT o.id FROM orders o JOIN payroll p ON o.id = p.id",
        "SELECT o.id FROM orders o, LATERAL (SELECT * FROM payroll) AS p",
        "SELECT id FROM orders UNION ALL SELECT id FROM payroll",
        "EXPLAIN SELECT * FROM payroll",
        "EXPLAIN ANALYZE SELECT * FROM payroll",
        "DESCRIBE payroll",
        "DESCRIBE SELECT * FROM payroll",
        "SHOW COLUMNS FROM payroll",
        "SELECT wages FROM payroll WHERE id = 1",
        "SELECT wages FROM payroll WHERE id = $1",
        "SELECT count(*) FROM payroll",
        "SELECT * FROM private",
        "DESCRIBE private",
        "SELECT * FROM orders CROSS JOIN private",
    ],
)
def test_a_table_without_a_grant_does_not_exist(engine: QueryEngine, sql: str):
    with pytest.raises(NotFoundError) as caught:
        engine.prepare(sql, access=ANALYST)
    named = "private" if "private" in sql else "payroll"
    absent = refusal(engine, sql.replace("PAYROLL", "payroll").replace(named, "absent"))
    assert str(caught.value).replace(named, "absent") == absent


def test_what_is_listed_after_a_misspelt_name(engine: QueryEngine):
    message = refusal(engine, "SELECT * FROM payrol")
    assert "(tables and views: bonus, items, orders, recent)" in message
    assert "payroll" not in message
    assert "there are no tables yet" in refusal(engine, "SELECT * FROM payroll", NOBODY)


@pytest.mark.parametrize(
    "name", ["orders#1", "orders#2", "payroll#1", "recent#view", "orders;payroll", "../x"]
)
def test_private_names_are_nobodys(engine: QueryEngine, name: str):
    assert "does not exist" in refusal(engine, f'SELECT * FROM orders, "{name}"')


def test_a_view_does_not_lend_the_rights_of_its_author(engine: QueryEngine):
    message = refusal(engine, "SELECT * FROM bonus")
    assert message.startswith("View 'bonus': Table 'payroll' does not exist (tables and views: bonus,")
    assert engine.execute("SELECT count(*) FROM bonus").read_all().column(0).to_pylist() == [2]


def test_a_view_with_restrictions_stays_closed(engine: QueryEngine):
    access = create_principal(recent=TableAccess(row_filter="id = 1"), orders=ALL)
    with pytest.raises(PreconditionError, match="restricts rows or columns of view 'recent'"):
        engine.prepare("SELECT * FROM recent", access=access)


@pytest.mark.slow
@pytest.mark.parametrize(
    "condition",
    [
        "1 / (amount - 5) < 1000",
        "amount / (amount - 5) IS NOT NULL",
        "100 % (amount - 5) >= 0",
        "CAST(code AS INT) = 0",
        "CAST(code AS INT) + id > -1",
        "TRY_CAST(code AS INT) = 0",
        "CASE WHEN tenant = 'b' THEN 1 / (amount - 5) > 0 ELSE TRUE END",
        "CASE WHEN code = 'oops' THEN 1 / 0 > 0 ELSE TRUE END",
        "regexp_like(email, '^u') AND 1 / (amount - 5) < 9",
        "(SELECT count(*) FROM orders p WHERE 1 / (p.amount - 5) > 5) = 0",
        "arrow_cast(code, 'Int64') = 0",
        "CAST(code AS INT) = id * 0 AND id >= 0",
    ],
)
def test_errors_tell_nothing_of_hidden_rows_and_values(ask: Ask, condition: str):
    assert ask(f"SELECT id FROM orders WHERE {condition}") == SEEN
    assert ask(f"SELECT id FROM orders WHERE id IN (0, 4, 5, 7, 8, 9, 2) AND {condition}") == SEEN
    for number in (2, 7, 8):
        assert ask(f"SELECT id FROM orders WHERE id = {number} AND {condition}") == []
    assert ask(f"SELECT count(*) FROM orders WHERE {condition}") == [(4,)]


def test_errors_over_visible_rows_stay_what_they_are(engine: QueryEngine):
    assert "Divide by zero" in refusal(engine, "SELECT 1 / (amount - 10) FROM orders")


def test_aggregates_and_windows_meet_visible_rows_only(ask: Ask):
    assert ask("SELECT min(id), max(id), avg(amount), count(DISTINCT tenant) FROM orders") == [
        (0, 9, 14.5, 1)
    ]
    assert ask("SELECT id, row_number() OVER (ORDER BY id), count(*) OVER () FROM orders ORDER BY id") == [
        (number, place, 4) for place, number in enumerate(VISIBLE, start=1)
    ]
    assert ask("SELECT string_agg(email, ',') FROM orders") == [("u***,u***,u***,u***",)]
    assert ask("SELECT tenant, count(*) FROM orders GROUP BY ROLLUP (tenant) HAVING count(*) > 0") == [
        ("a", 4),
        (None, 4),
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT margin FROM orders",
        "SELECT id FROM orders WHERE margin > 0",
        "SELECT id FROM orders ORDER BY margin",
        "SELECT id FROM orders GROUP BY id HAVING max(margin) > 0",
        "SELECT id FROM orders JOIN (SELECT 0.5 AS margin) AS o USING (margin)",
        "SELECT margin FROM orders WHERE id = 9",
        "SELECT margin FROM orders WHERE id = $1",
        "SELECT * EXCLUDE (margin) FROM orders",
        "SELECT * EXCEPT (margin) FROM orders",
        "SELECT sum(margin) OVER () FROM orders",
        "SELECT orders.margin FROM orders",
        'SELECT "margin" FROM orders',
        "SELECT (SELECT max(o.margin) FROM orders o)",
        "SELECT i.sku FROM items i WHERE EXISTS (SELECT 1 FROM orders o WHERE o.margin > i.order_id)",
    ],
)
def test_a_hidden_column_does_not_exist(engine: QueryEngine, sql: str):
    message = refusal(engine, sql)
    absent = refusal(engine, sql.replace("margin", "nowhere"))
    # Which of the visible columns it is like follows from the name that was asked for alone.
    message, absent = (re.sub(r" Did you mean '[^']*'\?", "", one) for one in (message, absent))
    assert message.replace("margin", "nowhere") == absent
    assert "note" not in message


@pytest.mark.parametrize("column", ["_rowid", "_rowaddr", "_tombstone", "_fragment_id", "_distance", "ctid"])
def test_internal_columns_do_not_exist(engine: QueryEngine, column: str):
    for access in (ANALYST, FULL_ACCESS):
        assert "No field named" in refusal(engine, f"SELECT {column} FROM orders", access)
        assert "No field named" in refusal(engine, f"SELECT {column} FROM orders WHERE id = 9", access)


def test_a_star_stands_for_visible_columns(engine: QueryEngine, ask: Ask):
    visible = ["id", "tenant", "amount", "email", "code"]
    for sql in ("SELECT * FROM orders", "SELECT * FROM orders WHERE id = 9", "SELECT o.* FROM orders o"):
        assert engine.prepare(sql, access=ANALYST).schema.names == visible
    assert engine.prepare("SELECT * EXCLUDE (code) FROM orders", access=ANALYST).schema.names == visible[:-1]
    assert [name for name, *_ in ask("DESCRIBE orders")] == sorted(visible)
    assert [row[0] for row in ask("DESCRIBE SELECT * FROM orders")] == sorted(visible)


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW TABLES",
        "SHOW COLUMNS FROM orders",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM information_schema.columns",
        "SELECT * FROM information_schema.views",
        "SELECT * FROM information_schema.schemata",
        "SELECT * FROM information_schema.df_settings",
        "SELECT c.* FROM lance.information_schema.columns c JOIN orders ON true",
        "EXPLAIN SELECT * FROM orders",
        "EXPLAIN VERBOSE SELECT * FROM orders WHERE email = 'u'",
        "EXPLAIN ANALYZE SELECT * FROM orders WHERE id = 9",
        "EXPLAIN ANALYZE VERBOSE SELECT count(*) FROM orders WHERE amount = 5",
        "EXPLAIN ANALYZE FORMAT JSON SELECT count(*) FROM orders WHERE amount = 5",
        "EXPLAIN ANALYZE SELECT * FROM orders WHERE 1 / (amount - 5) < 7 AND code = '0'",
        "DESCRIBE orders",
        "DESCRIBE recent",
    ],
)
def test_descriptions_say_nothing_of_what_is_hidden(ask: Ask, sql: str):
    shown = repr(ask(sql)).lower()
    for word in HIDDEN_WORDS:
        assert word not in shown, shown
    assert "private" not in shown
    assert "lancescanexec" not in shown


def test_information_schema_lists_what_is_granted(ask: Ask):
    listed = "SELECT DISTINCT table_name FROM information_schema.{} WHERE table_schema = 'main'"
    assert ask(listed.format("tables")) == [("items",), ("orders",), ("recent",)]
    assert ask(listed.format("columns")) == [("items",), ("orders",), ("recent",)]
    assert ask(listed.format("tables"), NOBODY) == []


def test_explain_analyze_counts_visible_rows(ask: Ask):
    ((_, plan),) = ask("EXPLAIN ANALYZE SELECT tenant FROM orders WHERE 1 / (amount - 5) < 7 ORDER BY id")
    counts = {part.split(",")[0] for part in plan.replace("]", ",").split("output_rows=")[1:]}
    assert counts <= {"4", "0"}
    assert "orders: the access policy of this table applies" in plan
    assert "LanceScanExec" not in plan
    assert "base v" not in plan


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM orders()",
        "SELECT * FROM read_parquet('orders.lance')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM 'payroll.lance'",
        'SELECT * FROM "file:///etc/passwd"',
        "TABLE payroll",
        "SELECT * FROM orders INTO payroll",
        "COPY payroll TO '/tmp/x.csv'",
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
        "SET datafusion.catalog.information_schema = true",
        "PREPARE p AS SELECT * FROM payroll",
    ],
)
def test_other_doors_are_closed(engine: QueryEngine, sql: str):
    refusal(engine, sql)


def test_table_functions_read_no_tables(ask: Ask):
    assert ask("SELECT value FROM generate_series(1, 2)") == [(1,), (2,)]
    assert ask("SELECT o.id FROM generate_series(7, 9) g JOIN orders o ON o.id = g.value") == [(9,)]


def test_a_plan_is_used_again_for_its_own_principal_only(engine: QueryEngine, ask: Ask):
    sql = "SELECT id FROM orders WHERE id = $1"
    plans = [engine.prepare(sql, access=access) for access in (FULL_ACCESS, ANALYST, MASKED)]
    assert len(set(map(id, plans))) == 3
    assert [plan.access for plan in plans] == [FULL_ACCESS, ANALYST, MASKED]
    assert [len(plan.execute([pa.scalar(7)]).read_all()) for plan in plans] == [1, 0, 0]
    # A changed policy gives the same user another access: what was prepared before is planned again.
    stricter = Principal({"orders": TableAccess(row_filter="false")}, ANALYST.user)
    assert ask(sql, ANALYST, 9) == [(9,)]
    assert ask(sql, stricter, 9) == []


@pytest.mark.parametrize(
    "access",
    [
        TableAccess(row_filter="secret_tenant = 'a'"),
        TableAccess(row_filter="tenant"),
        TableAccess(row_filter="tenant = 'a') OR (true"),
        TableAccess(row_filter="count(*) > 1"),
        TableAccess(row_filter="row_number() OVER () = 1"),
        TableAccess(row_filter="id IN (SELECT id FROM items)"),
        TableAccess(row_filter="random() < 0.5"),
        TableAccess(row_filter="id < extract(year FROM now())"),
        TableAccess(row_filter="id = $1"),
        TableAccess(row_filter=""),
        TableAccess(masks={"amount": "'secret word'"}),
        TableAccess(masks={"amount": "named_struct('a', id)"}),
        TableAccess(masks={"gone": "NULL"}),
        TableAccess(hidden_columns=frozenset({"gone"})),
    ],
    ids=str,
)
def test_a_policy_that_does_not_fit_closes_the_table(
    engine: QueryEngine, access: TableAccess, caplog: pytest.LogCaptureFixture
):
    for sql in ("SELECT id FROM orders", "SELECT count(*) FROM orders", "SELECT id FROM orders WHERE id = 9"):
        with caplog.at_level(logging.ERROR), pytest.raises(PreconditionError) as caught:
            engine.prepare(sql, access=create_principal(orders=access)).execute().read_all()
        assert str(caught.value).startswith("the access policy of table 'orders' does not fit the table")
        assert "secret" not in str(caught.value)
    assert "the access policy of table 'orders' can't be applied: " in caplog.text


def test_a_policy_that_fails_for_a_row_closes_the_table(
    engine: QueryEngine, caplog: pytest.LogCaptureFixture
):
    access = create_principal(orders=TableAccess(masks={"amount": "CAST(code AS INT)"}))
    with caplog.at_level(logging.ERROR):
        message = refusal(engine, "SELECT amount FROM orders", access)
    assert message.startswith("the access policy of table 'orders' does not fit the table")
    assert "oops" not in message
    assert "oops" in caplog.text


def test_a_table_that_is_restricted_twice_over(engine: QueryEngine):
    with pytest.raises(InvalidInputError, match="column 'a' is both masked and hidden"):
        TableAccess(masks={"a": "1"}, hidden_columns=frozenset({"a"}))
    assert "does not exist" in refusal(engine, "SELECT 1 FROM orders", NOBODY)
