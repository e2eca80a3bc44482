"""Translates SQL of other systems to DataFusion's SQL.

sqlglot parses the dialect. Then names, parameters, clauses and functions are rewritten for DataFusion, and
the tree is written as text. A construct without a rule is refused, so that it never has another meaning.

========================  ===========================================================================
`source`                  the statement's text, its parameters, and positions of errors
`names`                   case and quotes of names
`clauses`                 FROM, ORDER BY, QUALIFY, hints; constructs that are not supported
`dates`                   intervals, parts and formats of dates
`date_differences`        differences of dates
`aggregates`              aggregates, their order and their NULLs
`vectors`                 distances between vectors
`synonyms`                functions that sqlglot knows by name alone
`rounding`                casts of fractions
`functions`               everything else that is called or cast
========================  ===========================================================================
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType

import sqlglot
from cachetools import LRUCache
from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.errors import UnsupportedError as Untranslatable

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError, copy_error
from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA, TableName
from lance_gateway.planner.sql.dialects import (
    aggregates,
    clauses,
    functions,
    json_calls,
    rounding,
    synonyms,
    vectors,
)
from lance_gateway.planner.sql.dialects import (
    names as dialect_names,
)
from lance_gateway.planner.sql.dialects.build import Rule, native
from lance_gateway.planner.sql.dialects.instants import date_differences, dates
from lance_gateway.planner.sql.dialects.names import KnownNames
from lance_gateway.planner.sql.dialects.source import (
    DialectSource,
    find_parameter,
    parse_statements,
    refuse_misplaced_parameters,
    strip_marks,
)
from lance_gateway.planner.sql.text.tokens import PlacedMessage, find_place

NATIVE = "postgres"
"""The dialect that DataFusion parses itself."""

_REMEMBERED_CHARACTERS = 4 << 20
_MAX_ALIAS = 120
_BEFORE: Mapping[type[exp.Expr], Rule] = MappingProxyType(
    {**functions.BEFORE, **dates.BEFORE, **vectors.BEFORE}
)
_RULES: Mapping[type[exp.Expr], Rule] = MappingProxyType(
    {
        **functions.RULES,
        **dates.RULES,
        **date_differences.RULES,
        **aggregates.RULES,
        **vectors.RULES,
        **json_calls.RULES,
    }
)


@dataclass(frozen=True, slots=True)
class _Statement:
    """The key of a statement: its text and dialect, and the schema of names without one."""

    dialect: str
    text: str
    schema: str


@dataclass(frozen=True, slots=True)
class _Translation:
    """The key of a translation: the statement, and the names that it depends on.

    Attributes:
        said: the statement.
        names: of its tables and their columns.
        fractions: columns with fractions.
    """

    statement: _Statement
    names: tuple[str, ...]
    fractions: tuple[str, ...]


_tables: LRUCache[_Statement, tuple[TableName, ...]] = LRUCache(
    _REMEMBERED_CHARACTERS, getsizeof=lambda names: 256 + sum(map(len, names))
)
"""Statement -> tables that it names."""
_texts: LRUCache[_Translation, str] = LRUCache(
    _REMEMBERED_CHARACTERS, getsizeof=lambda text: 256 + 2 * len(text)
)
"""Statement, and what it names -> translation."""
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A statement; `source` and `tree` are None where it is the same in all dialects."""

    source: DialectSource | None
    tree: exp.Expr | None


def to_native(sql: str, dialect: str, known: KnownNames | None = None, schema: str = MAIN_SCHEMA) -> str:
    """Translate one statement.

    Args:
        sql: in the dialect. Statements other than queries, and what is asked of queries (EXPLAIN, DESCRIBE),
            are the same in every dialect; the query in them is translated.
        dialect: "postgres" (returned as it is), "spark", "duckdb", "mysql", "snowflake", "bigquery", "trino".
        known: the tables of the catalog, for dialects whose names are not case-sensitive.
        schema: of names without one.

    Returns:
        Text for DataFusion. Parameters are $1, $2, ... in the order in which they stand in `sql`.

    Raises:
        InvalidInputError: a syntax error, with line and excerpt.
        UnsupportedError: a construct has no translation, with line and excerpt.
    """
    if dialect == NATIVE:
        return sql
    with report_translation_errors(dialect):
        return _translate_or_reuse(sql, dialect, known, schema)


@contextmanager
def report_translation_errors(dialect: str) -> Iterator[None]:
    """Translate exceptions of sqlglot to errors for clients."""
    try:
        yield
    except RecursionError:
        raise InvalidInputError(f"{dialect} SQL: the statement is nested too deeply") from None
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        # Most often, a function has too few arguments.
        raise UnsupportedError(
            f"{dialect} SQL: the statement cannot be translated; check its functions and their arguments, or "
            f"write it in the dialect {NATIVE}"
        ) from error


def _translate_or_reuse(sql: str, dialect: str, known: KnownNames | None, schema: str) -> str:
    parsed, statement = None, _Statement(dialect, sql, schema)
    with _lock:
        tables = _tables.get(statement)
    if tables is None:
        parsed = _parse(sql, dialect)
        tables = () if parsed.tree is None else dialect_names.find_tables(parsed.tree, schema)
    names, fractions = look_up_names(tables, dialect, known)
    translation = _Translation(statement, names, fractions)
    with _lock:
        text = _texts.get(translation)
    if text is None:
        text = _translate(parsed or _parse(sql, dialect), sql, names, fractions)
        with _lock:
            if len(sql) + len(text) < _REMEMBERED_CHARACTERS // 8:
                _tables[statement] = tables
                _texts[translation] = text
    return text


