"""What the server says it can do, and that it can."""

from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.metadata import sql_info
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc

# As the protocol prescribes it: drivers read the children by their place.
SCHEMA = pa.schema(
    [
        pa.field("info_name", pa.uint32(), nullable=False),
        pa.field(
            "value",
            pa.dense_union(
                [
                    pa.field("string_value", pa.string(), nullable=False),
                    pa.field("bool_value", pa.bool_(), nullable=False),
                    pa.field("bigint_value", pa.int64(), nullable=False),
                    pa.field("int32_bitmask", pa.int32(), nullable=False),
                    pa.field("string_list", pa.list_(pa.string()), nullable=False),
                    pa.field(
                        "int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32())), nullable=False
                    ),
                ]
            ),
            nullable=False,
        ),
    ]
)
# code -> place of the child that drivers expect
KINDS = {
    sql.FLIGHT_SQL_SERVER_NAME: 0,
    sql.FLIGHT_SQL_SERVER_READ_ONLY: 1,
    sql.SQL_MAX_TABLES_IN_SELECT: 2,
    sql.SQL_DEFAULT_TRANSACTION_ISOLATION: 2,
    sql.SQL_IDENTIFIER_CASE: 2,
    sql.FLIGHT_SQL_SERVER_TRANSACTION: 3,
    sql.SQL_SUPPORTED_GROUP_BY: 3,
    sql.SQL_OUTER_JOINS_SUPPORT_LEVEL: 3,
    sql.SQL_KEYWORDS: 4,
    sql.SQL_SUPPORTS_CONVERT: 5,
}


def test_the_schema_is_that_of_the_protocol(wire: flight.FlightClient) -> None:
    command = sql.CommandGetSqlInfo(info=[sql.FLIGHT_SQL_SERVER_NAME])
    info = rpc.info(wire, command)
    table = wire.do_get(info.endpoints[0].ticket).read_all()
    assert table.schema == info.schema == wire.get_schema(rpc.descriptor(command)).schema == SCHEMA
    assert table.to_pylist() == [{"info_name": 0, "value": "Lance Gateway"}]


def test_no_code_asks_for_all_and_only_codes_of_the_protocol_are_answered(wire: flight.FlightClient) -> None:
    table = rpc.fetch(wire, sql.CommandGetSqlInfo())
    codes = table.column("info_name").to_pylist()
    assert codes == sorted(codes)
    versions = {sql.FLIGHT_SQL_SERVER_SUBSTRAIT_MIN_VERSION, sql.FLIGHT_SQL_SERVER_SUBSTRAIT_MAX_VERSION}
    assert set(codes) == set(sql.SqlInfo.values()) - versions


@pytest.mark.parametrize(("code", "kind"), KINDS.items(), ids=[sql.SqlInfo.Name(code) for code in KINDS])
def test_a_value_is_of_the_kind_that_drivers_expect(wire: flight.FlightClient, code: int, kind: int) -> None:
    (chunk,) = rpc.fetch(wire, sql.CommandGetSqlInfo(info=[code])).column("value").chunks
    assert chunk.type_codes.to_pylist() == [kind]


def test_codes_are_answered_in_the_order_asked(wire: flight.FlightClient) -> None:
    codes = [
        sql.SQL_SUPPORTS_CONVERT,
        sql.FLIGHT_SQL_SERVER_SQL,
        sql.SQL_KEYWORDS,
        sql.FLIGHT_SQL_SERVER_CANCEL,
    ]
    table = rpc.fetch(wire, sql.CommandGetSqlInfo(info=codes))
    assert table.column("info_name").to_pylist() == codes
    assert table.column("value")[1].as_py() is True
    assert table.column("value")[3].as_py() is True
    assert "QUALIFY" in table.column("value")[2].as_py()


def test_a_code_without_a_value_has_no_row(wire: flight.FlightClient) -> None:
    vendors_own, not_yet_known = 10_000, 499
    codes = [vendors_own, sql.FLIGHT_SQL_SERVER_NAME, not_yet_known]
    table = rpc.fetch(wire, sql.CommandGetSqlInfo(info=codes))
    assert table.column("info_name").to_pylist() == [sql.FLIGHT_SQL_SERVER_NAME]
    assert rpc.fetch(wire, sql.CommandGetSqlInfo(info=[vendors_own])).num_rows == 0


