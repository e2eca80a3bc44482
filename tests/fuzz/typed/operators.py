"""Operators, casts and functions: what they take and give, and how other engines write them.

Where another engine means something else on purpose, the operator has no spelling for it: docs/sql.md says why.
"""

# ruff: noqa: E501 - rows of tables

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.fuzz.typed.types import Spelling, spell


@dataclass(frozen=True)
class Operator:
    """How an expression is made of operands.

    Attributes:
        spelling: `{0}`, `{1}`, .. are the operands.
        takes: The group of each operand; `like` is any type that people compare with the first operand's.
        gives: The group of the result; `like` is the first operand's.
    """

    name: str
    spelling: Spelling
    takes: tuple[str, ...]
    gives: str = "truth"


def _op(
    name: str, ours: str, takes: str, gives: str = "truth", postgres: str | None = "", duckdb: str | None = ""
) -> Operator:
    return Operator(name, spell(ours, postgres, duckdb), tuple(takes.split()), gives)


COMPARED = (
    "number",
    "text",
    "truth",
    "date",
    "moment",
    "instant",
    "clock",
    "bytes",
    "uuid",
    "list",
    "struct",
)
"""Groups whose values have `=`."""
ORDERED = COMPARED[:9]

_CASE = "CASE {0} WHEN {1} THEN 'yes' WHEN {2} THEN 'two' ELSE 'no' END"
_COMPARISONS = (
    _op("=", "{0} = {1}", "any like"), _op("<>", "{0} <> {1}", "any like"),
    _op("=", "{1} = {0}", "any like"),
    _op("<", "{0} < {1}", "ordered like"), _op("<=", "{0} <= {1}", "ordered like"),
    _op(">", "{0} > {1}", "ordered like"), _op(">=", "{0} >= {1}", "ordered like"),
    _op("BETWEEN", "{0} BETWEEN {1} AND {2}", "ordered like like"),
    _op("NOT BETWEEN", "{0} NOT BETWEEN {1} AND {2}", "ordered like like"),
    _op("IN", "{0} IN ({1}, {2})", "any like like"), _op("NOT IN", "{0} NOT IN ({1}, {2})", "any like like"),
    _op("IN", "{0} IN ({1})", "any like"), _op("IN of NULL", "{0} IN ({1}, NULL)", "any like"),
    _op("NOT IN", "{0} NOT IN ({1}, {2}, {3})", "any like like like"),
    _op("IS DISTINCT", "{0} IS DISTINCT FROM {1}", "any like"),
    _op("IS NOT DISTINCT", "{0} IS NOT DISTINCT FROM {1}", "any like"),
    _op("NOT =", "NOT ({0} = {1})", "any like"), _op("range", "{0} > {1} AND {0} <= {2}", "ordered like like"),
    _op("or", "{0} = {1} OR {0} = {2}", "any like like"), _op("and", "{0} <> {1} AND {0} <> {2}", "any like like"),
    _op("NOT of IN", "NOT ({0} IN ({1}) AND {0} IN ({2}))", "any like like"),
    _op("NOT IN or", "{0} NOT IN ({1}) OR {0} NOT IN ({2})", "any like like"),
    # An array has one type, so that PostgreSQL reads a text beside a date as one; IN is like ours.
    _op("ANY", "{0} = ANY(ARRAY[{1}, {2}])", "ordered like like", postgres="{0} IN ({1}, {2})"),
    _op("IS NULL", "{0} IS NULL", "any"), _op("IS NOT NULL", "{0} IS NOT NULL", "any", postgres=None),
    _op("CASE x WHEN", _CASE, "any like like", "text"),
    _op("CASE", "CASE WHEN {0} = {1} THEN 'yes' ELSE 'no' END", "any like", "text"),
    _op("nullif", "nullif({0}, {1})", "any like", "like"), _op("coalesce", "coalesce({0}, {1})", "any like", "like"),
    _op("nvl", "nvl({0}, {1})", "any like", "like", "coalesce({0}, {1})", "coalesce({0}, {1})"),
    _op("ifnull", "ifnull({0}, {1})", "any like", "like", "coalesce({0}, {1})", "coalesce({0}, {1})"),
    _op("nvl2", "nvl2({0}, {0}, {1})", "any like", "like", "coalesce({0}, {1})", "coalesce({0}, {1})"),
    _op("greatest", "greatest({0}, {1})", "ordered like", "like"), _op("least", "least({0}, {1})", "ordered like", "like"),
    _op("IN computed", "{0} IN (coalesce({1}, {2}), {2})", "any like like"),
    _op("IN many", "{0} IN (CASE WHEN {0} > {1} THEN {1} END, {2}, {2}, {2}, {2})", "ordered like like"),
    _op("IN and NOT IN", "{0} IN ({1}, {2}) AND {0} NOT IN ({2}, NULL)", "any like like"),
    _op("BETWEEN SYMMETRIC", "{0} BETWEEN SYMMETRIC {1} AND {2}", "ordered like like", duckdb=None),
    _op("IN VALUES", "{0} IN (VALUES ({1}), ({2}))", "any like like", postgres=None, duckdb=None),
    _op("rows <", "({0}, {1}) < ({1}, {0})", "ordered like", duckdb=None),
    _op("rows =", "({0}, {1}) = ({1}, {0})", "ordered like", duckdb=None),
    _op("DISTINCT and", "{0} IS DISTINCT FROM {1} AND {0} IS NOT NULL", "ordered like", duckdb=None),
    _op("CASE of values", "CASE WHEN {0} IS NULL THEN {1} ELSE {0} END", "any like", "like"),
)  # fmt: skip
_TRUTHS = (
    _op("NOT", "NOT {0}", "truth"), _op("AND", "({0} AND {1})", "truth truth"), _op("OR", "({0} OR {1})", "truth truth"),
    _op("IS TRUE", "({0}) IS TRUE", "truth"), _op("IS NOT FALSE", "({0}) IS NOT FALSE", "truth"),
    _op("IS UNKNOWN", "({0}) IS UNKNOWN", "truth", duckdb=None),
)  # fmt: skip
_NUMBERS = (
    _op("+", "{0} + {1}", "number number", "number"), _op("-", "{0} - {1}", "number number", "number"),
    _op("*", "{0} * {1}", "number number", "number"),
    _op("/", "{0} / {1}", "number number", "number", duckdb=None),
    _op("%", "{0} % {1}", "number number", "number"), _op("negative", "-{0}", "number", "number"),
    _op("abs", "abs({0})", "number", "number"), _op("round", "round({0})", "number", "number"),
    _op("round", "round({0}, 1)", "number", "number", "round({0}::numeric, 1)"), _op("floor", "floor({0})", "number", "number"),
    _op("ceil", "ceil({0})", "number", "number"), _op("trunc", "trunc({0})", "number", "number"),
    _op("power", "power({0}, {1})", "number number", "number"), _op("power", "power({0}, 2)", "number", "number"),
    _op("^", "{0} ^ 2", "number", "number"), _op("sqrt", "sqrt(abs({0}))", "number", "number"),
    _op("sign", "sign({0})", "number", "number"), _op("mod", "mod({0}, {1})", "number number", "number"),
    _op("per cent", "{0} * 1.19", "number", "number"), _op("half", "{0} / 2", "number", "number", duckdb=None),
    _op("product compared", "{0} * 1.1 = 4.884", "number", duckdb=None),
    _op("< wide", "{0} < CAST('999999999999999999999999999999999999.12' AS DECIMAL(38, 2))", "number", duckdb=None),
    _op("third", "{0} / 3.0", "number", "number", duckdb=None),
    _op("log", "log(abs({0}) + 2, 1)", "number", "number", "log((abs({0}) + 2)::numeric, 1)", None),
    _op("log", "log(abs({0}) + 0.1)", "number", "number", "log((abs({0}) + 0.1)::float8)", None),
    _op("exp", "exp({0} / 10)", "number", "number", duckdb=None), _op("ln", "ln(abs({0}) + 1)", "number", "number"),
)  # fmt: skip
_TEXTS = (
    _op("LIKE", "{0} LIKE 'a%'", "text"), _op("NOT LIKE", "{0} NOT LIKE '%b'", "text"),
    _op("LIKE", "{0} LIKE '_'", "text"), _op("ILIKE", "{0} ILIKE 'A%'", "text"), _op("LIKE", "{0} LIKE {1}", "text text"),
    _op("LIKE ESCAPE", "{0} LIKE 'a!%b' ESCAPE '!'", "text"), _op("lpad", "lpad({0}, {1}, '*')", "text small", "text", duckdb=None),
    _op("LIKE ESCAPE", r"{0} LIKE 'a\%b' ESCAPE '\'", "text"),
    _op("~", "{0} ~ '.*'", "text", duckdb=None), _op("~", "{0} ~ '^a'", "text", duckdb=None),
    _op("!~", "{0} !~ 'b'", "text", duckdb=None), _op("||", "{0} || {1}", "text text", "text"),
    _op("upper", "upper({0})", "text", "text"), _op("lower", "lower({0})", "text", "text"),
    _op("length", "length({0})", "text", "number"), _op("substr", "substr({0}, 2)", "text", "text"),
    _op("substr", "substr({0}, 1, 2)", "text", "text"), _op("left", "left({0}, 2)", "text", "text"),
    _op("right", "right({0}, 1)", "text", "text"), _op("trim", "trim({0})", "text", "text"),
    _op("replace", "replace({0}, 'a', 'x')", "text", "text"), _op("replace", "replace({0}, '', 'x')", "text", "text"),
    _op("replace", "replace({0}, {1}, {2})", "text text text", "text"),
    _op("position", "position('b' IN {0})", "text", "number"), _op("strpos", "strpos({0}, {1})", "text text", "number"),
    _op("split_part", "split_part({0}, 'b', 1)", "text", "text"), _op("reverse", "reverse({0})", "text", "text"),
    _op("lpad", "lpad({0}, 4, '*')", "text", "text"), _op("starts_with", "starts_with({0}, 'a')", "text"),
    _op("concat", "concat({0}, {1})", "text text", "text"), _op("md5", "md5({0})", "text", "text"),
    _op("regexp_replace", "regexp_replace({0}, 'b', 'x')", "text", "text"), _op("ascii", "ascii({0})", "text", "number"),
    _op("initcap", "initcap({0})", "text", "text", duckdb=None), _op("translate", "translate({0}, 'ab', 'x')", "text", "text"),
    _op("concat_ws", "concat_ws('-', {0}, {1})", "text text", "text"), _op("repeat", "repeat({0}, 2)", "text", "text"),
    _op("octet_length", "octet_length({0})", "text", "number", duckdb=None),
)  # fmt: skip
_PARTS = ("year", "month", "day", "quarter", "week", "dow", "doy", "isodow", "epoch")
_CLOCK_PARTS = ("hour", "minute", "second", "millisecond")
_TIMES = (
    # Integers here, and without fractions; PostgreSQL's are numeric.
    *(
        _op(f"extract {part}", f"extract({part} FROM {{0}})", "calendar", "number",
            f"trunc(extract({part} FROM {{0}}))::int" if part != "epoch" else "", None)
        for part in _PARTS
    ),
    *(
        _op(f"extract {part}", f"extract({part} FROM {{0}})", "timestamp", "number",
            f"trunc(extract({part} FROM {{0}}))::int", None)
        for part in _CLOCK_PARTS
    ),
    *(_op(f"trunc {part}", f"date_trunc('{part}', {{0}})", "calendar", "like", duckdb=None) for part in ("year", "month", "week", "day")),
    *(_op(f"trunc {part}", f"date_trunc('{part}', {{0}})", "timestamp", "like", duckdb=None) for part in ("hour", "minute", "second")),
    _op("date_part", "date_part('year', {0})", "calendar", "number"),
    *(_op(f"+ {one}", f"{{0}} + INTERVAL '{one}'", "calendar", "like", duckdb=None) for one in ("1 day", "1 month", "-1 year")),
    _op("+ hour", "{0} + INTERVAL '1 hour'", "timestamp", "like", duckdb=None),
    _op("- minutes", "{0} - INTERVAL '90 minutes'", "timestamp", "like", duckdb=None),
    _op("+ days", "{0} + INTERVAL '1 day' * 2", "timestamp", "like", duckdb=None),
    _op("+ days", "{0} + {1} * INTERVAL '1 day'", "timestamp small", "like", duckdb=None),
    _op("+ milliseconds", "{0} + INTERVAL '500 milliseconds'", "timestamp", "like", duckdb=None),
    _op("later by milliseconds", "{0} > {1} + INTERVAL '500 milliseconds'", "timestamp timestamp", duckdb=None),
    *(
        _op("read time", f"{read}(CASE WHEN {{0}} = 'a' THEN '2024-07-01T12:00:00' END)", "text", "instant",
            "CASE WHEN {0} = 'a' THEN TIMESTAMPTZ '2024-07-01 12:00:00Z' END", None)
        for read in ("to_timestamp_seconds", "to_timestamp_micros")
    ),
    _op("days between", "{0} - {1}", "date date", "", duckdb=None),
    _op("to_char", "to_char({0}, 'YYYY-MM-DD HH24:MI:SS')", "calendar", "text", duckdb=None),
    _op("constant at zone", "{0} < TIMESTAMPTZ '2024-07-01 05:00:00+02' AT TIME ZONE 'Asia/Tokyo'", "moment", duckdb=None),
    _op("at zone", "{0} AT TIME ZONE 'America/New_York'", "timestamp", "", duckdb=None),
    _op("later", "{0} > {1} + INTERVAL '1 day'", "calendar calendar", duckdb=None),
)  # fmt: skip
_NESTED = (
    _op("array_length", "array_length({0})", "list", "number", "cardinality({0})", "len({0})"),
    _op("cardinality", "cardinality({0})", "list", "number", "cardinality({0})", None),
    _op("length of a list", "length({0})", "list", "number", "cardinality({0})", "len({0})"),
    _op("array_has", "array_has({0}, {0}[1])", "list", "truth", None, "list_contains({0}, {0}[1])"),
    _op("ANY of a list", "4.44 = ANY({0})", "list", "truth", duckdb=None),
    _op("array_append", "array_append({0}, NULL)", "list", "", None, None),
    _op("last element", "{0}[array_length({0})]", "list", "", None, None), _op("@>", "{0} @> {1}", "list like", duckdb=None), _op("<@", "{0} <@ {1}", "list like", duckdb=None),
    _op("slice", "{0}[1:1]", "list", "list"),
    _op("array_to_string", "array_to_string({0}, ',')", "list", "text", None, None),
    _op("array_concat", "array_concat({0}, {0})", "list", "list", "{0} || {0}", None),
    _op("array_position", "array_position({0}, {0}[1])", "list", "", None, None),
    _op("map_keys", "map_keys({0})", "map", "list", None), _op("map_values", "map_values({0})", "map", "list", None),
    _op("map size", "cardinality({0})", "map", "number", None),
    _op("to_json", "to_json({0})", "any", "json", None, None),
    _op("json text", "{0} ->> 'b'", "json", "text", duckdb=None), _op("json number", "CAST({0} ->> 'a' AS DOUBLE PRECISION)", "json", "number", None, None),
    _op("cast to uuid", "CAST({0} AS UUID)", "uuid", "uuid", duckdb=None), _op("uuid of text", "UPPER({0})::uuid", "uuid", "uuid", None, None),
    _op("encode", "encode({0}, 'hex')", "bytes", "text", duckdb=None), _op("length", "octet_length({0})", "bytes", "number"),
)  # fmt: skip
_CASTS = (
    # PostgreSQL and DuckDB round a fraction that becomes an integer; we cut it off.
    *(
        _op(f"cast to {one}", f"CAST({{0}} AS {one})", "number", "number", f"CAST(trunc({{0}}::numeric) AS {one})", None)
        for one in ("INT", "BIGINT", "SMALLINT")
    ),
    *(
        _op(f"cast to {one}", f"CAST({{0}} AS {one})", "number", "number", duckdb=None)
        for one in ("DECIMAL(10, 0)", "DECIMAL(10, 2)", "DECIMAL(5, 1)", "DECIMAL(38, 4)", "REAL", "DOUBLE PRECISION")
    ),
    _op("cast compared", "CAST({0} AS INT) = 4", "number", "truth", "CAST(trunc({0}::numeric) AS INT) = 4", None),
    _op("cast compared", "CAST({0} AS DECIMAL(10, 1)) = 4.4", "number", duckdb=None),
    *(
        _op(f"try cast to {one}", f"TRY_CAST({{0}} AS {one})", "number", "number", None, None)
        for one in ("TINYINT", "DECIMAL(4, 2)", "BIGINT UNSIGNED")
    ),
    *(_op("number to text", f"CAST({{0}} AS {one})", "number", "text", None, None) for one in ("TEXT", "VARCHAR")),
    _op("text to number", "TRY_CAST({0} AS DECIMAL(10, 2))", "text", "number", None, None),
    _op("text to number", "TRY_CAST({0} AS BIGINT)", "text", "number", None, None),
    _op("text to date", "TRY_CAST({0} AS DATE)", "text", "date", None, None),
    _op("cast to date", "CAST({0} AS DATE)", "timestamp", "date", duckdb=None),
    *(
        _op(f"cast to timestamp {one}", f"CAST({{0}} AS TIMESTAMP({one}))", "timestamp", "moment", None, None)
        for one in (0, 3, 6, 9)
    ),
    _op("cast to timestamp 4", "CAST({0} AS TIMESTAMP(4))", "timestamp", "moment", "CAST({0} AS TIMESTAMP(6))", None),
    _op("cast to timestamp 6", "CAST({0} AS TIMESTAMP(6))", "date", "moment", duckdb=None),
    _op("cast to instant", "CAST({0} AS TIMESTAMPTZ)", "timestamp", "instant", duckdb=None),
    _op("cast to time", "CAST({0} AS TIME)", "timestamp", "clock", None, None),
    _op("time to text", "CAST({0} AS TEXT)", "calendar", "text", None, None),
    _op("truth to text", "CAST({0} AS TEXT)", "truth", "text"), _op("truth to number", "CAST({0} AS INT)", "truth", "number"),
)  # fmt: skip
CLASSES: Mapping[str, Sequence[Operator]] = {
    "comparison": _COMPARISONS, "truth": _TRUTHS, "number": _NUMBERS, "text": _TEXTS, "time": _TIMES, "nested": _NESTED,
    "cast": _CASTS,
}  # fmt: skip
OPERATORS = tuple(one for operators in CLASSES.values() for one in operators)
CLASS_OF = {one.name: name for name, operators in CLASSES.items() for one in operators}
"""The class of each operator by its name; functions are a class of their own."""
GROUPS: Mapping[str, Sequence[str]] = {
    "any": COMPARED, "ordered": ORDERED, "calendar": ("date", "moment", "instant"), "timestamp": ("moment", "instant"),
}  # fmt: skip
"""Groups that an operand may be of where an operator names more than one."""


def groups_of(taken: str) -> Sequence[str]:
    """Return the groups that an operand may be of."""
    return GROUPS.get(taken, (taken,))


def giving(group: str) -> Iterator[Operator]:
    """Yield the operators whose result may be of a group."""
    return (one for one in OPERATORS if one.gives in (group, "like") and set(operands_for(one, group)))


def operands_for(operator: Operator, group: str) -> Sequence[str]:
    """Return the groups of the first operand with which an operator gives a group."""
    groups = groups_of(operator.takes[0])
    if operator.gives == "like":
        return (group,) if group in groups else ()
    return groups if operator.gives == group else ()
