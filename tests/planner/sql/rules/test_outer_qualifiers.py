"""Subqueries read columns of relations around them that are called as a column inside is. DuckDB judges."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from tests.support.judging.judged import Judged, open_judged

CUSTOMER = pa.table({"id": [1, 2, 3], "name": ["a", "b", None], "orders": [0, 5, 9]})
ORDERS = pa.table({"id": [10, 11, 12], "customer": [1, 3, 3], "amount": [5, 6, 7]})
PARTS = pa.table({"id": [1, 2], "item": pa.array([{"id": 2}, {"id": 1}], pa.struct([("id", pa.int64())]))})
QUERIES = (
    "SELECT name FROM customer WHERE EXISTS (SELECT 1 FROM orders WHERE orders.customer = customer.id)",
    "SELECT id FROM customer WHERE NOT EXISTS (SELECT 1 FROM orders WHERE orders.customer = customer.id)",
    "SELECT id FROM main.customer WHERE id IN (SELECT customer FROM orders WHERE customer = customer.id)",
    "SELECT id FROM main.customer WHERE EXISTS (SELECT 1 FROM orders WHERE customer = main.customer.id)",
    "SELECT id, (SELECT sum(amount) FROM orders WHERE customer = customer.id) AS s FROM customer ORDER BY id",
    "SELECT id, (SELECT count(*) FROM orders WHERE customer < customer.id) AS c FROM customer ORDER BY id",
    "SELECT amount.id FROM customer AS amount WHERE EXISTS (SELECT 1 FROM orders WHERE customer = amount.id)",
    """SELECT customer.id, x.s FROM customer, LATERAL (
        SELECT max(amount) AS s FROM orders o WHERE o.customer = customer.id) AS x ORDER BY 1""",
    """SELECT o.id, customer.name FROM orders AS o JOIN customer ON o.customer = customer.id
       WHERE o.amount = (SELECT max(amount) FROM orders WHERE customer = customer.id) ORDER BY o.id""",
    """SELECT orders.id FROM orders
       WHERE 1 < (SELECT max(orders) FROM customer WHERE customer.id <> orders.id) ORDER BY orders.id""",
    """WITH customer AS (SELECT id + 1 AS id FROM customer) SELECT customer.id FROM customer
       WHERE EXISTS (SELECT 1 FROM orders WHERE orders.customer = customer.id) ORDER BY customer.id""",
    "SELECT item.id FROM customer AS item WHERE item.id IN (SELECT parts.item.id FROM parts) ORDER BY 1",
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    tables = {"customer": CUSTOMER, "orders": ORDERS, "parts": PARTS}
    with open_judged(tmp_path_factory.mktemp("qualifiers"), tables) as opened:
        yield opened


@pytest.mark.parametrize("sql", QUERIES)
def test_names_of_relations_are_no_columns(judged: Judged, sql: str) -> None:
    judged.check(sql, is_sorted="ORDER BY" in sql)


def test_the_columns_keep_their_names(judged: Judged) -> None:
    sql = (
        "SELECT customer.id, customer.id + 1, max(customer.id) OVER (ORDER BY customer.id) FROM customer"
        " WHERE EXISTS (SELECT 1 FROM orders WHERE orders.customer = customer.id)"
    )
    others = sql.replace("orders.customer", "orders.id")
    assert (
        judged.engine.execute(sql).read_all().schema.names
        == judged.engine.execute(others).read_all().schema.names
    )
    assert not any("#" in name for name in judged.engine.execute(sql).read_all().schema.names)


def test_a_column_that_is_missing_is_named_as_it_was_written(judged: Judged) -> None:
    sql = "SELECT 1 FROM customer WHERE EXISTS (SELECT 1 FROM orders WHERE customer = customer.nothing)"
    with pytest.raises(InvalidInputError, match=r"customer\.nothing") as caught:
        judged.engine.execute(sql).read_all()
    assert "#" not in str(caught.value)


def test_a_field_of_a_struct_is_one(judged: Judged) -> None:
    """A relation inside has the column, so it comes before the relation around."""
    sql = "SELECT item.id FROM customer AS item WHERE EXISTS (SELECT 1 FROM parts WHERE item.id = 7)"
    assert judged.engine.execute(sql).read_all().num_rows == 0
