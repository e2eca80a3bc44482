"""Filters as DataFusion pushes them become predicates that never claim too much."""

import decimal
import itertools
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.compute import field

from lance_gateway.planner.predicates.arrow_expressions import Call, Field, Value, read_expression
from lance_gateway.planner.predicates.predicate import (
    FALSE,
    TRUE,
    And,
    Anything,
    Comparison,
    InList,
    IsNull,
    Not,
    Or,
    Predicate,
    conjunction,
    decode,
    describe,
)
from lance_gateway.planner.predicates.value_sets import find_key_values
from tests.planner.names import context_with
from tests.planner.recording import pushed

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.string()),
        ("small", pa.int8()),
        ("f", pa.float64()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("tz", pa.timestamp("ns", "UTC")),
        ("dec", pa.decimal128(10, 2)),
        ("b", pa.bool_()),
        ("raw", pa.binary()),
        ("word", pa.dictionary(pa.int8(), pa.string())),
        ("list", pa.list_(pa.int64())),
        ("deep", pa.struct([("id", pa.int64())])),
        ("twice", pa.int64()),
        ("twice", pa.int64()),
    ]
)


ONE_AND_A_HALF = pa.scalar(decimal.Decimal("1.50"), pa.decimal128(10, 2))
FIVE_MILLIS = pa.scalar(5, pa.timestamp("ms"))
SKIPPING_NULLS = pc.is_in(field("id"), value_set=pa.array([1, None]), skip_nulls=True)


def test_the_serialised_form_is_the_one_that_is_read():
    """Pins the layout of the pinned pyarrow: if this fails, arrow_expressions.py must be looked at."""
    assert pa.__version__.startswith("26.0.")
    expression = (field("id") == pa.scalar(1, pa.int8())) & ~field("s").isin(["x", None]) | field("a.b")
    assert read_expression(expression) == Call(
        "or_kleene",
        (
            Call(
                "and_kleene",
                (
                    Call("equal", (Field("id"), Value(pa.scalar(1, pa.int8()))), None),
                    Call(
                        "invert",
                        (
                            Call(
                                "is_in",
                                (Field("s"),),
                                pa.scalar(
                                    {
                                        "value_set": ["x", None],
                                        "null_matching_behavior": 0,
                                        "_type_name": b"SetLookupOptions",
                                    },
                                    pa.struct(
                                        [
                                            ("value_set", pa.list_(pa.string())),
                                            ("null_matching_behavior", pa.uint32()),
                                            ("_type_name", pa.binary()),
                                        ]
                                    ),
                                ),
                            ),
                        ),
                        None,
                    ),
                ),
                None,
            ),
            Field("a.b"),
        ),
        None,
    )


@pytest.mark.parametrize("name", ["s", "word"])
def test_listed_values_may_be_encoded_in_a_dictionary(name: str):
    words = pa.array(["a", None, "b"])
    found = decode(field(name).isin(words.dictionary_encode()), SCHEMA)
    assert found == decode(field(name).isin(words), SCHEMA)
    assert found != Anything()


