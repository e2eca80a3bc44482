"""Statements that are point lookups are recognised, and nothing else is."""

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.binding.key_query import KeyQuery, find_key_query
from lance_gateway.planner.sql.tree.dialect import parse_query
from tests.planner.names import ITEMS, ORDERS, bound

LOOKUPS = [
    "SELECT * FROM orders WHERE id = 1",
    "SELECT id, item AS thing, qty q FROM orders WHERE id = ?",
    "SELECT o.* FROM main.orders o WHERE o.id = $1",
    "SELECT ORDERS.ID FROM lance.main.orders WHERE orders.id = -1",
    "SELECT main.orders.id FROM main.orders WHERE main.orders.id = 1",
    "SELECT id FROM orders AS o WHERE 7 = id LIMIT 1",
    "SELECT id FROM orders WHERE id IN (1, ?, NULL) LIMIT 3;",
    "SELECT price FROM items WHERE item = 'nut' AND shop = 'a'",
    "SELECT price FROM items WHERE shop = ? AND item = ?",
    "SELECT o.id FROM orders AS o WHERE o.id = 1",
    "SELECT main.orders.id FROM lance.main.orders WHERE main.orders.id = 1",
    "SELECT id AS limit FROM orders WHERE id = 1",
    "SELECT id FROM orders WHERE id = 9223372036854775807",
    "FROM orders SELECT id WHERE id = 1",
    "SELECT id AS 'x' FROM orders WHERE id = 1",
]
OTHERS = [
    "EXPLAIN SELECT * FROM orders WHERE id = 1",
    "SELECT DISTINCT id FROM orders WHERE id = 1",
    "SELECT id + 1 FROM orders WHERE id = 1",
    "SELECT count(*) FROM orders WHERE id = 1",
    "SELECT id, id FROM orders WHERE id = 1",
    "SELECT id AS x, item AS x FROM orders WHERE id = 1",
    "SELECT missing FROM orders WHERE id = 1",
    "SELECT other.id FROM orders WHERE id = 1",
    "SELECT orders.id FROM orders o WHERE id = 1",
    "SELECT a FROM orders AS o(a, b, c, d, e) WHERE a = 1",
    "SELECT id FROM orders",
    "SELECT id FROM orders WHERE id > 1",
    "SELECT id FROM orders WHERE id = 1 OR id = 2",
    "SELECT id FROM orders WHERE id = 1 AND id = 2",
    "SELECT id FROM orders WHERE id = 1 AND qty = 2",
    "SELECT id FROM orders WHERE NOT id = 1",
    "SELECT id FROM orders WHERE id = qty",
    "SELECT id FROM orders WHERE id = 1 + 1",
    "SELECT id FROM orders WHERE id = 1.5",
    "SELECT id FROM orders WHERE id = 99999999999999999999",
    "SELECT id FROM orders WHERE id = ?::int",
    "SELECT id FROM orders WHERE id NOT IN (1)",
    "SELECT id FROM orders WHERE id IN (SELECT 1)",
    "SELECT id FROM orders WHERE id = 1 LIMIT 0",
    "SELECT id FROM orders WHERE id = 1 LIMIT ?",
    "SELECT id FROM orders WHERE id IN (1, 2) LIMIT 1",
    "SELECT id FROM orders WHERE id = 1 ORDER BY id",
    "SELECT id FROM orders WHERE id = 1 UNION ALL SELECT 1",
    "SELECT id FROM orders, orders b WHERE id = 1",
    "SELECT id FROM orders JOIN items ON true WHERE id = 1",
    "SELECT price FROM items WHERE shop = 'a'",
    "SELECT price FROM items WHERE shop IN ('a', 'b') AND item = 'nut'",
    "SELECT parent FROM links WHERE parent = 1",
    "SELECT id FROM recent WHERE id = 1",
    "WITH orders AS (SELECT 1 AS id) SELECT id FROM orders WHERE id = 1",
    "SELECT id FROM orders WHERE id = 1 LIMIT 1.5",
    "SELECT id FROM orders WHERE id = 1 LIMIT '5'",
    "SELECT price FROM items WHERE item = -'nut' AND shop = 'a'",
]
# The binder sees statements before DataFusion does, which refuses these.
MALFORMED = [
    "SELECT id FROM orders WHERE",
    "SELECT id FROM orders WHERE id =",
    "SELECT id FROM orders WHERE id = AND",
    "SELECT id FROM orders WHERE 7 id",
    "SELECT id FROM orders WHERE id 7",
    "SELECT id FROM orders WHERE id = -",
    "SELECT id FROM orders WHERE id IN (1 2)",
    "SELECT id FROM orders WHERE id IN ()",
    "SELECT id FROM orders WHERE id = 1 LIMIT",
    "SELECT id WHERE FROM orders WHERE id = 1",
    "SELECT id, FROM orders WHERE id = 1",
]


def lookup(sql: str) -> KeyQuery:
    found = bound(sql).key_query
    assert found is not None
    return found


