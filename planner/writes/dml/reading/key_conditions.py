"""Conditions that name rows by their keys, and what else they say.

WHERE id = $1 AND revision = 7      the row with that key, if its revision is 7
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memwal.errors import LanceGatewayError
from planner.scans.settings import Shortcut
from planner.sql.tokens import quote
from planner.writes.dml.reading.evaluate import RowsQuery
from planner.writes.dml.reading.parameter_types import prepared_read
from planner.writes.dml.reading.read_rows import PlannedRows, PointRows
from planner.writes.dml.statement.reader import Part, Reader, WriteText
from planner.writes.dml.statement.splice import Splice
from planner.writes.dml.values.set_clause import SetColumns

__all__ = ["KeyConditions", "key_conditions", "point_rows"]

# These bind in ways that taking conditions apart could change.
_BINDING = frozenset({"OR", "XOR", "DISTINCT", "BETWEEN", "CASE", "ESCAPE", "?|"})


@dataclass(frozen=True, slots=True)
class KeyConditions:
    """A conjunction, taken apart.

    Attributes:
        keys: one condition for each key column.
        rest: all others.
    """

    keys: tuple[Part, ...]
    rest: tuple[Part, ...]


def key_conditions(statement: WriteText, condition: Part, key: Sequence[str]) -> KeyConditions | None:
    """Take a condition apart; None where it does not name whole keys by = or IN."""
    found: dict[str, Part] = {}
    rest: list[Part] = []
    parts = _conjuncts(statement, condition)
    for part in parts or ():
        column = _key_column(statement, part, key)
        if column is None:
            rest.append(part)
        elif column in found:
            return None
        else:
            found[column] = part
    if not found or set(found) != set(key):
        return None
    return KeyConditions(tuple(found.values()), tuple(rest))


def _conjuncts(statement: WriteText, condition: Part) -> list[Part] | None:
    reader, found, first = Reader(statement, condition.first), [], condition.first
    while reader.at < condition.end:
        if reader.word in _BINDING:
            return None
        if reader.word in ("(", "[", "{"):
            reader.at = reader.closing() + 1
            continue
        if reader.word == "AND":
            found.append(Part(first, reader.at))
            first = reader.at + 1
        reader.at += 1
    found.append(Part(first, condition.end))
    return found if all(found) else None


def _key_column(statement: WriteText, part: Part, key: Sequence[str]) -> str | None:
    """The key column that a condition begins with, as in `id = ..`, `t.id IN (..)`."""
    text, at = statement.text, part.first
    while at < part.end and text.is_name(at) and text.words[at + 1] == ".":
        at += 2
    if at >= part.end or not text.is_name(at) or text.words[at + 1] not in ("=", "IN"):
        return None
    name = text.name(at)
    return name if name in key else None


def point_rows(
    statement: WriteText, name: str, condition: Part, columns: SetColumns, prefix: str, planned: PlannedRows
) -> PointRows | None:
    """The rows of a condition by their keys; None where it takes a plan to find them.

    Args:
        statement: that the condition is part of.
        name: what it calls the table.
        condition: behind WHERE.
        columns: expressions behind SET.
        prefix: of their names.
        planned: the same rows by a plan.
    """
    if Shortcut.WRITE_LOOKUPS not in planned.settings.shortcuts:
        return None
    target = planned.target
    apart = None if target.region_columns else key_conditions(statement, condition, target.key)
    if apart is None:
        return None
    needed = target.schema.names if columns.columns or apart.rest else planned.read.schema.names
    listed, source = ", ".join(map(quote, needed)), f" FROM {quote(target.name)} AS {quote(name)} WHERE "
    lookup = _conditions(Splice(statement).add("SELECT ").add(listed).add(source), apart.keys).query()
    try:
        read = prepared_read(planned.engine, lookup, planned.settings, planned.access)
        if not read.prepared.is_lookup:
            return None
        expressions = None
        if columns.expressions or apart.rest:
            shown = ", ".join(map(quote, [one for one in needed if one in planned.read.schema.names]))
            splice = Splice(statement).add("SELECT ").add(shown)
            columns.add_to(splice, prefix)
            made = _conditions(splice.add(source), apart.rest).query()
            expressions = RowsQuery(made, {target.name: read.schema})
    except LanceGatewayError:
        # Subqueries, most often: planned with the rest of the statement, they can be read.
        return None
    return PointRows(target, read, expressions, planned)


def _conditions(splice: Splice, parts: Sequence[Part]) -> Splice:
    for number, part in enumerate(parts):
        splice.add(" AND " if number else "").copy(part)
    return splice if parts else splice.add("TRUE")
