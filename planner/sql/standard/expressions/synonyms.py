"""Writes functions of PostgreSQL, DuckDB and MySQL as those of DataFusion that do the same.

    SELECT sign(n), if(n > 0, 'up', 'down') FROM t
->  SELECT signum(n) AS "sign", CASE WHEN n > 0 THEN 'up' ELSE 'down' END AS "if" FROM t
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from planner.sql.standard.expressions.calls import Call, find_calls
from planner.sql.tokens import Edit, SqlText

_IF: Final = ("CASE WHEN {0} THEN {1} ELSE {2} END", "CASE WHEN {0} THEN {1} END")
_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "GEN_RANDOM_UUID": ("uuid()",),
        "SIGN": ("signum({0})",),
        "EVERY": ("bool_and({0})",),
        "IF": _IF,
        "IFF": _IF[:1],
        "STRUCT_EXTRACT": ("get_field({0}, {1})",),
        "REGEXP_SUBSTR": ("(regexp_match({0}, '(' || {1} || ')'))[1]",),
    }
)
"""Function -> what it is with each number of arguments; {n} is an argument."""
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
    by_count = {_count(template): template for template in _TEMPLATES[call.name.upper()]}
    template = by_count.get(len(call.arguments))
    if template is None:
        raise call.refuse_count(" or ".join(map(str, sorted(by_count))))
    # Numbers of arguments stand at the odd places.
    parts = enumerate(_FIELD.split(template))
    return call.write(*(call.arguments[int(part)] if i % 2 else part for i, part in parts))


def _count(template: str) -> int:
    return len(_FIELD.findall(template))


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
