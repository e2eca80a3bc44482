"""What there is to call: operators and functions, of which families, and how DuckDB spells them.

`{}` stands for an argument. What the engines mean differently is left out or has no DuckDB spelling.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.fuzz.sql.grammar.kinds import Family
from tests.fuzz.sql.grammar.tree import Expression, Node, Spelled

INTEGER, FLOAT, DECIMAL, TEXT, TRUTH = (
    Family.INTEGER,
    Family.FLOAT,
    Family.DECIMAL,
    Family.TEXT,
    Family.TRUTH,
)
DATE, MOMENT, INSTANT, CLOCK, BYTES, JSON = (
    Family.DATE,
    Family.MOMENT,
    Family.INSTANT,
    Family.CLOCK,
    Family.BYTES,
    Family.JSON,
)
_WRITTEN = (INTEGER, TEXT, TRUTH, DATE)
"""Families that all engines write as the same JSON."""
_SAME = "the same"
_UNKNOWN = "not agreed"


@dataclass(frozen=True, slots=True)
class Call:
    """A template of an expression.

    Attributes:
        arguments: Their families.
        inexact: Whether the last digits depend on the order of rows.
        widened: Whether columns are cast to the family's own type, so that narrow ones neither overflow nor
            differ in their last digits, and without infinities, whose differences the engines sort unalike.
        of_columns: Whether constants are no arguments.
    """

    family: Family
    pieces: tuple[str | Node, ...]
    arguments: tuple[Family, ...]
    inexact: bool = False
    widened: bool = False
    of_columns: bool = False

    def of(self, arguments: Sequence[Expression]) -> Expression:
        """The call with these arguments."""
        parts: list[str | Node] = []
        for number, piece in enumerate(self.pieces):
            if piece != "":
                parts.append(piece)
            if number < len(arguments):
                parts.append(arguments[number])
        return Expression(self.family, tuple(parts), self.inexact)


def call(
    family: Family,
    native: str,
    *arguments: Family,
    duck: str = _SAME,
    inexact: bool = False,
    widened: bool = False,
    is_own: bool = False,
) -> Call:
    """A template from its text; DataFusion by itself does not know one that is the gateway's own."""
    ours = native.split("{}")
    theirs = ours if duck is _SAME else duck.split("{}")
    assert len(ours) == len(arguments) + 1, native
    pieces: list[str | Node]
    if duck is _UNKNOWN:
        pieces = [Spelled(ours[0] or " ", None), *ours[1:]]
    else:
        pieces = [one if one == two else Spelled(one, two) for one, two in zip(ours, theirs, strict=True)]
    if is_own:
        pieces[0] = Spelled(ours[0], None if duck is _UNKNOWN else theirs[0], is_own=True)
    # Of a constant, DataFusion 55 counts one where there are no rows.
    return Call(family, tuple(pieces), arguments, inexact, widened, of_columns="DISTINCT {}" in native)


