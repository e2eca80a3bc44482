"""Substrait plans read what a statement of the same principal would read."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from datafusion import SessionContext
from datafusion.substrait import Plan, Serde

from lance_gateway.memwal.errors import InvalidInputError, NotFoundError, PreconditionError, UnsupportedError
from lance_gateway.planner.access.rights import FULL_ACCESS
from lance_gateway.planner.binding.substrait import substrait_version
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.access_lake import ANALYST, NOBODY, VISIBLE, write_lake
from tests.support.processes.writer_process import WriterProcess

COLUMNS: dict[str, pa.Schema] = {
    "orders": pa.schema(
        {
            "id": pa.int64(),
            "tenant": pa.string(),
            "amount": pa.int32(),
            "email": pa.string(),
            "code": pa.string(),
            "note": pa.string(),
            "margin": pa.float64(),
        }
    ),
    "items": pa.schema({"order_id": pa.int64(), "sku": pa.string()}),
    "payroll": pa.schema({"id": pa.int64(), "wages": pa.int64(), "who": pa.string()}),
    "recent": pa.schema(
        {"id": pa.int64(), "tenant": pa.string(), "email": pa.string(), "amount": pa.int32()}
    ),
}
# As the analyst sees it: without the columns that are hidden.
SEEN = COLUMNS | {
    "orders": pa.schema([field for field in COLUMNS["orders"] if field.name not in {"note", "margin"}])
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Iterator[QueryEngine]:
    root = tmp_path_factory.mktemp("substrait")
    write_lake(root, shared_writers)
    engine = QueryEngine(Catalog.open(str(root)), partitions=2)
    yield engine
    engine.close()


def plan_of(sql: str, columns: dict[str, pa.Schema] = COLUMNS) -> bytes:
    """What a client makes of `sql` that knows nothing but the columns of the tables."""
    context = SessionContext()
    for name, schema in columns.items():
        context.register_record_batches(name, [[pa.RecordBatch.from_pylist([], schema=schema)]])
    return bytes(Serde.serialize_bytes(sql, context))


def altered(plan: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The plan after `change` was made to the body of its first read."""
    document = json.loads(Serde.deserialize_bytes(plan).to_json())

    def find(node: Any) -> dict[str, Any] | None:
        children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        if isinstance(node, dict) and "read" in node:
            return node["read"]
        return next((found for child in children if (found := find(child)) is not None), None)

    read = find(document)
    assert read is not None
    change(read)
    return bytes(Plan.from_json(json.dumps(document)).encode())


STATEMENTS = [
    "SELECT id, amount FROM orders WHERE amount > 8",
    "SELECT tenant, count(*) AS n, sum(amount) AS s FROM orders GROUP BY tenant",
    "SELECT o.id, i.sku FROM orders AS o JOIN items AS i ON o.id = i.order_id WHERE i.sku <> 's4'",
    "SELECT a.id FROM orders AS a JOIN orders AS b ON a.id = b.id + 1",
    "SELECT id FROM orders WHERE id IN (SELECT order_id FROM items WHERE sku < 's4')",
    "SELECT id FROM orders UNION ALL SELECT order_id FROM items",
    "SELECT email FROM recent WHERE id = 4",
    "SELECT 1 AS one",
    "SELECT column1 FROM (VALUES (1), (2))",
]


@pytest.mark.slow
@pytest.mark.parametrize("access", [FULL_ACCESS, ANALYST], ids=["everything", "analyst"])
@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_plan_gives_what_its_statement_gives(engine: QueryEngine, sql: str, access: Any):
    plan = engine.prepare(plan_of(sql, COLUMNS if access is FULL_ACCESS else SEEN), access=access)
    answer, expected = plan.execute().read_all(), engine.prepare(sql, access=access).execute().read_all()
    assert answer.schema == plan.schema
    assert answer.num_rows > 0
    assert sorted(answer.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)


def test_a_plan_sees_the_rows_and_the_values_that_its_principal_sees(engine: QueryEngine):
    plan = plan_of("SELECT id, email FROM orders ORDER BY id", SEEN)
    rows = engine.prepare(plan, access=ANALYST).execute().read_all()
    assert rows.column("id").to_pylist() == VISIBLE
    assert set(rows.column("email").to_pylist()) == {"u***"}


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["orders"], True),
        (["main", "orders"], True),
        (["lance", "main", "orders"], True),
        (["other", "orders"], False),
    ],
)
def test_a_table_may_be_named_with_its_schema_and_catalog(engine: QueryEngine, names: list[str], found: bool):
    plan = altered(plan_of("SELECT id FROM orders"), lambda read: read["namedTable"].update(names=names))
    if found:
        assert engine.prepare(plan).execute().read_all().num_rows > 0
    else:
        with pytest.raises(NotFoundError, match="Schema 'other' does not exist"):
            engine.prepare(plan)


