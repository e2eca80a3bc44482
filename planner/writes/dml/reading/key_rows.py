"""Rows that conditions name by their keys, and what else the conditions say; no plan is needed to find them.

WHERE id = $1 AND revision = 7      the row with that key, if its revision is 7
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from memwal.errors import LanceGatewayError
from planner.binding.key_query import KeyQuery
from planner.bridge.plain_types import plain_type, typed_value
from planner.bridge.run_control import RunControl
from planner.plans.results import normalised
from planner.scans.settings import Shortcut
from planner.sql.statement_reader import Part
from planner.sql.tokens import quote
from planner.writes.dml.reading.read_rows import PlannedRows, ReadStep, rows_of_keys
from planner.writes.dml.reading.rows_query import RowsQuery
from planner.writes.dml.statement.target import Target
from planner.writes.dml.statement.text import Read, ReadSession, Splice, WriteText
from planner.writes.dml.values.assignment import read_constant
from planner.writes.dml.values.set_clause import SetColumns

__all__ = ["KeyRows", "Rows", "key_rows"]

# These bind in ways that taking conditions apart could change.
_BINDING = frozenset({"OR", "XOR", "DISTINCT", "BETWEEN", "CASE", "ESCAPE", "?|"})
_SHORTCUTS = frozenset({Shortcut.WRITE_LOOKUPS, Shortcut.KEY_QUERIES, Shortcut.KEY_LOOKUPS})


@dataclass(frozen=True, eq=False)
class KeyRows:
    """Rows that are named by their keys.

    Attributes:
        session: that reads.
        target: table that is written; the regions of its rows follow from the key.
        wanted: what the key equals; a number is a place in `ordinals`.
        ordinals: of the parameters that the key equals.
        columns: of the target, that are read.
        expressions: what is computed of them, and which of the rows are meant; None where that is all.
        plan: finds the same by a query, where a value is not exactly of the key's type.
    """

    session: ReadSession
    target: Target
    wanted: KeyQuery
    ordinals: tuple[int, ...]
    columns: tuple[str, ...]
    expressions: RowsQuery | None
    plan: Callable[[], PlannedRows]

    reads = ()

    @property
    def shown(self) -> Read:
        """The plan that would find them."""
        return self.plan().read

    @property
    def schema(self) -> pa.Schema:
        """Of the rows, with the expressions."""
        if self.expressions is not None:
            return self.expressions.schema
        return pa.schema([self.target.base.schema.field(name) for name in self.columns])

    @property
    def parameter_types(self) -> dict[int, pa.DataType]:
        """Ordinal in the statement -> type that is expected."""
        types = {} if self.expressions is None else self.expressions.parameter_types
        return types | dict(zip(self.ordinals, self._key_types(), strict=True))

    @property
    def summary(self) -> str:
        """How they are found."""
        return "the region of each key is claimed"

    def begin(self, parameters: Sequence[pa.Scalar], control: RunControl) -> ReadStep:
        """Look the keys up."""
        types = zip(self.ordinals, self._key_types(), strict=True)
        values = [typed_value(at + 1, parameters[at], kind) for at, kind in types]
        keys = self.wanted.keys(values, self.target.base.schema)
        if keys is None:
            return self.plan().begin(parameters, control)

        def rows() -> pa.Table:
            found = rows_of_keys(self.session, self.target, keys, self.columns, control)
            if self.expressions is None or not found.num_rows:
                return found
            return self.expressions.rows({self.target.name: found}, parameters, control)

        return ReadStep(lambda writer: writer.find_regions(keys), rows, is_whole=True)

    def _key_types(self) -> list[pa.DataType]:
        places = {
            place: self.target.base.schema.field(name).type
            for name, constants in self.wanted.constants
            for place in constants
            if isinstance(place, int)
        }
        return [plain_type(places[at]) for at in range(len(self.ordinals))]


Rows: TypeAlias = PlannedRows | KeyRows
"""Rows that a statement reads."""


def key_rows(
    session: ReadSession,
    statement: WriteText,
    target: Target,
    name: str,
    condition: Part,
    columns: SetColumns,
    prefix: str,
    wanted: Sequence[str],
    plan: Callable[[], PlannedRows],
) -> KeyRows | None:
    """The rows of a condition by their keys; None where it takes a plan, to find them or what is wrong.

    Args:
        session: that reads, at consistency "strong".
        statement: that the condition is part of.
        target: table that is written.
        name: what the statement calls it.
        condition: behind WHERE.
        columns: expressions behind SET.
        prefix: of their names.
        wanted: columns of the target.
        plan: finds the same by a query.
    """
    apart = None
    if session.settings.shortcuts >= _SHORTCUTS and not target.region_columns:
        apart = _key_conditions(statement, target, name, condition)
    if apart is None:
        return None
    found, ordinals, rest = apart
    needed = tuple(target.schema.names if rest else wanted)
    expressions = None
    if columns.expressions or rest:
        splice = Splice(statement).add("SELECT ").add(", ".join(map(quote, wanted)))
        columns.add_to(splice, prefix)
        splice.add(f" FROM {quote(target.name)} AS {quote(name)} WHERE TRUE")
        for part in rest:
            splice.add(" AND ").copy(part)
        computed = splice.query()
        if set(ordinals).intersection(computed.ordinals):
            return None  # One value, and two types that it may have.
        schema = normalised(pa.schema([target.base.schema.field(one) for one in needed]))
        try:
            expressions = RowsQuery(computed, {target.name: schema})
        except LanceGatewayError:
            # Subqueries, most often: planned with the rest of the statement, they can be read.
            return None
    return KeyRows(session, target, found, ordinals, needed, expressions, plan)


def _key_conditions(
    statement: WriteText, target: Target, name: str, condition: Part
) -> tuple[KeyQuery, tuple[int, ...], list[Part]] | None:
    """The keys that a condition names by = or IN, the parameters among them, and all other conditions."""
    equals: dict[str, list[Part]] = {}
    rest: list[Part] = []
    for part in _conjuncts(statement, condition):
        column, values = _compared(statement, part, name)
        if column not in target.key:
            rest.append(part)
        elif column in equals or (len(values) > 1 < len(target.key)):
            return None
        else:
            equals[column] = values
    if set(equals) != set(target.key):
        return None
    ordinals: list[int] = []
    constants: list[tuple[str, tuple[pa.Scalar | int, ...]]] = []
    for column in target.key:
        found: list[pa.Scalar | int] = []
        if not equals[column] or not all(equals[column]):
            return None
        for value in equals[column]:
            ordinal = statement.parameter(value)
            constant = read_constant(statement, value) if ordinal is None else None
            if ordinal is not None:
                found.append(len(ordinals))
                ordinals.append(ordinal)
            elif constant is not None and constant.scalar is not None:
                found.append(constant.scalar)
            else:
                return None
        constants.append((column, tuple(found)))
    query = KeyQuery(target.name, (), tuple(constants))
    # A literal of another type is compared by a plan.
    if len(set(ordinals)) < len(ordinals) or query.keys(_nulls(ordinals), target.base.schema) is None:
        return None
    return query, tuple(ordinals), rest


def _nulls(values: Sequence[object]) -> list[pa.Scalar]:
    return [pa.scalar(None)] * len(values)


def _conjuncts(statement: WriteText, condition: Part) -> list[Part]:
    """The conditions that AND joins; none where that can't be told."""
    reader, found, first = statement.reader(condition.start), [], condition.start
    while reader.at < condition.stop:
        word = reader.words[reader.at]
        if word in _BINDING:
            return []
        if word in ("(", "[", "{"):
            reader.at = reader.closing() + 1
            continue
        if word == "AND":
            found.append(range(first, reader.at))
            first = reader.at + 1
        reader.at += 1
    found.append(range(first, condition.stop))
    return found if all(found) else []


def _compared(statement: WriteText, part: Part, table: str) -> tuple[str, list[Part]]:
    """The column of a condition like `id = ..`, `t.id IN (..)`, and the values that it may equal."""
    text, at = statement.text, part.start
    if text.is_name(at) and text.words[at + 1] == "." and text.name(at) == table:
        at += 2
    if at < part.stop and text.is_name(at):
        if text.words[at + 1] == "=":
            return text.name(at), [range(at + 2, part.stop)]
        reader = statement.reader(at + 2)
        if text.words[at + 1] == "IN" and reader.word == "(" and reader.closing() == part.stop - 1:
            return text.name(at), list(reader.separated(range(at + 3, part.stop - 1)))
    return "", []
