"""Translates INSERT, UPDATE, DELETE and MERGE from other dialects.

sqlglot parses them. Clauses become those of this gateway; expressions are translated like those of queries.

    mysql      INSERT .. ON DUPLICATE KEY UPDATE a = VALUES(a)     ON CONFLICT .. DO UPDATE SET a = excluded.a
    mysql      REPLACE INTO t ..                                   INSERT INTO t ..
    bigquery   INSERT ROW                                          INSERT *
"""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import ParseError

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA
from lance_gateway.planner.sql.dialects import names
from lance_gateway.planner.sql.dialects.names import KnownNames
from lance_gateway.planner.sql.dialects.source import DialectSource, parse_statements
from lance_gateway.planner.sql.dialects.translate import (
    look_up_names,
    report_translation_errors,
    syntax_error,
    write_native,
)

_WRITES = re.compile(r"\b(?:insert|replace|update|delete|merge|truncate)\b", re.IGNORECASE)
_WORDS = frozenset({"insert", "replace", "update", "delete", "merge", "truncate"})
_MAYBE_QUERY = frozenset({"with", "explain"})
_STATEMENTS = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.TruncateTable)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(?:ANALYZE\s+)?(?:VERBOSE\s+)?(?:FORMAT\s+\w+\s+)?", re.IGNORECASE)
_REPLACE = re.compile(r"^(\s*)REPLACE(?=\s+INTO\b)", re.IGNORECASE)


def is_dml(word: str, sql: str) -> bool:
    """Whether a statement with this first word may write rows."""
    return word in _WORDS or (word in _MAYBE_QUERY and _WRITES.search(sql) is not None)


def translate_dml(sql: str, dialect: str, known: KnownNames, schema: str = MAIN_SCHEMA) -> str | None:
    """Translate a statement that writes.

    Args:
        sql: text in the dialect.
        dialect: name of the dialect.
        known: names of the tables that exist; they decide about case in dialects that ignore it.
        schema: of names without one.

    Returns:
        The translated text; None for a query.

    Raises:
        InvalidInputError: the text has a syntax error; names line and excerpt.
        UnsupportedError: a construct can't be translated; names line and excerpt.
    """
    explain = _EXPLAIN.match(sql)
    if explain is not None:
        text = translate_dml(sql[explain.end() :], dialect, known, schema)
        return None if text is None else explain[0] + text
    with report_translation_errors(dialect):
        # sqlglot does not read REPLACE; of the same length, so that places stay as they are.
        source = DialectSource.of(_REPLACE.sub(lambda found: f"{found[1]}INSERT ", sql), dialect)
        try:
            trees = parse_statements(source.text, dialect)
        except ParseError as error:
            raise syntax_error(source, error) from None
        if len(trees) == 1 and isinstance(trees[0], exp.Query):
            return None
        if len(trees) != 1 or not isinstance(trees[0], _STATEMENTS):
            msg = f"{dialect} SQL: one INSERT, UPDATE, DELETE or MERGE is expected; write it in postgres SQL"
            raise InvalidInputError(msg) if len(trees) != 1 else UnsupportedError(msg)
        (tree,) = trees
        _rewrite_expressions(tree)
        return write_native(tree, source, *look_up_names(names.find_tables(tree, schema), dialect, known))


def _rewrite_expressions(tree: exp.Expr) -> None:
    """Replace VALUES(column) by excluded.column, and the column DEFAULT by the keyword."""
    for call in list(tree.find_all(exp.Anonymous)):
        if call.name.upper() == "VALUES" and len(call.expressions) == 1:
            column = call.expressions[0]
            name = column.this if isinstance(column, exp.Column) else column
            call.replace(exp.Column(this=name.copy(), table=exp.to_identifier("excluded")))
    for column in list(tree.find_all(exp.Column)):
        name = column.this
        is_bare = len(column.parts) == 1 and isinstance(name, exp.Identifier) and not name.quoted
        if is_bare and name.name.upper() == "DEFAULT":
            column.replace(exp.Var(this="DEFAULT"))