def test_literals_keep_their_exact_types():
    for value in (
        pa.scalar(1, pa.uint16()),
        pa.scalar(decimal.Decimal("1.50"), pa.decimal128(10, 2)),
        pa.scalar(-5, pa.timestamp("ns", "Europe/Berlin")),
        pa.scalar("x", pa.large_string()),
        pa.scalar(float("nan"), pa.float32()),
        pa.scalar(None, pa.date32()),
    ):
        node = read_expression(field("x") == value)
        assert isinstance(node, Call)
        found = node.arguments[1]
        assert isinstance(found, Value)
        assert found.value.type == value.type
        assert str(found.value) == str(value) if value.type != pa.timestamp("ns", "Europe/Berlin") else True


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("id = 7", "id = 7"),
        ("7 < id", "id > 7"),
        ("id = 1 AND s = 'x' AND b", "id = 1 AND s = 'x' AND b = True"),
        ("id = 1 OR s = 'x' AND NOT b", "id = 1 OR (s = 'x' AND b = False)"),
        ("id IN (1, 2)", "id = 1 OR id = 2"),
        ("id IN (1, 2, 3, 4, 5)", "id IN (1, 2, 3, ... 5 values)"),
        ("id NOT IN (1, 2, 3, 4, 5)", "id NOT IN (1, 2, 3, ... 5 values)"),
        ("id BETWEEN 3 AND 5", "id >= 3 AND id <= 5"),
        ("id IS NULL OR s IS NOT NULL", "id IS NULL OR s IS NOT NULL"),
        ("NOT (id = 1 OR s IS NULL)", "id != 1 AND s IS NOT NULL"),
        ("id = 1 AND id = 2", "FALSE"),
        ("id IN (1, NULL)", "id = 1"),
        ("id NOT IN (1, NULL)", "FALSE"),
        ("abs(id) = 3", "TRUE"),
        ("id = 1 AND abs(id) = 3", "id = 1"),
        ("id = 1 OR abs(id) = 3", "TRUE"),
        ("CAST(id AS int) = 4", "id = 4"),
        ("id = '5'", "id = 5"),
        ("CAST(id AS varchar) = '5'", "id = 5"),
        ("small = 5", "small = 5"),
        ("d >= '2024-01-01'", "d >= '2024-01-01'"),
        ("date_part('year', d) = 2024", "d >= '2024-01-01' AND d < '2025-01-01'"),
        ("ts < TIMESTAMP '2024-01-01 10:00:00'", "ts < '2024-01-01 10:00:00.000000'"),
        ("tz = '2024-01-01T10:00:00Z'", "tz = '2024-01-01 10:00:00.000000000Z'"),
        ("dec = 1.5", "dec = 1.50"),
        ("f > 2.5", "f > 2.5"),
        ("s LIKE 'abc'", "s = 'abc'"),
        ("raw = X'00ff'", "raw = b'\\x00\\xff'"),
        ("list = [1]", "(not understood)"),
        ("deep.id = 1", "TRUE"),
    ],
)
def test_what_datafusion_pushes_is_understood(condition: str, text: str):
    flat = pa.schema(list(SCHEMA)[:13])
    found = pushed(flat, condition)
    assert describe(decode(found[0], flat) if found else FALSE) == text


@pytest.mark.parametrize(
    ("expression", "predicate"),
    [
        (None, TRUE),
        (pa.scalar(True), TRUE),
        (pa.scalar(False), FALSE),
        (pc.scalar(True), TRUE),
        (pc.scalar(False) | (field("id") == 5), Comparison("id", "=", pa.scalar(5))),
        (pc.scalar(True) & (field("id") == 5), Comparison("id", "=", pa.scalar(5))),
        (field("raw") == pa.scalar(b"x", pa.large_binary()), Comparison("raw", "=", pa.scalar(b"x"))),
        (field("raw") == pa.scalar(b"x", pa.binary_view()), Comparison("raw", "=", pa.scalar(b"x"))),
        (
            field("tz") == pa.scalar(5, pa.timestamp("ms", "UTC")),
            Comparison("tz", "=", pa.scalar(5_000_000, pa.timestamp("ns", "UTC"))),
        ),
        (pc.scalar(False), FALSE),
        (~pc.scalar(pa.scalar(None, pa.bool_())), FALSE),
        (field("id") == pa.scalar(None, pa.int64()), FALSE),
        (~(field("id") == pa.scalar(None, pa.int64())), FALSE),
        (field("id") == pa.scalar(5, pa.int8()), Comparison("id", "=", pa.scalar(5))),
        (field("small") == 5, Comparison("small", "=", pa.scalar(5, pa.int8()))),
        (field("word") == "x", Comparison("word", "=", pa.scalar("x"))),
        (field("s") == pa.scalar("x", pa.large_string()), Comparison("s", "=", pa.scalar("x"))),
        (field("dec") == decimal.Decimal("1.5"), Comparison("dec", "=", ONE_AND_A_HALF)),
        (field("ts") == FIVE_MILLIS, Comparison("ts", "=", pa.scalar(5000, pa.timestamp("us")))),
        (field("id").isin([1, None]), Or((InList("id", (pa.scalar(1),)), IsNull("id")))),
        (SKIPPING_NULLS, InList("id", (pa.scalar(1),))),
        (~field("id").isin([1, 1]), Not(InList("id", (pa.scalar(1),)))),
        (~field("id").is_null(), Not(IsNull("id"))),
        (field("list").is_null(), IsNull("list")),
        (~~field("b"), Comparison("b", "=", pa.scalar(True))),
    ],
    ids=str,
)  # fmt: skip
def test_expressions_are_decoded_exactly(expression: pc.Expression | None, predicate: Predicate):
    assert decode(expression, SCHEMA) == predicate


