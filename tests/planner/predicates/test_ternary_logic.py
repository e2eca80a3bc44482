"""Conditions have three values, and floating-point numbers the order that Lance gives them."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow.compute import field

from lance_gateway.planner.predicates.arrow_expressions import Call, Field, Value, read_expression
from lance_gateway.planner.predicates.row_filter import compare_floats, evaluate_condition

NAN = math.nan
BATCH = pa.record_batch(
    {
        "n": pa.array([1, 2, None], pa.int64()),
        "k": pa.array([1, None, 3], pa.int64()),
        "f": pa.array([1.0, NAN, None], pa.float64()),
        "s": pa.array(["a", "b", None]),
        "w": pa.array(["a", "b", None]).dictionary_encode(),
        "b": pa.array([True, False, None]),
        "l": pa.array([[1], [2], None], pa.list_(pa.int64())),
    }
)
WORDS = pa.array(["a", None]).dictionary_encode()


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (field("b"), [True, False, None]),
        (~field("b"), [False, True, None]),
        (field("n") == field("k"), [True, None, None]),
        (field("n") != 1, [False, True, None]),
        (field("n") < 2, [True, False, None]),
        (field("n") <= 1, [True, False, None]),
        (field("n") > 1, [False, True, None]),
        (field("n") >= 2, [False, True, None]),
        (field("n") == pa.scalar(None, pa.int64()), [None, None, None]),
        (field("n").is_null(), [False, False, True]),
        (field("n").is_valid(), [True, True, False]),
        ((field("n") == 1) & (field("k") == 1), [True, False, False]),
        ((field("n") == 2) & (field("k") == 1), [False, None, False]),
        ((field("n") == 1) | (field("k") == 3), [True, None, True]),
        (field("n").isin([1, 5]), [True, False, None]),
        (field("n").isin([1, None]), [True, None, None]),
        (field("n").isin(pa.array([None], pa.int64())), [None, None, None]),
        (~field("n").isin([1, None]), [False, None, None]),
        (field("s").isin(["a"]), [True, False, None]),
        (field("w") == "a", [True, False, None]),
        (field("w").isin(["b"]), [False, True, None]),
        (field("f") == NAN, [False, True, None]),
        (field("f") > 5.0, [False, True, None]),
        (field("f").isin([1.0, NAN]), [True, True, None]),
        (field("f").isin([2.0]), [False, False, None]),
        (field("f").isin([1.0, None]), [True, None, None]),
        (field("f").isin(pa.array([None], pa.float64())), [None, None, None]),
        (field("n") < NAN, [True, True, None]),
        (pc.scalar(NAN) > field("n"), [True, True, None]),
    ],
    ids=str,
)
def test_a_condition_has_three_values(condition: pc.Expression, expected: list[bool | None]) -> None:
    node = read_expression(condition)
    assert node is not None
    found = evaluate_condition(node, BATCH)
    assert found is not None
    assert (found.type, found.to_pylist()) == (pa.bool_(), expected)


@pytest.mark.parametrize("column", ["s", "w"])
def test_members_may_be_words_of_a_dictionary(column: str) -> None:
    options = pa.StructArray.from_arrays(
        [pa.array([WORDS.to_pylist()], pa.list_(pa.string()))], names=["value_set"]
    )[0]
    found = evaluate_condition(Call("is_in", (Field(column),), options), BATCH)
    assert found is not None
    assert found.to_pylist() == [True, None, None]
    encoded = pa.StructArray.from_arrays(
        [pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), WORDS)], names=["value_set"]
    )[0]
    again = evaluate_condition(Call("is_in", (Field(column),), encoded), BATCH)
    assert again is not None
    assert again.to_pylist() == [True, None, None]


@pytest.mark.parametrize(
    "condition",
    [
        field("n"),
        field("n") + 1 == 2,
        (field("n") + 1 == 2) & field("b"),
        field("b") | pc.match_like(field("s"), "a%"),
        pc.match_like(field("s"), "a%"),
        field("f").is_null(nan_is_null=True),
        field("l") == pa.scalar([1]),
        field("l").isin(pa.array([[1]])),
        field("n").isin(pa.array(["x"])),
    ],
    ids=str,
)
def test_what_is_not_known_is_left_to_others(condition: pc.Expression) -> None:
    node = read_expression(condition)
    assert node is not None
    assert evaluate_condition(node, BATCH) is None
    assert node == Field("n") or evaluate_condition(Call("invert", (node,), None), BATCH) is None


def test_a_call_without_its_options_is_not_known() -> None:
    assert evaluate_condition(Call("is_in", (Field("n"),), None), BATCH) is None
    assert evaluate_condition(Value(pa.scalar(1)), BATCH) is None


def test_numbers_are_in_one_order() -> None:
    ordered = [
        [math.copysign(NAN, -1)],
        [-math.inf],
        [-2.0],
        [-1.0],
        [-2e-300],
        [-1e-300],
        [-0.0, 0.0],
        [1e-300],
        [2e-300],
        [1.0],
        [1.0 + 2**-52],
        [math.inf],
        [NAN],
    ]
    numbers = np.array([one for group in ordered for one in group])
    ranks = np.array([rank for rank, group in enumerate(ordered) for _ in group])
    left, right = (each.ravel() for each in np.meshgrid(numbers, numbers))
    one, other = (each.ravel() for each in np.meshgrid(ranks, ranks))
    for compare, expected in ((pc.less, one < other), (pc.equal, one == other), (pc.greater, one > other)):
        assert compare_floats(compare, pa.array(left), pa.array(right)).to_pylist() == expected.tolist()


def test_no_number_compares_as_nothing() -> None:
    one, null = pa.array([1.0, 0.0, 1.0]), pa.array([None, None, 1.0])
    for found in (compare_floats(pc.equal, one, null), compare_floats(pc.less_equal, null, one)):
        assert (found.type, found.to_pylist()) == (pa.bool_(), [None, None, True])
