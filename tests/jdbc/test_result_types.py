"""Results over JDBC: a column of every type, its description, its values and its NULL."""

from typing import Any, NamedTuple

import pytest

from tests.jdbc.jvm import Facts, Jvm
from tests.jdbc.lake import TYPES

pytestmark = pytest.mark.slow


class Column(NamedTuple):
    """What ResultSetMetaData says of a column, and getObject and getString of its value."""

    type_name: str
    precision: int
    scale: int
    kind: str
    value: Any
    text: str


ARRAY = "org.apache.arrow.driver.jdbc.ArrowFlightJdbcArray"
DURATION = Column("JAVA_OBJECT", 0, 0, "java.time.Duration", "PT24H2S", "PT24H2S")
MAP = "org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.vector.util.JsonStringHashMap"
TIME = "org.apache.arrow.driver.jdbc.ArrowFlightJdbcTime"
WHOLE_SECOND = "2026-02-28 23:59:59.0"
MILLISECOND = "2026-02-28 23:59:59.123"
LARGE = "12345678901234567890123456789012345678901.345"

COLUMNS = {
    "flag": Column("BOOLEAN", 1, 0, "java.lang.Boolean", True, "true"),
    "i8": Column("TINYINT", 3, 0, "java.lang.Byte", -8, "-8"),
    "i16": Column("SMALLINT", 5, 0, "java.lang.Short", -16, "-16"),
    "i32": Column("INTEGER", 10, 0, "java.lang.Integer", -32, "-32"),
    "i64": Column("BIGINT", 19, 0, "java.lang.Long", -64, "-64"),
    # Unsigned integers arrive as the next wider type, in which no value is negative.
    "u8": Column("SMALLINT", 5, 0, "java.lang.Short", 200, "200"),
    "u16": Column("INTEGER", 10, 0, "java.lang.Integer", 60_000, "60000"),
    "u32": Column("BIGINT", 19, 0, "java.lang.Long", 4_000_000_000, "4000000000"),
    "u64": Column("DECIMAL", 20, 0, "java.math.BigDecimal", "18000000000000000000", "18000000000000000000"),
    "f16": Column("FLOAT", 7, 0, "java.lang.Double", 0.5, "0.5"),
    "f32": Column("FLOAT", 7, 0, "java.lang.Double", 0.5, "0.5"),
    "f64": Column("DOUBLE", 15, 0, "java.lang.Double", 0.25, "0.25"),
    "dec": Column("DECIMAL", 12, 2, "java.math.BigDecimal", "12.34", "12.34"),
    "dec256": Column("DECIMAL", 50, 3, "java.math.BigDecimal", LARGE, LARGE),
    "text": Column("VARCHAR", 0, 0, "java.lang.String", "grün; 'quoted'", "grün; 'quoted'"),
    "ltext": Column("LONGVARCHAR", 0, 0, "java.lang.String", "large", "large"),
    "code": Column("VARCHAR", 0, 0, "java.lang.String", "d", "d"),
    "blob": Column("VARBINARY", 0, 0, "[B", "0x00ff27", "\x00\ufffd'"),
    "lblob": Column("LONGVARBINARY", 0, 0, "[B", "0x0102", "\x01\x02"),
    "uuid": Column("BINARY", 0, 0, "[B", f"0x{bytes(range(16)).hex()}", bytes(range(16)).decode()),
    "d32": Column("DATE", 10, 0, "java.sql.Date", "2026-02-28", "2026-02-28"),
    "d64": Column("DATE", 10, 0, "java.sql.Date", "2026-02-28", "2026-02-28"),
    "t32s": Column("TIME", 8, 0, TIME, "01:02:03", "01:02:03"),
    "t32ms": Column("TIME", 12, 3, TIME, "01:02:03", "01:02:03"),
    "t64us": Column("TIME", 15, 6, TIME, "01:02:03", "01:02:03"),
    "t64ns": Column("TIME", 18, 9, TIME, "01:02:03", "01:02:03"),
    "ts_s": Column("TIMESTAMP", 19, 0, "java.sql.Timestamp", WHOLE_SECOND, WHOLE_SECOND),
    "ts_ms": Column("TIMESTAMP", 23, 3, "java.sql.Timestamp", MILLISECOND, MILLISECOND),
    "ts_us": Column("TIMESTAMP", 26, 6, "java.sql.Timestamp", MILLISECOND, MILLISECOND),
    "ts_ns": Column("TIMESTAMP", 29, 9, "java.sql.Timestamp", MILLISECOND, MILLISECOND),
    # Timestamps with zone arrive in UTC.
    "tz_s": Column("TIMESTAMP", 19, 0, "java.sql.Timestamp", WHOLE_SECOND, WHOLE_SECOND),
    "tz_ms": Column("TIMESTAMP", 23, 3, "java.sql.Timestamp", MILLISECOND, MILLISECOND),
    "tz_us": Column("TIMESTAMP", 26, 6, "java.sql.Timestamp", MILLISECOND, MILLISECOND),
    "tz_ns": Column("TIMESTAMP", 29, 9, "java.sql.Timestamp", MILLISECOND, MILLISECOND),
    "tz_berlin": Column("TIMESTAMP", 26, 6, "java.sql.Timestamp", WHOLE_SECOND, WHOLE_SECOND),
    "dur_s": DURATION,
    "dur_ms": DURATION,
    "dur_us": DURATION,
    "dur_ns": DURATION,
    "numbers": Column("ARRAY", 0, 0, ARRAY, [1, None, 3], "[1,null,3]"),
    "lnumbers": Column("ARRAY", 0, 0, ARRAY, [1, None, 3], "[1,null,3]"),
    "words": Column("ARRAY", 0, 0, ARRAY, ["a", "b"], '["a","b"]'),
    "vec": Column("ARRAY", 0, 0, ARRAY, [0.5, 1.0, 2.0, 3.0], "[0.5,1.0,2.0,3.0]"),
    "vec16": Column("ARRAY", 0, 0, ARRAY, [0.5, 1.0, 2.0, 3.0], "[0.5,1.0,2.0,3.0]"),
    "pair": Column("JAVA_OBJECT", 0, 0, MAP, {"a": 1, "b": "x"}, '{"a":1,"b":"x"}'),
    "pairs": Column("ARRAY", 0, 0, ARRAY, [{"a": 200}], '[{"a":200}]'),
    "tags": Column("JAVA_OBJECT", 0, 0, MAP, {"k": 1}, '{"k":1}'),
}
# Expressions of types that tables cannot have.
EXPRESSIONS = {
    "INTERVAL '1' DAY + INTERVAL '2' HOUR": ("JAVA_OBJECT", "P1DT2H"),
    "INTERVAL '1' MONTH": ("JAVA_OBJECT", "P1M"),
    "TIMESTAMP '2026-03-01' - TIMESTAMP '2026-02-01'": ("JAVA_OBJECT", "PT672H"),
    "TIMESTAMP '2026-01-01 12:00:00.123456789'": ("TIMESTAMP", "2026-01-01 12:00:00.123456789"),
    "NULL": ("NULL", None),
    "CAST('NaN' AS DOUBLE)": ("DOUBLE", "NaN"),
    "18446744073709551615": ("DECIMAL", "18446744073709551615"),
    "arrow_cast('x', 'Utf8View')": ("VARCHAR", "x"),
    "arrow_cast('x', 'Dictionary(Int32, Utf8)')": ("VARCHAR", "x"),
    "arrow_cast(1.5, 'Decimal32(4, 1)')": ("DECIMAL", "1.5"),
    "make_array(arrow_cast(200, 'UInt8'))": ("ARRAY", "[200]"),
    "struct(1, 'x')": ("JAVA_OBJECT", '{"c0":1,"c1":"x"}'),
    "make_array(make_array(1, 2), make_array())": ("ARRAY", "[[1,2],[]]"),
    "arrow_cast(make_array(1, 2), 'ListView(Int64)')": ("ARRAY", "[1,2]"),
    "MAP {'a': make_array(1)}": ("JAVA_OBJECT", '{"a":[1]}'),
    "make_array(arrow_cast(1.5, 'Float16'))": ("ARRAY", "[1.5]"),
    # Inside of lists and structs the driver tells dates as days since 1970.
    "make_array(DATE '2026-01-01', NULL)": ("ARRAY", "[20454,null]"),
    "DATE '0001-01-01'": ("DATE", "0001-01-01"),
    "DATE '9999-12-31'": ("DATE", "9999-12-31"),
    "TIMESTAMP '1969-12-31 23:59:59.5'": ("TIMESTAMP", "1969-12-31 23:59:59.5"),
    "TIMESTAMP '2026-01-01T12:00:00+02:00'": ("TIMESTAMP", "2026-01-01 10:00:00.0"),
    "TIME '23:59:59.999999'": ("TIME", "23:59:59.999"),
    "CAST(-12.34 AS DECIMAL(12, 2))": ("DECIMAL", "-12.34"),
    "CAST(0.00001 AS DECIMAL(38, 10))": ("DECIMAL", "0.0000100000"),
    "-9223372036854775808": ("BIGINT", "-9223372036854775808"),
    "CAST('inf' AS DOUBLE)": ("DOUBLE", "Infinity"),
}


@pytest.fixture(scope="module")
def types(jvm: Jvm, url: str) -> Facts:
    return jvm.run("ResultTypes", url, "SELECT * FROM types ORDER BY id")


def test_every_type_of_a_table_is_expected() -> None:
    assert list(COLUMNS) == list(TYPES)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_described_and_read(types: Facts, name: str) -> None:
    column = types[f"column {name}"]
    assert (
        Column(
            column["type_name"],
            column["precision"],
            column["scale"],
            types[f"class {name} 1"],
            types[f"object {name} 1"],
            types[f"text {name} 1"],
        )
        == COLUMNS[name]
    )
    assert (column["name"], column["label"]) == (name, name)


@pytest.mark.parametrize("name", COLUMNS)
def test_null_is_read_as_null(types: Facts, name: str) -> None:
    assert (types[f"object {name} 2"], types[f"text {name} 2"]) == (None, None)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_is_described_and_read(jvm: Jvm, url: str, expression: str) -> None:
    facts = jvm.run("ResultTypes", url, f"SELECT {expression} AS v")
    assert (facts["column v"]["type_name"], facts["text v 1"]) == EXPRESSIONS[expression]
