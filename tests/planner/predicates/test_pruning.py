"""Region pruning: golden verdicts, and no region with a matching row is ever pruned."""

import datetime as dt
import time
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.compute import field

from lance_gateway.memwal.base.index_details import RegionSpec
from lance_gateway.memwal.transforms.buckets import BucketHash
from lance_gateway.memwal.transforms.transforms import compute_region_values, encode_region_value
from lance_gateway.planner.predicates.predicate import FALSE, TRUE, Predicate, decode, describe
from lance_gateway.planner.predicates.pruning import (
    Outcome,
    Pruning,
    RegionAssignment,
    RegionAssignments,
    RegionOutcome,
    prune_regions,
)
from tests.planner.names import context_with
from tests.planner.recording import pushed
from tests.planner.region_cases import COLUMNS, FIELD_IDS, SCHEMA, read_region, read_spec, region_of
from tests.planner.titled import Case, read_titled
from tests.support.sampling import sample


def predicate_of(condition: str) -> Predicate:
    found = pushed(SCHEMA, condition)
    return decode(found[0], SCHEMA) if found else FALSE


def judged(
    predicate: Predicate,
    specs: Sequence[RegionSpec],
    regions: Sequence[RegionAssignment],
    columns: Mapping[int, pa.Field] = COLUMNS,
) -> tuple[RegionOutcome, ...]:
    """The verdicts; what is kept is found in another way, by looking admissible values up, and must agree."""
    pruning = prune_regions(predicate, specs, RegionAssignments(tuple(regions)), columns)
    might_match = [one.region_id for one in pruning.outcomes if one.outcome is Outcome.ROWS_MIGHT_MATCH]
    assert list(pruning.kept) == might_match
    return pruning.outcomes


def shown(outcome: RegionOutcome) -> str:
    word = "kept" if outcome.outcome is Outcome.ROWS_MIGHT_MATCH else "pruned"
    return f"{outcome.region_id}: {word}, {outcome.reason}"


@pytest.mark.parametrize("case", read_titled("pruning.txt"), ids=str)
def test_verdicts(case: Case):
    spec_text, condition, expected = case.parts
    spec = read_spec(spec_text)
    regions = [read_region(spec, line.partition(": ")[0]) for line in expected.split("\n")]
    outcomes = judged(predicate_of(condition), [spec], regions)
    assert "\n".join(map(shown, outcomes)) == expected


def test_all_regions_are_kept_for_one_reason():
    regions = RegionAssignments(tuple(RegionAssignment(name, 1, {}) for name in "ab"))
    pruning = Pruning(regions, regions.region_ids, lambda _: (Outcome.ROWS_MIGHT_MATCH, "shortcuts are off"))
    assert (pruning.regions, pruning.kept) == (regions, ("a", "b"))
    assert list(map(shown, pruning.outcomes)) == ["a: kept, shortcuts are off", "b: kept, shortcuts are off"]


def test_regions_without_a_known_spec_are_kept():
    spec = read_spec("identity(id) int64")
    regions = [
        RegionAssignment("by hand", 0, {"f0": b""}),
        RegionAssignment("of tomorrow", 7, {"f0": b"12345678"}),
    ]
    outcomes = judged(decode(field("id") == 1, SCHEMA), [spec], regions)
    assert [shown(one) for one in outcomes] == [
        "by hand: kept, no region spec",
        "of tomorrow: kept, unknown region spec 7",
    ]


def test_each_region_is_judged_by_its_own_spec():
    first, second = read_spec("identity(id) int64"), read_spec("truncate(id; width=10) int64")
    second = type(second)(2, second.fields)
    regions = [
        RegionAssignment(
            f"{spec.spec_id}: {value}", spec.spec_id, {"f0": encode_region_value(spec.fields[0], value)}
        )
        for spec in (first, second)
        for value in (10, 17)
    ]
    outcomes = judged(decode(field("id") == 17, SCHEMA), [second, first], regions)
    kept = [one.region_id for one in outcomes if one.outcome is Outcome.ROWS_MIGHT_MATCH]
    assert kept == ["1: 17", "2: 10"]


def test_no_predicate_and_no_regions():
    spec = read_spec("identity(id) int64")
    assert judged(TRUE, [spec], []) == ()
    (outcome,) = judged(TRUE, [spec], [read_region(spec, "1")])
    assert shown(outcome) == "1: kept, TRUE does not restrict identity(id)"


