"""What the inspector tells of tables that statements of the gateway's own made."""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Inspector

from sqlalchemy_lance_gateway import (
    HALF,
    STRUCT,
    TIMESTAMP,
    TINYINT,
    UBIGINT,
    UINTEGER,
    USMALLINT,
    UTINYINT,
    VECTOR,
)

ORDERS = """
CREATE TABLE orders (
    customer BIGINT,
    number INT COMMENT 'counts up per customer',
    status VARCHAR(20) NOT NULL DEFAULT 'open',
    amount DECIMAL(10, 2) CHECK (amount >= 0),
    reference UUID,
    note TEXT,
    PRIMARY KEY (number, customer),
    CONSTRAINT one_reference UNIQUE (reference) NOT ENFORCED,
    CONSTRAINT of_customer FOREIGN KEY (customer) REFERENCES customers (id) NOT ENFORCED
) COMMENT 'it''s what was bought'
"""
TYPES = """
CREATE TABLE types (
    id BIGINT PRIMARY KEY, flag BOOLEAN, tiny TINYINT, small SMALLINT, medium INT, utiny TINYINT UNSIGNED,
    usmall SMALLINT UNSIGNED, umedium INT UNSIGNED, ularge BIGINT UNSIGNED, half HALF, single REAL,
    dbl DOUBLE, price DECIMAL(12, 3), words TEXT, short VARCHAR(7), raw BYTEA, few VARBINARY(5),
    four BINARY(4), token UUID, document JSON, day DATE, clock TIME, moment TIMESTAMP, millis TIMESTAMP(3),
    instant TIMESTAMPTZ, embedding FLOAT[3], tags TEXT[], grid INT[][], place STRUCT<a INT, b TEXT>
)
"""
EXPECTED: dict[str, Any] = {
    "id": sa.BIGINT(),
    "flag": sa.BOOLEAN(),
    "tiny": TINYINT(),
    "small": sa.SMALLINT(),
    "medium": sa.INTEGER(),
    "utiny": UTINYINT(),
    "usmall": USMALLINT(),
    "umedium": UINTEGER(),
    "ularge": UBIGINT(),
    "half": HALF(),
    "single": sa.REAL(),
    "dbl": sa.DOUBLE(),
    "price": sa.DECIMAL(12, 3),
    "words": sa.TEXT(),
    "short": sa.VARCHAR(7),
    "raw": sa.LargeBinary(),
    "few": sa.VARBINARY(5),
    "four": sa.BINARY(4),
    "token": sa.Uuid(),
    "document": sa.JSON(),
    "day": sa.DATE(),
    "clock": sa.TIME(),
    "moment": TIMESTAMP(),
    "millis": TIMESTAMP(precision=3),
    "instant": TIMESTAMP(timezone=True),
    "embedding": VECTOR(3),
    "tags": sa.ARRAY(sa.TEXT()),
    "grid": sa.ARRAY(sa.INTEGER(), dimensions=2),
    "place": STRUCT(("a", sa.INTEGER()), ("b", sa.TEXT())),
}


@pytest.fixture(scope="module")
def made(engine: sa.Engine) -> Iterator[sa.Engine]:
    """The tables `customers`, `orders`, `order_`, `types` and the view `open_orders`."""
    with engine.connect() as connection:
        for statement in (
            "CREATE TABLE customers (id BIGINT PRIMARY KEY, embedding FLOAT[2])",
            ORDERS,
            TYPES,
            'CREATE TABLE "Odd Name" (id BIGINT)',
            "CREATE TABLE orderx (id BIGINT PRIMARY KEY)",
            "CREATE INDEX by_status ON orders USING BITMAP (status)",
            "CREATE VIEW open_orders AS SELECT number, amount FROM orders WHERE status = 'open'",
        ):
            connection.execute(sa.text(statement))
        yield engine
        for name in ("customers", "orders", "types", '"Odd Name"', "orderx"):
            connection.execute(sa.text(f"DROP TABLE {name}"))
        connection.execute(sa.text("DROP VIEW open_orders"))


@pytest.fixture
def inspector(made: sa.Engine) -> Inspector:
    return sa.inspect(made)


def test_tables_and_views_are_listed_by_schema(inspector: Inspector) -> None:
    assert inspector.default_schema_name == "main"
    assert inspector.get_schema_names() == ["information_schema", "main", "system"]
    assert {"customers", "orders", "types", "Odd Name"} <= set(inspector.get_table_names())
    assert inspector.get_table_names(schema="main") == inspector.get_table_names()
    assert "open_orders" in inspector.get_view_names()
    assert "open_orders" not in inspector.get_table_names()
    assert "queries" in inspector.get_table_names(schema="system")
    assert "columns" in inspector.get_table_names(schema="information_schema")
    assert inspector.get_table_names(schema="nowhere") == []


@pytest.mark.parametrize(
    ("table", "schema", "there"),
    [
        ("orders", None, True),
        ("orders", "main", True),
        ("open_orders", None, True),
        ("Odd Name", None, True),
        ("queries", "system", True),
        ("orders", "system", False),
        ("orders", "nowhere", False),
        ("Orders", None, False),
        # Characters of patterns stand for themselves.
        ("order_", None, False),
        ("%", None, False),
    ],
)
def test_a_table_is_found_by_its_exact_name(
    inspector: Inspector, table: str, schema: str | None, there: bool
) -> None:
    assert inspector.has_table(table, schema=schema) == there


