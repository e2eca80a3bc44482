"""information_schema and pg_catalog: what tools ask, what policies hide, and that oids agree."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.planner.access.rights import FULL_ACCESS, Access, TableAccess
from lance_gateway.planner.engine import PreparedQuery, QueryEngine, SessionSettings
from lance_gateway.planner.system.catalogs.sql_types import TYPES, format_type, list_column_types
from lance_gateway.planner.system.catalogs.tables import CATALOG_TABLES
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.titled import Case, read_titled
from tests.support.judging.principals import create_principal
from tests.support.judging.results import rows_of

CREATE_ORDERS = """
CREATE TABLE orders (
    id BIGINT PRIMARY KEY, customer INT REFERENCES customers (id) NOT ENFORCED, code VARCHAR(5) DEFAULT 'x',
    price DECIMAL(12, 2) CHECK (price > 0), parts FLOAT[4]
)"""
STATEMENTS = (
    "CREATE TABLE customers (id INT PRIMARY KEY, name TEXT) COMMENT 'who buys'",
    CREATE_ORDERS,
    "CREATE VIEW cheap AS SELECT id FROM orders WHERE price < 5",
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    root: Path = tmp_path_factory.mktemp("catalogs")
    engine = QueryEngine(Catalog.open(str(root), writing=WriteOptions(hold_ms=0)))
    for statement in STATEMENTS:
        prepared = engine.prepare_statement(statement)
        assert not isinstance(prepared, PreparedQuery)
        prepared.execute()
    yield engine
    engine.close()


def ask(
    engine: QueryEngine, sql: str, access: Access = FULL_ACCESS, **settings: Any
) -> list[tuple[Any, ...]]:
    return rows_of(engine.prepare(sql, SessionSettings(**settings), access).execute().read_all())


@pytest.mark.parametrize("case", read_titled("catalogs.sql"), ids=str)
def test_the_tool_gets_its_answer(engine: QueryEngine, case: Case) -> None:
    sql, *answers = case.parts
    answer = answers[0] if answers else ""
    if answer.startswith("refused: "):
        with pytest.raises(LanceGatewayError) as caught:
            ask(engine, sql)
        assert answer.removeprefix("refused: ") in str(caught.value)
        return
    found = ask(engine, sql)
    if "order by" not in sql.lower():
        found.sort(key=repr)
    assert found == [ast.literal_eval(line) for line in answer.splitlines()]


@pytest.mark.parametrize("schema", sorted(CATALOG_TABLES))
def test_every_table_has_the_columns_that_it_tells(engine: QueryEngine, schema: str) -> None:
    for name, table in CATALOG_TABLES[schema].items():
        rows = engine.execute(f"SELECT * FROM {schema}.{name}").read_all()
        assert rows.schema.names == table.schema.names
        assert rows.schema.types == table.schema.types


REFERENCES = (
    ("pg_class", "relnamespace", "pg_namespace"),
    ("pg_attribute", "attrelid", "pg_class"),
    ("pg_attribute", "atttypid", "pg_type"),
    ("pg_attrdef", "adrelid", "pg_class"),
    ("pg_constraint", "conrelid", "pg_class"),
    ("pg_constraint", "confrelid", "pg_class"),
    ("pg_constraint", "conindid", "pg_class"),
    ("pg_index", "indexrelid", "pg_class"),
    ("pg_index", "indrelid", "pg_class"),
    ("pg_description", "objoid", "pg_class"),
    ("pg_type", "typelem", "pg_type"),
    ("pg_type", "typarray", "pg_type"),
)


@pytest.mark.parametrize(("table", "column", "target"), REFERENCES)
def test_oids_refer_to_what_exists(engine: QueryEngine, table: str, column: str, target: str) -> None:
    dangling = (
        f"SELECT count(*) FROM {table} WHERE {column} <> 0 AND {column} NOT IN (SELECT oid FROM {target})"
    )
    assert ask(engine, dangling) == [(0,)]
    assert ask(engine, f"SELECT count(*) > 0 FROM {table}") == [(True,)]


def test_oids_differ_and_stay(engine: QueryEngine, tmp_path: Path) -> None:
    listed = ask(engine, "SELECT oid, relname FROM pg_class")
    assert len({oid for oid, _ in listed}) == len(listed)
    other = QueryEngine(Catalog.open(str(tmp_path), writing=WriteOptions(hold_ms=0)))
    for statement in reversed(STATEMENTS[:1]):
        other.prepare_statement(statement).execute()
    assert set(ask(other, "SELECT oid, relname FROM pg_class WHERE relname = 'customers'")) <= set(listed)
    other.close()


def test_a_statement_lists_what_there_is_when_it_runs(engine: QueryEngine) -> None:
    listed = engine.prepare("SELECT relname FROM pg_class WHERE relname LIKE 'later%'")
    assert rows_of(listed.execute().read_all()) == []
    engine.prepare_statement("CREATE TABLE later (id INT)").execute()
    assert rows_of(listed.execute().read_all()) == [("later",)]
    assert ask(engine, "SELECT 'later'::regclass = oid FROM pg_class WHERE relname = 'later'") == [(True,)]
    engine.prepare_statement("DROP TABLE later").execute()
    assert ask(engine, "SELECT 'later'::regclass IS NULL") == [(True,)]


HIDING = TableAccess(hidden_columns=frozenset({"price"}), masks={"code": "'*'"})
HIDDEN = (
    ("SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('main') AND relkind = 'r'",
     [("orders",)]),
    ("SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'", [("orders",)]),
    ("SELECT attname FROM pg_attribute WHERE attrelid = 'orders'::regclass ORDER BY attnum",
     [("id",), ("customer",), ("code",), ("parts",)]),
    ("SELECT column_name, column_default FROM information_schema.columns WHERE table_name = 'orders'",
     [("id", None), ("customer", None), ("code", None), ("parts", None)]),
    ("SELECT conname FROM pg_constraint", [("orders_pkey",)]),
    ("SELECT constraint_name FROM information_schema.table_constraints", [("orders_pkey",)]),
    ("SELECT count(*) FROM pg_attrdef", [(0,)]),
    ("SELECT count(*) FROM pg_description", [(0,)]),
    ("SELECT viewname FROM pg_views WHERE schemaname = 'main'", []),
    ("SELECT 'customers'::regclass, to_regclass('cheap')", [(None, None)]),
    ("SELECT has_table_privilege('customers', 'SELECT')", [(None,)]),
    ("SELECT rolname, rolsuper FROM pg_roles", [("someone", False)]),
    ("SELECT indexname FROM pg_indexes", [("orders_pkey",)]),
)  # fmt: skip


@pytest.mark.parametrize(("sql", "rows"), HIDDEN)
def test_what_a_policy_hides_is_in_no_catalog(
    engine: QueryEngine, sql: str, rows: list[tuple[Any, ...]]
) -> None:
    user = replace(create_principal(orders=HIDING), user="someone")
    assert ask(engine, sql, user) == rows


def test_the_text_of_a_view_is_for_those_who_may_change_it(engine: QueryEngine) -> None:
    sql = "SELECT definition, pg_get_viewdef('cheap'::regclass) FROM pg_views WHERE viewname = 'cheap'"
    everything = {"orders": TableAccess(), "cheap": TableAccess()}
    assert ask(engine, sql, create_principal(**everything)) == [(None, None)]
    writer = replace(create_principal(**everything), writes=frozenset({"cheap"}))
    assert ask(engine, sql, writer) == [("SELECT id FROM orders WHERE price < 5",) * 2]


def test_pg_catalog_is_searched_before_other_schemas(engine: QueryEngine) -> None:
    engine.prepare_statement("CREATE VIEW pg_am AS SELECT 7 AS seven").execute()
    assert ask(engine, "SELECT * FROM main.pg_am") == [(7,)]
    assert ("heap",) in ask(engine, "SELECT amname FROM pg_am")
    engine.prepare_statement("DROP VIEW pg_am").execute()


def test_views_may_read_catalogs(engine: QueryEngine) -> None:
    engine.prepare_statement(
        "CREATE VIEW listed AS SELECT relname, format_type(23, -1) AS t FROM pg_class WHERE relkind = 'v'"
    ).execute()
    assert ask(engine, "SELECT * FROM listed WHERE relname IN ('cheap', 'listed') ORDER BY 1") == [
        ("cheap", "integer"),
        ("listed", "integer"),
    ]
    engine.prepare_statement("DROP VIEW listed").execute()


def test_parameters_stand_for_names_and_flags(engine: QueryEngine) -> None:
    conditions = "conrelid = CAST(? AS regclass) AND contype = ?"
    sql = f"SELECT pg_get_constraintdef(oid, ?) FROM pg_constraint WHERE {conditions}"
    values = [pa.scalar(True), pa.scalar("main.orders"), pa.scalar("p")]
    assert rows_of(engine.execute(sql, parameters=values).read_all()) == [("PRIMARY KEY (id)",)]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.uint64(), "numeric(20,0)"),
        (pa.uint32(), "bigint"),
        (pa.timestamp("ns"), "timestamp without time zone"),
        (pa.timestamp("us", "UTC"), "timestamp with time zone"),
        (pa.list_(pa.large_string()), "text[]"),
        (pa.dictionary(pa.int8(), pa.string()), "text"),
        (pa.binary(4), "bytea"),
        (pa.struct([("a", pa.int8())]), "json"),
        (pa.duration("s"), "interval"),
        (pa.time64("us"), "time without time zone"),
        (pa.decimal128(7, 3), "numeric(7,3)"),
    ],
)
def test_types_have_names_in_sql(kind: pa.DataType, name: str) -> None:
    found = list_column_types(pa.schema([("x", kind)]))["x"]
    assert format_type(found.oid, found.modifier) == name
    assert found.udt_name.removeprefix("_") in TYPES
