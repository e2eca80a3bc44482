"""Lookups of whole keys: prepared without a plan, and given to the index that finds the fewest rows."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.execnodes.lookups import TakeLastExec
from lance_gateway.execnodes.scans import LanceScanExec
from lance_gateway.planner.access.rights import FULL_ACCESS, TableAccess
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import PreparedQuery, QueryEngine
from lance_gateway.planner.plans.dataframes import Frames
from lance_gateway.planner.scans.explain.objects import INDEXED_FROM
from lance_gateway.planner.scans.settings import DEFAULT_SETTINGS, NO_SHORTCUTS
from tests.support.judging.principals import create_principal
from tests.support.lake.tables import key_field

Open = Callable[[Path], QueryEngine]

ORDERS = pa.table(
    {
        "tenant": [f"t{at % 3}" for at in range(600)],
        "order": [at // 4 for at in range(600)],
        "line": [at % 4 for at in range(600)],
        "v": [f"row {at}" for at in range(600)],
    }
)


def write_orders(root: Path, key: tuple[str, ...], indexed: tuple[str, ...], *, rows: int = 600) -> None:
    fields = [
        key_field(field.name, field.type, key.index(field.name) + 1) if field.name in key else field
        for field in ORDERS.schema
    ]
    dataset = lance.write_dataset(ORDERS.slice(0, rows).cast(pa.schema(fields)), root / "orders.lance")
    for column in indexed:
        dataset.create_scalar_index(column, "BTREE")
    dataset.initialize_mem_wal(unsharded=True)


@pytest.mark.parametrize(
    ("key", "indexed", "expected"),
    [
        (("tenant", "order", "line"), ("tenant", "order"), ("order",)),
        (("order", "line"), ("order", "line"), ("order",)),
        (("line", "order"), ("line", "order"), ("order",)),
        (("tenant", "line", "order"), ("tenant", "line"), ("line",)),
        (("order", "line"), ("order",), ()),
        (("order", "line"), (), ()),
    ],
)
def test_lance_looks_rows_up_by_the_column_that_distinguishes_them_best(
    root: Path, open_engine: Open, key: tuple[str, ...], indexed: tuple[str, ...], expected: tuple[str, ...]
):
    write_orders(root, key, indexed)
    engine = open_engine(root)
    for at in (0, 7, 599):
        row = {name: ORDERS[name][at].as_py() for name in key}
        condition = " AND ".join(f'"{name}" = {value!r}' for name, value in row.items())
        control = RunControl()
        prepared = engine.prepare(f"SELECT v FROM orders WHERE {condition}")
        found = prepared.execute(control=control).read_all()["v"].to_pylist()
        assert found == [f"row {at}"]
        (scan,) = control.scans
        base = scan.planned_tree.children()[-1] if scan.planned_tree is not None else None
        if isinstance(base, TakeLastExec):
            base = base.input
        assert isinstance(base, LanceScanExec)
        assert base.sought == expected


def test_several_keys_that_share_columns_are_told_apart(root: Path, open_engine: Open):
    write_orders(root, ("order", "line"), ("order", "line"))
    sql = 'SELECT v FROM orders WHERE ("order", line) IN ((1, 2), (2, 3), (900, 1)) ORDER BY v'
    assert open_engine(root).execute(sql).read_all()["v"].to_pylist() == ["row 11", "row 6"]


def test_an_empty_table_has_no_rows_to_choose_by(root: Path, open_engine: Open):
    write_orders(root, ("order", "line"), ("order", "line"), rows=0)
    found = open_engine(root).execute('SELECT v FROM orders WHERE "order" = 1 AND line = 2').read_all()
    assert found.num_rows == 0


# The hint of EXPLAIN


def explain(engine: QueryEngine, sql: str) -> str:
    return "\n".join(engine.execute(f"EXPLAIN {sql}").read_all()["plan"].to_pylist())


@pytest.mark.parametrize(
    ("rows", "index", "expected"),
    [(INDEXED_FROM, False, True), (INDEXED_FROM, True, False), (INDEXED_FROM - 1, False, False)],
    ids=["large", "indexed", "small"],
)
def test_the_plan_of_a_lookup_tells_that_an_index_is_missing(
    root: Path, open_engine: Open, rows: int, index: bool, expected: bool
):
    schema = pa.schema([key_field("Id", pa.int64()), pa.field("v", pa.int64())])
    dataset = lance.write_dataset(
        pa.table({"Id": range(rows), "v": range(rows)}, schema=schema), root / "big.lance"
    )
    if index:
        dataset.create_scalar_index("Id", "BTREE")
    dataset.initialize_mem_wal(unsharded=True)
    engine = open_engine(root)
    hint = 'the primary key has no index, so lookups read its columns: CREATE INDEX ON "big" ("Id")'
    assert (hint in explain(engine, 'SELECT v + 1 FROM big WHERE "Id" = 7')) == expected
    assert hint not in explain(engine, "SELECT v + 1 FROM big WHERE v = 7")


# What is not planned


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts of the statements that DataFusion plans."""
    planned: list[str] = []
    plan = Frames.plan

    def watched(self: Frames, bound: Any, *arguments: Any, **options: Any) -> Any:
        planned.append(bound.sql)
        return plan(self, bound, *arguments, **options)

    monkeypatch.setattr(Frames, "plan", watched)
    return planned


