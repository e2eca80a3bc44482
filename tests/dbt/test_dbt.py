"""`dbt build`, again after rows changed, with snapshots, documentation, and what is refused."""

import datetime as dt
import shutil
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.dbt.conftest import PASSWORD, Dbt, Lake

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(900)]

Rows = list[tuple[Any, ...]]
TABLES = {
    "customers": "SELECT * FROM shop.customers ORDER BY id",
    "customer_totals": "SELECT * FROM shop.customer_totals ORDER BY customer_id",
    "newest_orders": "SELECT * FROM shop.newest_orders ORDER BY id",
    "order_changes": "SELECT id, state FROM shop.order_changes ORDER BY changed_at",
    "orders_of_batches": "SELECT id, state FROM shop.orders_of_batches ORDER BY id",
    "orders_of_days": "SELECT * FROM shop.orders_of_days ORDER BY day, state",
    "order_states": "SELECT id, state, dbt_valid_from, dbt_valid_to FROM shop.order_states"
    " ORDER BY id, dbt_valid_from",
    "order_checks": "SELECT id, state, dbt_valid_to IS NULL, dbt_is_deleted FROM shop.order_checks"
    " ORDER BY id, dbt_valid_from",
    "kinds": "SELECT table_schema, table_name, table_type FROM information_schema.tables"
    " WHERE table_schema LIKE 'shop%' ORDER BY table_schema, table_name",
}


def at(day: int, hour: int) -> dt.datetime:
    return dt.datetime(2024, 5, day, hour)


def read_all(lake: Lake) -> Mapping[str, Rows]:
    return {name: lake.read(sql) for name, sql in TABLES.items()}


@pytest.fixture(scope="module")
def first(dbt: Dbt, lake: Lake) -> Mapping[str, Rows]:
    """What is there after the first build."""
    lake.write(
        "CREATE SCHEMA raw",
        "CREATE TABLE raw.orders (id BIGINT PRIMARY KEY, customer_id BIGINT, amount DOUBLE, state VARCHAR,"
        " changed_at TIMESTAMP) WITH (region_by = 'bucket(id, 2)')",
        "INSERT INTO raw.orders VALUES (1, 1, 10.5, 'paid', '2024-05-01 10:00:00'),"
        " (2, 2, 20, 'open', '2024-05-01 11:00:00'), (3, 1, 5, 'paid', '2024-05-02 09:00:00'),"
        " (4, 3, 7, 'draft', '2024-05-02 10:00:00')",
    )
    dbt.run("build")
    return read_all(lake)


@pytest.fixture(scope="module")
def second(first: Mapping[str, Rows], dbt: Dbt, lake: Lake) -> Mapping[str, Rows]:  # noqa: ARG001 - it comes after
    """What is there after rows were changed, added and deleted, and another build with a column more."""
    lake.write(
        "INSERT INTO raw.orders VALUES (2, 2, 20, 'paid', '2024-05-03 11:00:00'),"
        " (5, 3, 9, 'open', '2024-05-03 12:00:00')",
        "DELETE FROM raw.orders WHERE id = 1",
    )
    dbt.run("build", "--vars", "with_amount: true")
    return read_all(lake)


@pytest.fixture(scope="module")
def catalog(second: Mapping[str, Rows], dbt: Dbt) -> Any:  # noqa: ARG001 - it comes after
    """What `dbt docs generate` finds then."""
    dbt.run("docs", "generate")
    return dbt.read_target("catalog.json")


@pytest.fixture(scope="module")
def third(catalog: Any, dbt: Dbt, lake: Lake) -> Mapping[str, Rows]:  # noqa: ARG001 - it comes after
    """What is there after a full refresh that makes a view of a table and a table of a view."""
    dbt.run(
        "build",
        "--full-refresh",
        "--exclude",
        "orders_of_batches",
        "--vars",
        "{staging_as: table, days_as: view}",
    )
    return read_all(lake)


def test_models_are_views_and_tables_of_their_schemas(first: Mapping[str, Rows]) -> None:
    """Tables of dbt's own are gone, and an ephemeral model is none."""
    shop = ["customer_totals", "customers", "newest_orders", "order_changes", "order_checks", "order_states"]
    shop += ["orders_of_batches", "orders_of_days"]
    tables = [("shop", name, "BASE TABLE") for name in shop]
    assert first["kinds"] == [*tables, ("shop_staging", "stg_orders", "VIEW")]


