"""ON CONFLICT: what becomes of rows whose key is in the table already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from memwal.writing import Changes, WriteReceipt
from planner.bridge.run_control import RunControl
from planner.sql.statement_reader import NO_PART, Part, StatementReader
from planner.sql.tokens import quote
from planner.writes.dml.merge import Clause, joined_query, merged
from planner.writes.dml.prepared_write import Compute, Outcome, rewritten
from planner.writes.dml.read_merge import Action, Match
from planner.writes.dml.reading.read_rows import ReadStep, distinct_keys, not_among, rows_of_keys
from planner.writes.dml.reading.rows_query import RowsQuery
from planner.writes.dml.statement.target import Target
from planner.writes.dml.statement.text import ReadSession, Splice, WriteText
from planner.writes.dml.values.set_clause import SetColumns, read_assignments, set_columns

__all__ = ["Conflict", "ConflictText", "OnConflict", "conflict", "read_conflict"]

_EXCLUDED = "excluded"


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


def read_conflict(reader: StatementReader) -> ConflictText:
    """The clause that stands next, if one does.

    Raises:
        InvalidInputError: a syntax error, with its place.
        UnsupportedError: a clause that is not offered.
    """
    if reader.stands("ON", "DUPLICATE"):
        reader.expect("ON", "DUPLICATE", "KEY", "UPDATE")
        reader.take("SET")
        return ConflictText(OnConflict.UPDATE, (), reader.until(("RETURNING",)))
    if not reader.take("ON", "CONFLICT"):
        return ConflictText(OnConflict.REPLACE)
    if reader.stands("ON", "CONSTRAINT"):
        raise reader.refused(
            "Constraints have no names here: give the key columns, ON CONFLICT (..); this stands"
        )
    columns = reader.name_list("The name of a key column") if reader.word == "(" else ()
    reader.expect("DO")
    if reader.take("NOTHING"):
        return ConflictText(OnConflict.NOTHING, columns)
    reader.expect("UPDATE", "SET")
    assignments = reader.until(("WHERE",), ("RETURNING",))
    condition = reader.clause("WHERE", ("RETURNING",))
    return ConflictText(OnConflict.UPDATE, columns, assignments, condition)


@dataclass(frozen=True, eq=False)
class Conflict:
    """How keys are looked up before rows are written.

    Attributes:
        action: what becomes of rows whose key is there.
        session: that reads.
        target: table.
        joined: for DO UPDATE: given rows beside those that have their keys, and what they come to.
        parameter_types: ordinal -> type that DO UPDATE expects.
    """

    action: OnConflict
    session: ReadSession
    target: Target
    joined: tuple[RowsQuery, Compute] | None = None
    parameter_types: Mapping[int, pa.DataType] = field(default_factory=dict)

    @property
    def looks_first(self) -> bool:
        """Whether it matters which keys are there."""
        return self.action is not OnConflict.REPLACE

    def written(
        self, rows: pa.Table, parameters: Sequence[pa.Scalar], control: RunControl
    ) -> tuple[Outcome, WriteReceipt]:
        """Write rows, after a look at the keys that there are.

        Raises:
            LanceGatewayError: what went wrong; nothing was written, then.
        """
        target, keys = self.target, distinct_keys(rows, self.target.key)
        wanted = target.key if self.joined is None else target.schema.names

        def compute(found: pa.Table) -> Outcome:
            if self.joined is None:
                fresh = not_among(rows, found, target.key)
                return Outcome(fresh.num_rows, Changes(fresh) if fresh.num_rows else None, fresh)
            query, merge = self.joined
            both = query.rows({_EXCLUDED: rows, target.name: found}, parameters, control)
            return merge(both, parameters, control)

        places = rows.select(list(target.place_columns))
        step = ReadStep(
            lambda writer: writer.find_regions(places),
            lambda: rows_of_keys(self.session.strong(), target, keys, wanted, control),
        )
        return rewritten(target, step, compute, control, durable=self.session.settings.durable_writes)


def conflict(
    session: ReadSession, statement: WriteText, text: ConflictText, target: Target, alias: str | None
) -> Conflict:
    """Check ON CONFLICT.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    if text.action is not OnConflict.REPLACE:
        target.check_key("ON CONFLICT")
    for name, token in text.columns:
        target.check_column(name)
        if name not in target.key or len(text.columns) != len(target.key):
            key = ", ".join(target.key)
            message = f"The only conflicts that are noticed are those of the key ({key}); here stands"
            raise statement.reader(token).refused(message)
    if text.action is not OnConflict.UPDATE:
        return Conflict(text.action, session, target)
    name = alias or target.name
    found = read_assignments(statement, text.assignments, frozenset({name}))
    columns = set_columns(statement, target, found)
    every = SetColumns(target, taken=tuple(target.schema.names))
    clauses = (
        Clause(0, Match.MATCHED, Action.UPDATE, text.condition, columns),
        Clause(1, Match.NOT_BY_TARGET, Action.INSERT, NO_PART, every),
    )
    condition = " AND ".join(
        f"{quote(name)}.{quote(one)} = {quote(_EXCLUDED)}.{quote(one)}" for one in target.key
    )
    splice = Splice(statement)
    query = joined_query(splice, target, name, quote(_EXCLUDED), _EXCLUDED, condition, clauses).query()
    made = RowsQuery(query, {_EXCLUDED: target.schema, target.name: target.schema})
    for clause in clauses:
        clause.columns.check_types(made.schema, clause.prefix)
    types = made.parameter_types | columns.parameter_types
    return Conflict(text.action, session, target, (made, merged(target, clauses, _EXCLUDED)), types)
