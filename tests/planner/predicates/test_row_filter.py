"""A predicate means the same in Lance's language, evaluated in memory, and in DataFusion."""

import datetime as dt
import decimal
import math
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest
from datafusion import SessionConfig, SessionContext
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_gateway.planner.predicates.predicate import Comparison, decode
from lance_gateway.planner.predicates.row_filter import PredicateFilter

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("i", pa.int8()),
        ("u", pa.uint64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us")),
        ("z", pa.timestamp("us", "UTC")),
        ("zb", pa.timestamp("ms", "Europe/Berlin")),
        ("zo", pa.timestamp("s", "-03:30")),
        ("m", pa.decimal128(10, 2)),
        ("x", pa.binary()),
        ("ns", pa.timestamp("ns")),
        ("tm", pa.time64("us")),
        ("k", pa.int64()),
        ("h", pa.float64()),
    ]
)
START = dt.datetime(2024, 1, 1)


def _row(k: int) -> dict[str, Any]:
    return {
        "n": [0, -(2**63), 2**63 - 1, 7, 8][k % 5],
        "i": k - 4,
        "u": [0, 2**64 - 1, 7][k % 3],
        "f": [math.nan, -1.0, 0.0, math.inf, -math.inf, 2.5][k % 6],
        "g": [math.nan, 0.1, 2.5][k % 3],
        "s": ["", "it's", "héllo", "a`b"][k % 4],
        "b": k % 2 == 0,
        "d": dt.date(2024, 1, 1 + k),
        "t": START + dt.timedelta(microseconds=k),
        "z": START + dt.timedelta(hours=k),
        "zb": START + dt.timedelta(hours=k),
        "zo": START + dt.timedelta(hours=k),
        "m": decimal.Decimal(k) / 4,
        "x": bytes([k, 255]),
        "ns": START + dt.timedelta(days=k),
        "tm": dt.time(1, 2, 3, k),
        "k": [0, None, 7][k % 3],
        "h": [math.nan, -1.0, 2.5, None][k % 4],
    }


ROWS = pa.Table.from_pylist([_row(k) for k in range(9)] + [dict.fromkeys(SCHEMA.names)], schema=SCHEMA)


CONDITIONS = [
    "n = 7",
    "n <> 7",
    "n IN (7, 8, -9223372036854775808)",
    "n NOT IN (7, 8, 1, 2, 3)",
    "n < 0",
    "i >= 0 AND i < 3",
    "u = 18446744073709551615",
    "f > 2",
    "f >= 2.5",
    "f < 2.5",
    "f <= 0",
    "f = 'NaN'::double",
    "f <> 'NaN'::double",
    "f < 'NaN'::double",
    "f = 0.0",
    "f <> 2.5",
    "f IN (0.0, 2.5, 'NaN'::double, 1.0, 3.0)",
    "g = 0.1::float",
    "g > 1::float",
    "s = 'it''s' OR s = 'a`b'",
    "s > 'b'",
    "b",
    "NOT b",
    "b IS NULL",
    "s IS NOT NULL AND d >= DATE '2024-01-05'",
    "t < TIMESTAMP '2024-01-01 00:00:00.000003'",
    "z < TIMESTAMP '2024-01-01 03:00:00Z'",
    "zb = TIMESTAMP '2024-01-01 03:00:00'",
    "zb IN (TIMESTAMP '2024-01-01 03:00:00', TIMESTAMP '2024-01-01 04:00:00')",
    "zo > TIMESTAMP '2023-12-31 23:30:00'",
    "m = 0.25",
    "m > 1.10",
    "x = X'03FF'",
    "ns > TIMESTAMP '2024-01-04'",
    "tm > arrow_cast('01:02:03.000004', 'Time64(Microsecond)')",
    "NOT (n = 7 OR f > 2)",
    "(n = 7 AND f IS NULL) OR (n = 0 AND s <> '')",
]
# What the algebra of predicates has no nodes for, and is evaluated by its tree.
OTHER_CONDITIONS = [
    "(s IN ('a', 'b', 'c', 'd')) IS NULL",
    "(s NOT IN ('a', 'b', 'c', 'd')) IS NULL",
    "(n IN (7, 8, 9, 10)) IS NOT NULL",
    "s NOT IN ('a', 'b', 'c', 'd') OR n = k",
    "(s IN ('', 'a', 'b', 'c')) = (n = 0)",
    "coalesce(s NOT IN ('', 'a', 'b', 'c'), n = 0)",
    "NOT (s IN ('', 'a', 'b', 'c') AND n = k)",
    "(f IN (2.5, 'NaN'::double, 1.0, 3.0)) = b",
    "f NOT IN (2.5, 'NaN'::double, 1.0, 3.0) OR n = k",
    "f = 'NaN'::double OR n = k",
    "f > 2.5 OR n = k",
    "f = h",
    "f >= h",
    "h <> f",
    "(f > 2 OR s = '') IS NULL",
    "(NOT b) IS NULL",
    "(n > k) IS NULL",
    "n IS NULL OR n < k",
    "false OR (s = 'é' AND n >= k)",
]