@pytest.mark.parametrize("db_schema", ["information_schema", "system"])
def test_what_describes_tables_can_be_read_and_is_never_outdated(tmp_path: Path, db_schema: str):
    columns = {"tables": pa.schema({"table_name": pa.string()})}
    plan = altered(
        plan_of("SELECT table_name FROM tables WHERE table_name LIKE 'new%'", columns),
        lambda read: read["namedTable"].update(names=[db_schema, "tables"]),
    )
    lance.write_dataset(pa.table({"id": [1]}), tmp_path / "old.lance")
    engine = QueryEngine(Catalog.open(str(tmp_path)))
    assert engine.prepare(plan).execute().read_all().num_rows == 0
    lance.write_dataset(pa.table({"id": [1]}), tmp_path / "new.lance")
    assert engine.prepare(plan).execute().read_all().column(0).to_pylist() == ["new"]
    engine.close()


def test_a_table_without_a_grant_does_not_exist(engine: QueryEngine):
    with pytest.raises(NotFoundError, match="'payroll' does not exist") as caught:
        engine.prepare(plan_of("SELECT wages FROM payroll"), access=ANALYST)
    assert "wages" not in str(caught.value)
    with pytest.raises(NotFoundError, match="'orders' does not exist"):
        engine.prepare(plan_of("SELECT id FROM orders"), access=NOBODY)


def test_a_plan_may_know_some_of_the_columns_in_any_order(engine: QueryEngine):
    known = {"orders": pa.schema([COLUMNS["orders"].field(name) for name in ("amount", "id")])}
    plan = engine.prepare(plan_of("SELECT id FROM orders WHERE amount = 5", known))
    expected = engine.prepare("SELECT id FROM orders WHERE amount = 5").execute().read_all()
    assert plan.execute().read_all().sort_by("id").equals(expected.sort_by("id"))


def test_columns_may_have_parts(tmp_path: Path):
    inner = pa.struct({"x": pa.int64(), "y": pa.list_(pa.struct({"z": pa.string()}))})
    row = {"id": 1, "s": {"x": 7, "y": [{"z": "deep"}]}, "t": "end"}
    table = pa.Table.from_pylist([row], schema=pa.schema({"id": pa.int64(), "s": inner, "t": pa.string()}))
    lance.write_dataset(table, tmp_path / "nested.lance")
    engine = QueryEngine(Catalog.open(str(tmp_path)))
    plan = engine.prepare(plan_of("SELECT t, s FROM nested WHERE id = 1", {"nested": table.schema}))
    assert plan.execute().read_all().to_pylist() == [{"t": "end", "s": row["s"]}]
    engine.close()


def test_a_hidden_column_does_not_exist(engine: QueryEngine):
    with pytest.raises(InvalidInputError, match="No field named note"):
        engine.prepare(plan_of("SELECT margin FROM orders"), access=ANALYST)


def test_a_plan_is_read_with_the_settings_of_its_session(engine: QueryEngine):
    plan = engine.prepare(plan_of("SELECT tenant FROM orders WHERE id = 2"))
    assert plan.execute().read_all().column(0).to_pylist() == ["b"]
    older = plan.execute(settings=SessionSettings(consistency="flushed"))
    assert older.read_all().column(0).to_pylist() == ["a"]


def test_only_the_filter_that_a_table_needs_reaches_it(engine: QueryEngine):
    plan = engine.prepare(plan_of("SELECT amount FROM orders WHERE id = 3"))
    control = RunControl()
    plan.execute(control=control).read_all()
    (scan,) = control.scans
    assert scan.columns == ("amount",)
    assert str(scan.expression) == "(id == 3)"


def test_a_promise_that_no_longer_holds_is_refused(engine: QueryEngine):
    with pytest.raises(PreconditionError, match="prepare it again: Substrait plan"):
        engine.prepare(plan_of("SELECT note FROM orders"), promised=b"12345678")


@pytest.mark.parametrize("plan", [b"", b"\xff\xff", b"not a plan"])
def test_what_is_no_plan_is_refused(engine: QueryEngine, plan: bytes):
    with pytest.raises((InvalidInputError, UnsupportedError), match=r"^Substrait plan [0-9a-f]{16}"):
        engine.prepare(plan)