JSON_CALLS: tuple[Call, ...] = (
    *(
        call(TEXT, "(to_json({}) || '')", one, duck="CAST(to_json({}) AS VARCHAR)", is_own=True)
        for one in _WRITTEN
    ),
    call(
        TEXT,
        "(json_array({}, {} NULL ON NULL) || '')",
        INTEGER,
        TEXT,
        duck="CAST(json_array({}, {}) AS VARCHAR)",
        is_own=True,
    ),
    call(
        TEXT,
        "(json_object('k': {}, 'l': {}) || '')",
        TEXT,
        TRUTH,
        duck="CAST(json_object('k', {}, 'l', {}) AS VARCHAR)",
        is_own=True,
    ),
)
"""Texts of JSON, which policies do not take."""
SCALAR_CALLS: Mapping[Family, tuple[Call, ...]] = {
    INTEGER: (
        call(INTEGER, "({} + {})", INTEGER, INTEGER, widened=True),
        call(INTEGER, "({} - {})", INTEGER, INTEGER, widened=True),
        call(INTEGER, "({} * {})", INTEGER, INTEGER, widened=True),
        call(INTEGER, "({} / nullif({}, 0))", INTEGER, INTEGER, duck="({} // nullif({}, 0))", widened=True),
        call(INTEGER, "({} % nullif({}, 0))", INTEGER, INTEGER, widened=True),
        call(INTEGER, "({} % 7)", INTEGER, widened=True),
        call(INTEGER, "(0 - {})", INTEGER, widened=True),
        call(INTEGER, "abs({})", INTEGER, widened=True),
        call(INTEGER, "coalesce({}, {})", INTEGER, INTEGER, widened=True),
        call(INTEGER, "nullif({}, {})", INTEGER, INTEGER, widened=True),
        call(INTEGER, "greatest({}, {})", INTEGER, INTEGER, widened=True),
        call(INTEGER, "least({}, {})", INTEGER, INTEGER, widened=True),
        call(INTEGER, "CASE WHEN {} THEN {} ELSE {} END", TRUTH, INTEGER, INTEGER, widened=True),
        call(INTEGER, "CASE WHEN {} THEN {} END", TRUTH, INTEGER, widened=True),
        call(INTEGER, "if({}, {}, {})", TRUTH, INTEGER, INTEGER, widened=True, is_own=True),
        call(INTEGER, "mod({}, 7)", INTEGER, widened=True, is_own=True),
        call(INTEGER, "CASE {} WHEN {} THEN {} ELSE {} END", TEXT, TEXT, INTEGER, INTEGER, widened=True),
        call(INTEGER, "CAST({} AS BIGINT)", INTEGER),
        call(INTEGER, "CAST({} AS BIGINT)", TRUTH),
        call(INTEGER, "character_length({})", TEXT, duck="length({})"),
        call(INTEGER, "strpos({}, {})", TEXT, TEXT),
        call(INTEGER, "ascii({})", TEXT),
        call(INTEGER, "EXTRACT(YEAR FROM {})", DATE),
        call(INTEGER, "EXTRACT(MONTH FROM {})", MOMENT),
        call(INTEGER, "EXTRACT(DAY FROM {})", DATE),
        call(INTEGER, "EXTRACT(HOUR FROM {})", MOMENT),
        call(INTEGER, "year({})", DATE, is_own=True),
        call(INTEGER, "date_diff('month', {}, {})", DATE, DATE, is_own=True),
        call(INTEGER, "TRY_CAST({} AS BIGINT)", TEXT, duck=_UNKNOWN),
        call(
            INTEGER, "json_array_length({})", JSON, duck="CAST(json_array_length({}) AS BIGINT)", is_own=True
        ),
        call(INTEGER, "TRY_CAST(({} ->> 'a') AS BIGINT)", JSON, is_own=True),
    ),
    FLOAT: (
        call(FLOAT, "({} + {})", FLOAT, FLOAT, widened=True),
        call(FLOAT, "({} - {})", FLOAT, FLOAT, widened=True),
        # No negative zero, which DataFusion tells from zero.
        call(FLOAT, "({} * {} + 0.0e0)", FLOAT, FLOAT, widened=True),
        call(FLOAT, "abs({})", FLOAT),
        call(FLOAT, "coalesce({}, {})", FLOAT, FLOAT),
        call(FLOAT, "nullif({}, {})", FLOAT, FLOAT),
        call(FLOAT, "CASE WHEN {} THEN {} ELSE {} END", TRUTH, FLOAT, FLOAT),
        call(FLOAT, "CAST({} AS DOUBLE)", INTEGER),
        call(FLOAT, "CAST({} AS DOUBLE)", DECIMAL),
        call(FLOAT, "floor({})", FLOAT, widened=True),
        call(FLOAT, "sqrt(abs(CAST({} AS DOUBLE)))", FLOAT, widened=True),
    ),
    DECIMAL: (
        call(DECIMAL, "({} + {})", DECIMAL, DECIMAL),
        call(DECIMAL, "({} - {})", DECIMAL, DECIMAL),
        # Not `- x`, which DataFusion 55 fails to fold where x is NULL.
        call(DECIMAL, "(CAST(0 AS DECIMAL(10, 2)) - {})", DECIMAL),
        call(DECIMAL, "coalesce({}, {})", DECIMAL, DECIMAL),
        call(DECIMAL, "CASE WHEN {} THEN {} END", TRUTH, DECIMAL),
        call(DECIMAL, "abs({})", DECIMAL),
    ),
    TEXT: (
        call(TEXT, "lower({})", TEXT),
        call(TEXT, "upper({})", TEXT),
        call(TEXT, "({} || {})", TEXT, TEXT),
        call(TEXT, "concat({}, {})", TEXT, TEXT),
        call(TEXT, "substr({}, 2)", TEXT),
        call(TEXT, "substr({}, 1, 2)", TEXT),
        call(TEXT, "left({}, 1)", TEXT),
        call(TEXT, "trim({})", TEXT),
        call(TEXT, "replace({}, 'a', 'xy')", TEXT),
        call(TEXT, "reverse({})", TEXT),
        call(TEXT, "coalesce({}, {})", TEXT, TEXT),
        call(TEXT, "nullif({}, {})", TEXT, TEXT),
        call(TEXT, "CASE WHEN {} THEN {} ELSE {} END", TRUTH, TEXT, TEXT),
        call(TEXT, "CAST({} AS VARCHAR)", INTEGER),
        # As text, a date of milliseconds has a time.
        call(TEXT, "CAST(CAST({} AS DATE) AS VARCHAR)", DATE),
        call(TEXT, "CAST({} AS VARCHAR)", TRUTH),
        call(TEXT, "CAST({} AS VARCHAR)", FLOAT, duck=_UNKNOWN),
        call(TEXT, "regexp_replace({}, '[ab]', 'z')", TEXT),
        call(TEXT, "regexp_extract({}, '[ab]+')", TEXT, is_own=True),
        call(TEXT, "to_char({}, 'YYYY-FMMonth')", DATE, duck="strftime({}, '%Y-%B')", is_own=True),
        call(TEXT, "encode({}, 'hex')", BYTES, duck="lower(hex({}))"),
        call(TEXT, "({} ->> 'b')", JSON, is_own=True),
        call(TEXT, "(({} -> 'a') ->> 'a')", JSON, is_own=True),
        call(TEXT, "json_extract_string({}, '$.b[#-1].a')", JSON, is_own=True),
        call(
            TEXT,
            "json_extract({}, '$.b')",
            JSON,
            duck="CAST(json_extract({}, '$.b') AS VARCHAR)",
            is_own=True,
        ),
        call(TEXT, "json_type({})", JSON, is_own=True),
    ),
    TRUTH: (
        *(call(TRUTH, f"({{}} {one} {{}})", INTEGER, INTEGER) for one in ("=", "<>", "<", "<=", ">", ">=")),
        *(call(TRUTH, f"({{}} {one} {{}})", TEXT, TEXT) for one in ("=", "<>", "<", ">=")),
        *(call(TRUTH, f"({{}} {one} {{}})", FLOAT, FLOAT) for one in ("=", "<", ">=")),
        *(call(TRUTH, f"({{}} {one} {{}})", DECIMAL, DECIMAL) for one in ("=", "<", ">=")),
        *(call(TRUTH, f"({{}} {one} {{}})", DATE, DATE) for one in ("=", "<", ">=")),
        *(call(TRUTH, f"({{}} {one} {{}})", MOMENT, MOMENT) for one in ("=", "<", ">=")),
        *(call(TRUTH, f"({{}} {one} {{}})", INSTANT, INSTANT) for one in ("=", ">")),
        *(call(TRUTH, f"({{}} {one} {{}})", CLOCK, CLOCK) for one in ("=", "<")),
        *(call(TRUTH, f"({{}} {one} {{}})", BYTES, BYTES) for one in ("=", "<")),
        call(TRUTH, "({} = {})", JSON, JSON),
        call(TRUTH, "(({} ->> 'b') = {})", JSON, TEXT, is_own=True),
        call(TRUTH, "(({} -> 'a') IS NULL)", JSON, is_own=True),
        call(TRUTH, "json_valid({})", JSON, is_own=True),
        call(TRUTH, "({} = {})", TRUTH, TRUTH),
        call(TRUTH, "({} > {})", INTEGER, FLOAT),
        call(TRUTH, "({} <= {})", INTEGER, DECIMAL),
        call(TRUTH, "({} < {})", DATE, MOMENT),
        call(TRUTH, "({} AND {})", TRUTH, TRUTH),
        call(TRUTH, "({} AND {})", TRUTH, TRUTH),
        call(TRUTH, "({} OR {})", TRUTH, TRUTH),
        call(TRUTH, "({} OR {})", TRUTH, TRUTH),
        call(TRUTH, "(NOT {})", TRUTH),
        call(TRUTH, "({} IS NULL)", INTEGER),
        call(TRUTH, "({} IS NOT NULL)", INTEGER),
        call(TRUTH, "({} IS NULL)", TEXT),
        call(TRUTH, "({} IS NULL)", TRUTH),
        call(TRUTH, "({} IS TRUE)", TRUTH),
        call(TRUTH, "({} IS NOT FALSE)", TRUTH),
        call(TRUTH, "({} IS DISTINCT FROM {})", INTEGER, INTEGER),
        call(TRUTH, "({} IS NOT DISTINCT FROM {})", TEXT, TEXT),
        call(TRUTH, "({} BETWEEN {} AND {})", INTEGER, INTEGER, INTEGER),
        call(TRUTH, "({} NOT BETWEEN {} AND {})", DATE, DATE, DATE),
        call(
            TRUTH, "({} BETWEEN SYMMETRIC {} AND {})", INTEGER, INTEGER, INTEGER, duck=_UNKNOWN, is_own=True
        ),
        # A constant comes first: what begins with a scalar subquery is not a list for DataFusion's parser.
        call(TRUTH, "({} IN (7, {}, {}, {}))", INTEGER, INTEGER, INTEGER, INTEGER),
        call(TRUTH, "({} IN (NULL, {}))", INTEGER, INTEGER),
        call(TRUTH, "({} NOT IN ('b', {}, {}))", TEXT, TEXT, TEXT),
        call(TRUTH, "({} NOT IN (NULL, {}))", INTEGER, INTEGER),
        call(TRUTH, "({} LIKE 'a%')", TEXT),
        call(TRUTH, "({} NOT LIKE '%b')", TEXT),
        call(TRUTH, "({} LIKE '_')", TEXT),
        call(TRUTH, "({} LIKE {})", TEXT, TEXT),
        call(TRUTH, "({} ILIKE 'A%')", TEXT),
        call(TRUTH, "starts_with({}, {})", TEXT, TEXT, duck=_UNKNOWN),
        call(TRUTH, "coalesce({}, {})", TRUTH, TRUTH),
        call(TRUTH, "CASE WHEN {} THEN {} ELSE {} END", TRUTH, TRUTH, TRUTH),
        call(TRUTH, "(({} % 2) = 0)", INTEGER, widened=True),
        call(TRUTH, "(({} = {}) AND ({} > {}))", INTEGER, INTEGER, INTEGER, INTEGER),
    ),
    DATE: (
        call(DATE, "coalesce({}, {})", DATE, DATE),
        call(DATE, "CAST({} AS DATE)", MOMENT),
        call(DATE, "CASE WHEN {} THEN {} END", TRUTH, DATE),
        call(DATE, "CAST(({} + INTERVAL '1 day') AS DATE)", DATE),
        call(DATE, "CAST(({} - INTERVAL '1 month') AS DATE)", DATE),
    ),
    MOMENT: (
        call(MOMENT, "coalesce({}, {})", MOMENT, MOMENT, widened=True),
        call(MOMENT, "CAST({} AS TIMESTAMP)", DATE),
        call(MOMENT, "date_trunc('month', {})", MOMENT),
        call(MOMENT, "date_trunc('hour', {})", MOMENT),
        call(MOMENT, "({} + INTERVAL '1 hour')", MOMENT),
        call(MOMENT, "nullif({}, {})", MOMENT, MOMENT, widened=True),
    ),
}

