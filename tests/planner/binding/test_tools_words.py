"""Words of PostgreSQL and functions of sessions in texts of any kind: rewritten, or left to be refused."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.planner.sql.text.tokens import tokenize
from lance_gateway.planner.system.catalogs.functions import CATALOG_FUNCTIONS
from tests.planner.names import bound

FRAGMENTS = (
    "SELECT", "FROM", "pg_class", "pg_catalog", ".", "c", "(", ")", "::", "regclass", "CAST", "AS", "oid",
    "name", "'orders'", "?", "[", "]", "1", ",", "format_type", "generate_subscripts", "OPERATOR", "~",
    "COLLATE", '"C"', "current_user", "current_schema", "current_setting", "json_build_object", "pg_enum",
    "pg_get_expr", '"char"', "regtype", "WHERE", "=", "information_schema", "ESCAPE", "LIKE", "'!'", "||",
    "SHOW", "TABLES",
)  # fmt: skip


@given(st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=12), st.booleans())
@settings(max_examples=1500, deadline=None)
def test_any_text_is_bound_or_refused(fragments: list[str], is_query: bool) -> None:
    sql = " ".join(["SELECT", *fragments] if is_query else fragments)
    try:
        statement = bound(sql)
    except LanceGatewayError:
        return
    tokenize(statement.text)


def test_what_names_nothing_of_postgresql_stays_the_same() -> None:
    sql = "SELECT regexp_replace(item, 'a', 'b') AS name, (SELECT max(id) AS oid FROM orders) FROM orders"
    assert (
        bound(sql)
        .text.replace('"orders#1" AS "orders"', "orders")
        .replace('"orders#2" AS "orders"', "orders")
        == sql
    )


def test_calls_of_the_catalogs_functions_are_noticed() -> None:
    for (name, count), function in CATALOG_FUNCTIONS.items():
        statement = bound(f"SELECT {name}({', '.join(['NULL'] * count)}) AS x")
        assert statement.catalog_functions == {function.name}