def test_a_truncated_plan_is_refused(engine: QueryEngine):
    whole = plan_of("SELECT tenant, count(*) FROM orders WHERE id > 1 GROUP BY tenant")
    refused = 0
    for length in range(0, len(whole), 7):
        try:
            engine.prepare(whole[:length])
        except (InvalidInputError, UnsupportedError, NotFoundError):
            refused += 1
    assert refused > 10


def test_a_read_of_files_is_refused(engine: QueryEngine):
    def read_files(read: dict[str, Any]) -> None:
        del read["namedTable"]
        read["localFiles"] = {"items": [{"uriFile": "/etc/passwd", "parquet": {}}]}

    with pytest.raises(UnsupportedError, match="localFiles: only named tables"):
        engine.prepare(altered(plan_of("SELECT id FROM orders"), read_files))


def test_the_version_is_that_of_the_plans_that_are_read():
    assert substrait_version().count(".") == 2
    version = json.loads(Serde.deserialize_bytes(plan_of("SELECT 1")).to_json())["version"]
    assert substrait_version().split(".")[1] == str(version["minorNumber"])


def membership(sql: str, wrapping: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    """The plan of a statement whose filter is a membership of `id` in the order_ids of all items."""
    document = json.loads(Serde.deserialize_bytes(plan_of(sql)).to_json())
    items = json.loads(Serde.deserialize_bytes(plan_of("SELECT order_id FROM items")).to_json())
    haystack = items["relations"][0]["root"]["input"]
    needle = {"selection": {"directReference": {"structField": {"field": 0}}, "rootReference": {}}}

    def place(node: Any) -> None:
        if isinstance(node, dict):
            if "filter" in node:
                inner = {"subquery": {"inPredicate": {"needles": [needle], "haystack": haystack}}}
                node["filter"]["condition"] = wrapping(inner)
                return
            for child in node.values():
                place(child)
        elif isinstance(node, list):
            for child in node:
                place(child)

    place(document)
    document["extensions"] = [
        {"extensionFunction": {"functionAnchor": anchor, "name": name}}
        for anchor, name in enumerate(("not", "and", "or"))
    ]
    return bytes(Plan.from_json(json.dumps(document)).encode())


def called(function: int, *arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "scalarFunction": {
            "functionReference": function,
            "arguments": [{"value": one} for one in arguments],
            "outputType": {"bool": {}},
        }
    }


@pytest.mark.parametrize("groups", ["", "GROUP BY ROLLUP (amount)"])
def test_conditions_stay_above_totals(engine: QueryEngine, groups: str):
    counted = f"SELECT count(*) AS n FROM orders {groups} LIMIT 99"
    sql = f"SELECT n FROM ({counted}) WHERE (SELECT max(order_id) FROM items) < 0"
    document = json.loads(Serde.deserialize_bytes(plan_of(sql)).to_json())

    def drop_limits(node: Any) -> None:
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            drop_limits(child)
        if isinstance(node, dict) and "fetch" in node:
            node |= node.pop("fetch")["input"]

    drop_limits(document)
    assert "fetch" not in str(document)
    assert engine.execute(bytes(Plan.from_json(json.dumps(document)).encode())).read_all().num_rows == 0


def test_a_membership_whose_null_would_matter_is_refused(engine: QueryEngine):
    sql = "SELECT id FROM orders WHERE id + 1 > 0"
    no = {"literal": {"boolean": False}}
    found = (
        engine.prepare("SELECT id FROM orders WHERE id IN (SELECT order_id FROM items)").execute().read_all()
    )
    for wrapping in (lambda one: one, lambda one: called(2, called(1, one, one), no)):
        answer = engine.prepare(membership(sql, wrapping)).execute().read_all()
        assert sorted(answer["id"].to_pylist()) == sorted(found["id"].to_pylist())
    for refused in (lambda one: called(0, one), lambda one: called(2, called(0, one), no)):
        with pytest.raises(UnsupportedError, match="join what it is about"):
            engine.prepare(membership(sql, refused))


def test_columns_of_one_name_above_outer_joins_are_refused(engine: QueryEngine):
    side = "(SELECT order_id AS id FROM items WHERE order_id = 4)"
    sql = f"SELECT o.id, p.id FROM orders o LEFT JOIN {side} p ON o.id = p.id ORDER BY 2"
    with pytest.raises(UnsupportedError, match=r"called id, .* give the columns different names"):
        engine.prepare(plan_of(sql)).execute()
    answer = engine.prepare(plan_of(sql.replace("p.id FROM", "p.id AS other FROM"))).execute().read_all()
    other = answer.column("other").to_pylist()
    assert 4 in other
    assert other == sorted(other, key=lambda one: (one is None, one))
