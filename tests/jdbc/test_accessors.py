"""The typed getters of a result over JDBC."""

import pytest

from tests.jdbc.jvm import Facts, Jvm
from tests.support.sampling import sample

pytestmark = pytest.mark.slow

DAY, CLOCK, MOMENT = "2026-02-28", "01:02:03", "2026-02-28 23:59:59.123"
TEXT = "grün; 'quoted'"
INTEGERS = {"i8": -8, "i16": -16, "i32": -32, "i64": -64, "u8": 200, "u16": 60_000, "u32": 4_000_000_000}
VALUES = {
    "f32 getDouble": 0.5,
    "f64 getDouble": 0.25,
    "f16 getFloat": 0.5,
    "u64 getBigDecimal": "18000000000000000000",
    "u64 getObject(BigDecimal)": "18000000000000000000",
    "dec getDouble": 12.34,
    "dec getLong": 12,
    "i8 getByte": -8,
    "i16 getShort": -16,
    "i32 getInt": -32,
    "flag getBoolean": True,
    "flag getInt": 1,
    "text getBytes": "0x" + TEXT.encode().hex(),
    "text getCharacterStream": "g",
    "blob getBytes": "0x00ff27",
    "blob getBinaryStream": "0x00ff27",
    "uuid getBytes": f"0x{bytes(range(16)).hex()}",
    "d32 getDate": DAY,
    "d32 getTimestamp": f"{DAY} 00:00:00.0",
    "d32 getObject(Date)": DAY,
    "t64us getTime": CLOCK,
    "t64us getObject(Time)": CLOCK,
    "ts_us getTimestamp": MOMENT,
    "ts_us getDate": DAY,
    "ts_us getTime": "23:59:59",
    "ts_us getObject(Timestamp)": MOMENT,
    # Midnight in New York is five in the morning in UTC, where this JVM is.
    "ts_us getTimestamp with Calendar": "2026-03-01 04:59:59.123",
    "tz_us getTimestamp": MOMENT,
    "tz_us getTimestamp as instant": "2026-02-28T23:59:59.123Z",
    "numbers getArray": [1, None, 3],
    "vec getArray": [0.5, 1.0, 2.0, 3.0],
    "vec getArray, its base type": "FLOAT",
    "vec getArray, its rows": 4,
}
# java.time came to the driver after 18.0.
LOCAL = {"ts_us getObject(LocalDateTime)", "tz_us getObject(LocalDateTime)"}


@pytest.fixture(scope="module")
def facts(jvm: Jvm, url: str) -> Facts:
    return jvm.run("Accessors", url)


@pytest.mark.parametrize("column", sample(INTEGERS, 2))
def test_an_integer_is_read_as_any_number(facts: Facts, column: str) -> None:
    number = INTEGERS[column]
    assert facts[f"{column} getLong"] == number
    assert facts[f"{column} getDouble"] == float(number)
    assert int(facts[f"{column} getBigDecimal"]) == number


@pytest.mark.parametrize("getter", VALUES)
def test_a_value_is_read_by_its_getter(facts: Facts, getter: str) -> None:
    assert facts[getter] == VALUES[getter]


@pytest.mark.parametrize("getter", sorted(LOCAL))
def test_a_timestamp_is_a_local_date_time(facts: Facts, jvm: Jvm, getter: str) -> None:
    if jvm.version == "18.0.0":
        assert facts.failure(getter).kind == "java.lang.ClassCastException"
    else:
        assert facts[getter] == "2026-02-28T23:59:59.123"


def test_the_types_of_arrow_are_there_for_who_wants_them(facts: Facts, jvm: Jvm) -> None:
    assert facts["tz_us getTimestamp, types=arrow"] == MOMENT
    if jvm.version != "18.0.0":
        assert facts["tz_us getObject(Instant), types=arrow"] == "2026-02-28T23:59:59.123Z"


def test_why_the_driver_does_not_get_the_types_of_arrow(facts: Facts, jvm: Jvm) -> None:
    assert facts["u8 getObject, types=arrow"] == 200 - 256
    if jvm.version != "18.0.0":
        assert "not implemented" in facts.failure("tz_us getObject(1), types=arrow").text
    assert "Unsupported ArrowType FloatingPoint(HALF)" in facts.failure("f16, types=arrow").text


def test_outside_of_utc_the_driver_shifts_what_has_a_time(jvm: Jvm, url: str) -> None:
    facts = jvm.run("Zones", url, "America/New_York")
    assert facts["getTimestamp"] == "2026-03-01 04:59:59.123"
    assert facts["getTime"] == "20:02:03"
    assert facts["getDate"] == DAY
    # These do not: a calendar in UTC, text, and a local time.
    assert facts["getTimestamp with Calendar"] == MOMENT
    assert facts["getString"] == MOMENT
    if jvm.version != "18.0.0":
        assert facts["getObject(LocalDateTime)"] == "2026-02-28T23:59:59.123"
