"""How text queries are written: plain words with options, a quoted phrase, or JSON.

    puppy training                                      any of the words
    "puppy training"                                    the phrase
    {"match": {"terms": "puppy training", "operator": "And"}}
    {"boolean": {"must": [{"match": {"terms": "puppy"}}], "must_not": [{"phrase": {"terms": "for sale"}}]}}

The JSON is that of LanceDB's full-text queries. Where it names no column, those of the call are meant.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import NoReturn

import pyarrow as pa

from lance_gateway.execnodes.text.query.query import (
    MAX_DEPTH,
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    MatchQuery,
    MultiMatchQuery,
    Operator,
    PhraseQuery,
    TextQuery,
)
from lance_gateway.memwal.errors import InvalidInputError

_FUZZINESS: dict[object, int | None] = {"0": 0, "1": 1, "2": 2, "auto": None}


@dataclass(frozen=True, slots=True)
class QueryFields:
    """The values of a JSON object or of a call's options by name; NULL counts as absent.

    Args:
        place: where they are said, for messages.
        values: by name.
    """

    place: str
    values: Mapping[str, object]

    @staticmethod
    def of(value: object, place: str) -> QueryFields:
        """Read the fields of a JSON object.

        Raises:
            InvalidInputError: it is something else.
        """
        if not isinstance(value, dict):
            raise InvalidInputError(f"{place}: a JSON object is needed here, not {value!r}")
        return QueryFields(place, value)

    def refuse(self, reason: str) -> NoReturn:
        """Raise an error with the reason and the place."""
        raise InvalidInputError(f"{self.place}: {reason}")

    def only(self, allowed: Collection[str]) -> QueryFields:
        """Return these fields; refuse other names."""
        for name in self.values:
            if name not in allowed:
                close = get_close_matches(name, allowed, n=1)
                hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(allowed)}"
                self.refuse(f"{name!r} is unknown here; {hint}")
        return self

    def without(self, names: Collection[str], reason: str) -> None:
        """Refuse these names, for a reason."""
        for name in names:
            if self.values.get(name) is not None:
                self.refuse(f"{name} {reason}")

    def boolean(self, name: str, *, default: bool) -> bool:
        """Return a boolean."""
        value = self._value(name, default)
        if not isinstance(value, bool):
            self.refuse(f"{name} must be true or false, not {value!r}")
        return value

    def integer(self, name: str, *, default: int) -> int:
        """Return an integer."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(f"{name} must be a whole number, not {value!r}")
        return value

    def number(self, name: str, *, default: float) -> float:
        """Return a number."""
        return self._number(name, self._value(name, default))

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return a list of numbers; empty if absent."""
        return tuple(self._number(name, value) for value in self.items(name))

    def operator(self) -> Operator:
        """Return the operator: all words, or any."""
        value = self._value("operator", "or")
        try:
            return Operator(str(value).upper())
        except ValueError:
            self.refuse(f"operator must be 'and' or 'or', not {value!r}")

    def fuzziness(self) -> int | None:
        """Return the allowed edits; None for 'auto'."""
        value = self._value("fuzziness", 0)
        key = str(value).lower()
        if isinstance(value, bool) or key not in _FUZZINESS:
            self.refuse(f"fuzziness must be 0, 1, 2 or 'auto', not {value!r}")
        return _FUZZINESS[key]

    def text(self, name: str) -> str:
        """Return the search text."""
        value = self.values.get(name)
        if not isinstance(value, str):
            self.refuse(f"{name} must be a text: the words to look for")
        return self.require_text(value)

    def require_text(self, text: str) -> str:
        """Return the text; refuse a blank one."""
        if not text.strip():
            self.refuse("there are no words to look for")
        return text

    def optional_text(self, name: str) -> str | None:
        """Return a text, or None if absent."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            self.refuse(f"{name} must be a text, not {value!r}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; empty if absent."""
        values = self.items(name)
        texts = tuple(value for value in values if isinstance(value, str))
        if len(texts) < len(values):
            self.refuse(f"{name} must be a list of texts")
        return texts

    def objects(self, name: str) -> tuple[QueryFields, ...]:
        """Return a list of JSON objects."""
        return tuple(
            QueryFields.of(value, f"{self.place}.{name}[{index}]")
            for index, value in enumerate(self.items(name))
        )

    def items(self, name: str) -> tuple[object, ...]:
        """Return a list of any values; empty if absent."""
        value = self._value(name, [])
        if not isinstance(value, list):
            self.refuse(f"{name} must be a list, not {value!r}")
        return tuple(value)

    def _value(self, name: str, default: object) -> object:
        value = self.values.get(name)
        return default if value is None else value

    def _number(self, name: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(f"{name} must be a number, not {value!r}")
        return float(value)


TEXT_OPTIONS: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "operator": pa.string(),
        "fuzziness": pa.string(),
        "max_expansions": pa.int64(),
        "prefix_length": pa.int64(),
        "boost": pa.float64(),
        "phrase": pa.bool_(),
        "slop": pa.int64(),
    }
)
"""Options of a query that isn't JSON, and the types of their values; fuzziness may be a number as well."""