class _Recorder(pads.Dataset):
    """Remembers the filter that DataFusion pushes down, and serves all rows that pass it."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.filter: Any = None

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    def scanner(self, columns: list[str] | None = None, filter: Any = None, **_: Any) -> Any:
        return pads.dataset(self.table).scanner(columns=columns)

    def get_fragments(self, filter: Any = None) -> Any:
        self.filter = filter
        return iter(pads.dataset(self.table).get_fragments())


def _pushed(condition: str) -> Any:
    recorder = _Recorder(ROWS)
    context = SessionContext(
        SessionConfig().set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
    )
    context.register_dataset("rows", recorder)
    context.sql(f"SELECT n FROM rows WHERE {condition}").execution_plan()
    return recorder.filter


def _expected(condition: str, rows: pa.Table) -> list[bool]:
    context = SessionContext(
        SessionConfig().set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
    )
    context.from_arrow(rows, name="rows")
    answer = context.sql(f"SELECT coalesce({condition}, false) AS hit FROM rows").to_arrow_table()
    return answer.column("hit").to_pylist()  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return lance.write_dataset(ROWS, str(tmp_path_factory.mktemp("rows") / "rows.lance"))


@pytest.mark.parametrize("condition", CONDITIONS + OTHER_CONDITIONS)
def test_every_way_of_filtering_agrees(condition: str, stored: Any) -> None:
    expression = _pushed(condition)
    if expression is None:
        pytest.fail("DataFusion no longer pushes this condition down; test another in its place")
    predicate = PredicateFilter(decode(expression, SCHEMA), expression)
    expected = _expected(condition, ROWS)
    (batch,) = ROWS.to_batches()
    assert predicate.matches(batch).to_pylist() == expected
    text = predicate.sql({name: name for name in SCHEMA.names})
    if text is not None:
        found = (
            stored.scanner(columns=[], filter=text, with_row_address=True).to_table().column(0).to_pylist()
        )
        assert found == [position for position, hit in enumerate(expected) if hit]


@pytest.mark.parametrize("condition", ["n = 7", "s > 'b'", "m = 0.25", "t < TIMESTAMP '2024-01-01'", "f > 2"])
def test_lance_can_say_the_common_conditions(condition: str) -> None:
    expression = _pushed(condition)
    predicate = PredicateFilter(decode(expression, SCHEMA), expression)
    assert predicate.sql({name: name for name in SCHEMA.names}) is not None


def test_stored_names_stand_in_the_lance_filter() -> None:
    expression = _pushed("n = 7 AND s = 'a'")
    predicate = PredicateFilter(decode(expression, SCHEMA), expression)
    assert predicate.sql({"n": "id", "s": "old name"}) == "(`id` = 7) AND (`old name` = 'a')"
    assert predicate.columns == {"n", "s"}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    values=st.lists(st.none() | st.floats().filter(lambda x: x != 0) | st.just(0.0), max_size=8),
    operator=st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
    bound=st.sampled_from([0.0, 1.5, math.inf, -math.inf, math.nan]),
)
def test_floats_compare_as_in_datafusion(values: list[float | None], operator: str, bound: float) -> None:
    rows = pa.table({"f": pa.array(values, pa.float64())})
    literal = "'NaN'::double" if math.isnan(bound) else f"'{bound}'::double"
    recorder = _Recorder(rows)
    context = SessionContext()
    context.register_dataset("rows", recorder)
    context.sql(f"SELECT f FROM rows WHERE f {operator} {literal}").execution_plan()
    predicate = PredicateFilter(decode(recorder.filter, rows.schema), recorder.filter)
    for batch in rows.to_batches():
        assert predicate.matches(batch).to_pylist() == _expected(f"f {operator} {literal}", rows)


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("bound", [0.0, -0.0, math.nan, math.inf, -math.inf, 1.0])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_zeros_and_signed_nans_compare_as_in_lance(
    operator: Any, bound: float, kind: pa.DataType, tmp_path: Any
) -> None:
    # DataFusion's own kernels tell 0.0 from -0.0; a filter that reaches Lance does not.
    values = [0.0, -0.0, 1.0, -1.0, math.nan, math.copysign(math.nan, -1), math.inf, -math.inf]
    rows = pa.table({"f": pa.array(np.array(values)).cast(kind)})
    predicate = PredicateFilter(
        Comparison("f", operator, pa.scalar(bound, kind)), pc.field("f") == pa.scalar(bound, kind)
    )
    (batch,) = rows.to_batches()
    dataset = lance.write_dataset(rows, str(tmp_path / "floats.lance"))
    text = predicate.sql({"f": "f"})
    found = dataset.scanner(columns=[], filter=text, with_row_address=True).to_table().column(0).to_pylist()
    assert [at for at, hit in enumerate(predicate.matches(batch).to_pylist()) if hit] == found
