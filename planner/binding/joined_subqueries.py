"""Statements with joins in place of subqueries that DataFusion refuses, or answers wrongly.

    EXPLAIN SELECT id, EXISTS (SELECT 1 FROM items WHERE items.n < orders.n AND items.k = ?) AS e FROM orders
->  EXPLAIN SELECT id, NOT ("rows#7"."found#8" IS NULL) AS e
    FROM orders LEFT JOIN (.. items.k = $1 ..) AS "rows#7" ON ..

See `planner.sql.subqueries` for how.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from sqlglot import exp

from memwal.errors import LanceGatewayError, UnsupportedError
from memwal.storage.table_names import MAIN_SCHEMA
from planner.binding.changes.positions import STATE_FUNCTIONS
from planner.binding.names import NameResolver
from planner.search.search_call import SearchFunction
from planner.sql.forms import number_marks
from planner.sql.rules.dialect import find_query
from planner.sql.standard.spell_out import spell_out
from planner.sql.subqueries.dialect import RewritingError, parse_query
from planner.sql.subqueries.domains import output_names
from planner.sql.subqueries.rewriting import (
    JoinedStatement,
    ReadStatement,
    has_mistaken_subqueries,
    join_subqueries,
    read_statement,
)
from planner.sql.subqueries.trees import derived
from planner.sql.tokens import quote, tokenize

_SEARCHES: Final = frozenset(
    name.upper() for name in (*STATE_FUNCTIONS, *(function.value for function in SearchFunction))
)
"""Their columns are not known here: statements with these functions stay as they are."""
_CALL_COLUMNS: Final = (
    "_change", "_position", "_changed_at", "_sequence", "_rows", "_distance", "_score", "_hybrid_score",
)  # fmt: skip
"""Columns of what these functions return, besides those of the table that the first text names."""
_SUSPECT: Final = re.compile(
    r"\b(?:LATERAL|UNNEST)\b"
    r"|(?=.*\b(?:OFFSET|LIMIT|FETCH|HAVING|FILTER|OVER|LEFT|RIGHT|FULL)\b).*\bSELECT\b.*\bSELECT\b",
    re.IGNORECASE | re.DOTALL,
)
"""Texts in which DataFusion may answer a subquery wrongly."""


_LATERAL: Final = re.compile(r"\bLATERAL\b", re.IGNORECASE)


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
    if not _SUSPECT.match(sql):
        return None
    is_mistaken, has_lists = _LATERAL.search(sql) is not None, False
    try:
        before, tree = _read(sql)
        has_lists = any(one.args.get("offset") or one.find(exp.Column) for one in tree.find_all(exp.Unnest))
        is_mistaken = has_lists or tree.find(exp.Lateral) is not None
        if _find_searches(tree):
            _check_beside_calls(tree, resolver, schema, has_lists=has_lists)
            return None
        statement = read_statement(tree, resolver, schema)
        is_mistaken = has_mistaken_subqueries(statement)
        return _join(before, statement) if is_mistaken else None
    except RewritingError as error:
        if is_mistaken and has_lists:
            msg = f"UNNEST beside a relation can't be planned in this statement: {error}"
            raise UnplannedRelationError(msg) from error
        if is_mistaken:
            msg = (
                f"DataFusion would answer a subquery of this statement wrongly, and it is not joined: {error}"
            )
            raise UnsupportedError(msg) from error
    except UnplannedRelationError:
        raise
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


def _find_searches(tree: exp.Query) -> list[exp.Table]:
    tables = tree.find_all(exp.Table)
    return [
        one for one in tables if isinstance(one.this, exp.Anonymous) and one.this.name.upper() in _SEARCHES
    ]


def _check_beside_calls(tree: exp.Query, resolver: NameResolver, schema: str, *, has_lists: bool) -> None:
    """Refuse subqueries that DataFusion would answer wrongly in a statement with a search, or changes.

    Raises:
        UnplannedRelationError: there is one.
    """
    if has_lists:
        msg = (
            "UNNEST of columns beside a relation is not supported in statements with a search: write FROM "
            "(SELECT *, unnest(tags) AS tag FROM ..)"
        )
        raise UnplannedRelationError(msg)
    # Relations of the same columns are in the place of calls, to find out what they are read by.
    columns = ", ".join(("*", *(f"0 AS {name}" for name in _CALL_COLUMNS)))
    for table in _find_searches(tree):
        named = next((one for one in table.find_all(exp.Literal) if one.is_string), None)
        if named is not None:
            relation = parse_query(f"SELECT {columns} FROM {quote(named.name)}")  # noqa: S608 - not run
            table.replace(derived(relation, table.alias or table.this.name))
    try:
        read = read_statement(tree, resolver, schema)
    except (RewritingError, LanceGatewayError, RecursionError):
        return  # it is not known, or binding raises it
    # Others may be computed once, wherever they are.
    if has_mistaken_subqueries(read, correlated=True):
        msg = (
            "DataFusion would answer a subquery of this statement wrongly, and it is not joined beside a "
            "search, lance_changes or lance_position: write their rows into a table, as by CREATE "
            "TEMPORARY TABLE .. AS SELECT, and read that"
        )
        raise UnplannedRelationError(msg)


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
        before, tree = _read(sql)
        return _join(before, read_statement(tree, resolver, schema))
    except RecursionError:
        msg = "it is nested too deeply"
        raise RewritingError(msg) from None


def _read(sql: str) -> tuple[str, exp.Query]:
    """Return what is before the query of a statement, and its tree."""
    numbered, _ = number_marks(spell_out(tokenize(sql)))
    start = find_query(numbered)
    return numbered[:start], parse_query(numbered[start:])


def _join(before: str, statement: ReadStatement) -> JoinedStatement:
    joined = join_subqueries(statement)
    return replace(joined, sql=before + joined.sql)
