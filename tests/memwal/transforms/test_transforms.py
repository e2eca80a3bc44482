"""Region transforms: Lance's own, verified against Lance, and those of the specification."""

import datetime as dt
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import mmh3
import pyarrow as pa
import pytest

from lance_gateway.memwal.base.index_details import RegionField, RegionSpec
from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.memwal.transforms.buckets import BucketHash, MultiBucket, hash_as_lance
from lance_gateway.memwal.transforms.transforms import (
    TRANSFORMS,
    Truncate,
    build_transform,
    compute_region_values,
)
from tests.memwal.transforms.fields import field_of, values

DATES = [dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(1, 1, 1), None]
TIMES = [dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(2024, 2, 29, 5, 6), None]
TEXTS = [
    "",
    *("abcdefghijklmnop"[:length] for length in range(1, 17)),
    "é",
    "aé",
    "日本語テキスト",
    "🦜",
    "a🦜b",
    "x" * 1001,
    None,
]

COLUMNS = {
    "int8": pa.array([0, 1, -1, 127, -128, None], pa.int8()),
    "int16": pa.array([0, 1, -1, 32767, -32768, None], pa.int16()),
    "int32": pa.array([0, 1, 2, 3, -1, 2**31 - 1, -(2**31), None], pa.int32()),
    "int64": pa.array([0, 1, -1, 2**31, 2**63 - 1, -(2**63), None], pa.int64()),
    "uint8": pa.array([0, 255, None], pa.uint8()),
    "uint16": pa.array([0, 65535, None], pa.uint16()),
    "uint32": pa.array([0, 2**31, 2**32 - 1, None], pa.uint32()),
    "uint64": pa.array([0, 2**63, 2**64 - 1, None], pa.uint64()),
    "float32": pa.array([0.0, -0.0, 1.25, float("nan"), float("-inf"), None], pa.float32()),
    "float64": pa.array([0.0, -0.0, 1.25, float("nan"), float("-inf"), None], pa.float64()),
    "bool": pa.array([True, False, None]),
    "utf8": pa.array(TEXTS),
    "large_utf8": pa.array(TEXTS, pa.large_string()),
    "date32": pa.array(DATES, pa.date32()),
    "timestamp": pa.array(TIMES, pa.timestamp("us")),
    "timestamp_zoned": pa.array(TIMES, pa.timestamp("ns", "UTC")),
    "time32": pa.array([0, 1, 86399, None], pa.time32("s")),
    "time64": pa.array([0, 1, 86399000000, None], pa.time64("us")),
}


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Lance's schema of a table with all columns."""
    fields = [pa.field(name, column.type) for name, column in COLUMNS.items()]
    path: Path = tmp_path_factory.mktemp("all_types") / "t.lance"
    return lance.write_dataset(pa.schema(fields).empty_table(), str(path)).lance_schema


class TestAsLanceComputesThem:
    def by_lance(self, schema: Any, name: str, field: RegionField) -> list[object]:
        (source,) = [one.id() for one in schema.fields() if one.name() == name]
        spec = {
            "spec_id": 1,
            "fields": [
                {
                    "field_id": field.field_id,
                    "source_ids": [source],
                    "transform": field.transform,
                    "expression": None,
                    "result_type": field.result_type,
                    "parameters": dict(field.parameters),
                }
            ],
        }
        batch = pa.record_batch({name: COLUMNS[name]})
        return lance.evaluate_sharding_spec(batch, spec, schema).column(0).to_pylist()

    @pytest.mark.parametrize("buckets", [1, 2, 7, 1024])
    @pytest.mark.parametrize("name", COLUMNS)
    def test_bucket(self, schema: Any, name: str, buckets: int):
        field = field_of("bucket", num_buckets=buckets)
        assert values(field, COLUMNS[name]).to_pylist() == self.by_lance(schema, name, field)

    @pytest.mark.parametrize("name", ["bool", "int8", "int32", "int64", "uint64", "utf8", "large_utf8"])
    def test_identity(self, schema: Any, name: str):
        field = field_of("identity", result=str(COLUMNS[name].type))
        assert values(field, COLUMNS[name]).to_pylist() == self.by_lance(schema, name, field)

    def test_slices_hash_like_whole_columns(self):
        for column in (*COLUMNS.values(), *(one.drop_null() for one in COLUMNS.values())):
            whole = values(field_of("bucket", num_buckets=1000), column).to_pylist()
            sliced = values(
                field_of("bucket", num_buckets=1000), column.slice(1, len(column) - 2)
            ).to_pylist()
            assert sliced == whole[1:-1]

    @pytest.mark.parametrize(
        "column",
        [pa.array([b"a"]), pa.array([Decimal(1)]), pa.array([[1]])],
        ids=lambda column: str(column.type),
    )
    def test_types_that_lance_does_not_hash_are_named(self, column: pa.Array):
        with pytest.raises(UnsupportedError, match=r"Values of type .* are not hashed into buckets"):
            values(field_of("bucket", num_buckets=4), column)


