"""The predicates of tables, as they are found in the tree of a statement."""

import pyarrow as pa
import pytest

from lance_gateway.planner.sql.tree.dialect import parse_query, write_sql
from lance_gateway.planner.sql.tree.predicates import find_predicates
from tests.planner.titled import Case, read_titled

_EVENTS = pa.schema(
    {
        "id": pa.int64(),
        "day": pa.date32(),
        "n": pa.int32(),
        "st": pa.struct({"x": pa.int64()}),
        "x": pa.float64(),
        "l": pa.list_(pa.int64()),
    }.items()
)
SCHEMAS = {
    "e#1": _EVENTS,
    "e#2": _EVENTS,
    "n#1": pa.schema({"name": pa.string(), "n": pa.int32()}.items()),
}


@pytest.mark.parametrize("case", read_titled("predicates.txt"), ids=str)
def test_each_table_has_its_predicates(case: Case):
    statement, expected = case.parts if len(case.parts) == 2 else (case.parts[0].removesuffix("\n--"), "")
    root = parse_query(statement)
    assert root is not None
    found = {
        f"{name}: " + " | ".join("; ".join(map(write_sql, predicates)) for predicates in places)
        for name, places in find_predicates(root, SCHEMAS).items()
    }
    assert found == set(expected.splitlines())


def test_common_table_expressions_that_multiply_are_not_followed():
    tables = ['c0 AS (SELECT * FROM "e#1" AS e)']
    tables += [f"c{at} AS (SELECT a.* FROM c{at - 1} AS a, c{at - 1} AS b)" for at in range(1, 20)]
    root = parse_query(f"WITH {', '.join(tables)} SELECT * FROM c19 WHERE id = 1")
    assert root is not None
    assert find_predicates(root, SCHEMAS) == {}


def test_unions_that_are_too_long_are_not_followed():
    sides = " UNION ALL ".join(['SELECT id FROM "e#1" AS e'] * 9000)
    root = parse_query(f"SELECT 1 FROM ({sides}) AS u WHERE id = 1")
    assert root is not None
    assert find_predicates(root, SCHEMAS) == {}
