"""DatabaseMetaData: what there is to query, and what the gateway can do."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from lance_gateway.gateway.metadata import sql_info
from tests.jdbc.jvm import Facts, Jvm

pytestmark = pytest.mark.slow

GETTERS = Path(__file__).parent / "data" / "database_metadata.txt"
# These differ between versions and servers, or are too long to read here.
PARTICULAR = {
    "getURL",
    "getDatabaseMajorVersion",
    "getDatabaseMinorVersion",
    "getDatabaseProductVersion",
    "getDriverMajorVersion",
    "getDriverMinorVersion",
    "getDriverVersion",
    "getSQLKeywords",
}
FUNCTIONS = {
    "getNumericFunctions": sql_info.NUMERIC_FUNCTIONS,
    "getStringFunctions": sql_info.STRING_FUNCTIONS,
    "getSystemFunctions": sql_info.SYSTEM_FUNCTIONS,
    "getTimeDateFunctions": sql_info.DATETIME_FUNCTIONS,
}
COLUMN = (
    "COLUMN_NAME",
    "DATA_TYPE",
    "TYPE_NAME",
    "COLUMN_SIZE",
    "DECIMAL_DIGITS",
    "NUM_PREC_RADIX",
    "NULLABLE",
)
COLUMNS = [
    ("id", -5, "BIGINT", 19, 0, 10, 0),
    ("customer", 12, "VARCHAR", 65536, None, None, 1),
    ("amount", 8, "DOUBLE", 15, None, 10, 1),
]
TYPED_COLUMNS = {
    "flag": (16, "BOOLEAN", 1, None),
    "i8": (-6, "TINYINT", 3, 0),
    "u8": (5, "SMALLINT", 5, 0),
    "u64": (3, "DECIMAL", 20, 0),
    "f16": (6, "REAL", 7, None),
    "dec": (3, "DECIMAL", 12, 2),
    "text": (12, "VARCHAR", 65536, None),
    "blob": (-3, "BYTEA", 65536, None),
    "d32": (91, "DATE", 10, 0),
    "t64us": (92, "TIME", 15, 6),
    "ts_ns": (93, "TIMESTAMP", 29, 9),
    "tz_us": (93, "TIMESTAMP", 26, 6),
    "vec": (2003, "ARRAY<REAL>", None, None),
    "pair": (2000, "STRUCT<a INTEGER, b VARCHAR>", None, None),
}
# What the gateway does not have, or the driver does not ask for.
EMPTY = (
    "imported keys",
    "exported keys",
    "cross reference",
    "type info",
    "index info",
    "procedures",
    "procedure columns",
    "functions",
    "function columns",
    "column privileges",
    "table privileges",
    "best row identifier",
    "version columns",
    "user-defined types",
    "super types",
    "super tables",
    "attributes",
    "pseudo columns",
    "client info",
)
FORWARD, NO_TRANSACTIONS = [1003], [0]
# Getters that take a kind: the kinds that are supported.
KINDS = {
    "supportsResultSetType": FORWARD,
    "supportsResultSetConcurrency": FORWARD,
    "supportsResultSetConcurrency, to update": [],
    "supportsTransactionIsolationLevel": NO_TRANSACTIONS,
}
# The driver knows no conversion from or to approximate numbers, booleans, bytes and times.
CONVERSIONS = {
    "INTEGER": "INTEGER BIGINT DECIMAL VARCHAR",
    "BIGINT": "INTEGER BIGINT DECIMAL VARCHAR",
    "DECIMAL": "INTEGER BIGINT DECIMAL VARCHAR",
    "VARCHAR": "INTEGER BIGINT DECIMAL VARCHAR DATE TIMESTAMP",
    "DATE": "VARCHAR DATE TIMESTAMP",
    "TIMESTAMP": "VARCHAR DATE TIMESTAMP",
    **dict.fromkeys(("BOOLEAN", "DOUBLE", "VARBINARY", "TIME"), ""),
}
NOT_IN_THE_DRIVER = (
    "supportsResultSetHoldability",
    *(
        f"{whose}{what}AreVisible"
        for whose in ("own", "others")
        for what in ("Inserts", "Updates", "Deletes")
    ),
    *(f"{what}AreDetected" for what in ("inserts", "updates", "deletes")),
)


@pytest.fixture(scope="module")
def catalog(jvm: Jvm, url: str) -> Facts:
    return jvm.run("Catalog", url)


@pytest.fixture(scope="module")
def getters(jvm: Jvm, url: str) -> Facts:
    return jvm.run("Getters", url)


@pytest.fixture(scope="module")
def abilities(jvm: Jvm, url: str) -> Facts:
    return jvm.run("Abilities", url)


def _names(rows: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(row["TABLE_SCHEM"], row["TABLE_NAME"], row["TABLE_TYPE"]) for row in rows]


def test_catalogs_schemas_and_table_types_are_listed(catalog: Facts) -> None:
    assert catalog["catalogs"] == [{"TABLE_CAT": "lance"}]
    main = {"TABLE_SCHEM": "main", "TABLE_CATALOG": "lance"}
    assert main in catalog["schemas"]
    assert catalog["schemas like"] == [main]
    assert catalog["schemas elsewhere"] == []
    assert [row["TABLE_TYPE"] for row in catalog["table types"]] == ["SYSTEM TABLE", "TABLE", "VIEW"]


def test_tables_are_found_by_pattern_and_type(catalog: Facts) -> None:
    orders, view = ("main", "orders", "TABLE"), ("main", "big_orders", "VIEW")
    assert _names(catalog["tables %"]) == [view, orders, ("main", "types", "TABLE")]
    assert set(_names(catalog["tables %"])) < set(_names(catalog["tables"]))
    assert _names(catalog["tables order_"]) == [orders]
    assert _names(catalog["tables big\\_orders"]) == [view]
    assert _names(catalog["tables orders\\_"]) == []
    assert _names(catalog["views"]) == [view]


def test_columns_are_described(catalog: Facts) -> None:
    rows = catalog["columns"]
    assert [tuple(row[name] for name in COLUMN) for row in rows] == COLUMNS
    assert [row["ORDINAL_POSITION"] for row in rows] == [1, 2, 3]
    assert [row["IS_NULLABLE"] for row in rows] == ["NO", "YES", "YES"]
    assert {row["IS_AUTOINCREMENT"] for row in rows} == {"NO"}
    assert [row["COLUMN_NAME"] for row in catalog["columns like"]] == ["amount"]


@pytest.mark.parametrize("name", TYPED_COLUMNS)
def test_a_column_of_each_kind_is_described(catalog: Facts, name: str) -> None:
    (row,) = [row for row in catalog["columns of types"] if row["COLUMN_NAME"] == name]
    described = (row["DATA_TYPE"], row["TYPE_NAME"], row["COLUMN_SIZE"], row["DECIMAL_DIGITS"])
    assert described == TYPED_COLUMNS[name]


@pytest.mark.parametrize("asked", ["primary keys", "primary keys in schema"])
def test_the_primary_key_is_known(catalog: Facts, asked: str) -> None:
    (key,) = catalog[asked]
    assert (key["TABLE_NAME"], key["COLUMN_NAME"], key["KEY_SEQ"]) == ("orders", "id", 1)


def test_names_are_found_that_tools_have_put_in_upper_case(catalog: Facts) -> None:
    """The driver says that names are stored so (`storesUpperCaseIdentifiers`), and tools believe it."""
    assert _names(catalog["tables ORDERS"]) == [("main", "orders", "TABLE")]
    assert [row["COLUMN_NAME"] for row in catalog["columns ORDERS"]] == ["id", "customer", "amount"]
    assert [row["COLUMN_NAME"] for row in catalog["primary keys ORDERS"]] == ["id"]


@pytest.mark.parametrize("asked", EMPTY)
def test_what_there_is_not_is_an_empty_result(catalog: Facts, asked: str) -> None:
    assert catalog[asked] == []


def test_every_getter_answers(getters: Facts) -> None:
    lines = [line for line in GETTERS.read_text().splitlines() if line and not line.startswith("#")]
    told = dict(line.split(" = ", 1) for line in lines)
    expected = {name: json.loads(value.split("  #", 1)[0]) for name, value in told.items()}
    expected |= {name: ", ".join(functions) for name, functions in FUNCTIONS.items()}
    plain = {name: getters[name] for name in getters if not isinstance(getters[name], list)}
    assert {name: value for name, value in plain.items() if name not in PARTICULAR} == expected


def test_product_driver_and_keywords_are_named(getters: Facts, jvm: Jvm) -> None:
    assert (getters["getDatabaseProductName"], getters["getDatabaseProductVersion"]) == (
        "Lance Gateway",
        version("lance-gateway"),
    )
    assert getters["getDriverVersion"] == jvm.version
    assert "QUALIFY" in getters["getSQLKeywords"].split(", ")


def test_kinds_that_are_supported(abilities: Facts) -> None:
    assert {name: abilities[name] for name in KINDS} == KINDS


def test_conversions_that_are_supported(abilities: Facts) -> None:
    assert {kind: " ".join(abilities[f"supportsConvert {kind}"]) for kind in CONVERSIONS} == CONVERSIONS


@pytest.mark.parametrize("name", NOT_IN_THE_DRIVER)
def test_what_the_driver_has_not_written_yet(abilities: Facts, name: str) -> None:
    assert "todo: implement this method" in abilities.failure(name).text
