"""Differences that are known: those that are meant, which docs/sql.md lists, and those that are being mended."""

# ruff: noqa: E501 - rows of tables

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A difference.

    Attributes:
        reason: Why it is none, or what is wrong.
        judge: Expression for who says so.
        text: Expression for the statement.
        detail: Expression for what differs.
    """

    reason: str
    judge: str = ""
    text: str = ""
    detail: str = ""

    def fits(self, judge: str, text: str, detail: str) -> bool:
        """Return whether a difference is this one."""
        pairs = ((self.judge, judge), (self.text, text), (self.detail, detail))
        return all(re.search(wanted, there, re.DOTALL) is not None for wanted, there in pairs)


MEANT: Sequence[Known] = (
    Known("`round(2.5::DOUBLE)`", "postgres", r"round\(", r"[.5]"),
    Known(
        "`s IS NULL` of a struct", "postgres", r"struct_\w+\)* IS (NOT )?NULL|struct_.*(nullif|IS NULL THEN)"
    ),
    Known("years of five digits", "postgres", "to_char", r"'[+]\d{5}-"),
    Known("the year before 1", "postgres", "extract|date_part|to_char|date_trunc", r"-62|BC"),
    Known(
        "NaN that is computed",
        "place",
        r"(?<!\bid) [-+*/%^] |-\(?t\.|\b(pow|exp|ln|log|a?(sin|cos|tan)h?|sqrt)\w*\(",
        "NaN",
    ),
    Known("NaN that is computed", "postgres|duckdb", r"-\(?t\.(double|float)", r"True, False.*nan"),
    Known(
        "NaN that is computed", "duckdb", r"power\(.*\) (<|>|BETWEEN|NOT BETWEEN)|(greatest|least)\(.*power\("
    ),
    Known("functions of lists beside NULL", "postgres|duckdb", r"array_(has|remove)\w*\("),
    Known("functions of lists beside NULL", "postgres|duckdb", r"@>|<@", "None"),
    Known(
        "a number that no integer or decimal holds",
        "refused",
        "",
        r"FACTORIAL|Overflow happened on: -?\d{15,} \* -?\d{15,}",
    ),
    Known("`CAST(x AS DECIMAL)` of NaN", "refused", "AS DECIMAL", "Overflowing on NaN"),
    Known(
        "functions of `REAL`",
        "postgres|duckdb",
        r"(exp|cosh|sinh|tan|degrees|power|log)\w*\(.*((float|vector)_|AS REAL)",
        "inf",
    ),
    Known("`CAST(x AS INT) = 4` beyond the type", "constant", r"CAST\(.*=", "Can't cast value"),
    Known("the least of an integer type", "constant", r"-arrow_cast", r"overflow: Overflow happened on: - -"),
    Known(
        "`1.10::DECIMAL(10,2) / 3`",
        "postgres",
        r"decimal_\w+\)* / ",
        r": (True|False|'yes'|'no'|'two'|None), ",
    ),
    Known(
        "`1.10::DECIMAL(10,2) / 3`",
        "postgres",
        r"\w+\(.*(decimal_\w+|'price'\]|'d'\]|\.d)\)* / ",
        r": -?0\.0, -?0\.0\d+ by",
    ),
    Known("`power(1 / 0, NULL)`", "refused", r"\bNULL\b", "Divide by zero"),
    Known(
        "`cos(price ^ 2)`", "postgres", r"(?=.*\b(sin|cos|tan|cot)\()(?=.*(\^|power))(?=.*(decimal_|DECIMAL))"
    ),
    Known(
        "`gcd` of doubles",
        "postgres|refused",
        r"(gcd|lcm)\(.*(power|\^|sqrt|1e300|\* 1\.19|/ 3\.0|exp|ln)",
        r"Decimal|Float64",
    ),
    Known("`gcd` of doubles", "refused", r"(gcd|lcm)\(", "Unsupported argument types"),
    Known("`sign(x)`", "postgres|duckdb", r"sign(um)?\(", "NaN"),
    Known("`sign(x)`", "duckdb", r"sign(um)?\(.*'-?\d*\.\d"),
    Known("`upper('ß')`", "postgres|duckdb", "upper|initcap", "ß|SS"),
    Known("a pattern that is none", "refused", "", "Regular expression did not compile|regex parse error"),
    Known("the least of an integer type", "refused", "", "overflow on abs"),
    Known(
        "the least of an integer type",
        "postgres|duckdb",
        r"-\(?t\.",
        r"-(128|32768|2147483648|9223372036854775808)\b",
    ),
    Known(
        "`r = 4.44` of a `REAL`",
        "postgres",
        r"(?=.*((float|vector)_|REAL))(?=.*\.\d)(?=.*(\bIN\b|\bANY\b|CASE|coalesce|greatest|least|nullif|BETWEEN|DISTINCT|[=<>]))",
    ),
    Known(
        "`r = 4.44` of a `REAL`",
        "place (JOIN VALUES|IN subquery)",
        r"(?=.*((float|vector)_|REAL))(?=.*(VALUES|SELECT) \(?-?\d*\.\d)",
    ),
    Known(
        "a `DECIMAL` beside a `REAL`",
        "postgres",
        r"(?=.*((float|vector)_|REAL))(?=.*(decimal_|DECIMAL|\.\d))(?=.*(\bIN\b|\bANY\b|CASE|coalesce|greatest|least|nullif))",
    ),
    Known(
        "a `DECIMAL` beside a `REAL`",
        "duckdb",
        r"(?=.*((float|vector)_|REAL))(?=.*(decimal_|DECIMAL|struct_\w+(\.|\[')d\b|price))(?=.*(\bIN\b|\bANY\b|CASE|coalesce|greatest|least|nullif|BETWEEN|DISTINCT| [-+*=<>]))",
        r"\d\.\d{10,}|REAL",
    ),
    Known("a `DECIMAL` beside a `REAL`", "duckdb", r"(%|mod\().*(float|vector)_|(float|vector)_.*(%|mod\()"),
    Known(
        "a text of digits beside a `DECIMAL`",
        "duckdb",
        r"(decimal_|DECIMAL|\d{19}|\['price'\]|\['d'\]|\.d\b).*'[\d.]+'",
    ),
    Known(
        "a text of digits beside a `DECIMAL`",
        "place (JOIN VALUES|IN subquery)",
        r"(VALUES|SELECT) \(?'[\d.]+'",
    ),
    Known("decimals of 38 digits beside each other", "duckdb", r"(trunc|round|floor|ceil)\(.*decimal_38"),
    Known(
        "decimals of 38 digits beside each other",
        "duckdb",
        r"(greatest|least|coalesce|ifnull|nvl|nullif|CASE)\b.*decimal_38",
        r": Decimal\(.*, Decimal\(",
    ),
    Known("`at = ANY (ARRAY[day, '2024-07-01 12:00'])`", "duckdb", r"decimal_.* = ANY\(ARRAY\[.*\d{19,}"),
    Known(
        "`at = ANY (ARRAY[day, '2024-07-01 12:00'])`", "duckdb", r" = ANY\(ARRAY\[[^]]*date(32|64)_.*\d:\d"
    ),
    Known("`u = '1.1'` of a `BIGINT UNSIGNED`", "postgres", r"\w\(.*uint64_\w\)* / "),
    Known("`u = '1.1'` of a `BIGINT UNSIGNED`", "duckdb", r"uint64_\w+\)* (NOT )?IN \('\d+\."),
    Known("`u = '1.1'` of a `BIGINT UNSIGNED`", "postgres", r"nvl2\(.*uint64_.*'\d"),
    Known("a UUID in capitals", "constant", r"UUID '.*'[-\dA-F]{36}'"),
    Known("`r = 4.44` of a `REAL`", "duckdb", r"(float|vector)_.*[-+*/] \d*\.\d", r"\d\.\d{10,}|e-\d"),
    Known(
        "`u = '1.1'` of a `BIGINT UNSIGNED`",
        "refused",
        r"uint64_.*'|round\(.*int\d",
        r"Cannot cast string '.*' to value of U?Int",
    ),
    Known(
        "`u = '1.1'` of a `BIGINT UNSIGNED`",
        "place",
        r"'-?\d*\.\d+'",
        r"refused: .*Cannot cast string '-?\d*\.\d+' to value of U?Int",
    ),
    Known(
        "`CASE WHEN n IS NULL THEN 'none' ELSE n END`", "duckdb", r"(CASE |nvl2).*'\d*\.\d+'", r"row \d+: '"
    ),
    Known(
        "`CASE WHEN n IS NULL THEN 'none' ELSE n END`",
        "place totals",
        r"(CASE |nvl2).*'\d*\.\d+'",
        "'sum' does not take .* received String",
    ),
    Known(
        "`mod(2, 0.1)`",
        "postgres|duckdb",
        r"(%|mod\().*(\d*\.\d|sign|power|\^|epoch)|(\.\d|sign|power|\^|epoch).*(%|mod\()",
    ),
    Known(
        "`CAST(x AS DECIMAL(5, 1))` of a double",
        "postgres",
        r"CAST\(.*(float|double|REAL|DOUBLE|sqrt|ln|exp|power|int\d+_\w [-+*/] \d*\.\d).*AS DECIMAL",
        r": Decimal\(",
    ),
    Known(
        "a text beside `+`",
        "refused",
        r"[-+*/%^] \(*'|'\)* [-+*/%^]|-\(*'|(?<=\w)(?<!CAST)\([^()]*'-?[\d.]+'|, '-?[\d.]+'\)",
        "type|types|not supported|not implemented|coerc|comparable|Unary operator",
    ),
    Known(
        "`'2024-07-01 12:00+02'::TIMESTAMP`",
        "postgres",
        r"'\d{4}-\S+ [\d:.]+[+-][\d:]+', (t\.)?timestamp_(s|ms|us|ns)_[xy]\b",
    ),
    Known("`array_to_string` of structs", "refused", r"array_to_string\(.*list_struct", "not implemented"),
    Known("timestamps of seconds beside finer ones", "refused", "", "UnsupportedError"),
    Known(
        "far dates and nanoseconds",
        "refused|place|constant|state",
        text=r"timestamp_ns_|TIMESTAMP\(9\)",
        detail="instants before 1678",
    ),
    Known(
        "far dates and nanoseconds",
        "place (JOIN VALUES|IN subquery)",
        r"'\d{4}-\d\d-",
        "instants before 1678",
    ),
)
"""What stays; docs/sql.md has a row for each reason."""
PENDING: Sequence[Known] = (
)  # fmt: skip
"""What is wrong and is being mended; `reports.txt` has cases of it."""


def known(judge: str, text: str, detail: str, *, pending: bool = True) -> Known | None:
    """Return the known difference that this one is, or None; `pending` is whether such count."""
    listed = (*PENDING, *MEANT) if pending else MEANT
    return next((one for one in listed if one.fits(judge, text, detail)), None)
