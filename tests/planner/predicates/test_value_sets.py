"""Boxes hold the rows that a predicate describes: exactly those, but for floats and NOT IN."""

import datetime as dt
import math
import operator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_gateway.planner.predicates.predicate import (
    And,
    Anything,
    Comparison,
    InList,
    IsNull,
    Not,
    Or,
    Predicate,
)
from lance_gateway.planner.predicates.value_sets import Bound, Box, ColumnSet, find_boxes, order_key

OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [-(2**63), -1, 0, 1, 2, 3, 5, 1000, 2**63 - 1]),
    "s": (pa.string(), ["", "a", "ab", "b"]),
    "d": (pa.date32(), [dt.date(2024, 1, day) for day in (1, 2, 4)]),
}
DOMAIN = {name: [None, *values] for name, (_, values) in VALUES.items()}
COLUMNS = frozenset(VALUES)


def scalar(column: str, value: Any) -> pa.Scalar:
    return pa.scalar(value, VALUES[column][0])


def is_true(predicate: Predicate, row: dict[str, Any], *, of_null: bool) -> bool:
    """Whether a row satisfies a predicate; `of_null`: what NOT IN is of NULL, which boxes may admit."""
    match predicate:
        case And(operands):
            return all(is_true(one, row, of_null=of_null) for one in operands)
        case Or(operands):
            return any(is_true(one, row, of_null=of_null) for one in operands)
        case Comparison(column, name, value):
            return row[column] is not None and bool(OPERATORS[name](row[column], value.as_py()))
        case InList(column, values):
            return row[column] is not None and row[column] in [one.as_py() for one in values]
        case IsNull(column):
            return row[column] is None
        case Not(InList(column, values)):
            return of_null if row[column] is None else row[column] not in [one.as_py() for one in values]
        case Not(IsNull(column)):
            return row[column] is not None
    raise AssertionError(predicate)


def lies_in(box: Box, row: dict[str, Any]) -> bool:
    def admits(column: str, known: ColumnSet) -> bool:
        if row[column] is None:
            return known.null
        key = order_key(scalar(column, row[column]))
        if known.values is None:
            return known.has_value(key)
        return key in map(order_key, known.values)

    return all(admits(column, known) for column, known in box.items())


def conditions() -> st.SearchStrategy[Predicate]:
    def of(column: str) -> st.SearchStrategy[Predicate]:
        value = st.sampled_from(VALUES[column][1]).map(lambda one: scalar(column, one))
        lists = st.lists(value, max_size=3, unique_by=lambda one: one.as_py()).map(tuple)
        members = lists.map(lambda values: InList(column, values))
        return st.one_of(
            st.builds(Comparison, st.just(column), st.sampled_from(sorted(OPERATORS)), value),
            members,
            members.map(Not),
            st.sampled_from([IsNull(column), Not(IsNull(column))]),
        )

    # Mostly of one column, so that conditions meet.
    return st.one_of(of("i"), of("i"), of("s"), of("d"))


