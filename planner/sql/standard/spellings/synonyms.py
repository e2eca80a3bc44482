"""Writes functions of PostgreSQL, DuckDB and MySQL as those of DataFusion that do the same.

    SELECT sign(n), if(n > 0, 'up', 'down') FROM t
->  SELECT signum(n) AS "sign", CASE WHEN n > 0 THEN 'up' ELSE 'down' END AS "if" FROM t
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from planner.sql.edits import Edit
from planner.sql.standard.spellings.calls import Call, find_calls
from planner.sql.tokens import SqlText

_PARTS: Final = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_DAYS: Final = "(CAST({0} AS DATE) - CAST({1} AS DATE))"
_BY: Final = "first_value(CASE WHEN {{1}} IS NOT NULL THEN {{0}} END ORDER BY {{1}} {} NULLS LAST)"
_MATCHES: Final = "CASE WHEN {0} IS NOT NULL THEN regexp_count({0}, {1}"
_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "IF": ("CASE WHEN {0} THEN {1} ELSE {2} END", "CASE WHEN {0} THEN {1} END"),
        "IFF": ("CASE WHEN {0} THEN {1} ELSE {2} END",),
        "GEN_RANDOM_UUID": ("uuid()",),
        "STRUCT_EXTRACT": ("get_field({0}, {1})",),
        # Numbers
        "SIGN": ("signum({0})",),
        "CEILING": ("ceil({0})",),
        "MOD": ("(({0}) % ({1}))",),
        # Aggregates
        "EVERY": ("bool_and({0})",),
        "LIST": ("array_agg({0})",),
        "FIRST": ("first_value({0})",),
        "LAST": ("last_value({0})",),
        "COUNT_IF": ("count(CASE WHEN {0} THEN 1 END)",),
        "COUNTIF": ("count(CASE WHEN {0} THEN 1 END)",),
        "GROUP_CONCAT": ("string_agg({0}, {1})",),
        "VARIANCE": ("var_samp({0})",),
        "APPROX_COUNT_DISTINCT": ("approx_distinct({0})",),
        **dict.fromkeys(("MAX_BY", "ARG_MAX"), (_BY.format("DESC"),)),
        **dict.fromkeys(("MIN_BY", "ARG_MIN"), (_BY.format("ASC"),)),
        # Texts
        "REGEXP_SUBSTR": ("(regexp_match({0}, '(' || {1} || ')'))[1]",),
        "REGEXP_FULL_MATCH": ("regexp_like({0}, '^(?:' || {1} || ')$')",),
        # DataFusion 55 counts 0 matches in NULL.
        "REGEXP_COUNT": (f"{_MATCHES}) END", f"{_MATCHES}, {{2}}) END", f"{_MATCHES}, {{2}}, {{3}}) END"),
        **dict.fromkeys(
            ("STRING_SPLIT", "STR_SPLIT"),
            ("CASE WHEN {0} = '' THEN make_array('') ELSE string_to_array({0}, {1}) END",),
        ),
        "STRLEN": ("octet_length({0})",),
        **dict.fromkeys(("FROM_HEX", "UNHEX"), ("decode({0}, 'hex')",)),
        # Dates and times
        **{part: (f"date_part('{part.lower()}', {{0}})",) for part in _PARTS},
        "DAYOFMONTH": ("date_part('day', {0})",),
        "DAYOFYEAR": ("date_part('doy', {0})",),
        "EPOCH": ("date_part('epoch', {0})",),
        "DATE": ("CAST({0} AS DATE)",),
        "DATE_ADD": ("({0} + {1})",),
        "DATE_SUB": ("({0} - {1})",),
        "DATEDIFF": (_DAYS,),
        "DATE_DIFF": (_DAYS,),
        "LAST_DAY": ("CAST(date_trunc('month', {0}) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)",),
        "MONTHNAME": ("to_char({0}, '%B')",),
        "DAYNAME": ("to_char({0}, '%A')",),
        "STRPTIME": ("CAST(to_timestamp({0}, {1}) AS TIMESTAMP)",),
        **dict.fromkeys(("CLOCK_TIMESTAMP", "STATEMENT_TIMESTAMP", "TRANSACTION_TIMESTAMP"), ("now()",)),
    }
)
"""Function -> what it is with each number of arguments; {n} is an argument."""
_DIFFERENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "day": "(CAST({2} AS DATE) - CAST({1} AS DATE))",
        "month": "((date_part('year', {2}) - date_part('year', {1})) * 12"
        " + date_part('month', {2}) - date_part('month', {1}))",
        "quarter": "((date_part('year', {2}) - date_part('year', {1})) * 4"
        " + date_part('quarter', {2}) - date_part('quarter', {1}))",
        "year": "(date_part('year', {2}) - date_part('year', {1}))",
    }
)
"""Unit -> how many of its borders lie between two instants."""
_FIELD: Final = re.compile(r"\{(\d)\}")
_EXTRACT: Final = "REGEXP_EXTRACT"
SYNONYMS: Final = frozenset({*_TEMPLATES, _EXTRACT})


def write_synonyms(text: SqlText) -> Iterator[Edit]:
    """Yield edits that replace calls of these functions.

    Raises:
        InvalidInputError: one of them has another number of arguments.
        UnsupportedError: the group of regexp_extract() is no number.
    """
    for call in find_calls(text, SYNONYMS):
        if call.name.upper() == _EXTRACT:
            yield _extract(call)
        else:
            yield _fill(call)


def _fill(call: Call) -> Edit:
    if len(call.arguments) == 3 and call.name in {"date_diff", "datediff"}:
        return _write(call, _choose_difference(call))
    by_count = {_count(template): template for template in _TEMPLATES[call.name.upper()]}
    template = by_count.get(len(call.arguments))
    if template is None:
        raise call.refuse_count(" or ".join(map(str, sorted(by_count))))
    return _write(call, template)


def _write(call: Call, template: str) -> Edit:
    # Numbers of arguments stand at the odd places.
    parts = enumerate(_FIELD.split(template))
    return call.write(*(call.arguments[int(part)] if i % 2 else part for i, part in parts))


def _count(template: str) -> int:
    return len(set(_FIELD.findall(template)))


def _choose_difference(call: Call) -> str:
    unit = call.arguments[0]
    name = call.text.tokens[unit.start].text.lower().rstrip("s") if len(unit) == 1 else ""
    if name not in _DIFFERENCES:
        raise call.refuse(
            f"{call.name}() is offered with 'day', 'month', 'quarter' and 'year': for others, use "
            "date_part('epoch', b) - date_part('epoch', a), which are seconds"
        )
    return _DIFFERENCES[name]


def _extract(call: Call) -> Edit:
    """Return the group of the first match; empty text if there is no match, as in DuckDB and Spark."""
    if len(call.arguments) not in {2, 3}:
        raise call.refuse_count("a text, a pattern and the number of a group")
    value, pattern = call.arguments[:2]
    group = 0
    if len(call.arguments) > 2:
        words = call.text.words[call.arguments[2].start : call.arguments[2].stop]
        number = call.text.tokens[call.arguments[2].start].text
        if words != ("0",) or not number.isdecimal():
            raise call.refuse("regexp_extract() is offered with a literal number of its group")
        group = int(number)
    before, behind = ("'(' || ", " || ')'") if group == 0 else ("", "")
    found = ("(regexp_match(", value, ", ", before, pattern, behind, f"))[{max(group, 1)}]")
    return call.write("CASE WHEN ", value, " IS NOT NULL THEN coalesce(", *found, ", '') END")