@pytest.mark.parametrize("sql", LOOKUPS)
def test_a_full_key_and_plain_columns_are_a_lookup(sql: str):
    lookup(sql)


@pytest.mark.parametrize("sql", OTHERS)
def test_anything_more_is_left_to_datafusion(sql: str):
    assert bound(sql).key_query is None


@pytest.mark.parametrize("sql", MALFORMED)
def test_what_is_no_statement_is_left_to_datafusion_to_refuse(sql: str):
    try:
        found = bound(sql)
    except InvalidInputError:
        return
    assert found.key_query is None


def test_the_table_is_the_one_behind_the_name():
    assert {lookup(sql).table for sql in LOOKUPS} == {"orders", "items"}


def test_columns_that_share_a_name_are_left_to_datafusion():
    query = parse_query("SELECT id FROM orders WHERE id = 1")
    assert query is not None
    for columns, is_lookup in ((["id", "v"], True), (["id", "v", "v"], False)):
        found = find_key_query(query, ("orders",), table="orders", columns=columns, primary_key=("id",))
        assert (found is not None) is is_lookup


@pytest.mark.parametrize("star", ["*", "o.*"])
def test_a_star_stands_for_all_columns_beside_others(star: str):
    everything = tuple((name, name) for name in ORDERS.column_names)
    found = lookup(f"SELECT id AS x, {star}, qty AS y FROM orders o WHERE id = 1")
    assert found.columns == (("id", "x"), *everything, ("qty", "y"))


@pytest.mark.parametrize(
    ("literal", "value"),
    [("7", 7), ("-7", -7), ("'it''s'", "it's"), ("TRUE", True), ("false", False), ("NULL", None)],
)
def test_literals_are_read_as_what_they_say(literal: str, value: object):
    for condition in (f"id = {literal}", f"{literal} = id", f"id IN ({literal})"):
        ((name, (constant,)),) = lookup(f"SELECT id FROM orders WHERE {condition}").constants
        assert (name, constant) == ("id", pa.scalar(value))


def test_columns_are_listed_with_their_output_names():
    assert lookup(LOOKUPS[0]).columns == tuple((name, name) for name in ORDERS.column_names)
    assert lookup(LOOKUPS[1]).columns == (("id", "id"), ("item", "thing"), ("qty", "q"))


def test_keys_are_typed_distinct_and_not_null():
    found = lookup("SELECT id FROM orders WHERE id IN (1, ?, ?, NULL, 1)")
    keys = found.find_keys([pa.scalar(2, pa.int8()), pa.scalar(None, pa.int64())], ORDERS.schema)
    assert keys == pa.table({"id": pa.array([1, 2], pa.int64())})


def test_a_null_hides_no_key_after_it():
    keys = lookup("SELECT id FROM orders WHERE id IN (NULL, 3)").find_keys([], ORDERS.schema)
    assert keys == pa.table({"id": pa.array([3], pa.int64())})


def test_two_equal_keys_are_one_key():
    keys = lookup("SELECT id FROM orders WHERE id IN (3, 3)").find_keys([], ORDERS.schema)
    assert keys == pa.table({"id": pa.array([3], pa.int64())})


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.uint64()], ids=str)
def test_keys_have_the_type_of_their_column(kind: pa.DataType):
    keys = lookup("SELECT id FROM orders WHERE id IN (3, 4)").find_keys([], pa.schema([("id", kind)]))
    assert keys == pa.table({"id": pa.array([3, 4], kind)})


@pytest.mark.parametrize(
    "value",
    [
        pa.scalar(1.5),
        pa.scalar([1], pa.list_(pa.int64())),
        pa.array(["a"]).dictionary_encode()[0],
    ],
    ids=lambda value: str(value.type),
)
def test_keys_that_do_not_compare_by_their_bytes_are_left_to_datafusion(value: pa.Scalar):
    found = lookup("SELECT id FROM orders WHERE id = ?")
    assert found.find_keys([value], pa.schema([("id", value.type)])) is None


def test_composite_keys_come_in_key_order():
    found = lookup("SELECT price FROM items WHERE item = ? AND shop = 'a'")
    keys = found.find_keys([pa.scalar("nut", pa.large_string())], ITEMS.schema)
    assert keys == pa.table({"shop": ["a"], "item": ["nut"]})


def test_null_equals_nothing():
    found = lookup("SELECT id FROM orders WHERE id = ?")
    for null in (pa.scalar(None), pa.scalar(None, pa.string()), pa.scalar(None, pa.int64())):
        keys = found.find_keys([null], ORDERS.schema)
        assert keys is not None
        assert keys.num_rows == 0


@pytest.mark.parametrize("value", ["1", 1.0, True, 2**63], ids=repr)
def test_values_of_another_kind_are_left_to_datafusion(value: object):
    scalar = pa.scalar(value, pa.uint64()) if value == 2**63 else pa.scalar(value)
    assert lookup("SELECT id FROM orders WHERE id = ?").find_keys([scalar], ORDERS.schema) is None