LOOKUPS = [
    'SELECT * FROM orders WHERE "order" = 1 AND line = 2',
    'SELECT v AS text, line, "order" AS n FROM orders o WHERE o.line = 2 AND o."order" = 1 LIMIT 1',
    'SELECT v FROM orders WHERE "order" = NULL AND line = 2',
]


@pytest.mark.parametrize("sql", LOOKUPS)
@pytest.mark.parametrize("types", ["arrow", "jdbc"])
def test_a_lookup_of_constants_has_the_columns_of_a_plan_without_one(
    root: Path, open_engine: Open, plans: list[str], sql: str, types: str
):
    write_orders(root, ("order", "line"), ())
    engine = open_engine(root)
    settings = replace(DEFAULT_SETTINGS, types=types)
    quick = engine.prepare(sql, settings)
    found = quick.execute().read_all()
    assert plans == []
    slow = engine.prepare(sql, replace(settings, shortcuts=NO_SHORTCUTS))
    assert plans == [sql]
    assert quick.schema.equals(slow.schema, check_metadata=True)
    assert quick.digest == slow.digest
    assert found.equals(slow.execute().read_all())


def test_a_lookup_is_planned_where_a_run_asks_for_it(root: Path, open_engine: Open, plans: list[str]):
    write_orders(root, ("order", "line"), ())
    prepared = open_engine(root).prepare(LOOKUPS[0])
    assert plans == []
    found = prepared.execute((), replace(DEFAULT_SETTINGS, shortcuts=NO_SHORTCUTS)).read_all()
    assert set(plans) == {LOOKUPS[0]}
    assert found.equals(prepared.execute().read_all())


@pytest.mark.parametrize("value", ["1.0", "'1'", "9223372036854775808", "$1"])
def test_other_constants_are_planned(root: Path, open_engine: Open, plans: list[str], value: str):
    write_orders(root, ("order", "line"), ())
    prepared = open_engine(root).prepare(f'SELECT v FROM orders WHERE "order" = {value} AND line = 2')
    assert isinstance(prepared, PreparedQuery)
    assert plans


def test_a_restricted_principal_looks_up_what_the_policy_shows(root: Path, open_engine: Open):
    write_orders(root, ("order", "line"), ())
    engine = open_engine(root)
    somebody = create_principal(
        orders=TableAccess(row_filter="tenant = 't0'", masks={"v": "upper(v)"}, hidden_columns=frozenset())
    )
    for line, expected in ((2, [("t0", "ROW 6")]), (1, [])):
        sql = f'SELECT tenant, v FROM orders WHERE "order" = 1 AND line = {line}'
        for shortcuts in (DEFAULT_SETTINGS.shortcuts, NO_SHORTCUTS):
            settings = replace(DEFAULT_SETTINGS, shortcuts=shortcuts)
            prepared = engine.prepare(sql, settings, somebody)
            rows = prepared.execute().read_all().to_pylist()
            assert [(row["tenant"], row["v"]) for row in rows] == expected
    assert engine.prepare(sql, access=FULL_ACCESS).execute().read_all().num_rows == 1
