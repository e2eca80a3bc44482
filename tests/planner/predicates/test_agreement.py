"""Whoever computed the value of a region, no row that is asked for is in a region that is pruned."""

import datetime as dt
from collections.abc import Callable, Iterable
from zoneinfo import ZoneInfo

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow.compute import field

from lance_gateway.memwal.base.index_details import RegionField, RegionSpec
from lance_gateway.memwal.transforms.expressions import evaluate_expression
from lance_gateway.memwal.transforms.transforms import build_transform, encode_region_value
from lance_gateway.planner.predicates.predicate import decode
from lance_gateway.planner.predicates.pruning import RegionAssignment, RegionAssignments, prune_regions
from tests.support.lake.tables import key_field

ZONES = (
    None,
    "UTC",
    "+05:30",
    "-11:00",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Pacific/Apia",
    "America/St_Johns",
)
PARTS = ("year", "month", "day", "hour")
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
INT64 = range(-(1 << 63), 1 << 63)
# Edges: the years 1, 1677, 1900, 1970, 2037, 2038, 2262, 9999 and beyond.
EDGES = (-62135596800, -9214560000, -2208988800, 0, 2114380800, 2145916800, 9223372036, 253402300799)


def kept(transform: str, result: str, column: pa.Field, value: object, condition: pc.Expression) -> bool:
    """Whether a region that records a value is read for a condition on column ``c``."""
    name, _, parameter = transform.partition("; ")
    parameters = dict([parameter.split("=")]) if parameter else {}
    is_expression = name.startswith("[")
    spec_field = RegionField(
        "f", (0,), None if is_expression else name, name[1:-1] if is_expression else None, result, parameters
    )
    spec = RegionSpec(1, (spec_field,))
    region = RegionAssignment("r", 1, {"f": encode_region_value(spec_field, value)})
    predicate = decode(condition, pa.schema([column]))
    return bool(prune_regions(predicate, [spec], RegionAssignments((region,)), {0: column}).kept)


def conditions_on(value: pa.Scalar, near: pa.Scalar | None = None) -> Iterable[pc.Expression]:
    yield field("c") == value
    yield field("c").isin(pa.array([value], value.type))
    yield field("c") >= value
    yield field("c") <= value
    if near is not None and near.type == value.type:
        low, high = sorted((value, near), key=lambda one: one.value)
        yield (field("c") >= low) & (field("c") <= high)


def in_python(part: str, seconds: int, zone: str | None) -> int | None:
    if zone is not None and zone.startswith(("+", "-")):
        return None
    try:
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
        return int(getattr(moment.astimezone(ZoneInfo(zone or "UTC")), part))
    except OverflowError:
        return None


@pytest.mark.slow
@given(
    st.sampled_from(PARTS),
    st.sampled_from(ZONES),
    st.sampled_from(sorted(UNITS)),
    st.one_of(
        st.integers(-62135596800, 253402300799),
        st.builds(int.__add__, st.sampled_from(EDGES), st.integers(-100_000, 100_000)),
        st.integers(-(10**12), 10**12),
    ),
    st.integers(0, 60 * 24 * 3600),
)
@example(part="year", zone="+05:30", unit="ns", seconds=9_223_352_237, span=0)
@settings(deadline=None, max_examples=250)
def test_parts_of_instants(part: str, zone: str | None, unit: str, seconds: int, span: int):
    raw = [one * UNITS[unit] for one in (seconds, seconds + span)]
    if not all(one in INT64 for one in raw):
        return
    kind = pa.timestamp(unit, zone)
    value, near = pa.array(raw, pa.int64()).cast(kind)
    computed = {
        build_transform(RegionField("f", (0,), part, None, "int32")).apply([pa.array([value])])[0].as_py()
    }
    computed.add(in_python(part, seconds, zone))
    try:
        found = evaluate_expression(f"date_part('{part}', col0)", [pa.array([value])], 1, pa.int32())
        computed.add(found[0].as_py())
    except Exception:  # noqa: BLE001 - it has no such instants
        computed.add(None)
    column = pa.field("c", kind)
    for answer in computed - {None}:
        for condition in conditions_on(value, near):
            assert kept(part, "int32", column, answer, condition), (part, answer, condition)


