"""The plans of scans and point lookups, as EXPLAIN shows them, in the shapes of the MemWAL specification."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.titled import Case, read_titled
from tests.support.lake.merging import merge_generations
from tests.support.lake.tables import LsmTable, bucketed, by_identity, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

ITEMS = pa.schema([key_field("id", pa.int64()), pa.field("n", pa.int32()), pa.field("s", pa.string())])
TENANTS = pa.schema(
    [key_field("tenant", pa.string(), 1), key_field("id", pa.int64(), 2), pa.field("n", pa.int32())]
)
EVENTS = pa.schema([pa.field("at", pa.int64()), pa.field("n", pa.int32())])


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> dict[str, str]:
    """Creates the tables; returns the root under "" and a readable name for each region."""
    root = tmp_path_factory.mktemp("plans")
    items = _items(root, shared_writers)
    tenants = _tenants(root, shared_writers)
    _events(root, shared_writers)
    lance.write_dataset(pa.table({"id": [1, 2], "n": [1, 2]}), root / "plain.lance")
    names = {region[:8]: f"bucket-{value}" for (value,), region in items.regions.items()}
    return {"": str(root)} | names | {region[:8]: value for (value,), region in tenants.regions.items()}


def _items(root: Path, writers: WriterProcess) -> LsmTable:
    """Keys 0, 1, 2 and 4 are in bucket 0, the others in bucket 1; bucket 0 has two generations and a log."""
    base = pa.table({"id": range(8), "n": range(8), "s": ["base"] * 8}, schema=ITEMS)
    table = LsmTable.create(root, "items", base, bucketed("id", 2, recorded=True), writers)
    table.put([{"id": number, "n": 10 + number, "s": "first"} for number in range(4)])
    table.close_writers()
    table.put([{"id": 0, "n": 20, "s": "second"}])
    table.delete([{"id": 1}])
    table.close_writers()
    table.put([{"id": 0, "n": 30, "s": "log"}])
    return table


def _tenants(root: Path, writers: WriterProcess) -> LsmTable:
    """Two tenants, a region each; the generation of "east" is merged."""
    rows = [
        {"tenant": tenant, "id": number, "n": number} for tenant in ("east", "west") for number in range(3)
    ]
    base = pa.Table.from_pylist(rows, schema=TENANTS)
    table = LsmTable.create(root, "tenants", base, by_identity("tenant", recorded=True), writers)
    table.put([row | {"n": 10 + row["n"]} for row in rows])
    table.close_writers()
    merge_generations(table.path, table.regions["east",], up_to=1)
    return table


def _events(root: Path, writers: WriterProcess) -> None:
    """No primary key: every row counts."""
    base = pa.Table.from_pylist([{"at": 1, "n": 1}], schema=EVENTS)
    table = LsmTable.create(root, "events", base, unpartitioned((), 1), writers)
    table.put([{"at": 1, "n": 1}])
    table.close_writers()


@pytest.fixture
def engine(lake: dict[str, str]) -> Iterator[QueryEngine]:
    """An engine with cold caches: EXPLAIN ANALYZE tells what a first execution did."""
    engine = QueryEngine(Catalog.open(lake[""]), partitions=2)
    yield engine
    engine.close()


@pytest.mark.parametrize("case", [*read_titled("plans_scan.txt"), *read_titled("plans_lookup.txt")], ids=str)
def test_plan(case: Case, lake: dict[str, str], engine: QueryEngine):
    statement, expected = case.parts
    assert shown(statement, lake, engine) == expected


def shown(statement: str, regions: dict[str, str], engine: QueryEngine) -> str:
    """The physical plan with readable region names and without times.

    A statement may begin with settings in brackets, such as ``[consistency=flushed]``.
    """
    bracketed, sql = re.fullmatch(r"(?:\[(.*)\] )?(.*)", statement, re.DOTALL).groups()
    settings = [pair.split("=") for pair in bracketed.split(", ")] if bracketed else []
    options = {name: {"true": True, "false": False}.get(value, value) for name, value in settings}
    plan = engine.execute(sql, SessionSettings(**options)).read_all()["plan"].to_pylist()[-1]
    for region, name in regions.items():
        if region:
            plan = plan.replace(region, name)
    return re.sub(r"elapsed_compute=[^,\]]*", "elapsed_compute=?", plan).strip()


def test_plans_as_objects_have_the_nodes_and_numbers_of_printed_ones(lake: dict[str, str]) -> None:
    cases = [*read_titled("plans_scan.txt"), *read_titled("plans_lookup.txt")]
    statements = {
        case.parts[0].removeprefix("EXPLAIN ANALYZE ") for case in cases if "EXPLAIN ANALYZE" in case.parts[0]
    }
    statements -= {each for each in statements if each.startswith("[")}
    statements.add(
        "SELECT t.tenant, count(*) FROM tenants t JOIN items i ON t.id = i.id GROUP BY 1 ORDER BY 1"
    )
    assert len(statements) > 3
    engines = [QueryEngine(Catalog.open(lake[""]), partitions=2) for _ in range(2)]
    for sql in sorted(statements):
        text = engines[0].execute(f"EXPLAIN ANALYZE {sql}").read_all()["plan"].to_pylist()[-1]
        printed = [
            (name, rows and int(rows))
            for name, rows in re.findall(
                r"^ *(\w+Exec)\b(?:.*metrics=\[output_rows=(\d+))?", text, re.MULTILINE
            )
        ]
        ((kind, told),) = (
            engines[1].execute(f"EXPLAIN ANALYZE FORMAT JSON {sql}").read_all().to_pylist()[0].values(),
        )
        assert kind == "json"
        found = json.loads(told)
        nodes = list(walk(found["plan"]))
        assert [
            (node["name"], node["rows"] if node["rows"] is not None else "") for node in nodes
        ] == printed, sql
        scans = [node["scan"] for node in nodes if node["scan"]]
        assert [
            f"regions={one['regions_read']}/{one['regions']}" for one in scans if one["regions"]
        ] == re.findall(r"regions=\d+/\d+", text)
        for one in scans:
            assert sum(each["count"] for each in one["pruned"]) == one["regions"] - one["regions_read"]
            assert all(each["reason"] in text for each in one["pruned"][:4])
    for engine in engines:
        engine.close()


@pytest.mark.parametrize("column", ["id", "n", "s"])
def test_lists_of_values_which_take_several_lines_hide_no_tree(engine: QueryEngine, column: str) -> None:
    values = ", ".join(f"'{at}\n]'" if column == "s" else str(at) for at in range(12))
    sql = f"SELECT n FROM items WHERE {column} IN ({values})"
    text = engine.execute(f"EXPLAIN ANALYZE {sql}").read_all()["plan"][0].as_py()
    assert "items: base v2" in text
    assert "LanceScanExec" in text
    told = engine.execute(f"EXPLAIN ANALYZE FORMAT JSON {sql}").read_all()["plan"][0].as_py()
    assert "LanceScanExec" in {node["name"] for node in walk(json.loads(told)["plan"])}


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node["inputs"]:
        yield from walk(child)


@pytest.mark.parametrize("sql", ["EXPLAIN FORMAT JSON SELECT 1", "EXPLAIN ANALYZE FORMAT TREE SELECT 1"])
def test_formats_are_named_that_there_are(engine: QueryEngine, sql: str) -> None:
    with pytest.raises(InvalidInputError, match="EXPLAIN ANALYZE has JSON"):
        engine.execute(sql)