def test_adbc_reads_name_and_versions(adbc: Any) -> None:
    info = adbc.adbc_get_info()
    assert info["vendor_name"] == "Lance Gateway"
    assert info["vendor_arrow_version"] == pa.__version__


FUNCTIONS = (
    sql_info.NUMERIC_FUNCTIONS
    + sql_info.STRING_FUNCTIONS
    + sql_info.SYSTEM_FUNCTIONS
    + sql_info.DATETIME_FUNCTIONS
)
# Functions with a syntax of their own, which the catalogue of functions does not list.
SPECIAL = {"extract": "extract(year FROM now())", "position": "position('b' IN 'abc')", "trim": "trim(' a ')"}


def test_every_function_that_is_named_exists(wire: flight.FlightClient) -> None:
    listed = rpc.query(wire, "SELECT DISTINCT routine_name FROM information_schema.routines")
    missing = set(FUNCTIONS) - set(listed.column(0).to_pylist())
    assert missing <= SPECIAL.keys()
    for name in missing:
        assert rpc.query(wire, f"SELECT {SPECIAL[name]}").num_rows == 1


# Place in SqlSupportsConvert -> the type's name, and a value as text.
CONVERTED = {
    0: ("BIGINT", "7"), 2: ("BOOLEAN", "true"), 3: ("CHAR", None), 4: ("DATE", "2020-01-01"),
    5: ("DECIMAL", "7"), 6: ("FLOAT", "7"), 7: ("INTEGER", "7"), 12: ("NUMERIC", "7"), 13: ("REAL", "7"),
    14: ("SMALLINT", "7"), 15: ("TIME", "10:00:00"), 16: ("TIMESTAMP", "2020-01-01 10:00:00"),
    17: ("TINYINT", "7"), 18: ("BYTEA", "seven"), 19: ("VARCHAR", None),
}  # fmt: skip


def test_every_conversion_that_is_claimed_works(wire: flight.FlightClient) -> None:
    table = rpc.fetch(wire, sql.CommandGetSqlInfo(info=[sql.SQL_SUPPORTS_CONVERT]))
    casts = []
    for place, targets in table.column("value")[0].as_py():
        source, text = CONVERTED[place]
        for target, target_text in (CONVERTED[one] for one in targets):
            value = text or target_text or "text"
            casts.append(f"CAST(CAST('{value}' AS {source}) AS {target})")
    assert len(casts) > 100
    (row,) = rpc.query(
        wire, "SELECT " + ", ".join(f"{cast} AS c{n}" for n, cast in enumerate(casts))
    ).to_pylist()
    assert all(value is not None for value in row.values())


# What a capability claims -> a query that only runs if the claim is true.
CLAIMS = {
    "null ordering": (
        "SELECT first_value(amount) OVER (ORDER BY amount DESC) IS NULL FROM orders LIMIT 1",
        True,
    ),
    "identifiers fold to lower case": ("SELECT count(ID) > 0 FROM ORDERS", True),
    "order by unrelated": ("SELECT id < 0 FROM orders ORDER BY amount LIMIT 1", False),
    "group by beyond select": ("SELECT count(*) > 0 FROM orders GROUP BY customer LIMIT 1", True),
    "group by unrelated": ("SELECT 1 = 1 FROM typed WHERE id = 1 GROUP BY id", True),
    "quantified": ("SELECT count(*) > 0 FROM orders WHERE id > ALL (SELECT id FROM typed)", True),
    "like escapes with a backslash": (r"SELECT 'a_b' LIKE 'a\_b'", True),
    "like escapes with what its clause says": ("SELECT 'axb' LIKE 'a!_b' ESCAPE '!'", False),
    "correlated": (
        "SELECT count(*) > 0 FROM orders o WHERE EXISTS (SELECT 1 FROM typed t WHERE t.id = o.id)",
        True,
    ),
    "full outer join": ("SELECT count(*) > 0 FROM orders o FULL JOIN typed t ON o.id = t.id", True),
    "null concatenation": ("SELECT ('a' || NULL) IS NULL", True),
    "limit of a name": (f"SELECT {'x' * 300} FROM (SELECT true AS {'x' * 300})", True),
}


@pytest.mark.parametrize(("text", "expected"), CLAIMS.values(), ids=CLAIMS)
def test_a_claim_is_true(wire: flight.FlightClient, text: str, expected: bool) -> None:
    assert rpc.query(wire, text).column(0).to_pylist() == [expected]