class TestBucketsOfTheSpecification:
    def by_definition(self, raw: bytes | None, buckets: int) -> int | None:
        return None if raw is None else abs(mmh3.hash(raw, 0)) % buckets

    def check(self, column: pa.Array, encode: Any) -> None:
        for buckets in (1, 7, 1024):
            got = values(
                field_of("bucket", num_buckets=buckets), column, reading=BucketHash.SPECIFICATION
            ).to_pylist()
            expected = [
                self.by_definition(None if value is None else encode(value), buckets)
                for value in column.to_pylist()
            ]
            assert got == expected

    def test_integers_hash_as_little_endian_bytes(self):
        self.check(COLUMNS["int32"], lambda value: struct.pack("<i", value))
        self.check(COLUMNS["int64"], lambda value: struct.pack("<q", value))
        self.check(COLUMNS["int8"], lambda value: struct.pack("<i", value))

    def test_strings_and_binary_hash_as_their_bytes(self):
        self.check(COLUMNS["utf8"], str.encode)
        self.check(COLUMNS["large_utf8"], str.encode)
        self.check(pa.array([b"", b"\0", b"abcde", None]), bytes)

    def test_dates_hash_as_days(self):
        epoch = dt.date(1970, 1, 1)
        self.check(COLUMNS["date32"], lambda value: struct.pack("<i", (value - epoch).days))

    def test_the_two_readings_agree_on_no_other_strings_than_whole_words(self):
        texts = pa.array(["abcd", "abcdefgh", "abc"])
        theirs, published = (
            values(field_of("bucket", num_buckets=1024), texts, reading=reading).to_pylist()
            for reading in BucketHash
        )
        hashes = [mmh3.hash(text, 0) for text in texts.to_pylist()]
        assert published == [abs(one) % 1024 for one in hashes]
        assert theirs[:2] == [(one & 0x7FFFFFFF) % 1024 for one in hashes[:2]]
        assert theirs[2] != (hashes[2] & 0x7FFFFFFF) % 1024

    def test_the_smallest_hash_has_an_absolute_value(self):
        smallest = -2089875627
        assert mmh3.hash(struct.pack("<i", smallest), 0) == -(2**31)
        self.check(pa.array([smallest], pa.int32()), lambda value: struct.pack("<i", value))


class TestMultiBucket:
    def test_fields_hash_as_their_joined_bytes(self):
        got = values(
            field_of("multi_bucket", num_buckets=16),
            pa.array([1, None, 1, None], pa.int64()),
            pa.array(["é", "é", None, None]),
        )
        one, text = struct.pack("<q", 1), "é".encode()
        assert got.to_pylist() == [*(abs(mmh3.hash(raw)) % 16 for raw in (one + text, text, one)), None]

    @pytest.mark.parametrize("name", COLUMNS)
    def test_one_column_alone_is_bucketed_as_by_bucket(self, name: str):
        multi = values(field_of("multi_bucket", num_buckets=1000), COLUMNS[name])
        single = values(field_of("bucket", num_buckets=1000), COLUMNS[name], reading=BucketHash.SPECIFICATION)
        assert multi == single

    def test_no_column_is_refused(self):
        with pytest.raises(InvalidInputError, match="'multi_bucket' takes one column or more, got none"):
            MultiBucket(4).apply([])

    def test_columns_are_equally_long(self):
        with pytest.raises(ValueError, match="shorter"):
            MultiBucket(4).apply([pa.array([1, 2]), pa.array([1])])