MAX_CHARACTERS = 100_000
"""A longer query was not written by anybody."""
MAX_QUERIES = 1_000
"""So many queries may be within one."""

_MATCH_OPTIONS = ("operator", "fuzziness", "max_expansions", "prefix_length", "boost")
_MATCH_FIELDS = ("terms", "column", *_MATCH_OPTIONS, "document_granularity")
_PHRASE_FIELDS = ("terms", "column", "slop", "document_granularity")
_COLUMNS_FIELDS = ("query", "columns", "boost", "operator")


def parse_text_query(columns: Sequence[str], query: str, options: Mapping[str, object]) -> TextQuery:
    """Parse the query of a call.

    Args:
        columns: where to look, wherever the query doesn't say so itself; several make multi-matches.
        query: words, a phrase in double quotes, or a JSON object.
        options: those of `TEXT_OPTIONS` that were given.

    Raises:
        InvalidInputError: the query is empty or malformed, or an option is unknown or doesn't go with it.
    """
    if len(query) > MAX_CHARACTERS:
        raise InvalidInputError(
            f"the text query has {len(query)} characters, and {MAX_CHARACTERS} are the most"
        )
    given = QueryFields("the text query", options)
    given.only(TEXT_OPTIONS)
    text = query.strip()
    if text.startswith("{"):
        for name in options:
            given.refuse(f"{name} must be given within the JSON if the query is JSON")
        return _Reader(tuple(columns)).query(_parse_json(text), "the text query", 1)
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    if not given.boolean("phrase", default=is_quoted):
        given.without(("slop",), "goes with phrases only: phrase => true makes the query one")
        return _parse_match(given, given.require_text(query), tuple(columns))
    given.without(_MATCH_OPTIONS, "doesn't go with phrases")
    return _phrase(given, given.require_text(text[1:-1] if is_quoted else text), tuple(columns))


