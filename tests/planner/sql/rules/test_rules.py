"""Rules: each has titled pairs of a statement and what it becomes."""

import pyarrow as pa
import pytest
from datafusion import SessionContext

from lance_gateway.planner.sql.rules import RULES, apply_rules
from lance_gateway.planner.sql.tree import dialect
from lance_gateway.planner.sql.tree.tree import Tree
from tests.planner.titled import DATA, Case, read_titled_file

FIXTURES = DATA / "rules"
ZONED = pa.timestamp("us", "America/New_York")
TABLES = {
    "p": {
        "id": pa.int64(),
        "price": pa.decimal128(10, 2),
        "big": pa.decimal128(38, 2),
        "f": pa.float64(),
        "r": pa.float32(),
        "n": pa.int64(),
    },
    "t": {"id": pa.int64(), "i": pa.int64(), "s": pa.string(), "ts": pa.timestamp("us"), "at": ZONED},
    "w": {"u": pa.uint32(), "v": pa.uint64(), "l": pa.list_(pa.decimal128(10, 2))},
    "u": {"ref": pa.uuid(), "v": pa.string()},
    "days": {"id": pa.int64(), "tm": pa.time64("us"), "b": pa.binary()},
    "mixed": {"day": pa.date32(), "flag": pa.bool_(), "large": pa.large_binary(), "fixed": pa.binary(2)},
    "dictionaries": {"d": pa.dictionary(pa.int32(), pa.string()), "s": pa.string()},
    "vectors": {"vec": pa.list_(pa.float32(), 2)},
    "lists": {
        "id": pa.int64(),
        "l": pa.list_(pa.int64()),
        "st": pa.struct({"x": pa.int64()}),
        "m": pa.list_(pa.int64()),
    },
}
SCHEMAS = {name: pa.schema(list(columns.items())) for name, columns in TABLES.items()}


def list_cases() -> list[tuple[str, Case]]:
    return [(path.stem, case) for path in sorted(FIXTURES.glob("*.sql")) for case in read_titled_file(path)]


@pytest.fixture(scope="module")
def context() -> SessionContext:
    context = SessionContext()
    for name, columns in TABLES.items():
        schema = pa.schema(list(columns.items()))
        context.register_record_batches(name, [[pa.RecordBatch.from_pylist([], schema)]])
    return context


@pytest.mark.parametrize(("rule", "case"), list_cases(), ids=str)
def test_a_statement_is_rewritten(rule: str, case: Case, context: SessionContext) -> None:
    before, after = case.parts
    root = dialect.parse_query(before)
    assert root is not None
    tree = Tree(root, lambda sql: context.sql(sql).schema(), SCHEMAS, {}, {})
    (apply,) = (one for one in RULES if one.__name__ == rule)
    apply(tree)
    assert dialect.write_sql(tree.root) == after
    assert tree.is_changed == (before != after)
    context.sql(after)


def test_each_rule_has_fixtures() -> None:
    assert {rule.__name__ for rule in RULES} == {path.stem for path in FIXTURES.glob("*.sql")}


UUID = "550e8400-e29b-41d4-a716-446655440000"


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("SELECT id FROM p WHERE -f = ANY (ARRAY[f, n])", "IN (f + CAST(0 AS DOUBLE), "),
        (
            f"SELECT s FROM t RIGHT JOIN (SELECT * FROM u WHERE nullif(ref, v) = '{UUID.upper()}') ON TRUE",
            f"= '{UUID}'",
        ),
        (
            "SELECT id FROM t WHERE at = coalesce(CAST('2024-07-01' AS TIMESTAMP), '2024-03-10 02:30')",
            "at = arrow_cast(arrow_cast(coalesce(CAST('2024-07-01' AS TIMESTAMP), arrow_cast(",
        ),
    ],
    ids=["what it writes", "what it changes in place", "a text that has a type"],
)
def test_rules_see_what_another_one_does(sql: str, part: str, context: SessionContext) -> None:
    assert part in apply_rules(sql, SCHEMAS, {}, lambda text: context.sql(text).schema()).text