class TestDateParts:
    @pytest.mark.parametrize(
        ("part", "of_dates", "of_times"),
        [
            ("year", [1969, 2024, 1, None], [1969, 2024, None]),
            ("month", [12, 2, 1, None], [12, 2, None]),
            ("day", [31, 29, 1, None], [31, 29, None]),
            ("hour", [0, 0, 0, None], [23, 5, None]),
        ],
    )
    def test_parts_of_dates_and_times(self, part: str, of_dates: list[int], of_times: list[int]):
        assert values(field_of(part), COLUMNS["date32"]) == pa.array(of_dates, pa.int32())
        for unit in ("s", "ms", "us", "ns"):
            assert values(field_of(part), pa.array(TIMES, pa.timestamp(unit))) == pa.array(
                of_times, pa.int32()
            )

    @pytest.mark.parametrize("part", ["year", "month", "day", "hour"])
    def test_they_are_datafusions_date_part(self, part: str):
        expression = field_of(None, expression=f"date_part('{part}', col0)")
        for column in (
            COLUMNS["date32"],
            COLUMNS["timestamp"],
            COLUMNS["timestamp"].cast(pa.timestamp("ms", "America/New_York")),
            pa.array(["2024-02-29", None]),
        ):
            assert values(field_of(part), column) == values(expression, column)

    def test_only_years_keep_the_order_and_not_those_of_local_time(self):
        year, month = build_transform(field_of("year")), build_transform(field_of("month"))
        assert year.preserves_order(pa.date32())
        assert year.preserves_order(pa.timestamp("us", "UTC"))
        assert not year.preserves_order(pa.timestamp("us", "Europe/Berlin"))
        assert not year.preserves_order(pa.string())
        assert not month.preserves_order(pa.date32())


class TestTruncate:
    @pytest.mark.parametrize(
        ("column", "width", "expected"),
        [
            (pa.array([-11, -10, -1, 0, 9, 19, None], pa.int32()), 10, [-10, -10, 0, 0, 0, 10, None]),
            (pa.array([2**63 - 1, -(2**63)], pa.int64()), 1000, [2**63 - 808, -(2**63) + 808]),
            (pa.array([2**64 - 1, 5], pa.uint64()), 10, [2**64 - 6, 0]),
            (pa.array([127, -128], pa.int8()), 1000, [0, 0]),
            (pa.array([-11.5, 19.5, None]), 10, [-10.0, 10.0, None]),
            (pa.array([Decimal("-11.50"), Decimal("19.99")]), 10, [Decimal("-10.00"), Decimal("10.00")]),
            (pa.array(["äöü🦜x", "a", "", None]), 4, ["äöü🦜", "a", "", None]),
            (pa.array(["äöü"], pa.large_string()), 2, ["äö"]),
        ],
        ids=lambda value: str(getattr(value, "type", "")),
    )
    def test_values_keep_their_type(self, column: pa.Array, width: int, expected: list[object]):
        got = values(field_of("truncate", width=width, result=str(column.type)), column)
        assert got.type == column.type
        assert got.to_pylist() == expected

    def test_order_is_kept(self):
        numbers = pa.array(range(-50, 50))
        truncated = Truncate(7).apply([numbers]).to_pylist()
        assert truncated == sorted(truncated)
        assert Truncate(7).preserves_order(pa.string())
        assert not Truncate(7).preserves_order(pa.date32())


class TestMissingColumns:
    @pytest.mark.parametrize(
        ("field", "expected"),
        [
            (field_of("identity"), [None, None]),
            (field_of("year"), [None, None]),
            (field_of("hour"), [None, None]),
            (field_of("truncate", width=3), [None, None]),
            (field_of("multi_bucket", num_buckets=4), [None, None]),
            (field_of("bucket", num_buckets=4), [0, 0]),
            (field_of(None, expression="coalesce(col0, 7)"), [7, 7]),
            (field_of("unsharded"), [0, 0]),
        ],
        ids=lambda value: getattr(value, "transform", "") or getattr(value, "expression", ""),
    )
    def test_a_column_that_the_table_lacks_is_null(self, field: RegionField, expected: list[object]):
        (got,) = compute_region_values(RegionSpec(1, (field,)), {9: pa.array([1, 2])})
        assert got.to_pylist() == expected

    def test_in_the_specifications_reading_its_bucket_is_null_too(self):
        spec = RegionSpec(1, (field_of("bucket", num_buckets=4),))
        (got,) = compute_region_values(spec, {9: pa.array([1, 2])}, BucketHash.SPECIFICATION)
        assert got == pa.nulls(2, pa.int32())


def test_a_spec_of_several_fields_gives_an_array_for_each():
    fields = (
        RegionField("day", (1,), "day", None, "int32"),
        RegionField("bucket", (0,), "bucket", None, "int32", {"num_buckets": "2"}),
        RegionField("all", (), "unsharded", None, "int32"),
    )
    columns = {0: pa.array([1, 2, 3]), 1: pa.array(DATES[:3])}
    day, bucket, unsharded = compute_region_values(RegionSpec(1, fields), columns)
    assert day.to_pylist() == [31, 29, 1]
    assert len(bucket) == 3
    assert unsharded.to_pylist() == [0, 0, 0]