def test_a_spec_without_fields_prunes_nothing():
    spec = read_spec("")
    (outcome,) = judged(decode(field("id") == 1, SCHEMA), [spec], [RegionAssignment("r", 1, {})], COLUMNS)
    assert shown(outcome) == "r: kept, the region spec has no fields"


def test_a_column_whose_type_changed_since_planning_prunes_nothing():
    spec = read_spec("bucket(id; num_buckets=4) int32")
    now = {**COLUMNS, FIELD_IDS["id"]: pa.field("id", pa.int32())}
    for expression in (field("id") == 7, field("id") > 7, field("id").isin([7, 8])):
        outcomes = judged(
            decode(expression, SCHEMA), [spec], [read_region(spec, str(i)) for i in range(4)], now
        )
        assert all(one.outcome is Outcome.ROWS_MIGHT_MATCH for one in outcomes)


def test_months_of_a_long_range_of_dates_prune_nothing():
    spec = read_spec("month(d) int32")
    years = (field("d") >= dt.date(2024, 1, 1)) & (field("d") < dt.date(2026, 1, 1))
    outcomes = judged(decode(years, SCHEMA), [spec], [read_region(spec, month) for month in ("1", "7")])
    assert [one.outcome for one in outcomes] == [Outcome.ROWS_MIGHT_MATCH] * 2


def test_a_renamed_column_is_found_by_its_id():
    spec = read_spec("identity(id) int64")
    now = {**COLUMNS, FIELD_IDS["id"]: pa.field("key", pa.int64())}
    schema = pa.schema([("key", pa.int64())])
    outcomes = judged(
        decode(field("key") == 7, schema), [spec], [read_region(spec, str(i)) for i in (6, 7)], now
    )
    assert [one.outcome for one in outcomes] == [Outcome.ROWS_CANNOT_MATCH, Outcome.ROWS_MIGHT_MATCH]


@pytest.mark.parametrize("condition", ["id = 7", "id > 7", "keys"])
def test_a_thousand_regions_are_judged_quickly(condition: str):
    spec = read_spec("bucket(id; num_buckets=1000) int32" if condition != "id > 7" else "identity(id) int64")
    regions = RegionAssignments(tuple(read_region(spec, str(i)) for i in range(1000)))
    keys = field("id").isin(list(range(1000)))
    predicate = decode(keys, SCHEMA) if condition == "keys" else predicate_of(condition)
    prune_regions(predicate, [spec], regions, COLUMNS)
    start = time.process_time()
    prune_regions(predicate, [spec], regions, COLUMNS)
    assert time.process_time() - start < 0.05  # many times what it takes, for busy machines


def test_thousands_of_composite_keys_are_judged_quickly():
    spec = read_spec("bucket(id; num_buckets=50) int32, identity(s) utf8")
    regions = [read_region(spec, f"{i}, {word}") for i in range(50) for word in "abcdefghij"]
    expression = (field("id") == 0) & (field("s") == "a")
    for i in range(1, 1000):
        expression = expression | ((field("id") == i) & (field("s") == "abcdefghij"[i % 10]))
    predicate = decode(expression, SCHEMA)
    start = time.process_time()
    outcomes = judged(predicate, [spec], regions)
    assert time.process_time() - start < 1
    assert any(one.outcome is Outcome.ROWS_MIGHT_MATCH for one in outcomes)


# Properties