def predicates() -> st.SearchStrategy[Predicate]:
    def several(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        operands = st.lists(inner, max_size=3).map(tuple)
        return st.one_of(operands.map(And), operands.map(Or))

    return st.recursive(conditions(), several, max_leaves=6)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(predicates(), st.lists(st.fixed_dictionaries({n: st.sampled_from(v) for n, v in DOMAIN.items()})))
def test_boxes_hold_the_rows_that_are_described_and_no_others(
    predicate: Predicate, rows: list[dict[str, Any]]
) -> None:
    boxes = find_boxes(predicate, COLUMNS)
    for row in rows + [dict.fromkeys(COLUMNS) | {"i": i} for i in DOMAIN["i"]]:
        found = any(lies_in(box, row) for box in boxes)
        assert found or not is_true(predicate, row, of_null=False)
        assert is_true(predicate, row, of_null=True) or not found


PAIRS = [
    (one, other, x, y)
    for one in OPERATORS
    for other in OPERATORS
    for x, y in ((2, 2), (2, 3), (3, 2), (2, 1000), (1000, 2))
]


@pytest.mark.parametrize("column", ["i", "s", "f"])
def test_two_conditions_on_a_column_admit_what_both_do(column: str) -> None:
    """Of a discrete type, of one that has no next value, and of floating point."""
    kind, make = {
        "i": (pa.int64(), int),
        "s": (pa.string(), lambda n: f"{n:04}"),
        "f": (pa.float64(), float),
    }[column]
    for one, other, x, y in PAIRS:
        predicate = And(
            (
                Comparison(column, one, pa.scalar(make(x), kind)),  # type: ignore[arg-type]
                Comparison(column, other, pa.scalar(make(y), kind)),  # type: ignore[arg-type]
            )
        )
        boxes = find_boxes(predicate, frozenset({column}))
        for n in (1, 2, 3, 4, 999, 1000, 1001):
            value = make(n)
            expected = OPERATORS[one](value, make(x)) and OPERATORS[other](value, make(y))
            found = any(
                known.has_value(value) if known.values is None else value in [v.as_py() for v in known.values]
                for box in boxes
                for known in box.values()
            )
            if column == "f" and n in (x, y):
                assert found or not expected  # edges and exclusions are kept: see below
            else:
                assert found is expected, (one, other, x, y, n)


def number(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.int64())


def only(predicate: Predicate, column: str = "c") -> ColumnSet:
    (box,) = find_boxes(predicate, frozenset({column}))
    return box[column]


def test_what_admits_nothing_has_no_box() -> None:
    equal = [Comparison("c", "=", number(one)) for one in (1, 2)]
    for predicate in (
        Or(()),
        InList("c", ()),
        And(tuple(equal)),
        And((IsNull("c"), equal[0])),
        And((Comparison("c", ">", number(5)), Comparison("c", "<", number(5)))),
        And((Comparison("c", ">", number(5)), Comparison("c", "<", number(6)))),
    ):
        assert find_boxes(predicate, frozenset({"c"})) == []


def test_what_is_open_has_a_box_without_columns() -> None:
    open_ones: list[Predicate] = [
        And(()),
        Anything(),
        IsNull("other"),
        Or((Comparison("c", "=", number(1)), Anything())),
    ]
    for predicate in open_ones:
        assert find_boxes(predicate, frozenset({"c"})) == [{}]


def test_a_box_knows_the_columns_that_were_asked_for() -> None:
    both = And((Comparison("c", "=", number(1)), Comparison("other", "=", number(2))))
    assert [set(box) for box in find_boxes(both, frozenset({"c", "other"}))] == [{"c", "other"}]
    assert [set(box) for box in find_boxes(both, frozenset({"other"}))] == [{"other"}]


def any_of(column: str, count: int) -> Or:
    return Or(tuple(Comparison(column, "=", number(one)) for one in range(count)))


def test_more_alternatives_than_2000_are_anything() -> None:
    assert len(find_boxes(any_of("c", 2000), frozenset({"c"}))) == 2000
    assert find_boxes(any_of("c", 2001), frozenset({"c"})) == [{}]
    assert find_boxes(Or((any_of("c", 2001), IsNull("c"))), frozenset({"c"})) == [{}]
    assert find_boxes(Or((IsNull("c"), any_of("c", 2000))), frozenset({"c"})) == [{}]


def test_an_operand_of_too_many_alternatives_leaves_what_others_say() -> None:
    columns = frozenset({"c", "e"})
    assert len(find_boxes(And((any_of("c", 50), any_of("e", 40))), columns)) == 2000
    assert find_boxes(And((any_of("c", 50), any_of("e", 41))), columns) == find_boxes(
        any_of("c", 50), columns
    )
    last = Comparison("e", "=", number(1))
    assert find_boxes(And((any_of("c", 2001), last)), columns) == find_boxes(last, columns)


def between(low: pa.Scalar, high: pa.Scalar) -> And:
    return And((Comparison("c", ">=", low), Comparison("c", "<", high)))


def test_short_ranges_of_discrete_types_are_listed() -> None:
    listed = only(between(number(7), number(407))).values
    assert listed is not None
    assert [one.as_py() for one in listed] == list(range(7, 407))
    assert only(between(number(7), number(408))).values is None


@pytest.mark.parametrize(
    ("kind", "low", "first", "last"),
    [
        (pa.int8(), 3, 4, 6),
        (pa.uint64(), 3, 4, 6),
        (pa.date32(), dt.date(2024, 2, 27), dt.date(2024, 2, 28), dt.date(2024, 3, 1)),
        (pa.timestamp("s"), dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 1), None),
        (pa.timestamp("us", "UTC"), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None, None),
    ],
    ids=str,
)
def test_ends_of_discrete_ranges_belong_to_them(kind: pa.DataType, low: Any, first: Any, last: Any) -> None:
    start = pa.scalar(low, kind)
    storage = pa.int32() if kind == pa.date32() else pa.int64()
    stop = pa.scalar(order_key(start) + 4, storage).cast(kind)
    above, below = only(Comparison("c", ">", start)), only(Comparison("c", "<", stop))
    assert above.lower == Bound(pa.scalar(order_key(start) + 1, storage).cast(kind), inclusive=True)
    assert below.upper == Bound(pa.scalar(order_key(start) + 3, storage).cast(kind), inclusive=True)
    listed = only(And((Comparison("c", ">", start), Comparison("c", "<", stop)))).values
    assert listed is not None
    assert [order_key(one) - order_key(start) for one in listed] == [1, 2, 3]
    assert {one.type for one in listed} == {kind}
    assert first is None or listed[0].as_py() == first
    assert last is None or listed[-1].as_py() == last