DERIVED: Mapping[Family, tuple[Call, ...]] = {
    INTEGER: (
        call(INTEGER, "({} % 4)", INTEGER, widened=True),
        call(INTEGER, "(abs({}) % 3)", INTEGER, widened=True),
        call(INTEGER, "({} + 1)", INTEGER, widened=True),
        call(INTEGER, "({} / 4)", INTEGER, duck="({} // 4)", widened=True),
    ),
    TEXT: (
        call(TEXT, "left({}, 1)", TEXT),
        call(TEXT, "substr({}, 1, 1)", TEXT),
        call(TEXT, "lower({})", TEXT),
        call(TEXT, "CASE WHEN ({} < 'b') THEN {} END", TEXT, TEXT),
    ),
    JSON: (
        call(TEXT, "({} ->> 'b')", JSON, is_own=True),
        call(INTEGER, "TRY_CAST(({} ->> 'a') AS BIGINT)", JSON, is_own=True),
    ),
    DATE: (
        call(INTEGER, "EXTRACT(YEAR FROM {})", DATE),
        call(INTEGER, "(EXTRACT(YEAR FROM {}) - 2022)", DATE),
        call(INTEGER, "EXTRACT(MONTH FROM {})", DATE),
        call(DATE, "CAST(({} + INTERVAL '1 day') AS DATE)", DATE),
    ),
    MOMENT: (
        call(INTEGER, "EXTRACT(YEAR FROM {})", MOMENT),
        call(INTEGER, "(EXTRACT(YEAR FROM {}) - 2022)", MOMENT),
        *(call(INTEGER, f"EXTRACT({part} FROM {{}})", MOMENT) for part in ("MONTH", "DAY", "HOUR")),
        *(call(MOMENT, f"date_trunc('{unit}', {{}})", MOMENT) for unit in ("year", "month", "day", "hour")),
        call(DATE, "CAST({} AS DATE)", MOMENT),
        call(DATE, "CAST({} AS DATE)", MOMENT),
        call(MOMENT, "({} + INTERVAL '1 hour')", MOMENT),
    ),
}
"""What may be compared in place of a column, by the family of the column: its regions tell of it."""

