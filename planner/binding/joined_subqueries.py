"""Statements with joins in place of subqueries that DataFusion refuses, or answers wrongly.

    EXPLAIN SELECT id, EXISTS (SELECT 1 FROM items WHERE items.n < orders.n AND items.k = ?) AS e FROM orders
->  EXPLAIN SELECT id, NOT ("rows#7"."found#8" IS NULL) AS e
    FROM orders LEFT JOIN (.. items.k = $1 ..) AS "rows#7" ON ..

See `planner.sql.subqueries` for how.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError
from memwal.storage.table_names import MAIN_SCHEMA
from planner.binding.changes.positions import STATE_FUNCTIONS
from planner.binding.names import NameResolver
from planner.search.search_call import SearchFunction
from planner.sql.edits import Edit, apply_edits
from planner.sql.forms import write_forms
from planner.sql.references import find_references
from planner.sql.rewrites.misread_clauses import has_unnested_columns
from planner.sql.subqueries.dialect import RewritingError, parse_query, parse_unchecked, write_parameter
from planner.sql.subqueries.domains import output_names
from planner.sql.subqueries.rewriting import (
    JoinedStatement,
    ReadStatement,
    has_mistaken_subqueries,
    join_subqueries,
    read_statement,
)
from planner.sql.tokens import STRING, SqlText, number_parameters, quote, tokenize

_PREFIXES: Final = frozenset(
    {"EXPLAIN", "ANALYZE", "VERBOSE", "FORMAT", "TREE", "INDENT", "JSON", "DESCRIBE", "DESC"}
)
_SEARCHES: Final = frozenset(
    name.upper() for name in (*STATE_FUNCTIONS, *(function.value for function in SearchFunction))
)
"""Their columns are not known here: statements with these functions stay as they are."""
_CALL_COLUMNS: Final = (
    "_change", "_position", "_changed_at", "_sequence", "_rows", "_distance", "_score", "_hybrid_score",
)  # fmt: skip
"""Columns of what these functions return, besides those of the table that the first text names."""
_STARTS: Final = frozenset({"SELECT", "WITH"})
_ENDS: Final = frozenset({"OFFSET", "LIMIT", "FETCH", "HAVING"})
_MISTAKEN: Final = frozenset({"FILTER", "OVER", "LEFT", "RIGHT", "FULL"})
"""Words around or in a subquery that DataFusion may answer wrongly."""
_BEFORE_RELATIONS: Final = frozenset({"FROM", "JOIN", ",", "AS", ""})


class UnplannedRelationError(UnsupportedError):
    """A relation reads others beside it in a way that is not planned; DataFusion's words would mislead."""


def join_mistaken(sql: str, resolver: NameResolver, schema: str = MAIN_SCHEMA) -> JoinedStatement | None:
    """Return a statement that DataFusion would answer wrongly with joins; None if there is nothing to change.

    Args:
        sql: a statement.
        resolver: of the names in it.
        schema: of names without one.

    Raises:
        UnsupportedError: it can't be written so, or reads what a function returns; the text tells why.
    """
    try:
        text = tokenize(sql)
    except (InvalidInputError, UnsupportedError):
        return None  # binding raises it
    if not _may_be_mistaken(text):
        return None
    if text.has_any(_SEARCHES):
        if has_unnested_columns(text):
            msg = (
                "UNNEST of columns beside a relation is not offered in statements with a search: write FROM "
                "(SELECT *, unnest(tags) AS tag FROM ..)"
            )
            raise UnplannedRelationError(msg)
        _check_beside_calls(text, resolver, schema)
        return None
    is_mistaken = "LATERAL" in text.words or has_unnested_columns(text)
    try:
        before, query = _divide(write_forms(text))
        try:
            statement = read_statement(query, resolver, schema)
        except RewritingError:
            unchecked = read_statement(query, resolver, schema, parse_unchecked)
            # Others may be computed once, wherever they are.
            is_mistaken = is_mistaken or has_mistaken_subqueries(unchecked, correlated=True)
            raise
        is_mistaken = has_mistaken_subqueries(statement)
        return _join(before, statement) if is_mistaken else None
    except RewritingError as error:
        if is_mistaken:
            if has_unnested_columns(text):
                msg = f"UNNEST beside a relation can't be planned in this statement: {error}"
                raise UnplannedRelationError(msg) from error
            msg = (
                f"DataFusion would answer a subquery of this statement wrongly, and it is not joined: {error}"
            )
            raise UnsupportedError(msg) from error
    except (LanceGatewayError, RecursionError):
        pass  # binding raises it
    return None