SPECS = [
    "identity(id) int64",
    "identity(s) utf8",
    "identity(f) double",
    "identity(d) date32",
    "identity(ts) timestamp[us]",
    "identity(b) bool",
    "bucket(id; num_buckets=3) int32",
    "bucket(s; num_buckets=3) int32",
    "bucket(small; num_buckets=3) int32",
    "bucket(f; num_buckets=3) int32",
    "bucket(d; num_buckets=3) int32",
    "bucket(ts; num_buckets=3) int32",
    "bucket(b; num_buckets=3) int32",
    "multi_bucket(id, s; num_buckets=3) int32",
    "truncate(id; width=3) int64",
    "truncate(s; width=1) utf8",
    "year(d) int32",
    "month(d) int32",
    "day(d) int32",
    "year(ts) int32",
    "month(ts) int32",
    "day(ts) int32",
    "hour(ts) int32",
    "[col0 % 3](id) int64",
    "[coalesce(col0, 0) + coalesce(col1, 0)](id, small) int64",
    "[upper(col0)](s) utf8",
    "unsharded() int32",
]
VALUES = {
    "id": [-7, -1, 0, 1, 2, 5, 8, 9, 100],
    "s": ["", "a", "ab", "abcde", "b", "é"],
    "small": [-1, 0, 1, 7],
    "f": [-1.5, -0.0, 0.0, 1.5, float("inf"), float("nan")],
    "d": [dt.date(2023, 12, 31), dt.date(2024, 1, 1), dt.date(2024, 2, 29), dt.date(2025, 1, 1)],
    "ts": [
        dt.datetime(1969, 12, 31, 23, 59),
        dt.datetime(2024, 2, 28, 22, 30),
        dt.datetime(2024, 2, 29, 0, 30),
        dt.datetime(2024, 12, 31, 23, 0),
    ],
    "b": [True, False],
}
NAMES = list(VALUES)
FIELD_NAMES = {number: name for name, number in FIELD_IDS.items()}
ROW_SCHEMA = pa.schema([SCHEMA.field(name) for name in NAMES])


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(
        st.lists(
            st.fixed_dictionaries({name: st.sampled_from([None, *VALUES[name]]) for name in NAMES}),
            min_size=1,
            max_size=12,
        )
    )
    return pa.Table.from_pylist(rows, schema=ROW_SCHEMA)


@st.composite
def comparisons(draw: st.DrawFn) -> pc.Expression:
    name = draw(st.sampled_from(NAMES))
    dtype = ROW_SCHEMA.field(name).type
    value = pa.scalar(draw(st.sampled_from(VALUES[name])), dtype)
    column = field(name)
    kind = draw(st.sampled_from(["=", "=", "!=", "<", "<=", ">", ">=", "in", "null", "not null", "opaque"]))
    if kind == "in":
        members = draw(st.lists(st.sampled_from([None, *VALUES[name]]), min_size=1, max_size=4))
        return column.isin(pa.array(members, dtype))
    if kind in ("null", "not null"):
        return column.is_null() if kind == "null" else column.is_valid()
    if kind == "opaque":
        return pc.coalesce(column, value) == value
    made = {
        "=": column == value,
        "!=": column != value,
        "<": column < value,
        "<=": column <= value,
        ">": column > value,
        ">=": column >= value,
    }
    return made[kind]


def expressions() -> st.SearchStrategy[pc.Expression]:
    return st.recursive(
        comparisons(),
        lambda inner: st.one_of(
            st.builds(lambda one, other: one & other, inner, inner),
            st.builds(lambda one, other: one | other, inner, inner),
            st.builds(lambda one: ~one, inner),
        ),
        max_leaves=6,
    )


def assert_no_matching_row_is_pruned(
    predicate: Predicate,
    rows: pa.Table,
    matching: Sequence[int],
    spec_texts: Sequence[str],
    reading: BucketHash,
) -> None:
    spec = read_spec(", ".join(spec_texts))
    arrays = {FIELD_IDS[name]: rows.column(name).combine_chunks() for name in NAMES}
    values = compute_region_values(spec, arrays, reading)
    regions = [
        region_of(spec, [column[row].cast(column.type) for column in values], str(row))
        for row in range(rows.num_rows)
    ]
    outcomes = judged(predicate, [spec], regions)
    for row in matching:
        assert outcomes[row].outcome is Outcome.ROWS_MIGHT_MATCH, (
            outcomes[row].reason,
            describe(predicate),
            rows.slice(row, 1).to_pylist(),
        )


