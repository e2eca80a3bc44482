"""Writes the operators on JSON, and functions of other databases, as functions that read JSON.

payload -> 'user' ->> 'name'       ->  json_extract_string(json_extract(payload, 'user'), 'name')
payload -> 0, payload -> -1        ->  json_extract(payload, '$[0]'), json_extract(payload, '$[#-1]')
json_array_length(payload, '$.a')  ->  json_array_length(json_extract(payload, '$.a'))
json_object_keys(payload)          ->  unnest(json_keys(payload))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from planner.sql.edits import Copy, Edit, Piece
from planner.sql.standard.spellings.calls import find_calls
from planner.sql.standard.spellings.json_values import JSON_TYPES
from planner.sql.standard.spellings.results import find_cast_operand, is_result
from planner.sql.tokens import SqlText, quote

ARROWS: Final[Mapping[str, str]] = MappingProxyType({"->": "json_extract", "->>": "json_extract_string"})
_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "JSON_VALUE": "json_extract_string",
        "JSON_EXTRACT_PATH_TEXT": "json_extract_string",
        "JSON_EXTRACT_PATH": "json_extract",
        "JSONB_TYPEOF": "json_typeof",
        "JSONB_ARRAY_LENGTH": "json_array_length",
    }
)
_KEYS: Final = frozenset({"JSON_OBJECT_KEYS", "JSONB_OBJECT_KEYS"})
_OF_PART: Final = frozenset({"JSON_ARRAY_LENGTH", "JSONB_ARRAY_LENGTH", "JSON_TYPE", "JSON_KEYS"})
"""Functions that may have a path behind the text."""
JSON_CALLS: Final = frozenset(_NAMES) | _KEYS | _OF_PART


def write_arrows(text: SqlText) -> Iterator[Edit]:
    """Yield edits of the operators, those of one chain together."""
    words, done = text.words, -1
    for i, word in enumerate(words):
        if word not in ARROWS or i <= done or not i:
            continue
        first, arrow = find_cast_operand(text, i), i
        begin = text.start(first)
        is_cast = words[i - 2] == "::" and words[i - 1] in JSON_TYPES
        pieces: list[Piece | Copy] = [Copy(begin, text.end(i - 3 if is_cast else i - 1))]
        while words[arrow] in ARROWS:
            last = _find_last(text, arrow + 1)
            path = _write_path(text, arrow + 1, last)
            pieces = [
                Piece(f"{ARROWS[words[arrow]]}(", begin, verbatim=False),
                *pieces,
                Piece(", ", begin, verbatim=False),
            ]
            pieces += [path, Piece(")", begin, verbatim=False)]
            arrow = done = last + 1
        if is_result(text, first, done - 1):
            named = quote(text.sql[begin : text.end(done - 1)])
            pieces.append(Piece(f" AS {named}", begin, verbatim=False))
        yield Edit(begin, text.end(done - 1), pieces)


def _find_last(text: SqlText, first: int) -> int:
    """Return the last token of the right operand of an operator."""
    words = text.words
    if words[first] in {"-", "$"} and words[first + 1] == "0":
        return first + 1
    if words[first] == "(":
        return text.closing(first)
    last = first
    while words[last + 1] == "." and text.is_name(last + 2):
        last += 2
    return text.closing(last + 1) if text.is_name(last) and words[last + 1] == "(" else last


def _write_path(text: SqlText, first: int, last: int) -> Piece | Copy:
    begin, end = text.start(first), text.end(last)
    words = text.words[first : last + 1]
    if words == ("0",):
        return Piece(f"'$[{text.sql[begin:end]}]'", begin, verbatim=False)
    if words == ("-", "0"):
        return Piece(f"'$[#-{text.tokens[last].text}]'", begin, verbatim=False)
    return Copy(begin, end)


def write_json_calls(text: SqlText) -> Iterator[Edit]:
    """Yield edits of the functions."""
    for call in find_calls(text, JSON_CALLS):
        name = call.name.upper()
        ours = _NAMES.get(name, call.name)
        if name in _KEYS and len(call.arguments) == 1:
            yield call.write("unnest(json_keys(", call.arguments[0], "))")
        elif name in _OF_PART and len(call.arguments) == 2:
            yield call.write(f"{ours}(json_extract(", call.arguments[0], ", ", call.arguments[1], "))")
        elif name in _NAMES and len(call.arguments) <= 2:
            parts = [one for argument in call.arguments for one in (argument, ", ")][:-1]
            yield call.write(f"{ours}(", *parts, ")")
        elif len(call.arguments) > 2:
            raise call.refuse_count("a text and a path, as in '$.a.b'")