@pytest.mark.parametrize(("kind", "value"), [(pa.int8(), 127), (pa.int64(), 2**63 - 1)], ids=str)
def test_beyond_the_last_value_of_a_type_is_nothing(kind: pa.DataType, value: int) -> None:
    last, first = pa.scalar(value, kind), pa.scalar(-value - 1, kind)
    assert not only(Comparison("c", ">", last)).has_value(value)
    assert not only(Comparison("c", "<", first)).has_value(-value - 1)
    known = only(And((Comparison("c", ">", last), Comparison("c", "<=", last))))
    assert known.values is None
    assert not known.has_value(value)


def test_exclusions_leave_a_list_and_a_range() -> None:
    without = [Comparison("c", "!=", number(8)), Not(InList("c", (number(9),)))]
    short = only(And((between(number(7), number(12)), *without))).values
    assert short is not None
    assert [one.as_py() for one in short] == [7, 10, 11]
    long = only(And((between(number(7), number(1000)), *without)))
    assert [key for key in (7, 8, 9, 10, 999) if long.has_value(key)] == [7, 10, 999]


def test_null_is_admitted_where_a_condition_does() -> None:
    listed, is_null = InList("c", (number(1),)), IsNull("c")
    assert only(is_null) == ColumnSet(null=True, values=())
    assert only(Not(is_null)) == ColumnSet()
    assert not only(listed).null
    # Arrow's own evaluation of "not is_in" keeps NULL.
    assert only(Not(listed)).null
    assert only(And((Not(listed), is_null))).null
    assert only(And((Not(listed), Not(InList("c", (number(2),)))))).null
    assert not only(And((Not(listed), Comparison("c", ">", number(0))))).null
    assert not only(And((Not(listed), Not(is_null)))).null


class TestFloats:
    def real(self, value: float) -> pa.Scalar:
        return pa.scalar(value, pa.float64())

    def test_edges_belong_to_ranges_since_zero_has_two_signs(self) -> None:
        for name, edge in (("<", "upper"), ("<=", "upper"), (">", "lower"), (">=", "lower")):
            known = only(Comparison("c", name, self.real(0.0)))  # type: ignore[arg-type]
            assert getattr(known, edge) == Bound(self.real(0.0), inclusive=True)
            assert (known.lower is None) is (edge == "upper")
            assert known.has_value(0.0)

    def test_nan_bounds_nothing(self) -> None:
        for name in ("=", "<", ">="):
            assert only(Comparison("c", name, self.real(math.nan))) == ColumnSet()  # type: ignore[arg-type]
        assert only(InList("c", (self.real(1.0), self.real(math.nan)))) == ColumnSet()

    def test_zero_is_listed_with_both_signs(self) -> None:
        for zero in (0.0, -0.0):
            values = only(InList("c", (self.real(1.5), self.real(zero)))).values
            assert values is not None
            found = [(one.as_py(), math.copysign(1, one.as_py())) for one in values]
            assert sorted(found) == [(-0.0, -1.0), (0.0, 1.0), (1.5, 1.0)]
            single = only(Comparison("c", "=", pa.scalar(zero, pa.float32()))).values
            assert single == (pa.scalar(0.0, pa.float32()), pa.scalar(-0.0, pa.float32()))
        assert only(InList("c", (self.real(1.5),))).values == (self.real(1.5),)

    def test_exclusions_are_not_believed(self) -> None:
        assert only(Comparison("c", "!=", self.real(1.5))) == ColumnSet()
        assert only(Not(InList("c", (self.real(1.5),)))) == ColumnSet(null=True)