def test_seeds_have_types_and_unicode(first: Mapping[str, Rows]) -> None:
    assert first["customers"] == [
        (1, "Ada", dt.date(2024, 1, 31), 4.5, True, None),
        (2, "O'Hara, Brian", dt.date(2024, 2, 29), 3.0, False, None),
        (3, "Chloë", dt.date(2024, 3, 1), None, True, None),
    ]


def test_rows_are_those_of_the_log_as_well(first: Mapping[str, Rows]) -> None:
    assert first["customer_totals"] == [
        (1, "Ada", 15.5, 2, Decimal("15.50"), at(2, 9)),
        (2, "O'Hara, Brian", 0.0, 0, Decimal(0), None),
        (3, "Chloë", 0.0, 0, Decimal(0), None),
    ]
    assert first["newest_orders"] == [(1, "paid", at(1, 10)), (2, "open", at(1, 11)), (3, "paid", at(2, 9))]
    assert first["orders_of_batches"] == [(1, "paid"), (2, "open"), (3, "paid"), (4, "draft")]


def test_contracts_become_constraints(first: Mapping[str, Rows], lake: Lake) -> None:  # noqa: ARG001 - after it
    found = lake.read(
        "SELECT definition FROM system.constraints WHERE table_name = 'customer_totals' ORDER BY definition"
    )
    assert found == [("CHECK (name is not null)",), ("CHECK (spent >= 0)",), ("PRIMARY KEY (customer_id)",)]
    specs = lake.read("SELECT region_specs[1] FROM system.tables WHERE table_name = 'customer_totals'")
    assert "bucket(customer_id, 2)" in specs[0][0]
    assert lake.read(
        "SELECT type FROM system.indexes WHERE table_name = 'customer_totals' AND index_name = 'name_idx'"
    ) == [("Bitmap",)]


def test_a_merge_changes_and_adds_rows_of_a_key(second: Mapping[str, Rows]) -> None:
    """The new column is there, and is NULL in rows from before."""
    assert second["newest_orders"] == [
        (1, "paid", at(1, 10), None),
        (2, "paid", at(3, 11), 20.0),
        (3, "paid", at(2, 9), None),
        (5, "open", at(3, 12), 9.0),
    ]


def test_append_only_adds_rows(second: Mapping[str, Rows]) -> None:
    assert second["order_changes"] == [(1, "paid"), (2, "open"), (3, "paid"), (2, "paid"), (5, "open")]


def test_delete_and_insert_replaces_rows_of_several_columns(second: Mapping[str, Rows]) -> None:
    """What has no row any more stays, as with every incremental model."""
    assert second["orders_of_days"] == [
        (at(1, 0), "open", 1, 20.0),
        (at(1, 0), "paid", 1, 10.5),
        (at(2, 0), "paid", 1, 5.0),
        (at(3, 0), "open", 1, 9.0),
        (at(3, 0), "paid", 1, 20.0),
    ]


def test_batches_replace_what_their_time_has(second: Mapping[str, Rows], dbt: Dbt, lake: Lake) -> None:  # noqa: ARG001
    dbt.run(
        *("run", "--select", "orders_of_batches"),
        *("--event-time-start", "2024-01-01", "--event-time-end", "2025-01-01"),
    )
    assert lake.read(TABLES["orders_of_batches"]) == [(2, "paid"), (3, "paid"), (4, "draft"), (5, "open")]


def test_a_snapshot_keeps_old_rows_with_the_end_of_their_time(second: Mapping[str, Rows]) -> None:
    (_, _, _, ended), *rest = second["order_states"]
    assert ended is not None
    assert rest == [
        (2, "open", at(1, 11), at(3, 11)),
        (2, "paid", at(3, 11), None),
        (3, "paid", at(2, 9), None),
        (4, "draft", at(2, 10), None),
        (5, "open", at(3, 12), None),
    ]


def test_a_snapshot_compares_columns_and_writes_down_what_was_deleted(second: Mapping[str, Rows]) -> None:
    assert second["order_checks"] == [
        (1, "paid", False, "False"),
        (1, "paid", True, "True"),
        (2, "open", False, "False"),
        (2, "paid", True, "False"),
        (3, "paid", True, "False"),
        (4, "draft", True, "False"),
        (5, "open", True, "False"),
    ]