@pytest.mark.parametrize(
    "expression",
    [
        field("small") == 1000,  # no int8
        field("dec") == decimal.Decimal("1.555"),
        field("ts") == pa.scalar(5, pa.timestamp("ns")),
        field("ts") == pa.scalar(5, pa.timestamp("us", "UTC")),
        field("f") == 5,
        field("id") == 5.0,
        field("d") == pa.scalar(0, pa.timestamp("us")),
        field("missing") == 1,
        field("twice") == 1,
        field("twice").isin([1]),
        field("twice").is_null(),
        field("missing").is_null(),
        field("missing").isin([1]),
        field("deep", "id") == 1,
        field(0) == 1,
        field("id") == field("small"),
        field("id").cast(pa.int32()) == 1,
        field("f").is_null(nan_is_null=True),
        field("f").is_nan(),
        field("list") == pa.scalar([1]),
        field("s"),
        field("id") + 1 == 2,
        pc.match_like(field("s"), "a%"),
        pc.if_else(field("b"), field("b"), field("b")),
    ],
    ids=str,
)
def test_what_is_not_understood_is_anything(expression: pc.Expression):
    assert decode(expression, SCHEMA) == Anything()
    # Its negation is no better known, and its neighbours stay known.
    assert decode(~expression, SCHEMA) == Anything()
    together = decode(expression & (field("id") == 3), SCHEMA)
    assert together == And((Anything(), Comparison("id", "=", pa.scalar(3)))) or together == Anything()


def test_a_number_that_is_rounded_compares_as_another():
    schema = pa.schema([("g", pa.float32())])
    assert decode(field("g") == 0.5, schema) == Comparison("g", "=", pa.scalar(0.5, pa.float32()))
    assert decode(field("g") < 0.1, schema) == Anything()
    assert decode(field("g").isin([0.5, 0.1]), schema) == Anything()


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.binary_view(), pa.binary()], ids=str)
def test_bytes_of_any_layout_compare_with_bytes(kind: pa.DataType):
    schema = pa.schema([("raw", kind)])
    expected = Comparison("raw", "=", pa.scalar(b"x", kind))
    for other in (pa.binary(), pa.large_binary(), pa.binary_view()):
        assert decode(field("raw") == pa.scalar(b"x", other), schema) == expected


def test_conjunctions_are_flat():
    one, two, three = (Comparison("id", ">", pa.scalar(number)) for number in range(3))
    assert conjunction([And((one, two)), three]) == And((one, two, three))
    assert conjunction([one]) == one
    assert conjunction([TRUE, one]) == one
    assert conjunction([one, FALSE]) == FALSE
    assert conjunction([]) == TRUE


@pytest.mark.slow
def test_thousands_of_alternatives_do_not_overflow():
    expression = field("id") == 0
    for i in range(1, 3000):
        expression = expression | ((field("id") == i) & (field("s") == "x"))
    found = decode(expression, SCHEMA)
    assert isinstance(found, Or)
    assert len(found.operands) == 3000


# Properties: rows that DataFusion returns are rows that the predicate describes.

IDS, WORDS, FLOATS, FLAGS = [None, 1, 2, 3], [None, "a", "b"], [None, 0.0, 1.5, math.nan], [None, True, False]
ROWS = pa.Table.from_pylist(
    [
        {"id": id_, "s": word, "f": number, "b": flag}
        for id_, word, number, flag in itertools.product(IDS, WORDS, FLOATS, FLAGS)
    ]
)