def test_far_summers_in_zones_with_daylight_saving():
    """Where pyarrow says 13, DataFusion and Python say 14."""
    value = pa.scalar(dt.datetime(2050, 7, 1, 12), pa.timestamp("us", "UTC")).cast(
        pa.timestamp("us", "Europe/Berlin")
    )
    column = pa.field("c", value.type)
    assert all(kept("hour", "int32", column, hour, field("c") == value) for hour in (13, 14))
    assert kept("day", "int32", column, 1, field("c") == value)
    assert not kept("day", "int32", column, 3, field("c") == value)
    assert kept("year", "int32", column, 2050, field("c") == value)
    assert not kept("year", "int32", column, 2049, field("c") >= value)


@pytest.mark.slow
@given(st.integers(-50, 50), st.integers(1, 7))
@settings(deadline=None, max_examples=60)
def test_truncated_numbers(number: int, width: int):
    towards_zero = int(number / width) * width
    value = pa.scalar(number, pa.int64())
    for answer in {towards_zero, number // width * width}:
        for condition in conditions_on(value):
            assert kept(f"truncate; width={width}", "int64", pa.field("c", pa.int64()), answer, condition)


@pytest.mark.slow
@given(st.text("ab\u00e9\u0301\U0001f600", max_size=5), st.integers(1, 3))
@settings(deadline=None, max_examples=60)
def test_truncated_text(text: str, width: int):
    units = text.encode("utf-16-le")[: 2 * width].decode("utf-16-le", "ignore")
    as_bytes = text.encode()[:width].decode(errors="ignore")
    value = pa.scalar(text, pa.string())
    for answer in {text[:width], units, as_bytes}:
        for condition in conditions_on(value):
            assert kept(f"truncate; width={width}", "utf8", pa.field("c", pa.string()), answer, condition)


@pytest.mark.parametrize(
    ("expression", "result", "value", "answers"),
    [
        ("[date_part('hour', col0)]", "int32", pa.scalar(0, pa.timestamp("us", "Europe/Berlin")), (0, 1, 2)),
        ("[upper(col0)]", "utf8", pa.scalar("stra\u00dfe"), ("STRASSE", "STRA\u00dfE", "STRA\u1e9eE")),
        ("[CAST(col0 AS VARCHAR)]", "utf8", pa.scalar(1e20), ("1e20", "100000000000000000000")),
    ],
)
def test_expressions_whose_values_settings_decide(
    expression: str, result: str, value: pa.Scalar, answers: tuple[object, ...]
):
    column = pa.field("c", value.type)
    assert all(kept(expression, result, column, one, field("c") == value) for one in answers)


def test_expressions_over_integers_prune():
    column = pa.field("c", pa.int64())
    assert kept("[col0 % 3]", "int64", column, 1, field("c") == 7)
    assert not kept("[col0 % 3]", "int64", column, 2, field("c") == 7)


BY_LANCE: dict[str, Callable[[], st.SearchStrategy[object]]] = {
    "int32": lambda: st.integers(-(1 << 31), (1 << 31) - 1),
    "int64": lambda: st.integers(INT64.start, INT64.stop - 1),
    "string": lambda: st.text("ab\u00e9\U0001f600", max_size=6),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("transform", "kind"),
    [
        ("bucket", "int32"),
        ("bucket", "int64"),
        ("bucket", "string"),
        ("identity", "int64"),
        ("identity", "string"),
    ],
)
def test_as_lance_computes_them(tmp_path_factory: pytest.TempPathFactory, kind: str, transform: str):
    data_type = pa.type_for_alias(kind)
    empty = pa.schema([key_field("c", data_type)]).empty_table()
    dataset = lance.write_dataset(empty, tmp_path_factory.mktemp("t") / "t.lance")
    if transform == "bucket":
        dataset.initialize_mem_wal(bucket_column="c", num_buckets=16)
        name, result = "bucket; num_buckets=16", "int32"
    else:
        dataset.initialize_mem_wal(identity_column="c")
        name, result = "identity", {"string": "utf8"}.get(kind, kind)
    (spec,) = dataset.mem_wal_index_details()["sharding_specs"]

    @given(st.lists(BY_LANCE[kind](), min_size=1, max_size=8))
    @settings(deadline=None, max_examples=20)
    def check(values: list[object]) -> None:
        rows = pa.record_batch([pa.array(values, data_type)], schema=empty.schema)
        answers = lance.evaluate_sharding_spec(rows, spec, dataset.lance_schema)
        for value, answer in zip(values, answers.column(0).to_pylist(), strict=True):
            for condition in conditions_on(pa.scalar(value, data_type)):
                assert kept(name, result, pa.field("c", data_type), answer, condition)

    check()