@pytest.mark.slow
@pytest.mark.parametrize("reading", BucketHash)
@pytest.mark.parametrize("spec", sample(SPECS, 9))
def test_no_region_of_a_row_is_pruned_by_a_condition_on_it(spec: str, reading: BucketHash):
    """Every value of each column, on its own, by each condition."""
    columns = {name: [None, *values] for name, values in VALUES.items()}
    longest = max(map(len, columns.values()))
    rows = pa.Table.from_pylist(
        [{name: values[at % len(values)] for name, values in columns.items()} for at in range(longest)],
        schema=ROW_SCHEMA,
    ).append_column("row", pa.array(range(longest)))
    for name in {FIELD_NAMES[source] for one in read_spec(spec).fields for source in one.source_ids}:
        dtype, column = ROW_SCHEMA.field(name).type, field(name)
        ends = [pa.scalar(value, dtype) for value in VALUES[name]]
        conditions = [
            column.is_null(),
            column.is_valid(),
            column.isin(pa.array([None, ends[0].as_py()], dtype)),
        ]
        for at, end in enumerate(ends):
            conditions += [
                column == end,
                column != end,
                column < end,
                column <= end,
                column > end,
                column >= end,
            ]
            conditions += [(column >= end) & (column <= other) for other in ends[at:]]
            conditions += [column.isin(pa.array([end, other])) for other in ends[at + 1 :]]
        for condition in conditions:
            matching = rows.filter(condition).column("row").to_pylist()
            assert_no_matching_row_is_pruned(decode(condition, ROW_SCHEMA), rows, matching, [spec], reading)


@pytest.mark.slow
@given(
    tables(),
    expressions(),
    st.lists(st.sampled_from(SPECS), min_size=1, max_size=2, unique=True),
    st.sampled_from(BucketHash),
)
@settings(deadline=None, max_examples=150)
def test_arrows_matching_rows_are_never_pruned(
    rows: pa.Table, expression: pc.Expression, spec_texts: list[str], reading: BucketHash
):
    numbered = rows.append_column("row", pa.array(range(rows.num_rows)))
    matching = numbered.filter(expression).column("row").to_pylist()
    assert_no_matching_row_is_pruned(decode(expression, rows.schema), rows, matching, spec_texts, reading)


def conditions() -> st.SearchStrategy[str]:
    operator = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    dates = st.sampled_from(["'2024-01-01'", "'2024-02-29'", "'2025-01-01'"])
    moments = st.sampled_from(["'2024-02-28 22:30:00'", "'2024-02-29'", "'2025-01-01T00:00:00'"])
    numbers = st.sampled_from(["id", "small", "CAST(id AS int)"])
    parts = st.sampled_from(["year", "month", "hour"])
    leaf = st.one_of(
        st.builds("{} {} {}".format, numbers, operator, st.integers(-2, 9)),
        st.builds("id BETWEEN {} AND {}".format, st.integers(-8, 9), st.integers(-8, 100)),
        st.builds("s {} {}".format, operator, st.sampled_from(["'a'", "'abcde'", "''", "'é'"])),
        st.builds("f {} {}".format, operator, st.sampled_from(["0.0", "-0.0", "1.5", "'NaN'::double"])),
        st.builds("d {} {}".format, operator, dates),
        st.builds("ts {} {}".format, operator, moments),
        st.builds("ts BETWEEN {} AND {}".format, moments, moments),
        st.builds("{} {} (1, 2, 5, 8, 9)".format, numbers, st.sampled_from(["IN", "NOT IN"])),
        st.builds("{} IS {}".format, st.sampled_from(NAMES), st.sampled_from(["NULL", "NOT NULL"])),
        st.builds("date_part('{}', ts) = {}".format, parts, st.sampled_from([2024, 2, 22])),
        st.sampled_from(["b", "NOT b", "abs(id) = 7", "s LIKE 'a%'", "date_part('year', d) = 2024"]),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds("({} AND {})".format, inner, inner),
            st.builds("({} OR {})".format, inner, inner),
            st.builds("(NOT {})".format, inner),
        ),
        max_leaves=5,
    )


@pytest.mark.slow
@given(
    tables(),
    conditions(),
    st.lists(st.sampled_from(SPECS), min_size=1, max_size=2, unique=True),
    st.sampled_from(BucketHash),
)
@settings(deadline=None, max_examples=60)
def test_datafusions_matching_rows_are_never_pruned(
    rows: pa.Table, condition: str, spec_texts: list[str], reading: BucketHash
):
    numbered = rows.append_column("row", pa.array(range(rows.num_rows)))
    answer = context_with({"t": numbered}).sql(f"SELECT row FROM t WHERE {condition}").to_arrow_table()
    found = pushed(rows.schema, condition)
    predicate = decode(found[0], rows.schema) if found else FALSE
    assert_no_matching_row_is_pruned(predicate, rows, answer.column("row").to_pylist(), spec_texts, reading)