def test_documentation_has_types_and_comments(catalog: Any) -> None:
    assert catalog["errors"] is None
    totals = catalog["nodes"]["model.shop.customer_totals"]
    assert totals["metadata"]["comment"] == "what each customer has paid; isn't it a lot"
    assert {name: (column["type"], column["comment"]) for name, column in totals["columns"].items()} == {
        "customer_id": ("bigint", "the customer's number"),
        "name": ("text", None),
        "spent": ("double precision", None),
        "orders": ("bigint", None),
        "rounded": ("numeric", None),
        "last_paid": ("timestamp without time zone", None),
    }
    assert catalog["nodes"]["model.shop.stg_orders"]["metadata"]["type"] == "VIEW"
    assert set(catalog["sources"]) == {"source.shop.raw.orders"}


def test_a_full_refresh_builds_anew(third: Mapping[str, Rows]) -> None:
    assert third["newest_orders"] == [(2, "paid", at(3, 11)), (3, "paid", at(2, 9)), (5, "open", at(3, 12))]
    assert third["order_changes"] == [(3, "paid"), (2, "paid"), (5, "open")]


def test_a_table_becomes_a_view_and_a_view_a_table(third: Mapping[str, Rows], dbt: Dbt, lake: Lake) -> None:
    days = [(at(2, 0), "paid", 1, 5.0), (at(3, 0), "open", 1, 9.0), (at(3, 0), "paid", 1, 20.0)]
    assert ("shop", "orders_of_days", "VIEW") in third["kinds"]
    assert ("shop_staging", "stg_orders", "BASE TABLE") in third["kinds"]
    assert third["orders_of_days"] == days
    dbt.run("run", "--select", "stg_orders", "orders_of_days")
    kinds = lake.read(TABLES["kinds"])
    assert ("shop", "orders_of_days", "BASE TABLE") in kinds
    assert ("shop_staging", "stg_orders", "VIEW") in kinds
    assert lake.read(TABLES["orders_of_days"]) == days


def test_what_cannot_be_done_is_refused_with_the_way_out(dbt: Dbt, tmp_path: Path) -> None:
    project = tmp_path / "refused"
    shutil.copytree(Path(__file__).with_name("refused"), project)
    shutil.copy(dbt.project / "profiles.yml", project)
    refusing = Dbt(dbt.environment, dbt.adapter, project, dbt.variables)
    refusing.run("run", "--select", "merged")
    assert refusing.try_run("run").returncode == 1
    results = {
        result["unique_id"].rpartition(".")[2]: result["message"]
        for result in refusing.read_target("run_results.json")["results"]
    }
    assert "rights are in the gateway's policies" in results["granted"]
    assert "needs a 'unique_key'; 'append' needs none" in results["merged"]
    assert "the model has 2 primary keys" in results["two_keys"]
    assert "id = 1" in results["equal_keys"]
    assert "data type mismatch" in results["mismatched"]


def test_a_wrong_password_is_told(dbt: Dbt) -> None:
    debugged = dbt.try_run("debug", GATEWAY_PASSWORD="wrong")
    assert debugged.returncode == 1
    assert "UNAUTHENTICATED" in debugged.stdout
    assert PASSWORD not in debugged.stdout


def test_profiles_that_contradict_themselves_are_refused(dbt: Dbt) -> None:
    code = """
from dbt.adapters.lance_gateway import LanceGatewayCredentials as Credentials
for profile in (
    {"database": "prod"}, {"uri": "http://h:1"}, {"user": "u", "token": "t"}, {"password": "p"},
    {"tls_ca": "ca.pem"},
):
    try:
        print(Credentials(**profile))
    except Exception as error:
        print(type(error).__name__, str(error).split("\\n")[-1].strip())
try:
    Credentials(uri="grpc+tls://h:1", tls_ca="/nowhere.pem").build_options()
except Exception as error:
    print(str(error).split("\\n")[-1].strip())
"""
    assert dbt.run_python(code).splitlines() == [
        "DbtRuntimeError the database is always 'lance', not 'prod': leave it out of the profile",
        "DbtRuntimeError uri: 'http://h:1' in the profile is neither grpc://host:port nor grpc+tls://host:port",
        "DbtRuntimeError the profile has both a user and a token: choose one way to log in",
        "DbtRuntimeError the profile has a password and no user: add 'user'",
        "DbtRuntimeError tls_ca in the profile needs TLS: write uri: grpc+tls://..",
        "tls_ca: '/nowhere.pem' in the profile can't be read: No such file or directory",
    ]