def test_columns_tell_null_default_and_comment(inspector: Inspector) -> None:
    told = [
        (column["name"], column["nullable"], column["default"], column["comment"])
        for column in inspector.get_columns("orders")
    ]
    assert told == [
        ("customer", False, None, None),
        ("number", False, None, "counts up per customer"),
        ("status", False, "'open'", None),
        ("amount", True, None, None),
        ("reference", True, None, None),
        ("note", True, None, None),
    ]


def test_every_type_has_one_of_sqlalchemy(inspector: Inspector) -> None:
    told = {column["name"]: repr(column["type"]) for column in inspector.get_columns("types")}
    assert told == {column: repr(expected) for column, expected in EXPECTED.items()}


def test_keys_constraints_and_indexes(inspector: Inspector) -> None:
    key = inspector.get_pk_constraint("orders")
    assert (key["name"], key["constrained_columns"]) == ("orders_pkey", ["number", "customer"])
    assert inspector.get_foreign_keys("orders") == [
        {
            "name": "of_customer",
            "constrained_columns": ["customer"],
            "referred_schema": None,
            "referred_table": "customers",
            "referred_columns": ["id"],
            "options": {},
        }
    ]
    assert inspector.get_unique_constraints("orders") == [
        {"name": "one_reference", "column_names": ["reference"]}
    ]
    assert inspector.get_check_constraints("orders") == [
        {"name": "orders_amount_check", "sqltext": "amount >= 0"}
    ]
    assert inspector.get_indexes("orders") == [
        {
            "name": "by_status",
            "column_names": ["status"],
            "unique": False,
            "dialect_options": {"lancegateway_using": "BITMAP"},
        }
    ]
    assert inspector.get_table_comment("orders") == {"text": "it's what was bought"}


def test_views_and_system_tables_have_columns_and_nothing_else(inspector: Inspector) -> None:
    for table, schema in (("open_orders", None), ("queries", "system")):
        assert inspector.get_columns(table, schema=schema)
        assert inspector.get_pk_constraint(table, schema=schema)["constrained_columns"] == []
        for of in (
            inspector.get_foreign_keys,
            inspector.get_unique_constraints,
            inspector.get_check_constraints,
            inspector.get_indexes,
        ):
            assert of(table, schema=schema) == []
        assert inspector.get_table_comment(table, schema=schema) == {"text": None}


def test_a_schema_has_tables_of_its_own(engine: sa.Engine, name: str) -> None:
    metadata = sa.MetaData()
    parent = sa.Table(name, metadata, sa.Column("id", sa.BigInteger, primary_key=True), schema="shop")
    key = sa.ForeignKeyConstraint(["id"], [parent.c.id], name="to_parent", info={})
    sa.Table(f"{name}c", metadata, sa.Column("id", sa.BigInteger, primary_key=True), key, schema="shop")
    with engine.connect() as connection:
        connection.execute(sa.schema.CreateSchema("shop"))
        metadata.create_all(connection)
        connection.execute(parent.insert(), [{"id": 1}, {"id": 2}])
        assert sorted(connection.scalars(sa.select(parent.c.id))) == [1, 2]
        inspector = sa.inspect(engine)
        assert "shop" in inspector.get_schema_names()
        assert inspector.get_table_names(schema="shop") == [name, f"{name}c"]
        assert inspector.has_table(name, schema="shop")
        assert not inspector.has_table(name)
        assert inspector.get_pk_constraint(name, schema="shop")["constrained_columns"] == ["id"]
        (found,) = inspector.get_foreign_keys(f"{name}c", schema="shop")
        assert (found["referred_schema"], found["referred_table"]) == ("shop", name)
        connection.execute(sa.schema.DropSchema("shop", cascade=True))
    assert "shop" not in sa.inspect(engine).get_schema_names()


def test_what_is_not_there_is_said_to_be_missing(inspector: Inspector) -> None:
    for of in (inspector.get_columns, inspector.get_pk_constraint, inspector.get_indexes):
        with pytest.raises(sa.exc.NoSuchTableError, match="nowhere"):
            of("nowhere")


def test_a_reflected_database_is_made_again_as_it_was(made: sa.Engine) -> None:
    """The definitions that follow from reflection mean the same to the gateway."""
    before = sa.MetaData()
    before.reflect(made, only=["customers", "orders", "types"])
    before.drop_all(made)
    with pytest.warns(sa.exc.SAWarning, match="does not enforce"):
        before.create_all(made)
    inspector = sa.inspect(made)
    for name, table in before.tables.items():
        assert [
            (column["name"], repr(column["type"]), column["nullable"], column["default"], column["comment"])
            for column in inspector.get_columns(name)
        ] == [
            (
                column.name,
                repr(column.type),
                column.nullable,
                None if column.server_default is None else str(column.server_default.arg),  # type: ignore[attr-defined]
                column.comment,
            )
            for column in table.columns
        ]
    test_keys_constraints_and_indexes(inspector)
