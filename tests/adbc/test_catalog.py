"""What ADBC tells of a server and of what there is to query."""

from typing import Any

import adbc_driver_manager
import pyarrow as pa
import pytest

from tests.adbc.values import VALUES

DEPTHS = ["catalogs", "db_schemas", "tables", "columns"]
MAIN = {
    "Odd Name": ("TABLE", ["A column"]),
    "big_orders": ("VIEW", ["id", "amount"]),
    "orders": ("TABLE", ["id", "customer", "amount"]),
    "typed": ("TABLE", ["id", *VALUES]),
}


def objects(adbc: Any, depth: str = "all", **filters: Any) -> list[dict[str, Any]]:
    return adbc.adbc_get_objects(depth=depth, **filters).read_all().to_pylist()


def tables(adbc: Any, depth: str = "all", **filters: Any) -> dict[str, dict[str, dict[str, Any]]]:
    """Schema -> table -> what is told of it; schemas without tables are left out."""
    (catalog,) = objects(adbc, depth, **filters)
    return {
        schema["db_schema_name"]: {table["table_name"]: table for table in schema["db_schema_tables"]}
        for schema in catalog["catalog_db_schemas"]
        if schema["db_schema_tables"]
    }


@pytest.mark.parametrize("depth", DEPTHS)
def test_objects_are_told_as_deep_as_asked(adbc: Any, depth: str) -> None:
    (catalog,) = objects(adbc, depth)
    assert catalog["catalog_name"] == "lance"
    if depth == "catalogs":
        assert catalog["catalog_db_schemas"] is None
        return
    schemas = {schema["db_schema_name"]: schema for schema in catalog["catalog_db_schemas"]}
    assert set(schemas) == {"information_schema", "main", "system"}
    if depth == "db_schemas":
        assert schemas["main"]["db_schema_tables"] is None
        return
    found = {table["table_name"]: table for table in schemas["main"]["db_schema_tables"]}
    assert {name: table["table_type"] for name, table in found.items()} == {
        name: kind for name, (kind, _) in MAIN.items()
    }
    if depth == "tables":
        assert found["orders"]["table_columns"] is None


def test_columns_are_told_with_their_types(adbc: Any) -> None:
    found = tables(adbc)["main"]
    columns = {name: [one["column_name"] for one in table["table_columns"]] for name, table in found.items()}
    assert columns == {name: columns for name, (_, columns) in MAIN.items()}
    amount = found["orders"]["table_columns"][2]
    assert (amount["ordinal_position"], amount["xdbc_type_name"]) == (3, "DOUBLE")
    assert (amount["xdbc_scope_schema"], amount["xdbc_scope_table"]) == ("main", "orders")
    assert amount["xdbc_is_autoincrement"] is False


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"catalog_filter": "lance"}, {"main", "information_schema", "system"}),
        ({"db_schema_filter": "main"}, {"main"}),
        ({"db_schema_filter": "%a%in%"}, {"main"}),
        ({"table_name_filter": "big\\_orders"}, {"main"}),
        ({"table_types_filter": ["SYSTEM TABLE"]}, {"information_schema", "system"}),
        ({"table_types_filter": ["VIEW", "TABLE"]}, {"main"}),
        ({"table_name_filter": "no such table"}, set()),
    ],
)
def test_objects_are_restricted(adbc: Any, filters: dict[str, Any], names: set[str]) -> None:
    assert set(tables(adbc, "tables", **filters)) == names


def test_objects_of_another_catalog_are_none(adbc: Any) -> None:
    assert objects(adbc, catalog_filter="other") == []


def test_tables_and_columns_are_restricted_together(adbc: Any) -> None:
    found = tables(adbc, table_name_filter="%order%", column_name_filter="am%")
    names = {
        name: [column["column_name"] for column in table["table_columns"]]
        for name, table in found["main"].items()
    }
    assert names == {"big_orders": ["amount"], "orders": ["amount"]}


@pytest.mark.parametrize(
    ("name", "db_schema"), [("orders", None), ("orders", "main"), ("big_orders", None), ("Odd Name", "main")]
)
def test_a_table_has_the_schema_of_its_rows(adbc: Any, cursor: Any, name: str, db_schema: str | None) -> None:
    schema = adbc.adbc_get_table_schema(name, db_schema_filter=db_schema)
    cursor.execute(f'SELECT * FROM "{name}" LIMIT 1')
    rows = cursor.fetch_arrow_table()
    assert (schema.names, schema.types) == (rows.schema.names, rows.schema.types)


def test_system_tables_have_schemas_too(adbc: Any) -> None:
    assert "state" in adbc.adbc_get_table_schema("queries", db_schema_filter="system").names
    assert adbc.adbc_get_table_schema("schemata", db_schema_filter="information_schema").names[:2] == [
        "catalog_name",
        "schema_name",
    ]


@pytest.mark.parametrize("filters", [{}, {"db_schema_filter": "main"}, {"db_schema_filter": "system"}])
def test_a_table_that_is_not_there_is_not_found(adbc: Any, filters: dict[str, str]) -> None:
    with pytest.raises(adbc_driver_manager.ProgrammingError) as caught:
        adbc.adbc_get_table_schema("nowhere", **filters)
    assert caught.value.status_code == adbc_driver_manager.AdbcStatusCode.NOT_FOUND


def test_table_types(adbc: Any) -> None:
    assert adbc.adbc_get_table_types() == ["SYSTEM TABLE", "TABLE", "VIEW"]


def test_info_names_the_server_and_its_versions(adbc: Any) -> None:
    info = adbc.adbc_get_info()
    assert info["vendor_name"] == "Lance Gateway"
    assert info["vendor_arrow_version"] == pa.__version__


VENDOR_SQL, VENDOR_SUBSTRAIT = 3, 4


def info(adbc: Any, codes: list[int]) -> dict[int, Any]:
    reader = pa.RecordBatchReader.from_stream(adbc.adbc_connection.get_info(codes))
    return {row["info_name"]: row["info_value"] for row in reader.read_all().to_pylist()}


def test_info_is_told_by_code(adbc: Any) -> None:
    assert info(adbc, [VENDOR_SQL, VENDOR_SUBSTRAIT]) == {VENDOR_SQL: True, VENDOR_SUBSTRAIT: False}


def test_an_info_code_of_another_vendor_has_no_value(adbc: Any) -> None:
    assert info(adbc, [10_042]) == {10_042: None}


@pytest.mark.parametrize("name", ["get_statistics", "get_statistic_names"])
def test_the_driver_has_no_statistics(adbc: Any, name: str) -> None:
    arguments = (None, None, None, True) if name == "get_statistics" else ()
    with pytest.raises(adbc_driver_manager.NotSupportedError):
        getattr(adbc.adbc_connection, name)(*arguments)


def test_the_current_catalog_and_schema(adbc: Any) -> None:
    assert (adbc.adbc_current_catalog, adbc.adbc_current_db_schema) == ("lance", "main")
    adbc.adbc_current_catalog = "lance"
    adbc.adbc_current_db_schema = "main"
    for option in ("adbc_current_catalog", "adbc_current_db_schema"):
        with pytest.raises(adbc_driver_manager.ProgrammingError, match="invalid value"):
            setattr(adbc, option, "other")
    assert (adbc.adbc_current_catalog, adbc.adbc_current_db_schema) == ("lance", "main")
