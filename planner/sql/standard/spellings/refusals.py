"""Refuses functions that other databases have, and tells what to write instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from planner.sql.standard.spellings.calls import find_calls
from planner.sql.tokens import Edit, SqlText

_JSON: Final = "JSON functions are not offered: keep what is asked for in columns, structs or maps"
_TYPE: Final = "use arrow_typeof()"
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "MODE": (
            "mode() is not offered: count the values, as in SELECT v FROM t GROUP BY v "
            "ORDER BY count(*) DESC, v LIMIT 1"
        ),
        "AGE": "age() is not offered: subtract, as in a - b, or compare date_part('year', ..) of both",
        "FORMAT": "format() is not offered: use concat(), or || between texts",
        "ANY_VALUE": "any_value() is not offered: use min(v), or first_value(v ORDER BY ..)",
        "PERCENTILE_DISC": "percentile_disc() is not offered: use percentile_cont(), or rank the rows",
        "REGEXP_MATCHES": (
            "regexp_matches() is not offered: regexp_like() tells whether there is a match, and "
            "regexp_match() its groups"
        ),
        "REGEXP_EXTRACT_ALL": "regexp_extract_all() is not offered: regexp_match() gives the first match",
        "REGEXP_SPLIT_TO_ARRAY": "regexp_split_to_array() is not offered: string_to_array() splits by a text",
        "LEN": "len() is not offered: use length() of texts, and cardinality() of lists",
        "DAYOFWEEK": "dayofweek() differs between databases: use date_part('dow', d), where Sunday is 0",
        "WEEKDAY": "weekday() differs between databases: use date_part('isodow', d)",
        "TIME_BUCKET": (
            "time_bucket() is not offered: use date_bin(INTERVAL '15 minutes', at, TIMESTAMP '2000-01-01')"
        ),
        "DATEADD": "dateadd() is not offered: add an interval, as in d + INTERVAL '1 day'",
        "STRUCT_PACK": "struct_pack() is not offered: use named_struct('a', 1, 'b', 2), or {'a': 1, 'b': 2}",
        "TYPEOF": f"typeof() is not offered: {_TYPE}",
        "PG_TYPEOF": f"pg_typeof() is not offered: {_TYPE}",
        "LIST_TRANSFORM": "Lambdas are not offered: unnest the list in a subquery, and use array_agg()",
        "LIST_FILTER": "Lambdas are not offered: unnest the list in a subquery, and use array_agg()",
        **dict.fromkeys(
            (
                "JSON_EXTRACT",
                "JSON_EXTRACT_STRING",
                "JSON_VALUE",
                "JSON_QUERY",
                "JSON_OBJECT",
                "TO_JSON",
                "TO_JSONB",
            ),
            _JSON,
        ),
        "PRINTF": "printf() is not offered: use concat(), or || between texts",
    }
)
"""Function -> error."""


def refuse_functions(text: SqlText) -> Iterator[Edit]:
    """Yield no edits.

    Raises:
        UnsupportedError: one of these functions is called.
    """
    for call in find_calls(text, REFUSED):
        raise call.refuse(REFUSED[call.name.upper()])
    yield from ()