def test_an_unknown_transform_is_named_beside_the_known_ones():
    with pytest.raises(UnsupportedError, match=r"transform 'zorder' .* known transforms are identity, year"):
        build_transform(field_of("zorder"))
    with pytest.raises(UnsupportedError, match="it must have one of the two"):
        build_transform(field_of("identity", expression="col0"))
    assert set(TRANSFORMS) == {
        "identity",
        "year",
        "month",
        "day",
        "hour",
        "bucket",
        "multi_bucket",
        "truncate",
        "unsharded",
    }


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (field_of("bucket"), "num_buckets is None, but must be a number"),
        (field_of("bucket", num_buckets="many"), "num_buckets is 'many'"),
        (field_of("bucket", num_buckets=0), "'bucket': num_buckets is 0, but must be 1 or more"),
        (field_of("multi_bucket", num_buckets=-1), "'multi_bucket': num_buckets is -1"),
        (field_of("multi_bucket", num_buckets=0), "'multi_bucket': num_buckets is 0"),
        (field_of("multi_bucket"), "num_buckets is None"),
        (field_of("truncate", width=0), "'truncate': width is 0"),
        (field_of("truncate"), "width is None"),
    ],
)
def test_a_senseless_parameter_is_named(field: RegionField, message: str):
    with pytest.raises(InvalidInputError, match=message):
        build_transform(field)


@pytest.mark.parametrize("name", ["identity", "year", "month", "day", "hour", "bucket", "truncate"])
@pytest.mark.parametrize("count", [0, 2])
def test_transforms_of_one_column_refuse_others(name: str, count: int):
    transform = build_transform(field_of(name, num_buckets=4, width=4))
    with pytest.raises(InvalidInputError, match=f"'{name}' takes one column, got {count}"):
        transform.apply([pa.array([1])] * count)


@pytest.mark.parametrize(
    ("field", "kept"),
    [
        (field_of("unsharded"), set()),
        (field_of("identity"), set(COLUMNS)),
        (field_of("year"), {"date32", "timestamp", "timestamp_zoned"}),
        (field_of("month"), set()),
        (field_of("day"), set()),
        (field_of("hour"), set()),
        (field_of("bucket", num_buckets=1), set()),
        (field_of("multi_bucket", num_buckets=1), set()),
        (
            field_of("truncate", width=1),
            {one for one in COLUMNS if one.startswith(("int", "uint", "float", "utf8", "large"))},
        ),
        (field_of(None, expression="col0"), set()),
    ],
    ids=lambda value: getattr(value, "transform", "") or "",
)
def test_ranges_of_these_types_have_ranges_of_values(field: RegionField, kept: set[str]):
    transform = build_transform(field)
    assert {name for name, column in COLUMNS.items() if transform.preserves_order(column.type)} == kept
    assert transform.preserves_order(pa.decimal128(9, 2)) == (field.transform in {"identity", "truncate"})


@pytest.mark.parametrize(
    "field", [field_of("bucket", num_buckets=4), field_of("multi_bucket", num_buckets=4)]
)
@pytest.mark.parametrize("reading", list(BucketHash))
def test_buckets_are_of_32_bits(field: RegionField, reading: BucketHash):
    for column in (COLUMNS["int64"], COLUMNS["utf8"], pa.nulls(2)):
        assert values(field, column, reading=reading).type == pa.int32()


def test_parts_are_of_32_bits_and_zeros_too():
    for column in (COLUMNS["date32"], COLUMNS["timestamp"], pa.array(["2024-02-29"]), pa.nulls(2)):
        assert values(field_of("year"), column).type == pa.int32()
    everything = build_transform(field_of("unsharded"))
    for given, rows, expected in (([COLUMNS["bool"]], 9, 3), ([], 9, 9), ([], 0, 0), ([], None, 1)):
        assert everything.apply(given, rows=rows) == pa.array([0] * expected, pa.int32())


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_a_number_by_itself_hashes_as_it_does_among_others(kind: str):
    data_type = getattr(pa, kind)()
    lowest = 0 if kind.startswith("u") else -(1 << data_type.bit_width - 1)
    column = pa.array([lowest, lowest + (1 << data_type.bit_width) - 1, 0, 1, 77, None], data_type)
    assert [hash_as_lance(column.slice(at, 1))[0] for at in range(6)] == hash_as_lance(column).tolist()


def test_keys_spread_evenly():
    column = pa.array([f"key-{at}" for at in range(50_000)])
    counts = values(field_of("bucket", num_buckets=16), column).value_counts().field("counts")
    assert min(counts.to_pylist()) > 2500
