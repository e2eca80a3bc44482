"""Where implementations of a transform agree, and what they compute where they do not."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_gateway.memwal.base.index_details import RegionField
from lance_gateway.memwal.transforms.agreement import is_trusted, list_reading_types, list_readings
from lance_gateway.memwal.transforms.buckets import Bucket, MultiBucket
from lance_gateway.memwal.transforms.transforms import DatePart, Expression, Identity, Truncate, Unsharded

PARTS = ("year", "month", "day", "hour")
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
EPOCH = dt.date(1970, 1, 1)
DAY = 86_400
FIRST = (dt.date(1, 1, 2) - EPOCH).days * DAY
END = (dt.date(9999, 12, 30) - EPOCH).days * DAY
IN_A_ZONE = ("Europe/Berlin", "America/New_York")
PLAIN_ZONES = (None, "UTC", "+05:30", "-11:00")


def timestamp(value: int, unit: str, zone: str | None = None) -> pa.Scalar:
    return pa.scalar(value, pa.int64()).cast(pa.timestamp(unit, zone))


def is_certain(transform: object, *row: pa.Scalar) -> bool:
    found = list_readings(transform, row)  # type: ignore[arg-type]
    assert found in (None, (row,))
    return found is not None


class TestParts:
    @pytest.mark.parametrize("part", PARTS)
    @pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
    def test_of_dates_are_certain_but_at_the_ends(self, part: str, kind: pa.DataType) -> None:
        for date, certain in (
            (dt.date(1, 1, 1), False),
            (dt.date(1, 1, 2), True),
            (dt.date(1969, 12, 31), True),
            (EPOCH, True),
            (dt.date(9999, 12, 29), True),
            (dt.date(9999, 12, 30), False),
        ):
            assert is_certain(DatePart(part), pa.scalar(date, kind)) is certain, date

    @pytest.mark.parametrize("part", PARTS)
    @pytest.mark.parametrize("zone", PLAIN_ZONES)
    @pytest.mark.parametrize("unit", ["s", "ms", "us"])
    def test_of_instants_at_an_offset_are_too(self, part: str, zone: str | None, unit: str) -> None:
        for seconds, certain in ((FIRST - 1, False), (FIRST, True), (0, True), (END - 1, True), (END, False)):
            value = timestamp(seconds * UNITS[unit], unit, zone)
            assert is_certain(DatePart(part), value) is certain, seconds
        assert is_certain(DatePart(part), timestamp(END * UNITS[unit] - 1, unit, zone))
        assert not is_certain(DatePart(part), timestamp(FIRST * UNITS[unit] - 1, unit, zone))

    def test_of_all_nanoseconds_are(self) -> None:
        for value in (-(2**63) + 1, 0, 2**63 - 1):
            assert is_certain(DatePart("day"), timestamp(value, "ns"))

    @pytest.mark.parametrize("part", ["year", "month", "day"])
    @given(
        seconds=st.integers(-(10**9), 10**9),
        unit=st.sampled_from(sorted(UNITS)),
        zone=st.sampled_from(IN_A_ZONE),
    )
    def test_in_a_named_zone_are_those_at_any_offset(
        self, part: str, seconds: int, unit: str, zone: str
    ) -> None:
        found = list_readings(DatePart(part), (timestamp(seconds * UNITS[unit], unit, zone),))
        assert found is not None
        assert all(one.type == pa.timestamp(unit, "UTC") for (one,) in found)
        instants = [one.value for (one,) in found]
        assert instants == [(seconds + by * 3600) * UNITS[unit] for by in (-16, 0, 16)]

    def test_in_a_named_zone_are_unknown_where_offsets_leave_the_type(self) -> None:
        span = 16 * 3600 * 10**9
        for value, known in (
            (2**63 - 1 - span, True),
            (2**63 - span, False),
            (-(2**63) + span, True),
            (-(2**63) + span - 1, False),
        ):
            found = list_readings(DatePart("day"), (timestamp(value, "ns", "Europe/Berlin"),))
            assert (found is not None) is known

    def test_hours_in_a_named_zone_are_unknown(self) -> None:
        assert list_readings(DatePart("hour"), (timestamp(0, "s", "Europe/Berlin"),)) is None

    def test_of_null_are_null(self) -> None:
        for kind in (pa.date32(), pa.timestamp("us", "Europe/Berlin"), pa.string()):
            for part in PARTS:
                ((value,),) = list_readings(DatePart(part), (pa.scalar(None, kind),)) or ()
                assert not value.is_valid
                assert value.type == kind

    def test_of_other_types_are_unknown(self) -> None:
        assert list_readings(DatePart("year"), (pa.scalar("2024-02-29"),)) is None
        assert list_readings(DatePart("hour"), (pa.scalar(1, pa.time32("s")),)) is None

    def test_types_follow_the_rows(self) -> None:
        local = pa.timestamp("ms", "Europe/Berlin")
        assert list_reading_types(DatePart("day"), (local,)) == (pa.timestamp("ms", "UTC"),)
        assert list_reading_types(Identity(), (local,)) == (local,)
        assert list_reading_types(DatePart("day"), (local, local)) == (local, local)
        for kind in (
            pa.date32(),
            pa.timestamp("us"),
            pa.timestamp("us", "UTC"),
            pa.timestamp("us", "+01:00"),
        ):
            assert list_reading_types(DatePart("day"), (kind,)) == (kind,)


class TestTruncatedValues:
    @pytest.mark.parametrize(
        ("value", "certain"),
        [
            (pa.scalar(0, pa.int32()), True),
            (pa.scalar(-1, pa.int32()), False),
            (pa.scalar(2**63 - 1, pa.int64()), True),
            (pa.scalar(2**63, pa.uint64()), False),
            (pa.scalar("ascii"), True),
            (pa.scalar("ascii", pa.large_string()), True),
            (pa.scalar("é"), False),
            (pa.scalar(None, pa.int32()), True),
            (pa.scalar(None, pa.float64()), True),
            (pa.scalar(1.5), False),
            (pa.scalar(Decimal("1.5")), False),
            (pa.scalar(b"ascii"), False),
        ],
    )
    def test_are_certain_for_natural_numbers_and_ascii(self, value: pa.Scalar, *, certain: bool) -> None:
        assert is_certain(Truncate(2), value) is certain


class TestExpressions:
    expression = Expression("col0", pa.int64())
    plain = (
        pa.scalar(-1, pa.int8()),
        pa.scalar(True),
        pa.scalar(EPOCH),
        pa.scalar("ascii"),
        pa.scalar("ascii", pa.large_string()),
        pa.scalar(None, pa.timestamp("us")),
    )

    def test_are_certain_over_plain_values(self) -> None:
        for value in self.plain:
            assert is_certain(self.expression, value)
        assert is_certain(self.expression, *self.plain)
        assert is_certain(self.expression)

    def test_are_unknown_if_one_value_is_not_plain(self) -> None:
        for value in (pa.scalar("é"), pa.scalar(1.5), timestamp(0, "us"), pa.scalar(b"x")):
            assert not is_certain(self.expression, value)
            assert not is_certain(self.expression, *self.plain, value)
            assert not is_certain(self.expression, value, *self.plain)


def test_other_transforms_are_certain() -> None:
    for transform in (Unsharded(), Identity(), Bucket(3), MultiBucket(3)):
        for value in (pa.scalar("é"), pa.scalar(-1.5), timestamp(2**62, "s", "Europe/Berlin")):
            assert is_certain(transform, value)


def test_years_that_do_not_fit_a_calendar_are_not_trusted() -> None:
    year = RegionField("f", (0,), "year", None, "int32")
    assert [value for value in (0, 1, 9999, 10_000, -1, None) if is_trusted(year, value)] == [1, 9999]
    assert is_trusted(RegionField("f", (0,), "month", None, "int32"), 0)
    assert is_trusted(RegionField("f", (0,), None, "col0", "int32"), -5)