AGGREGATES: Mapping[Family, tuple[Call, ...]] = {
    INTEGER: (
        call(INTEGER, "count(*)"),
        call(INTEGER, "count(*)"),
        call(INTEGER, "count(1)"),
        call(INTEGER, "count({})", INTEGER),
        call(INTEGER, "count({})", TEXT),
        call(INTEGER, "count(DISTINCT {})", INTEGER),
        call(INTEGER, "count(DISTINCT {})", TEXT),
        call(INTEGER, "count(*) FILTER (WHERE {})", TRUTH),
        call(INTEGER, "sum({} % 1000)", INTEGER, widened=True),
        call(INTEGER, "sum(DISTINCT {} % 10)", INTEGER, widened=True),
        call(INTEGER, "sum({} % 1000) FILTER (WHERE {})", INTEGER, TRUTH, widened=True),
        call(INTEGER, "min({})", INTEGER),
        call(INTEGER, "max({})", INTEGER),
        call(INTEGER, "sum(CASE WHEN {} THEN 1 ELSE 0 END)", TRUTH),
        call(INTEGER, "bit_xor({})", INTEGER, duck=_UNKNOWN, widened=True),
    ),
    FLOAT: (
        call(FLOAT, "sum({})", FLOAT, widened=True, inexact=True),
        call(FLOAT, "avg({})", FLOAT, widened=True, inexact=True),
        call(FLOAT, "avg({} % 1000)", INTEGER, widened=True, inexact=True),
        call(FLOAT, "min({})", FLOAT),
        call(FLOAT, "max({})", FLOAT),
        call(FLOAT, "stddev_pop({} % 1000)", INTEGER, widened=True, inexact=True),
    ),
    DECIMAL: (
        call(DECIMAL, "sum({})", DECIMAL),
        call(DECIMAL, "min({})", DECIMAL),
        call(DECIMAL, "max({})", DECIMAL),
        call(DECIMAL, "avg({})", DECIMAL, duck=_UNKNOWN),
    ),
    TEXT: (
        call(TEXT, "min({})", TEXT),
        call(TEXT, "max({})", TEXT),
    ),
    TRUTH: (
        call(TRUTH, "bool_and({})", TRUTH),
        call(TRUTH, "bool_or({})", TRUTH),
    ),
    DATE: (call(DATE, "min({})", DATE), call(DATE, "max({})", DATE)),
    MOMENT: (call(MOMENT, "min({})", MOMENT), call(MOMENT, "max({})", MOMENT)),
}

WINDOWS: Mapping[Family, tuple[Call, ...]] = {
    INTEGER: (
        call(INTEGER, "row_number()"),
        call(INTEGER, "rank()"),
        call(INTEGER, "dense_rank()"),
        call(INTEGER, "ntile(3)"),
        call(INTEGER, "count(*)"),
        call(INTEGER, "sum({} % 1000)", INTEGER, widened=True),
        call(INTEGER, "lag({})", INTEGER, widened=True),
        call(INTEGER, "lead({}, 2)", INTEGER, widened=True),
        call(INTEGER, "max({})", INTEGER),
    ),
    TEXT: (
        call(TEXT, "first_value({})", TEXT),
        call(TEXT, "last_value({})", TEXT),
        call(TEXT, "lag({}, 1)", TEXT),
        call(TEXT, "min({})", TEXT),
        call(TEXT, "max({})", TEXT),
    ),
}
"""What stands before OVER with a total order."""
