"""The clauses of a MERGE.

MERGE INTO t [AS a] USING source [AS s] ON condition
  WHEN MATCHED [AND condition] THEN UPDATE SET .. | UPDATE SET * | DELETE | DO NOTHING
  WHEN NOT MATCHED [BY TARGET] [AND condition] THEN INSERT [(columns)] VALUES (..) | INSERT * | DO NOTHING
  WHEN NOT MATCHED BY SOURCE [AND condition] THEN UPDATE SET .. | DELETE | DO NOTHING
  [RETURNING ..]
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from planner.sql.statement_reader import NO_PART, Part, StatementReader
from planner.writes.dml.reading.rows_query import read_returning
from planner.writes.dml.statement.text import WriteText

_THEN = (("THEN",),)
_NEXT = (("WHEN",), ("RETURNING",))


class Match(Enum):
    """Which rows a clause matches."""

    MATCHED = "MATCHED"
    NOT_BY_TARGET = "NOT MATCHED"
    NOT_BY_SOURCE = "NOT MATCHED BY SOURCE"


class Action(Enum):
    """What a clause does with the rows."""

    UPDATE = "UPDATE"
    DELETE = "DELETE"
    INSERT = "INSERT"
    NOTHING = "DO NOTHING"


@dataclass(frozen=True, slots=True)
class ClauseText:
    """One WHEN clause.

    Attributes:
        match: which rows the clause matches.
        condition: condition behind AND; may be empty.
        action: what to do with the rows.
        assignments: assignments of SET; empty for `SET *`.
        columns: column list of INSERT, each name with its token; None for all columns.
        values: values of INSERT; None for `INSERT *`.
    """

    match: Match
    condition: Part
    action: Action
    assignments: Part = NO_PART
    columns: tuple[tuple[str, int], ...] | None = None
    values: tuple[Part, ...] | None = None


@dataclass(frozen=True, slots=True)
class MergeText:
    """The clauses of a MERGE.

    Attributes:
        target: parts of the table's name.
        alias: alias of the table.
        common_tables: WITH before MERGE.
        source: the source with its alias.
        source_name: name or alias of the source.
        condition: condition behind ON.
        clauses: WHEN clauses, in order.
        returning: expressions of RETURNING.
    """

    target: tuple[str, ...]
    alias: str | None
    common_tables: Part
    source: Part
    source_name: str
    condition: Part
    clauses: tuple[ClauseText, ...]
    returning: Part


def read_merge(statement: WriteText) -> MergeText:
    """Parse a MERGE.

    Raises:
        InvalidInputError: the statement has a syntax error; names its position.
    """
    reader = statement.reader()
    common_tables = reader.common_tables()
    reader.expect("MERGE")
    reader.take("INTO")
    target = reader.read_written_name()
    alias = reader.alias("USING")
    reader.expect("USING")
    source, source_name = _read_source(reader)
    reader.expect("ON")
    condition = reader.until(("WHEN",))
    if not condition:
        raise reader.unexpected_error("A condition is expected behind ON")
    clauses = []
    while reader.take("WHEN"):
        clauses.append(_read_clause(reader))
    if not clauses:
        raise reader.unexpected_error("WHEN [NOT] MATCHED .. THEN .. is expected")
    answer = read_returning(reader)
    reader.expect_end()
    return MergeText(target, alias, common_tables, source, source_name, condition, tuple(clauses), answer)


def _read_source(reader: StatementReader) -> tuple[Part, str]:
    """Read a table, function or query, and return it with its name."""
    first, name = reader.at, "source"
    if reader.word == "(":
        reader.at = reader.closing() + 1
    else:
        name = reader.read_qualified_name("A table or a query in brackets")[-1]
        if reader.word == "(":
            reader.at = reader.closing() + 1
    alias = reader.alias("ON")
    if alias is not None:
        name = alias
        if reader.word == "(":
            reader.at = reader.closing() + 1
    return range(first, reader.at), name


def _read_clause(reader: StatementReader) -> ClauseText:
    match = Match.MATCHED
    if reader.take("NOT"):
        match = Match.NOT_BY_TARGET
    reader.expect("MATCHED")
    if match is Match.NOT_BY_TARGET and reader.take("BY"):
        if reader.take("SOURCE"):
            match = Match.NOT_BY_SOURCE
        else:
            reader.expect("TARGET")
    condition = NO_PART
    if reader.take("AND"):
        condition = reader.until(*_THEN)
        if not condition:
            raise reader.unexpected_error("A condition is expected behind AND")
    reader.expect("THEN")
    if reader.take("DO", "NOTHING"):
        return ClauseText(match, condition, Action.NOTHING)
    if match is Match.NOT_BY_TARGET:
        return _read_insert(reader, condition)
    if reader.take("DELETE"):
        return ClauseText(match, condition, Action.DELETE)
    if not reader.take("UPDATE"):
        raise reader.unexpected_error("UPDATE, DELETE or DO NOTHING is expected")
    reader.expect("SET")
    if match is Match.MATCHED and reader.take("*"):
        return ClauseText(match, condition, Action.UPDATE)
    return ClauseText(match, condition, Action.UPDATE, reader.until(*_NEXT))


def _read_insert(reader: StatementReader, condition: Part) -> ClauseText:
    if not reader.take("INSERT"):
        raise reader.unexpected_error("INSERT or DO NOTHING is expected: there is no row of the table")
    if reader.take("*") or reader.take("ROW"):
        return ClauseText(Match.NOT_BY_TARGET, condition, Action.INSERT)
    columns = reader.read_name_list("The name of a column") if reader.word == "(" else None
    reader.expect("VALUES")
    if reader.word != "(":
        raise reader.unexpected_error("Values in brackets are expected")
    values = tuple(reader.read_bracketed_list())
    return ClauseText(Match.NOT_BY_TARGET, condition, Action.INSERT, columns=columns, values=values)