def join_view(sql: str, resolver: NameResolver, schema: str) -> str:
    """Return the query of a view, with joins in place of subqueries that DataFusion would answer wrongly.

    Args:
        sql: the query.
        resolver: of the names in it.
        schema: of names without one.

    Raises:
        UnsupportedError: it can't be written so; the text tells why.
    """
    joined = join_mistaken(sql, resolver, schema)
    if joined is None or not joined.names:
        return sql if joined is None else joined.sql
    try:
        names = output_names(parse_query(joined.sql))
    except RewritingError as error:
        msg = f"a subquery without a name beside * is not joined in a view: give it a name with AS ({error})"
        raise UnsupportedError(msg) from error
    outputs = ", ".join(f"{quote(name)} AS {quote(joined.names.get(name, name))}" for name in names)
    return f"SELECT {outputs} FROM ({joined.sql}) AS {quote('joined')}"  # noqa: S608 - names are quoted


def _check_beside_calls(text: SqlText, resolver: NameResolver, schema: str) -> None:
    """Refuse subqueries that DataFusion would answer wrongly in a statement with a search, or changes.

    Raises:
        UnsupportedError: there is one.
    """
    try:
        _, query = _divide(write_forms(text))
        read = read_statement(_write_stand_ins(tokenize(query)), resolver, schema, parse_unchecked)
    except (RewritingError, LanceGatewayError, RecursionError):
        return  # it is not known, or binding raises it
    # Others may be computed once, wherever they stand.
    if has_mistaken_subqueries(read, correlated=True):
        msg = (
            "DataFusion would answer a subquery of this statement wrongly, and it is not joined beside a "
            "search, lance_changes or lance_position: write their rows into a table, as by CREATE "
            "TEMPORARY TABLE .. AS SELECT, and read that"
        )
        raise UnsupportedError(msg)


def _write_stand_ins(text: SqlText) -> str:
    """Return a statement with relations of the same columns in the place of calls, to tell what it reads."""
    edits = []
    for site in find_references(text).functions:
        arguments = range(site.opening + 1, site.closing)
        first = next((i for i in arguments if text.words[i] == STRING), None)
        if first is None or site.name.upper() not in _SEARCHES:
            continue
        items = ["*", *(f"0 AS {name}" for name in _CALL_COLUMNS)]
        relation = f"(SELECT {', '.join(items)} FROM {text.tokens[first].text})"  # noqa: S608 - it is read, not run
        name = "" if site.has_alias else f" AS {site.name}"
        edits.append(Edit.replace(text.start(site.first), text.end(site.closing), f"{relation}{name}"))
    return apply_edits(text.sql, edits)


def join_unplanned(sql: str, resolver: NameResolver, schema: str = MAIN_SCHEMA) -> JoinedStatement:
    """Return a statement that DataFusion refuses with joins.

    Args:
        sql: a statement.
        resolver: of the names in it.
        schema: of names without one.

    Raises:
        RewritingError: it can't be written so; the text tells why.
        LanceGatewayError: it is no statement.
    """
    try:
        before, query = _divide(write_forms(tokenize(sql)))
        return _join(before, read_statement(query, resolver, schema))
    except RecursionError:
        msg = "it is nested too deeply"
        raise RewritingError(msg) from None


def _join(before: str, statement: ReadStatement) -> JoinedStatement:
    joined = join_subqueries(statement)
    return replace(joined, sql=before + joined.sql)


def _may_be_mistaken(text: SqlText) -> bool:
    """Return whether the words of a statement are such that DataFusion may answer a subquery wrongly."""
    words = text.words
    if "LATERAL" in words or has_unnested_columns(text):
        return True
    if words.count("SELECT") < 2:
        return False
    for i, word in enumerate(words[:-1]):
        is_subquery = word == "(" and words[i + 1] in _STARTS and words[i - 1] not in _BEFORE_RELATIONS
        if is_subquery and any(words[k] in _ENDS for k in text.level(i + 1)):
            return True
    return not _MISTAKEN.isdisjoint(words)


def _divide(text: SqlText) -> tuple[str, str]:
    """Return what stands before the query of a statement, and the query with marks for parameters."""
    words = text.words
    start = next((i for i, word in enumerate(words) if word not in _PREFIXES), 0)
    if words[start] not in _STARTS and words[start] != "(":
        msg = "it is no query"
        raise RewritingError(msg)
    begin = text.start(start)
    pieces, position = [], begin
    slots, _ = number_parameters(text)
    for i, ordinal in slots.items():
        pieces += [text.sql[position : text.start(i)], write_parameter(ordinal + 1)]
        position = text.end(i + (words[i] == "$"))
    return text.sql[:begin], "".join([*pieces, text.sql[position:]])
