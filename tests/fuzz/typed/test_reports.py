"""Public reports: each is a statement that must be right here."""

# ruff: noqa: E501 - rows of tables

from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.rights import FULL_ACCESS
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import PreparedQuery, QueryEngine, SessionSettings
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.writes.dml.ingest import prepare_ingest
from tests.planner.titled import Case, read_titled_file
from tests.support.lake.tables import key_field

CASES = read_titled_file(Path(__file__).with_name("reports.txt"))
PENDING = "pending: "
NOON = "TIMESTAMP '2024-07-01 12:00:00'"
TABLES = (
    "CREATE TABLE p (id BIGINT PRIMARY KEY, price DECIMAL(10,2), big DECIMAL(38,2), f DOUBLE, r REAL)",
    "INSERT INTO p VALUES (1, 1.10, 12345678901234567890.12, 0, 0), (2, 4.44, NULL, 4.44, 4.44), (3, 4.40, NULL, 1, 1), (4, 9.95, NULL, 2, 2)",
    "CREATE TABLE o (k BIGINT PRIMARY KEY)", "INSERT INTO o VALUES (1), (5)",
    "CREATE TABLE a (id BIGINT PRIMARY KEY)", "INSERT INTO a VALUES (1), (2)",
    "CREATE TABLE b (id BIGINT PRIMARY KEY, y BIGINT)", "INSERT INTO b VALUES (1, 1), (2, 2)",
    "CREATE TABLE c (id BIGINT PRIMARY KEY, d DECIMAL(10,3), n TIMESTAMP(9))",
    "INSERT INTO c VALUES (1, 1.500, TIMESTAMP '2024-07-01 12:00:00.001'), (2, 1.000, TIMESTAMP '2024-07-01 12:00:00.001234567')",
    "CREATE TABLE far (id BIGINT PRIMARY KEY, u TIMESTAMP(6), day DATE)",
    "INSERT INTO far VALUES (1, TIMESTAMP(6) '9999-12-31', DATE '9999-12-31')",
    "CREATE TABLE i (id BIGINT PRIMARY KEY, i BIGINT, s TEXT)", "INSERT INTO i VALUES (1, NULL, NULL), (2, 7, 'x')",
)  # fmt: skip
ZONED = pa.schema([
    key_field("id", pa.int64()), pa.field("at", pa.timestamp("us", "America/New_York")), pa.field("n", pa.timestamp("us")),
])  # fmt: skip
ITEM = pa.struct([("sku", pa.string()), ("price", pa.decimal128(10, 2))])
NESTED = pa.schema([
    key_field("id", pa.int64()), pa.field("st", pa.struct([("a", pa.int64()), ("b", pa.string())])), pa.field("ls", pa.list_(ITEM)),
])  # fmt: skip


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    """Tables of the reports, whose rows are in the log."""
    root = tmp_path_factory.mktemp("root")
    for name, schema in (("z", ZONED), ("d", NESTED)):
        lance.write_dataset(schema.empty_table(), root / f"{name}.lance").initialize_mem_wal()
    with closing(QueryEngine(Catalog.open(str(root)), partitions=2)) as engine:
        for sql in TABLES:
            write = engine.prepare_statement(sql)
            assert not isinstance(write, PreparedQuery)
            write.execute()
        _ingest(engine, "z", pa.table([[1, 2], _moments(8, 12), _moments(8, 12)], schema=ZONED))
        _ingest(engine, "d", _nested())
        yield engine


def _moments(*hours: int) -> pa.Array:
    """On the day when New York's clocks skip an hour, and on one in July."""
    days = (1_710_028_800, 1_719_792_000)
    return pa.array(
        [(day + hour * 3600) * 10**6 for day, hour in zip(days, hours, strict=True)], pa.timestamp("us")
    )


def _nested() -> pa.Table:
    """A struct and an element that are NULL, whose fields have values."""
    missing = pa.array([True, False])
    structs = pa.StructArray.from_arrays(
        [pa.array([7, 5], pa.int64()), pa.array(["hidden", "x"])],
        fields=list(NESTED.field("st").type),
        mask=missing,
    )
    items = pa.StructArray.from_arrays(
        [pa.array(["hidden", "a"]), pa.array([Decimal("9.95"), None], pa.decimal128(10, 2))],
        fields=list(ITEM),
        mask=missing,
    )
    lists = pa.ListArray.from_arrays([0, 1, 2], items)
    return pa.table([pa.array([1, 2], pa.int64()), structs, lists], schema=NESTED)


def _ingest(engine: QueryEngine, name: str, rows: pa.Table) -> None:
    prepared = prepare_ingest(engine, TableName(name), rows.schema, SessionSettings(), FULL_ACCESS)
    prepared.execute(iter(rows.to_batches()), RunControl())


def _parameter(case: Case) -> Any:
    is_pending = case.title.startswith(PENDING)
    return pytest.param(
        case, id=case.title.removeprefix(PENDING), marks=[pytest.mark.xfail] if is_pending else []
    )


def _text(value: Any) -> str:
    return "NULL" if value is None else str(value) or "''"


@pytest.mark.parametrize("case", [_parameter(case) for case in CASES])
def test_a_report_has_its_right_rows(engine: QueryEngine, case: Case) -> None:
    link, sql, rows = case.parts
    assert link == "the machine" or link.startswith("https://github.com/"), link
    for _ in range(3):  # which partition comes first may decide
        answer = engine.execute(sql).read_all()
        columns = [column.to_pylist() for column in answer.columns]
        found = [" | ".join(_text(one) for one in row) for row in zip(*columns, strict=True)]
        ordered = "ORDER BY" in sql
        assert (found if ordered else sorted(found)) == (
            rows.split("\n") if ordered else sorted(rows.split("\n"))
        )
