"""What there is to query: listings, restricted and described as the protocol prescribes."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.metadata.listings import matches
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.conftest import TYPES, orders, serving

TABLES = [("big_orders", "VIEW"), ("orders", "TABLE"), ("typed", "TABLE")]


def names_in(table: pa.Table, db_schema: str) -> list[str]:
    return [row["table_name"] for row in table.to_pylist() if row["db_schema_name"] == db_schema]


# command -> the rows of the lake
RESULTS: list[tuple[Any, list[tuple[Any, ...]]]] = [
    (sql.CommandGetCatalogs(), [("lance",)]),
    (
        sql.CommandGetDbSchemas(),
        [("lance", "information_schema"), ("lance", "main"), ("lance", "system")],
    ),
    (sql.CommandGetTables(db_schema_filter_pattern="main"), [("lance", "main", *table) for table in TABLES]),
    (sql.CommandGetTableTypes(), [("SYSTEM TABLE",), ("TABLE",), ("VIEW",)]),
    (sql.CommandGetPrimaryKeys(table="orders"), [("lance", "main", "orders", "id", None, 1)]),
    (sql.CommandGetPrimaryKeys(table="big_orders"), []),
    (sql.CommandGetExportedKeys(table="orders"), []),
    (sql.CommandGetImportedKeys(table="orders"), []),
    (sql.CommandGetCrossReference(pk_table="orders", fk_table="typed"), []),
]


@pytest.mark.parametrize(
    ("command", "rows"),
    RESULTS,
    ids=[f"{type(command).__name__} {command}".strip() for command, _ in RESULTS],
)
def test_a_listing_has_the_rows_of_the_lake(
    wire: flight.FlightClient, command: Any, rows: list[tuple[Any, ...]]
) -> None:
    assert [tuple(row.values()) for row in rpc.fetch(wire, command).to_pylist()] == rows


def test_tables_come_with_their_columns_as_encapsulated_messages(wire: flight.FlightClient) -> None:
    table = rpc.fetch(wire, sql.CommandGetTables(include_schema=True, db_schema_filter_pattern="main"))
    schemas = [rpc.schema_of(message) for message in table.column("table_schema").to_pylist()]
    assert (schemas[0].names, schemas[0].types) == (["id", "amount"], [pa.int64(), pa.float64()])
    assert schemas[1].field("id").equals(pa.field("id", pa.int64(), nullable=False))
    assert schemas[2].names == ["id", *TYPES]
    assert schemas[2].types == [pa.int64(), *(data_type for data_type, _ in TYPES.values())]


def column_metadata(wire: flight.FlightClient, table: str, column: str) -> dict[str, str]:
    command = sql.CommandGetTables(include_schema=True, table_name_filter_pattern=table)
    (message,) = rpc.fetch(wire, command).column("table_schema").to_pylist()
    return described(rpc.schema_of(message).field(column))


def described(field: pa.Field) -> dict[str, str]:
    prefix = "ARROW:FLIGHT:SQL:"
    return {
        key.decode().removeprefix(prefix): value.decode() for key, value in (field.metadata or {}).items()
    }


def test_a_column_is_described_by_the_protocols_metadata(wire: flight.FlightClient) -> None:
    assert column_metadata(wire, "typed", "price") == {
        "CATALOG_NAME": "lance",
        "SCHEMA_NAME": "main",
        "DB_SCHEMA_NAME": "main",
        "TABLE_NAME": "typed",
        "TYPE_NAME": "DECIMAL",
        "PRECISION": "12",
        "SCALE": "2",
        "IS_AUTO_INCREMENT": "0",
        "IS_CASE_SENSITIVE": "0",
        "IS_READ_ONLY": "1",
        "IS_SEARCHABLE": "1",
    }
    text = column_metadata(wire, "typed", "text")
    assert (text["TYPE_NAME"], text["IS_CASE_SENSITIVE"]) == ("VARCHAR", "1")
    assert not {"PRECISION", "SCALE"} & text.keys()
    assert column_metadata(wire, "big_orders", "amount")["TABLE_NAME"] == "big_orders"
    assert column_metadata(wire, "df_settings", "name")["SCHEMA_NAME"] == "information_schema"


def test_what_was_noted_about_a_column_is_its_remark(wire: flight.FlightClient) -> None:
    assert column_metadata(wire, "orders", "amount")["REMARKS"] == "in euros, without tax"
    assert "REMARKS" not in column_metadata(wire, "orders", "customer")


def test_the_columns_of_a_result_are_described_too(wire: flight.FlightClient) -> None:
    statement = "SELECT price, price * 2 AS twice, instant FROM typed"
    info = rpc.info(wire, sql.CommandStatementQuery(query=statement))
    stream = wire.do_get(info.endpoints[0].ticket)
    prepared = rpc.schema_of(rpc.prepare(wire, statement).dataset_schema)
    assert info.schema.equals(stream.schema, check_metadata=True)
    assert info.schema.equals(prepared, check_metadata=True)
    price, twice, instant = map(described, info.schema)
    assert (price["TYPE_NAME"], price["PRECISION"], price["SCALE"]) == ("DECIMAL", "12", "2")
    assert twice["SCALE"] == "2"
    assert (instant["TYPE_NAME"], instant["PRECISION"]) == ("TIMESTAMP WITH TIME ZONE", "32")
    assert "TABLE_NAME" not in price


def test_information_schema_lists_what_get_tables_lists(wire: flight.FlightClient) -> None:
    statement = "SELECT table_schema, table_name, table_type FROM information_schema.tables"
    listed = {tuple(row.values()) for row in rpc.query(wire, statement).to_pylist()}
    tables = rpc.fetch(wire, sql.CommandGetTables()).to_pylist()
    assert {(schema, name) for schema, name, _ in listed} == {
        (row["db_schema_name"], row["table_name"]) for row in tables
    }
    assert {kind for schema, _, kind in listed if schema == "main"} == {"BASE TABLE", "VIEW"}
    statement = "SELECT DISTINCT schema_name FROM information_schema.schemata"
    schemas = {"information_schema", *rpc.query(wire, statement).column(0).to_pylist()}
    assert schemas == set(rpc.fetch(wire, sql.CommandGetDbSchemas()).column("db_schema_name").to_pylist())


@pytest.mark.parametrize("name", ["tables", "columns", "schemata"])
def test_a_table_of_information_schema_has_the_columns_that_are_listed(
    wire: flight.FlightClient, name: str
) -> None:
    command = sql.CommandGetTables(
        include_schema=True, db_schema_filter_pattern="information\\_schema", table_name_filter_pattern=name
    )
    (row,) = rpc.fetch(wire, command).to_pylist()
    queried = rpc.query(wire, f"SELECT * FROM information_schema.{name} LIMIT 1")
    listed = rpc.schema_of(row["table_schema"])
    assert (listed.names, listed.types) == (queried.schema.names, queried.schema.types)
    assert row["table_type"] == "SYSTEM TABLE"


def test_types_are_listed_by_number_and_then_by_name(wire: flight.FlightClient) -> None:
    table = rpc.fetch(wire, sql.CommandGetXdbcTypeInfo())
    order = list(
        zip(table.column("data_type").to_pylist(), table.column("type_name").to_pylist(), strict=True)
    )
    assert order == sorted(order)
    assert {name for _, name in order} > {"BIGINT", "DECIMAL", "VARCHAR", "TIMESTAMP WITH TIME ZONE", "ARRAY"}


def test_types_can_be_asked_for_by_number(wire: flight.FlightClient) -> None:
    decimal, timestamp = 3, 93
    (row,) = rpc.fetch(wire, sql.CommandGetXdbcTypeInfo(data_type=decimal)).to_pylist()
    assert row == {
        "type_name": "DECIMAL",
        "data_type": 3,
        "column_size": 76,
        "literal_prefix": None,
        "literal_suffix": None,
        "create_params": ["precision", "scale"],
        "nullable": 1,
        "case_sensitive": False,
        "searchable": 2,
        "unsigned_attribute": False,
        "fixed_prec_scale": False,
        "auto_increment": False,
        "local_type_name": None,
        "minimum_scale": 0,
        "maximum_scale": 76,
        "sql_data_type": 3,
        "datetime_subcode": None,
        "num_prec_radix": 10,
        "interval_precision": None,
    }
    (row,) = rpc.fetch(wire, sql.CommandGetXdbcTypeInfo(data_type=timestamp)).to_pylist()
    assert (row["literal_prefix"], row["sql_data_type"], row["datetime_subcode"]) == ("TIMESTAMP '", 9, 3)
    (row,) = rpc.fetch(wire, sql.CommandGetXdbcTypeInfo(data_type=12)).to_pylist()
    assert (row["type_name"], row["create_params"]) == ("VARCHAR", ["length"])
    assert rpc.fetch(wire, sql.CommandGetXdbcTypeInfo(data_type=4711)).num_rows == 0


def test_every_type_of_a_column_is_among_the_types(wire: flight.FlightClient) -> None:
    names = set(rpc.fetch(wire, sql.CommandGetXdbcTypeInfo()).column("type_name").to_pylist())
    assert {column_metadata(wire, "typed", name)["TYPE_NAME"] for name in TYPES} <= names


NOT_IN_SQL = {"NULL", "HALF FLOAT", "DURATION", "ARRAY", "STRUCT", "MAP"}


def test_a_type_that_sql_has_a_name_for_is_understood_under_it(wire: flight.FlightClient) -> None:
    for row in rpc.fetch(wire, sql.CommandGetXdbcTypeInfo()).to_pylist():
        if row["type_name"] not in NOT_IN_SQL:
            assert rpc.query(wire, f"SELECT CAST(NULL AS {row['type_name']})").num_rows == 1


@pytest.mark.parametrize(
    ("restriction", "names"),
    [
        ({"table_name_filter_pattern": "%order%"}, ["big_orders", "orders"]),
        ({"table_name_filter_pattern": "order_"}, ["orders"]),
        ({"table_name_filter_pattern": "big\\_orders"}, ["big_orders"]),
        ({"table_name_filter_pattern": ""}, []),
        ({"table_types": ["VIEW"]}, ["big_orders"]),
        ({"table_types": ["TABLE", "VIEW"], "table_name_filter_pattern": "%ed"}, ["typed"]),
        ({"table_types": ["BASE TABLE", "table"]}, ["orders", "typed"]),
        ({"table_types": ["view"]}, ["big_orders"]),
        ({"table_types": ["NO SUCH KIND"]}, []),
        ({"table_name_filter_pattern": "TYPED"}, []),
        ({"table_name_filter_pattern": "%"}, ["big_orders", "orders", "typed"]),
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
    assert names_in(table, "main") == names


JDBC = flight.FlightCallOptions(headers=[(b"types", b"jdbc")])


@pytest.mark.parametrize(
    ("command", "count"),
    [
        (sql.CommandGetTables(catalog="LANCE", db_schema_filter_pattern="MAIN"), 3),
        (sql.CommandGetTables(table_name_filter_pattern="%ORDER%"), 2),
        (sql.CommandGetTables(table_name_filter_pattern="Orders"), 0),
        (sql.CommandGetDbSchemas(db_schema_filter_pattern="MAIN"), 1),
        (sql.CommandGetPrimaryKeys(db_schema="MAIN", table="ORDERS"), 1),
        (sql.CommandGetPrimaryKeys(table="NOWHERE"), 0),
    ],
)
def test_the_jdbc_driver_finds_names_that_its_tools_put_in_upper_case(
    wire: flight.FlightClient, command: Any, count: int
) -> None:
    (endpoint,) = rpc.info(wire, command).endpoints
    rows = wire.do_get(endpoint.ticket, JDBC).read_all()
    assert rows.num_rows == count
    if "table_name" in rows.column_names:
        assert set(rows["table_name"].to_pylist()) <= {"big_orders", "orders", "typed"}
    assert rpc.fetch(wire, command).num_rows == 0


def test_a_name_that_is_in_upper_case_is_found_alone(tmp_path: Path) -> None:
    for name in ("orders", "ORDERS"):
        lance.write_dataset(orders(), tmp_path / f"{name}.lance")
    command = sql.CommandGetTables(table_name_filter_pattern="ORDERS")
    with serving(tmp_path) as server, flight.connect(f"grpc://127.0.0.1:{server.port}") as client:
        (endpoint,) = rpc.info(client, command).endpoints
        assert names_in(client.do_get(endpoint.ticket, JDBC).read_all(), "main") == ["ORDERS"]


def test_system_tables_are_a_kind_of_their_own(wire: flight.FlightClient) -> None:
    table = rpc.fetch(wire, sql.CommandGetTables(table_types=["SYSTEM TABLE"]))
    assert names_in(table, "main") == []
    assert {"tables", "columns"} <= set(names_in(table, "information_schema"))
    assert {"tables", "queries"} <= set(names_in(table, "system"))


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
        ("a" * 200, "%a" * 60 + "b", False),
        ("a" * 200, "%a" * 60 + "%", True),
        ("orders", "%_" * 1_000_000, False),
    ],
)
def test_patterns(name: str, pattern: str, expected: bool) -> None:
    assert matches(name, pattern) is expected
