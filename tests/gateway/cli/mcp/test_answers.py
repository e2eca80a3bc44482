"""What models read of a result: exact values, cut where they are long."""

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.gateway.cli.mcp.answers import AnswerLimits, format_rows
from lance_gateway.gateway.cli.mcp.server import Search
from lance_gateway.gateway.protocol.json_values import to_json_value
from lance_gateway.memwal.errors import InvalidInputError

AMPLE = AnswerLimits(1000, 100_000)
NOON = dt.datetime(2026, 2, 28, 12, 0, 0, 5)
MAP = pa.map_(pa.string(), pa.int8())


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (None, pa.int64(), None),
        (9007199254740993, pa.int64(), 9007199254740993),
        (True, pa.bool_(), True),
        (0.1, pa.float32(), 0.1),
        (1e308, pa.float64(), 1e308),
        (float("nan"), pa.float64(), "nan"),
        (float("-inf"), pa.float32(), "-inf"),
        (Decimal("1.50"), pa.decimal128(10, 2), "1.50"),
        (Decimal("0E-10"), pa.decimal128(20, 10), "0.0000000000"),
        ("NULL", pa.string(), "NULL"),
        ("ü" * 1001, pa.large_string(), "ü" * 1000 + "... (1,001 characters)"),
        (b"\x00\xff", pa.binary(), "0x00ff"),
        (b"\x01" * 33, pa.binary(), "0x" + "01" * 32 + "... (33 bytes)"),
        (dt.date(2026, 2, 28), pa.date32(), "2026-02-28"),
        (dt.time(10, 0, 1), pa.time64("ns"), "10:00:01.000000000"),
        (NOON, pa.timestamp("us"), "2026-02-28 12:00:00.000005"),
        (1_772_280_000_000_000_005, pa.timestamp("ns"), "2026-02-28 12:00:00.000000005"),
        (NOON.replace(tzinfo=dt.UTC), pa.timestamp("us", "Europe/Paris"), "2026-02-28 12:00:00.000005Z"),
        (NOON.replace(tzinfo=dt.UTC), pa.timestamp("us", "+00:00"), "2026-02-28 12:00:00.000005Z"),
        (5, pa.duration("ns"), "5 ns"),
        ((1, 2, 3), pa.month_day_nano_interval(), "1 months 2 days 3 ns"),
        ([0.1, None], pa.list_(pa.float32()), [0.1, None]),
        ([0.5] * 768, pa.list_(pa.float32(), 768), [0.5, 0.5, 0.5, 0.5, "... 764 more"]),
        (["a"] * 101, pa.list_(pa.string()), ["a"] * 100 + ["... 1 more"]),
        (
            {"a": [1], "b": None},
            pa.struct({"a": pa.list_(pa.int8()), "b": pa.date32()}),
            {"a": [1], "b": None},
        ),
        ([("k", 1)], MAP, [["k", 1]]),
    ],
)
def test_a_value_is_exact_and_short(value: Any, kind: pa.DataType, shown: object) -> None:
    assert json.loads(json.dumps(to_json_value(pa.scalar(value, kind)), allow_nan=False)) == shown


def test_dictionaries_are_their_values() -> None:
    assert to_json_value(pa.array(["x"]).dictionary_encode()[0]) == "x"


def _endless(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while True:
        yield pa.record_batch([["x" * 9] * 3], schema=schema)


def test_rows_beyond_the_limit_are_not_read_and_the_answer_says_so() -> None:
    schema = pa.schema({"a": pa.string()})
    answer = json.loads(format_rows(schema, _endless(schema), AnswerLimits(4, 100_000)))
    assert answer["rows"] == [{"a": "x" * 9}] * 4
    assert answer["note"].startswith("there are more rows than these 4; ask for fewer")


def test_as_many_rows_are_shown_as_the_bytes_hold() -> None:
    schema = pa.schema({"a": pa.string()})
    answer = json.loads(format_rows(schema, _endless(schema), AnswerLimits(1000, 50)))
    assert len(answer["rows"]) == 50 // len('{"a": "xxxxxxxxx"}')
    assert "all that 50 bytes hold" in answer["note"]


@pytest.mark.parametrize("count", [0, 4])
def test_a_result_that_fits_has_no_note(count: int) -> None:
    rows = pa.table({"a": pa.array(range(count), pa.int64())})
    assert json.loads(format_rows(rows.schema, rows.to_batches(), AnswerLimits(4, 1000))) == {
        "columns": {"a": "int64"},
        "rows": [{"a": at} for at in range(count)],
    }


def test_columns_of_one_name_are_told_apart() -> None:
    rows = pa.table([[1], [2], [3]], names=["a", "a", "a (2)"])
    (row,) = json.loads(format_rows(rows.schema, rows.to_batches(), AMPLE))["rows"]
    assert row == {"a": 1, "a (2)": 2, "a (2) (2)": 3}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "nothing is searched for"),
        ({"text": "x"}, "text and text_column belong together"),
        ({"vector_column": "v"}, "and vector_column belong together"),
        ({"vector": [1.0], "vector_of": "SELECT 1", "vector_column": "v"}, "both vector and vector_of"),
    ],
)
def test_a_search_for_nothing_is_refused(given: dict[str, Any], said: str) -> None:
    names = ("text", "text_column", "vector", "vector_of", "vector_column", "columns", "where")
    with pytest.raises(InvalidInputError, match=said):
        Search("docs", k=1, **dict.fromkeys(names) | given)