def evaluate(predicate: Predicate, row: dict[str, Any]) -> bool | None:
    """SQL's three values: True, False, None; what is not understood is True."""
    match predicate:
        case And(operands):
            values = [evaluate(one, row) for one in operands]
            return False if False in values else None if None in values else True
        case Or(operands):
            values = [evaluate(one, row) for one in operands]
            return True if True in values else None if None in values else False
        case Not(operand):
            value = evaluate(operand, row)
            return None if value is None else not value
        case IsNull(column):
            return row[column] is None
        case InList(column, members):
            return None if row[column] is None else row[column] in [one.as_py() for one in members]
        case Comparison(column, operator, value):
            return None if row[column] is None else compare(row[column], operator, value.as_py())
        case _:
            return True


def compare(left: Any, operator: str, right: Any) -> bool:
    if isinstance(left, float):  # DataFusion's order: NaN is the greatest
        left, right = [(math.isnan(one), 0.0 if math.isnan(one) else one) for one in (left, right)]
    return {
        "=": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]


LISTS = ["1", "1, 2", "2, NULL", "1, 2, 4, 5, 6"]


def conditions() -> st.SearchStrategy[str]:
    operator = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    leaf = st.one_of(
        st.builds("{} {} {}".format, st.sampled_from(["id", "id + 0"]), operator, st.integers(0, 4)),
        st.builds("{} {} s".format, st.sampled_from(["'a'", "'b'", "''"]), operator),
        st.builds("f {} {}".format, operator, st.sampled_from(["0.5", "1.5"])),
        st.builds("id {} ({})".format, st.sampled_from(["IN", "NOT IN"]), st.sampled_from(LISTS)),
        st.builds(
            "{} IS {}".format, st.sampled_from(["id", "s", "f", "b"]), st.sampled_from(["NULL", "NOT NULL"])
        ),
        st.sampled_from(["b", "NOT b", "id BETWEEN 2 AND 3", "lower(s) = 'a'", "b IS TRUE", "s LIKE 'a%'"]),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds("({} AND {})".format, inner, inner),
            st.builds("({} OR {})".format, inner, inner),
            st.builds("(NOT {})".format, inner),
        ),
        max_leaves=6,
    )


def matching(condition: str) -> Iterator[dict[str, Any]]:
    yield from (
        context_with({"t": ROWS}).sql(f"SELECT * FROM t WHERE {condition}").to_arrow_table().to_pylist()
    )


@pytest.mark.slow
@given(conditions())
@settings(deadline=None, max_examples=60)
def test_every_row_that_datafusion_keeps_is_described(condition: str):
    found = pushed(ROWS.schema, condition)
    rows = list(matching(condition))
    if not found:  # the optimizer saw that nothing can match
        assert not rows
        return
    predicate = decode(found[0], ROWS.schema)
    for row in rows:
        assert evaluate(predicate, row) is True, (condition, describe(predicate), row)


@pytest.mark.slow
@given(conditions())
@settings(deadline=None, max_examples=60)
def test_keys_cover_every_row_that_datafusion_keeps(condition: str):
    found = pushed(ROWS.schema, condition)
    predicate = decode(found[0], ROWS.schema) if found else FALSE
    rows = list(matching(condition))
    for key in (["id"], ["s", "id"], ["b", "s"]):
        keys = find_key_values(predicate, key, ROWS.schema)
        if keys is not None:
            listed = {tuple(row.values()) for row in keys.to_pylist()}
            assert len(listed) == keys.num_rows
            assert keys.schema.names == key
            assert {tuple(row[name] for name in key) for row in rows} <= listed


def test_nanoseconds_can_be_described():
    for value in (
        pa.scalar(5, pa.timestamp("ns")),
        pa.scalar(5, pa.duration("ns")),
        pa.scalar(5, pa.time64("ns")),
    ):
        assert "5" in describe(Comparison("x", "=", value))
