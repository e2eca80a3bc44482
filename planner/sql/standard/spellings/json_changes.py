"""Writes casts to JSON, IS JSON, and the functions that change JSON, as functions over texts.

    SELECT CAST(j AS JSON), j IS JSON OBJECT FROM t
->  SELECT json_cast(j) AS "j", json_is(j, 'object') AS "j IS JSON OBJECT" FROM t

    UPDATE t SET j = json_set(j, '$.a', 1, '$.b', 'x')
->  UPDATE t SET j = json_set(json_set(j, '$.a', to_json(1)), '$.b', to_json('x'))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.sql.edits import Copy, Edit, Piece
from planner.sql.standard.query_bodies import find_column
from planner.sql.standard.spellings.calls import Call, find_calls
from planner.sql.standard.spellings.json_values import CHANGES, JSON_TYPES, write_value
from planner.sql.standard.spellings.results import find_cast_operand, is_result
from planner.sql.tokens import STRING, SqlText, quote

_CASTS: Final = {"CAST": "json_cast", "TRY_CAST": "json_try_cast"}
_KINDS: Final = frozenset({"VALUE", "ARRAY", "OBJECT", "SCALAR"})
_BEFORE_OPERANDS: Final = frozenset(
    {
        "SELECT",
        "DISTINCT",
        "ALL",
        ",",
        "(",
        "AND",
        "OR",
        "NOT",
        "WHERE",
        "ON",
        "WHEN",
        "THEN",
        "ELSE",
        "HAVING",
    }
    | {"BY", "CASE", "QUALIFY", "SET", "="}
)
"""What may stand before an operand of IS JSON that is not a part of a longer one."""


def cast_to_json(text: SqlText) -> Iterator[Edit]:
    """Yield edits of casts to JSON."""
    words = text.words
    for i, word in enumerate(words):
        if word in _CASTS and words[i + 1] == "(":
            closing = text.closing(i + 1)
            if words[closing] and words[closing - 2] == "AS" and words[closing - 1] in JSON_TYPES:
                yield _cast(text, range(i, closing + 1), range(i + 2, closing - 2), _CASTS[word])
        elif word == "::" and i and words[i + 1] in JSON_TYPES and words[i + 2 : i + 3] != ("[",):
            first = find_cast_operand(text, i)
            yield _cast(text, range(first, i + 2), range(first, i), "json_cast")
        elif word in JSON_TYPES and words[i + 1] == STRING and (not i or words[i - 1] not in {".", "AS"}):
            yield _cast(text, range(i, i + 2), range(i + 1, i + 2), "json_cast")


def test_json(text: SqlText) -> Iterator[Edit]:
    """Yield edits of IS JSON.

    Raises:
        InvalidInputError: its operand needs brackets, or keys are to be compared.
    """
    for i, word in enumerate(text.words):
        if word == "IS" and i and "JSON" in text.words[i + 1 : i + 3]:
            test = _test(text, i)
            if test is not None:
                yield test


def _cast(text: SqlText, whole: range, operand: range, function: str) -> Edit:
    begin = text.start(whole.start)
    pieces: list[Piece | Copy] = [
        Piece(f"{function}(", begin, verbatim=False),
        Copy(text.start(operand.start), text.end(operand.stop - 1)),
        Piece(")", begin, verbatim=False),
    ]
    if is_result(text, whole.start, whole.stop - 1):
        pieces.append(Piece(f" AS {quote(find_column(text, operand) or 'json')}", begin, verbatim=False))
    return Edit(begin, text.end(whole.stop - 1), pieces)


def _test(text: SqlText, at: int) -> Edit | None:
    """Return the edit of `x IS [NOT] JSON [kind] [WITHOUT UNIQUE [KEYS]]`."""
    words = text.words
    negates = words[at + 1] == "NOT"
    last = at + 1 + negates
    if words[last] != "JSON":
        return None
    kind = "VALUE"
    if words[last + 1] in _KINDS:
        last, kind = last + 1, words[last + 1]
    if words[last + 1] in {"WITH", "WITHOUT"} and words[last + 2 : last + 3] == ("UNIQUE",):
        if words[last + 1] == "WITH":
            raise text.error(
                last + 1, "IS JSON does not compare keys, so WITH UNIQUE KEYS is not offered; it"
            )
        last += 3 if words[last + 3] == "KEYS" else 2
    first = find_cast_operand(text, at)
    if first and words[first - 1] not in _BEFORE_OPERANDS:
        raise text.error(first, "The operand of IS JSON is written in brackets, as in (a || b) IS JSON; it")
    begin, end = text.start(first), text.end(last)
    shown = f" AS {quote(text.sql[begin:end])}" if is_result(text, first, last) else ""
    pieces: list[Piece | Copy] = [
        Piece("(NOT json_is(" if negates else "json_is(", begin, verbatim=False),
        Copy(begin, text.end(at - 1)),
        Piece(f", '{kind.lower()}'){')' if negates else ''}{shown}", begin, verbatim=False),
    ]
    return Edit(begin, end, pieces)


def write_json_changes(text: SqlText) -> Iterator[Edit]:
    """Yield edits of calls of functions that change JSON.

    Raises:
        InvalidInputError: they have other arguments.
    """
    for call in find_calls(text, CHANGES):
        name, arguments = call.name, call.arguments
        if name == "jsonb_set":
            yield _set_at_keys(call)
            continue
        if name in {"json_merge_patch", "json_remove"}:
            if len(arguments) < 2:
                raise call.refuse_count("JSON and what changes it")
            changes: list[tuple[str | range, ...]] = [(one,) for one in arguments[1:]]
        else:
            if len(arguments) < 3 or not len(arguments) % 2:
                raise call.refuse_count("JSON, and a value behind each path, as in json_set(j, '$.a', 1)")
            changes = [
                (path, ", coalesce(", *write_value(text, value), ", 'null')")
                for path, value in zip(arguments[1::2], arguments[2::2], strict=True)
            ]
        parts: list[str | range] = [f"{name}(" * len(changes), arguments[0]]
        for change in changes:
            parts += [", ", *change, ")"]
        yield call.write(*parts)


def _set_at_keys(call: Call) -> Edit:
    """Write jsonb_set(j, '{a,0}', value [, creates]) of PostgreSQL, where the value is JSON."""
    arguments = call.arguments
    if len(arguments) not in {3, 4}:
        raise call.refuse_count("JSON, a path such as '{a,0}', and JSON")
    if call.text.words[arguments[1].start] in {"ARRAY", "["}:
        raise call.refuse("The path of jsonb_set() is a text, as in '{a,0}'")
    creates: str | range = arguments[3] if len(arguments) > 3 else "true"
    json = ("json_cast(", arguments[2], ")")
    return call.write("jsonb_set(", arguments[0], ", ", arguments[1], ", ", *json, ", ", creates, ")")