def _parse_json(text: str) -> object:
    def refuse(constant: str) -> NoReturn:
        raise InvalidInputError(f"the text query's JSON has {constant}, which is not a number")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the text query begins with {{ and so must be JSON, but it isn't: {error}"
        ) from error


def _parse_match(fields: QueryFields, text: str, columns: tuple[str, ...]) -> MatchQuery | MultiMatchQuery:
    matches = tuple(
        MatchQuery(
            text,
            column,
            fields.operator(),
            fields.number("boost", default=1.0),
            fields.fuzziness(),
            fields.integer("prefix_length", default=0),
            fields.integer("max_expansions", default=50),
        )
        for column in columns
    )
    return matches[0] if len(matches) == 1 else MultiMatchQuery(matches)


def _phrase(fields: QueryFields, text: str, columns: tuple[str, ...]) -> PhraseQuery:
    if len(columns) != 1:
        fields.refuse(
            f"a phrase is looked for in one column, and there are {len(columns)}: {', '.join(columns)}; "
            "a boolean query in JSON looks for it in each"
        )
    return PhraseQuery(text, columns[0], fields.integer("slop", default=0))


class _Reader:
    """Reads one query's JSON.

    Args:
        columns: of the call.
    """

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self._left = MAX_QUERIES
        self._kinds: Mapping[str, Callable[[QueryFields, int], TextQuery]] = {
            "match": self._match,
            "phrase": self._phrase,
            "multi_match": self._multi_match,
            "combined_fields": self._combined_fields,
            "boolean": self._boolean,
            "boost": self._boost,
        }

    def query(self, value: object, place: str, depth: int) -> TextQuery:
        """Read the query of an object with a single name."""
        kinds = ", ".join(self._kinds)
        if not isinstance(value, dict) or len(value) != 1:
            raise InvalidInputError(
                f"{place}: a query is a JSON object with one name, its kind: one of {kinds}"
            )
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            raise InvalidInputError(
                f"too many queries within a text query: {MAX_QUERIES}, nested {MAX_DEPTH} deep, are the most"
            )
        [(kind, fields)] = value.items()
        if kind not in self._kinds:
            close = get_close_matches(kind, self._kinds, n=1)
            hint = f"did you mean {close[0]}?" if close else f"it must be one of {kinds}"
            raise InvalidInputError(f"{place}: a query of kind {kind!r} is unknown; {hint}")
        return self._kinds[kind](QueryFields.of(fields, f"{place}, {kind}"), depth)

    def _match(self, fields: QueryFields, _: int) -> TextQuery:
        return _parse_match(fields.only(_MATCH_FIELDS), fields.text("terms"), self._of(fields))

    def _phrase(self, fields: QueryFields, _: int) -> TextQuery:
        return _phrase(fields.only(_PHRASE_FIELDS), fields.text("terms"), self._of(fields))

    def _of(self, fields: QueryFields) -> tuple[str, ...]:
        granularity = fields.values.get("document_granularity")
        if granularity not in {None, "row"}:
            fields.refuse(f"document_granularity {granularity!r} isn't supported; 'row' is")
        column = fields.optional_text("column")
        return self._columns if column is None else (column,)

    def _multi_match(self, fields: QueryFields, _: int) -> TextQuery:
        if "match_queries" not in fields.values:
            fields.only(_COLUMNS_FIELDS)
            columns, boosts = fields.texts("columns") or self._columns, fields.numbers("boost")
            return MultiMatchQuery.of(fields.text("query"), columns, boosts, fields.operator())
        matches: list[MatchQuery] = []
        for part in fields.only(("match_queries",)).objects("match_queries"):
            found = _parse_match(part.only(_MATCH_FIELDS), part.text("terms"), self._of(part))
            matches.extend((found,) if isinstance(found, MatchQuery) else found.matches)
        return MultiMatchQuery(tuple(matches))

    def _combined_fields(self, fields: QueryFields, _: int) -> TextQuery:
        fields.only(_COLUMNS_FIELDS)
        columns, boosts = fields.texts("columns") or self._columns, fields.numbers("boost")
        return CombinedFieldsQuery(fields.text("query"), columns, boosts, fields.operator())

    def _boolean(self, fields: QueryFields, depth: int) -> TextQuery:
        fields.only(("must", "should", "must_not"))
        must, should, must_not = (
            tuple(
                self.query(value, f"{fields.place}.{name}[{index}]", depth + 1)
                for index, value in enumerate(fields.items(name))
            )
            for name in ("must", "should", "must_not")
        )
        return BooleanQuery(must, should, must_not)

    def _boost(self, fields: QueryFields, depth: int) -> TextQuery:
        fields.only(("positive", "negative", "negative_boost"))
        positive, negative = (
            self.query(fields.values.get(name), f"{fields.place}.{name}", depth + 1)
            for name in ("positive", "negative")
        )
        return BoostQuery(positive, negative, fields.number("negative_boost", default=0.5))
