"""What there is to query, as ADBC asks for it and as the protocol prescribes it."""

from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from gateway.patterns import matches
from protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.conftest import TYPES

TABLES = [("big_orders", "VIEW"), ("orders", "TABLE"), ("typed", "TABLE")]


def _field(name: str, data_type: pa.DataType, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, data_type, nullable)


TABLES_SCHEMA = pa.schema(
    [
        _field("catalog_name", pa.string(), nullable=True),
        _field("db_schema_name", pa.string(), nullable=True),
        _field("table_name", pa.string()),
        _field("table_type", pa.string()),
    ]
)
# command -> the schema that the protocol prescribes, and the rows of the lake
RESULTS: list[tuple[Any, pa.Schema, list[tuple[Any, ...]]]] = [
    (sql.CommandGetCatalogs(), pa.schema([_field("catalog_name", pa.string())]), [("lance",)]),
    (
        sql.CommandGetDbSchemas(),
        pa.schema(
            [_field("catalog_name", pa.string(), nullable=True), _field("db_schema_name", pa.string())]
        ),
        [("lance", "main")],
    ),
    (sql.CommandGetTables(), TABLES_SCHEMA, [("lance", "main", *table) for table in TABLES]),
    (
        sql.CommandGetTableTypes(),
        pa.schema([_field("table_type", pa.string())]),
        [("TABLE",), ("VIEW",)],
    ),
    (
        sql.CommandGetPrimaryKeys(table="orders"),
        pa.schema(
            [
                _field("catalog_name", pa.string(), nullable=True),
                _field("db_schema_name", pa.string(), nullable=True),
                _field("table_name", pa.string()),
                _field("column_name", pa.string()),
                _field("key_name", pa.string(), nullable=True),
                _field("key_sequence", pa.int32()),
            ]
        ),
        [("lance", "main", "orders", "id", None, 1)],
    ),
]


@pytest.mark.parametrize(
    ("command", "schema", "rows"), RESULTS, ids=[type(command).__name__ for command, _, _ in RESULTS]
)
def test_a_listing_has_the_schema_of_the_protocol(
    wire: flight.FlightClient, command: Any, schema: pa.Schema, rows: list[tuple[Any, ...]]
) -> None:
    info = rpc.info(wire, command)
    table = wire.do_get(info.endpoints[0].ticket).read_all()
    assert table.schema == info.schema == wire.get_schema(rpc.descriptor(command)).schema == schema
    assert [tuple(row.values()) for row in table.to_pylist()] == rows


def test_tables_come_with_their_columns_as_encapsulated_messages(wire: flight.FlightClient) -> None:
    table = rpc.fetch(wire, sql.CommandGetTables(include_schema=True))
    assert table.schema == TABLES_SCHEMA.append(_field("table_schema", pa.binary()))
    schemas = [rpc.schema_of(message) for message in table.column("table_schema").to_pylist()]
    assert (schemas[0].names, schemas[0].types) == (["id", "amount"], [pa.int64(), pa.float64()])
    assert schemas[1].field("id") == _field("id", pa.int64())
    assert schemas[2].names == ["id", *TYPES]
    assert schemas[2].types == [pa.int64(), *(data_type for data_type, _ in TYPES.values())]


@pytest.mark.parametrize(
    ("restriction", "names"),
    [
        ({"table_name_filter_pattern": "%order%"}, ["big_orders", "orders"]),
        ({"table_name_filter_pattern": "order_"}, ["orders"]),
        ({"table_name_filter_pattern": "big\\_orders"}, ["big_orders"]),
        ({"table_name_filter_pattern": ""}, []),
        ({"table_types": ["VIEW"]}, ["big_orders"]),
        ({"table_types": ["SYSTEM TABLE"]}, []),
        ({"catalog": "lance", "db_schema_filter_pattern": "ma%"}, ["big_orders", "orders", "typed"]),
        ({"catalog": ""}, []),
        ({"catalog": "other"}, []),
        ({"db_schema_filter_pattern": "public"}, []),
    ],
)
def test_tables_are_restricted_by_pattern_and_kind(
    wire: flight.FlightClient, restriction: dict[str, Any], names: list[str]
) -> None:
    table = rpc.fetch(wire, sql.CommandGetTables(**restriction))
    assert table.column("table_name").to_pylist() == names


@pytest.mark.parametrize(
    ("restriction", "count"), [({"catalog": "other"}, 0), ({"db_schema_filter_pattern": "m__n"}, 1)]
)
def test_schemas_are_restricted_too(
    wire: flight.FlightClient, restriction: dict[str, Any], count: int
) -> None:
    assert rpc.fetch(wire, sql.CommandGetDbSchemas(**restriction)).num_rows == count


@pytest.mark.parametrize(
    "command",
    [
        sql.CommandGetPrimaryKeys(table="nowhere"),
        sql.CommandGetPrimaryKeys(table="orders", catalog="other"),
        sql.CommandGetPrimaryKeys(table="orders", db_schema="other"),
    ],
)
def test_a_table_that_is_not_there_has_no_key(wire: flight.FlightClient, command: Any) -> None:
    assert rpc.fetch(wire, command).num_rows == 0


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("orders", "%", True),
        ("", "%", True),
        ("orders", "_rders", True),
        ("orders", "rders", False),
        ("a.b", "a.b", True),
        ("axb", "a.b", False),
        ("a%b", r"a\%b", True),
        ("axb", r"a\%b", False),
        ("a\\", "a\\", True),
        ("zwei\nzeilen", "zwei%", True),
    ],
)
def test_patterns(name: str, pattern: str, expected: bool) -> None:
    assert matches(name, pattern) is expected


def test_adbc_sees_all_objects(adbc: Any) -> None:
    (catalog,) = adbc.adbc_get_objects(depth="all").read_all().to_pylist()
    (schema,) = catalog["catalog_db_schemas"]
    found = {
        table["table_name"]: [column["column_name"] for column in table["table_columns"]]
        for table in schema["db_schema_tables"]
    }
    assert (catalog["catalog_name"], schema["db_schema_name"]) == ("lance", "main")
    assert found == {
        "big_orders": ["id", "amount"],
        "orders": ["id", "customer", "amount"],
        "typed": ["id", *TYPES],
    }


def test_adbc_gets_the_columns_of_a_table_and_of_a_view(adbc: Any) -> None:
    assert adbc.adbc_get_table_schema("orders").names == ["id", "customer", "amount"]
    assert adbc.adbc_get_table_schema("big_orders").names == ["id", "amount"]


def test_adbc_gets_the_table_types(adbc: Any) -> None:
    assert adbc.adbc_get_table_types() == ["TABLE", "VIEW"]
