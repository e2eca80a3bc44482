"""Prepared statements over JDBC: what each way to bind a parameter finds, and what the driver refuses."""

import pytest

from tests.jdbc.jvm import Facts, Jvm

pytestmark = pytest.mark.slow

# Statements that find nothing or something else, and why; every other binding finds its one row.
OTHERWISE = {
    "u64 setLong": 0,  # 18 is not the value
    "f64 setInt": 0,  # nor is 0
    "i32 setLong": 0,  # 2**32 - 32: sent as a long, it is not cut to -32
    "i64 setDouble": 1,  # the driver cuts -64.5 to -64
    "a vector that is searched for": 4.0,
    "a vector that is sorted by": 2.0,
    "a parameter whose type is open, setString": "x",
    "a number whose type is open, setDouble": 1.5,
    "a number whose type is open, setInt": 2.0,
    "a sum of open types": 3.5,
    "a list of ANY, setArray": 1,
    "a parameter that is cast": 42,
    "LIMIT": 0,
    "IN": 2,
}
REFUSED = {
    "dec setBigDecimal of another scale": "BigDecimal scale must equal that in the Arrow vector",
    "dec setDouble": "DOUBLE is not yet supported for expected Arrow type Decimal",
    "dec setInt": "INTEGER is not yet supported for expected Arrow type Decimal",
    "dec256 setBigDecimal": "Decimal256Vector is not yet supported",
    "i64 setString": "STRING is not yet supported for expected Arrow type Int",
    "text setInt": "INTEGER is not yet supported for expected Arrow type Utf8",
    "ts_us setString": "STRING is not yet supported for expected Arrow type Timestamp",
    "text setCharacterStream": '"typedValue" is null',
    "blob setBinaryStream": '"typedValue" is null',
    "uuid setObject(UUID)": "OBJECT",
    "d32 setObject(LocalDate)": "OBJECT",
    "t64us setObject(LocalTime)": "OBJECT",
    "ts_us setObject(LocalDateTime)": "OBJECT",
    "tz_us setObject(Instant)": "OBJECT",
    "tz_us setObject(OffsetDateTime)": "OBJECT",
    "a parameter whose type is open, setInt": "INTEGER is not yet supported for expected Arrow type Utf8",
    "dur_s setObject(Duration)": "DurationVector is not yet supported",
    "pair setObject(Map)": "StructVector is not yet supported",
    "i64 nothing": '"typedValue" is null',
}
# The driver loses memory with each binding that it refuses.
UNCLEAN = "closing after refused bindings"


@pytest.fixture(scope="module")
def facts(jvm: Jvm, url: str) -> Facts:
    return jvm.run("Parameters", url)


def test_a_bound_value_finds_its_row(facts: Facts) -> None:
    bound = {name: facts[name] for name in facts if name not in REFUSED and name != UNCLEAN}
    expected = {name: 0 if _is_null(name) else 1 for name in bound}
    assert bound == expected | OTHERWISE


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_driver_refuses_never_reaches_the_gateway(facts: Facts, name: str) -> None:
    assert REFUSED[name] in facts.failure(name).text


def test_refused_bindings_spoil_only_the_closing(facts: Facts) -> None:
    assert "Memory was leaked" in facts.failure(UNCLEAN).text


def _is_null(name: str) -> bool:
    return name.endswith((" setNull", "setString(null)", "setObject(null)"))
