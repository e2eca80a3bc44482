"""The clauses of an INSERT.

[WITH ..] INSERT [OR REPLACE] INTO t [AS a] [(columns)] | REPLACE INTO ..
  VALUES .. | DEFAULT VALUES | TABLE x | a query
  [ON CONFLICT [(key)] DO NOTHING | DO UPDATE SET ..] [RETURNING ..]
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from memwal.errors import UnsupportedError
from planner.sql.tokens import at_position
from planner.writes.dml.insert.values import read_rows
from planner.writes.dml.statement.reader import NO_PART, Part, Reader, WriteText, skip_common_tables
from planner.writes.dml.writing.returning import read_returning

__all__ = ["ConflictText", "InsertText", "OnConflict", "read_insert"]

_ENDS = (("ON", "CONFLICT"), ("ON", "DUPLICATE"), ("RETURNING",))
_QUERY = frozenset({"SELECT", "WITH", "FROM", "(", "TABLE"})


class OnConflict(Enum):
    """What becomes of a row whose key is there already."""

    REPLACE = "replace"
    NOTHING = "nothing"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class ConflictText:
    """ON CONFLICT.

    Attributes:
        action: what to do.
        columns: of the conflict's target, each with its token; () without one.
        assignments: behind SET.
        condition: behind WHERE.
    """

    action: OnConflict
    columns: tuple[tuple[str, int], ...] = ()
    assignments: Part = NO_PART
    condition: Part = NO_PART


@dataclass(frozen=True, slots=True)
class InsertText:
    """The clauses.

    Attributes:
        target: parts of the table's name.
        alias: of the table.
        columns: that are given, each with its token; None for all.
        by_name: whether the query's columns find the table's by their names.
        rows: of VALUES; None for a query. An empty row is DEFAULT VALUES.
        common_tables: WITH before INSERT.
        query: the query.
    """

    target: tuple[str, ...]
    alias: str | None
    columns: tuple[tuple[str, int], ...] | None
    by_name: bool
    rows: list[list[Part]] | None
    common_tables: Part
    query: Part
    conflict: ConflictText
    returning: Part


def read_insert(statement: WriteText) -> InsertText:
    """Read an INSERT.

    Raises:
        InvalidInputError: a syntax error, with its place.
        UnsupportedError: a clause that is not offered.
    """
    reader = Reader(statement)
    common_tables = skip_common_tables(reader)
    replaces = reader.take("REPLACE")
    ignores = False
    if not replaces:
        reader.expect("INSERT")
        if reader.take("OR"):
            replaces = reader.take("REPLACE")
            ignores = not replaces and reader.take("IGNORE")
            if not replaces and not ignores:
                raise reader.error("REPLACE or IGNORE is expected")
        else:
            ignores = reader.take("IGNORE")
    _refuse_overwrite(reader)
    reader.expect("INTO")
    reader.take("TABLE")
    target = reader.names("The name of a table")
    alias = reader.name("An alias") if reader.take("AS") else None
    columns = None
    if reader.word == "(" and reader.words[reader.at + 1] not in _QUERY:
        columns = reader.name_list("The name of a column")
    by_name = reader.take("BY", "NAME")
    if not by_name:
        reader.take("BY", "POSITION")
    rows: list[list[Part]] | None = None
    query = Part(reader.at, reader.at)
    if reader.take("DEFAULT", "VALUES"):
        rows = [[]]
    elif reader.word == "VALUES" and not by_name:
        rows = read_rows(reader)
    else:
        query = reader.until(*_ENDS)
        if not query or statement.text.words[query.first] not in _QUERY | {"VALUES"}:
            reader.at = query.first
            raise reader.error("VALUES, DEFAULT VALUES or a query is expected")
    conflict = _conflict(reader)
    if ignores:
        conflict = ConflictText(OnConflict.NOTHING)
    returned = read_returning(reader)
    reader.expect_end()
    return InsertText(target, alias, columns, by_name, rows, common_tables, query, conflict, returned)


def _refuse_overwrite(reader: Reader) -> None:
    if reader.word == "OVERWRITE":
        message = "INSERT OVERWRITE is not offered (DELETE the rows first); OVERWRITE stands"
        raise UnsupportedError(at_position(reader.text.sql, reader.text.start(reader.at), message))


def _conflict(reader: Reader) -> ConflictText:
    if reader.stands("ON", "DUPLICATE"):
        reader.expect("ON", "DUPLICATE", "KEY", "UPDATE")
        reader.take("SET")
        return ConflictText(OnConflict.UPDATE, (), reader.until(("RETURNING",)))
    if not reader.take("ON", "CONFLICT"):
        return ConflictText(OnConflict.REPLACE)
    if reader.stands("ON", "CONSTRAINT"):
        message = "Constraints have no names here: give the key columns, ON CONFLICT (..); this stands"
        raise UnsupportedError(at_position(reader.text.sql, reader.text.start(reader.at), message))
    columns = reader.name_list("The name of a key column") if reader.word == "(" else ()
    reader.expect("DO")
    if reader.take("NOTHING"):
        return ConflictText(OnConflict.NOTHING, columns)
    reader.expect("UPDATE", "SET")
    assignments = reader.until(("WHERE",), ("RETURNING",))
    condition = reader.clause("WHERE", ("RETURNING",))
    return ConflictText(OnConflict.UPDATE, columns, assignments, condition)
