"""How text queries are written: plain words with options, a quoted phrase, or JSON.

    puppy training                                      any of the words
    "puppy training"                                    the phrase
    {"match": {"terms": "puppy training", "operator": "And"}}
    {"boolean": {"must": [{"match": {"terms": "puppy"}}], "must_not": [{"phrase": {"terms": "for sale"}}]}}

The JSON is that of LanceDB's full-text queries. Where it names no column, those of the call are meant.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import NoReturn

import pyarrow as pa

from execnodes.text.query import (
    MAX_DEPTH,
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    MatchQuery,
    MultiMatchQuery,
    PhraseQuery,
    TextQuery,
)
from execnodes.text.query_fields import QueryFields
from memwal.errors import InvalidInputError

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
    """The query that a call means.

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
            given.refuse(f"{name} is said within the JSON when the query is JSON")
        return _Reader(tuple(columns)).query(_json(text), "the text query", 1)
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    if not given.boolean("phrase", default=is_quoted):
        given.without(("slop",), "goes with phrases only: phrase => true makes the query one")
        return _match(given, given.not_blank(query), tuple(columns))
    given.without(_MATCH_OPTIONS, "doesn't go with phrases")
    return _phrase(given, given.not_blank(text[1:-1] if is_quoted else text), tuple(columns))


def _json(text: str) -> object:
    def refuse(constant: str) -> NoReturn:
        raise InvalidInputError(f"the text query's JSON has {constant}, which is no number")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the text query begins with {{ and so must be JSON, but it isn't: {error}"
        ) from error


def _match(fields: QueryFields, text: str, columns: tuple[str, ...]) -> MatchQuery | MultiMatchQuery:
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
        """The query that an object with one name says."""
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
        return _match(fields.only(_MATCH_FIELDS), fields.text("terms"), self._of(fields))

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
            found = _match(part.only(_MATCH_FIELDS), part.text("terms"), self._of(part))
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
