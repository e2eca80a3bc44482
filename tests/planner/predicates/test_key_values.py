"""The keys that a predicate leaves are listed, if they are few and compare exactly."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow.compute import field

from lance_gateway.planner.predicates.predicate import TRUE, And, Comparison, InList, Or, Predicate, decode
from lance_gateway.planner.predicates.value_sets import find_key_values

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.string()),
        ("small", pa.int8()),
        ("f", pa.float64()),
        ("d", pa.date32()),
        ("tz", pa.timestamp("ns", "UTC")),
        ("b", pa.bool_()),
        ("word", pa.dictionary(pa.int8(), pa.string())),
        ("list", pa.list_(pa.int64())),
        ("deep", pa.struct([("id", pa.int64())])),
    ]
)


def keys_of(expression: pc.Expression, *names: str, limit: int = 1000) -> list[tuple[Any, ...]] | None:
    found = find_key_values(decode(expression, SCHEMA), names, SCHEMA, limit)
    return None if found is None else [tuple(row.values()) for row in found.to_pylist()]


def test_keys_of_conjunctions_and_alternatives():
    one, two, other = field("id") == 1, field("id").isin([2, 3]), field("s") == "x"
    assert keys_of(one, "id") == [(1,)]
    assert keys_of(one & other & (field("f") > 1.5), "id") == [(1,)]
    assert keys_of((one | two) & other, "s", "id") == [("x", 1), ("x", 2), ("x", 3)]
    assert keys_of((one & other) | (two & (field("s") == "y")), "id", "s") == [(1, "x"), (2, "y"), (3, "y")]
    assert keys_of(one & field("id").isin([1, 2]) & ~field("b"), "id") == [(1,)]
    assert keys_of(one & two, "id") == []
    assert keys_of(one, "id", "s") is None
    assert keys_of(one | other, "id") is None
    assert keys_of(field("id") > 1, "id") is None
    assert keys_of(~one, "id") is None
    assert keys_of(field("f") == 1.5, "f") is None


def test_keys_are_limited():
    many = field("id").isin(list(range(100)))
    found = keys_of(many, "id", limit=100)
    assert found is not None
    assert len(found) == 100
    assert keys_of(many, "id", limit=99) is None
    assert keys_of(many & field("s").isin(["x", "y"]), "id", "s", limit=150) is None
    # What is too much in one place may be narrowed in another.
    assert keys_of(field("id").isin([1, 2]) & field("id").isin(list(range(100))), "id", limit=2) is not None


def test_a_thousand_keys_are_few_enough():
    for count, is_finite in ((1000, True), (1001, False)):
        predicate = InList("id", tuple(map(pa.scalar, range(count))))
        assert (find_key_values(predicate, ["id"], SCHEMA) is not None) is is_finite


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("f", pa.scalar(1.5)),
        ("list", pa.scalar([1])),
        ("word", pa.scalar("x")),
        ("deep", pa.scalar({"id": 1})),
    ],
)
def test_keys_that_do_not_compare_exactly_are_not_listed(column: str, value: pa.Scalar):
    assert find_key_values(InList(column, (value,)), [column], SCHEMA) is None


def any_id(*values: int) -> Or:
    return Or(tuple(Comparison("id", "=", pa.scalar(value)) for value in values))


def test_as_many_alternatives_as_keys_are_few_enough():
    def found(predicate: Predicate, *names: str) -> int | None:
        keys = find_key_values(predicate, names, SCHEMA, 6)
        return None if keys is None else int(keys.num_rows)

    words = Or(tuple(Comparison("s", "=", pa.scalar(word)) for word in "xyz"))
    assert found(any_id(*range(6)), "id") == 6
    assert found(any_id(*range(7)), "id") is None
    assert found(Or((any_id(*range(7)), any_id(1))), "id") is None
    assert found(And((any_id(1, 2), words)), "id", "s") == 6
    assert found(And((any_id(1, 2, 3), words)), "id", "s") is None
    # An operand of too many alternatives narrows nothing.
    assert found(And((any_id(*range(7)), any_id(1))), "id") == 1
    assert found(And((any_id(1, 2, 3), any_id(3, 4, 5))), "id") == 3


def test_no_list_and_no_key_have_no_keys():
    assert find_key_values(TRUE, [], SCHEMA) is None
    nothing = find_key_values(InList("id", ()), ["id"], SCHEMA)
    assert nothing is not None
    assert nothing.num_rows == 0


def test_keys_are_typed_as_the_columns():
    instant = pa.scalar(7, pa.timestamp("ns", "UTC"))
    expression = (field("small") == 3) & (field("d") == dt.date(2024, 1, 1)) & (field("tz") == instant)
    found = find_key_values(decode(expression, SCHEMA), ["small", "d", "tz"], SCHEMA)
    assert found is not None
    assert found.schema == pa.schema([SCHEMA.field(name) for name in ("small", "d", "tz")])
