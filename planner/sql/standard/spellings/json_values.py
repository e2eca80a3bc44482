"""Writes the forms that make JSON of values, as calls of a few functions over texts of JSON.

    SELECT json_object('id': id, 'tags': tags), json_array(a, 1 NULL ON NULL) FROM t
->  SELECT concat('{', concat_ws(',', json_key('id') || ':' || coalesce(to_json(id), 'null'), ..), '}')
    AS "json_object", concat('[', concat_ws(',', coalesce(to_json(a), 'null'), ..), ']') AS "json_array"
    FROM t

What is JSON stays as it is, and becomes no text within JSON: results of these functions, of those that change
or extract JSON, and casts to JSON. The types of other expressions tell: see `planner.plans.forms.json_types`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from planner.sql.edits import Edit
from planner.sql.standard.query_bodies import outside
from planner.sql.standard.spellings.calls import Call, find_calls
from planner.sql.tokens import STRING, SqlText

JSON_TYPES: Final = frozenset({"JSON", "JSONB"})
_TO_JSON: Final = frozenset({"TO_JSON", "TO_JSONB", "ARRAY_TO_JSON"})
_BUILT: Final = frozenset(
    {"JSON_BUILD_OBJECT", "JSONB_BUILD_OBJECT", "JSON_BUILD_ARRAY", "JSONB_BUILD_ARRAY"}
)
_OBJECTS: Final = frozenset({"JSON_OBJECT", "JSON_BUILD_OBJECT", "JSONB_BUILD_OBJECT"})
_AGGREGATES_OF_PAIRS: Final = frozenset(
    {"JSON_OBJECTAGG", "JSON_OBJECT_AGG", "JSONB_OBJECT_AGG", "JSON_GROUP_OBJECT"}
)
_AGGREGATES: Final = _AGGREGATES_OF_PAIRS | {"JSON_ARRAYAGG", "JSON_AGG", "JSONB_AGG", "JSON_GROUP_ARRAY"}
VALUES: Final = _TO_JSON | _BUILT | _AGGREGATES | {"JSON_OBJECT", "JSON_ARRAY"}
"""Functions that make JSON of values."""
CHANGES: Final = frozenset(
    {"JSON_SET", "JSON_INSERT", "JSON_REPLACE", "JSON_REMOVE", "JSONB_SET", "JSON_MERGE_PATCH"}
)
"""Functions that change JSON."""
TYPED: Final = frozenset({"TO_JSON", "JSON_CAST", "JSON_TRY_CAST"})
"""Functions of values of any type, of which the engine has to know which."""
SPELLED: Final = (
    CHANGES
    | TYPED
    | frozenset(
        {"JSON_EXTRACT", "JSON_EXTRACT_STRING", "JSON_ARRAY_LENGTH", "JSON_TYPE", "JSON_TYPEOF", "JSON_KEYS"}
        | {"JSON_VALID", "JSON_IS", "JSON_KEY"}
    )
)
"""Functions over JSON that are left when all forms are written, which DataFusion calls."""
_MAKERS: Final = VALUES | CHANGES | {"JSON_EXTRACT", "JSON_EXTRACT_PATH", "JSON_CAST", "JSON_TRY_CAST"}
_LEAVES_OUT_NULL: Final = frozenset({"JSON_ARRAY", "JSON_ARRAYAGG"})
"""Functions that leave NULL out, as in the standard, where their call does not tell."""
_CLAUSES: Final = {("NULL", "ON", "NULL"): False, ("ABSENT", "ON", "NULL"): True}


def write_json_values(text: SqlText) -> Iterator[Edit]:
    """Yield edits of calls of these functions.

    Raises:
        InvalidInputError: they have other arguments.
        UnsupportedError: they have a clause that is not offered.
    """
    for call in find_calls(text, VALUES):
        name = call.name.upper()
        if name in _TO_JSON:
            if len(call.arguments) != 1:
                raise call.refuse_count("one value")
            yield call.write(*write_value(text, call.arguments[0]))
        elif name in _AGGREGATES:
            yield _aggregate(call, name)
        else:
            arguments = _read(call, name)
            items = list(_list_pairs(call, arguments) if name in _OBJECTS else _list_values(text, arguments))
            parts = [part for item in items for part in (", ", *item)]
            opening, closing = "{}" if name in _OBJECTS else "[]"
            listed = ("concat_ws(','", *parts, ")") if parts else ("''",)
            yield call.write(f"concat('{opening}', ", *listed, f", '{closing}')")


def write_value(text: SqlText, value: range) -> tuple[str | range, ...]:
    """Return the parts of an expression that is the JSON of a value; NULL is that of SQL."""
    if text.words[value.stop - 2 : value.stop] == ("FORMAT", "JSON"):
        return "json_cast(", range(value.start, value.stop - 2), ")"
    return ("(", value, ")") if is_json(text, value) else ("to_json(", value, ")")


def is_json(text: SqlText, value: range) -> bool:
    """Return whether an expression is JSON as its text tells."""
    words = text.words
    first, last = value.start, value.stop - 1
    while words[first] == "(" and text.closing(first) == last:
        first, last = first + 1, last - 1
    if words[last - 1] == "::" and words[last] in JSON_TYPES:
        return True
    if words[first] in JSON_TYPES and last == first + 1:
        return words[last] == STRING
    if words[first + 1] != "(":
        return False
    closing = text.closing(first + 1)
    if words[first] in {"CAST", "TRY_CAST"}:
        return closing == last and words[closing - 2] == "AS" and words[closing - 1] in JSON_TYPES
    if words[first] in _AGGREGATES:
        closing = _find_end(text, closing)
    return words[first] in _MAKERS and closing == last


@dataclass(frozen=True, slots=True)
class _Arguments:
    """Arguments of a call, without the clauses behind them.

    Attributes:
        each: of them.
        leaves_out_null: whether a value that is NULL has no place in the result.
    """

    each: Sequence[range]
    leaves_out_null: bool


def _read(call: Call, name: str) -> _Arguments:
    words, arguments = call.text.words, list(call.arguments)
    leaves_out = name in _LEAVES_OUT_NULL
    if not arguments:
        return _Arguments((), leaves_out)
    first, stop = arguments[-1].start, arguments[-1].stop
    if "RETURNING" in words[first:stop]:
        at = words.index("RETURNING", first, stop)
        if words[at + 1 : stop] not in {("JSON",), ("JSONB",), ("TEXT",), ("VARCHAR",)}:
            raise call.refuse(f"{call.name}() returns text: leave RETURNING out, and cast its result")
        stop = at
    if words[max(stop - 2, first) : stop] == ("UNIQUE", "KEYS") or words[stop - 1] == "UNIQUE":
        begin = stop - 2 if words[stop - 1] == "UNIQUE" else stop - 3
        if words[begin] == "WITH":
            raise call.refuse(f"{call.name}() does not compare keys: leave WITH UNIQUE KEYS out")
        stop = begin
    if (clause := words[max(stop - 3, first) : stop]) in _CLAUSES and name not in _BUILT:
        leaves_out, stop = _CLAUSES[clause], stop - 3
    last = range(first, stop)
    return _Arguments([*arguments[:-1], *([last] if last else [])], leaves_out)


def _list_values(text: SqlText, arguments: _Arguments) -> Iterator[tuple[str | range, ...]]:
    for value in arguments.each:
        written = write_value(text, value)
        yield written if arguments.leaves_out_null else ("coalesce(", *written, ", 'null')")


def _list_pairs(call: Call, arguments: _Arguments) -> Iterator[tuple[str | range, ...]]:
    for key, value in _find_pairs(call, arguments.each):
        yield _write_pair(call.text, key, value, leaves_out_null=arguments.leaves_out_null)


def _write_pair(text: SqlText, key: range, value: range, *, leaves_out_null: bool) -> tuple[str | range, ...]:
    written = write_value(text, value)
    if not leaves_out_null:
        written = ("coalesce(", *written, ", 'null')")
    return "(json_key(", key, ") || ':' || ", *written, ")"


def _find_pairs(call: Call, arguments: Sequence[range]) -> Iterator[tuple[range, range]]:
    """Yield keys with their values, written as `k: v`, `KEY k VALUE v`, or side by side."""
    words, places = call.text.words, iter(arguments)
    for argument in places:
        mark = next((i for i in outside(call.text, argument) if _divides(call.text, argument, i)), None)
        if mark is None:
            value = next(places, None)
            if value is None:
                raise call.refuse_count("a value for each key, as in json_object('a': 1, 'b': 2)")
            yield argument, value
            continue
        has_word = words[argument.start] == "KEY" and mark > argument.start + 1
        key = range(argument.start + has_word, mark)
        value = range(mark + 1, argument.stop)
        if not key or not value:
            raise call.text.error(argument.start, "A key and its value are expected, as in 'a': 1; it")
        yield key, value


def _divides(text: SqlText, argument: range, i: int) -> bool:
    """Return whether a token divides a key from its value; VALUE may be a column as well."""
    if text.words[i] == ":":
        return True
    follows_operand = text.is_name(i - 1) or text.words[i - 1] in {STRING, "0", ")", "]", "?"}
    return text.words[i] == "VALUE" and argument.start < i < argument.stop - 1 and follows_operand


def _find_end(text: SqlText, closing: int) -> int:
    """Return the last token of an aggregate or window, of the clauses behind its bracket, too."""
    words = text.words
    if words[closing + 1] == "FILTER" and words[closing + 2] == "(":
        closing = text.closing(closing + 2)
    if words[closing + 1] == "OVER":
        return text.closing(closing + 2) if words[closing + 2] == "(" else closing + 2
    return closing


def _aggregate(call: Call, name: str) -> Edit:
    """Return texts of JSON that are strung together.

    NULL is the result for no rows, as in PostgreSQL and the standard.
    """
    text, words = call.text, call.text.words
    arguments = _read(call, name)
    if not arguments.each:
        raise call.refuse_count("a value")
    is_distinct = words[arguments.each[0].start] == "DISTINCT"
    each = list(arguments.each)
    if is_distinct:
        each[0] = range(each[0].start + 1, each[0].stop)
    order: tuple[range, ...] = ()
    for number, one in enumerate(each):
        at = next((i for i in outside(text, one) if words[i : i + 2] == ("ORDER", "BY")), None)
        if at is not None:
            order = (range(at, each[-1].stop),)
            each = [*each[:number], range(one.start, at)]
            break
    if name in _AGGREGATES_OF_PAIRS:
        pairs = list(_find_pairs(call, each))
        if len(pairs) != 1 or is_distinct:
            raise call.refuse_count("one key and its value")
        item = _write_pair(text, *pairs[0], leaves_out_null=arguments.leaves_out_null)
        opening, closing = "{}"
    else:
        if len(each) != 1:
            raise call.refuse_count("one value")
        (item,) = _list_values(text, _Arguments(each, arguments.leaves_out_null))
        opening, closing = "[]"
    end = _find_end(text, call.closing)
    tail = (range(call.closing + 1, end + 1),) if end > call.closing else ()
    distinct = "DISTINCT " if is_distinct else ""
    strung: tuple[str | range, ...] = (
        *(f"CAST(string_agg({distinct}", *item, ", ','", *_spaced(order), ")", *_spaced(tail)),
        " AS VARCHAR)",
    )
    if arguments.leaves_out_null:
        counted = ("count(*)", *_spaced(tail))
        parts = ("CASE WHEN ", *counted, f" > 0 THEN concat('{opening}', ", *strung, f", '{closing}') END")
    else:
        parts = (f"('{opening}' || ", *strung, f" || '{closing}')")
    return Call(text, call.at, end, call.arguments).write(*parts)


def _spaced(tokens: tuple[range, ...]) -> tuple[str | range, ...]:
    return tuple(part for one in tokens for part in (" ", one))