@contextmanager
def note_translation(dialect: str) -> Iterator[None]:
    """Add to errors with a position that it refers to the translated text."""
    try:
        yield
    except LanceGatewayError as error:
        place = find_place(error)
        if dialect == NATIVE or place is None:
            raise
        note = f"\n(in what the {dialect} statement was translated to)"
        raise copy_error(error, replace(place, note=note)) from error


def _parse(sql: str, dialect: str) -> _Parsed:
    source = DialectSource.of(sql, dialect).locate_query()
    if source is None:
        return _Parsed(None, None)
    try:
        trees = parse_statements(source.text[source.query :], dialect)
    except ParseError as error:
        raise syntax_error(source, error) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise InvalidInputError(
            f"{dialect} SQL: one query is expected, and {len(trees)} statements stand there"
        )
    return _Parsed(source, trees[0])


def _translate(parsed: _Parsed, sql: str, names: tuple[str, ...], fractions: tuple[str, ...]) -> str:
    source, tree = parsed.source, parsed.tree
    if source is None or tree is None:
        return sql.replace("`", '"')
    # Only the words, since comments among them may not be valid in DataFusion.
    prefix = "".join(f"{word} " for word, start in source.starts if start < source.query)
    return prefix + write_native(tree, source, names, fractions)


def look_up_names(
    tables: tuple[TableName, ...], dialect: str, known: KnownNames | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Look up the facts about tables that the translation of a statement depends on.

    Returns:
        The spellings of the tables and their columns, and the columns with fractions, if the dialect needs
        them.
    """
    names: tuple[str, ...] = ()
    fractions: tuple[str, ...] = ()
    if known is not None and dialect in dialect_names.CASE_INSENSITIVE:
        names = dialect_names.find_spellings(tables, known)
    if known is not None and dialect in rounding.ROUNDING:
        fractions = rounding.find_fractional_columns(tables, known)
    return names, fractions


def write_native(
    tree: exp.Expr, source: DialectSource, names: tuple[str, ...], fractions: tuple[str, ...] = ()
) -> str:
    """Write a parsed statement in DataFusion's SQL.

    Args:
        tree: of the statement, which is changed.
        source: its text.
        names: spellings of its tables and their columns.
        fractions: columns with fractions.

    Raises:
        UnsupportedError: a construct has no translation, with line and excerpt.
    """
    for select in list(tree.find_all(exp.Select)):
        _name_columns(select, source)
    for column in list(tree.find_all(exp.Column)):
        numbered = find_parameter(column)
        if numbered is not None:
            column.replace(numbered)
    refuse_misplaced_parameters(tree, source)
    rounding.mark_rounded(tree, source, fractions)
    synonyms.resolve(tree, source)
    clauses.prepare(tree, source)
    dialect_names.spell(tree, source, names)
    try:
        return native(_apply_rules(tree, source))
    except Untranslatable as error:
        raise UnsupportedError(f"{source.dialect} SQL: {error}") from None


def _apply_rules(node: exp.Expr, source: DialectSource) -> exp.Expr:
    """Apply the rules, innermost nodes first."""
    before = _BEFORE.get(type(node))
    if before is not None:
        before(node, source)
    for child in list(node.iter_expressions()):
        translated = _apply_rules(child, source)
        if translated is not child:
            child.replace(translated)
    if isinstance(node, exp.Select):
        clauses.keep_qualify(node)
    rule = _RULES.get(type(node))
    if rule is None:
        if isinstance(node, exp.Func):
            source.refuse(node, f"the function {node.sql_name()} is not supported")
        return node
    replacement = rule(node, source)
    return node if replacement is None else replacement


def _name_columns(select: exp.Select, source: DialectSource) -> None:
    """Name columns after their expressions in the client's dialect, before these are translated."""
    named = (exp.Column, exp.Alias, exp.Aliases, exp.Star, exp.PropertyEQ)
    taken = {column.alias_or_name.lower() for column in select.expressions if isinstance(column, named)}
    for column in list(select.expressions):
        if isinstance(column, named):
            continue
        text = column.sql(dialect=source.dialect, comments=False, unsupported_level=sqlglot.ErrorLevel.IGNORE)
        name = plain = strip_marks(text)[:_MAX_ALIAS]
        number = 1
        while name.lower() in taken:
            number += 1
            name = f"{plain}_{number}"
        taken.add(name.lower())
        column.replace(exp.alias_(column.copy(), name, quoted=True))


def syntax_error(source: DialectSource, error: ParseError) -> InvalidInputError:
    """Return a syntax error of sqlglot's parser with its place in the client's text."""
    details = error.errors[0] if error.errors else {}
    reason = str(details.get("description") or "it can't be read").rstrip(". ")
    line, column, highlight = details.get("line"), details.get("col"), details.get("highlight") or ""
    message = f"Syntax error in {source.dialect} SQL: {reason}"
    if not line or not column:
        return InvalidInputError(f"{message}, in {source.sql[:200]}")
    lines = source.text[source.query :].split("\n")
    offset = source.query + sum(len(text) + 1 for text in lines[: line - 1]) + max(column - len(highlight), 0)
    return InvalidInputError(PlacedMessage(source.sql, source.position(offset), message))
