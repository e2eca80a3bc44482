"""ON CONFLICT: what to do with rows whose key exists in the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from memwal.writing import Changes, WriteReceipt
from planner.bridge.run_control import RunControl
from planner.sql.statement_reader import NO_PART, Part, StatementReader
from planner.sql.tokens import quote
from planner.writes.dml.merging.merge import Clause, build_merge, splice_join
from planner.writes.dml.merging.read_merge import Action, Match
from planner.writes.dml.prepared_write import Compute
from planner.writes.dml.reading.key_rows import rows_of_keys
from planner.writes.dml.reading.read_rows import ReadStep, exclude_keys, select_distinct_keys
from planner.writes.dml.reading.rows_query import RowsQuery
from planner.writes.dml.statement.target import Target
from planner.writes.dml.statement.text import ReadSession, Splice, WriteText
from planner.writes.dml.values.set_clause import SetColumns, prepare_set_columns, read_assignments
from planner.writes.dml.writing_step import Outcome, read_and_write

_EXCLUDED = "excluded"


class OnConflict(Enum):
    """What to do with a row whose key exists."""

    REPLACE = "replace"
    NOTHING = "nothing"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class ConflictText:
    """The text of ON CONFLICT.

    Attributes:
        action: what to do.
        columns: column list, each name with its token; () without one.
        assignments: assignments of SET.
        condition: condition of WHERE.
    """

    action: OnConflict
    columns: tuple[tuple[str, int], ...] = ()
    assignments: Part = NO_PART
    condition: Part = NO_PART


def read_conflict(reader: StatementReader) -> ConflictText:
    """Parse ON CONFLICT or ON DUPLICATE KEY UPDATE, if it comes next.

    Raises:
        InvalidInputError: the clause has a syntax error; names its position.
        UnsupportedError: the clause is not supported.
    """
    if reader.is_at("ON", "DUPLICATE"):
        reader.expect("ON", "DUPLICATE", "KEY", "UPDATE")
        reader.take("SET")
        return ConflictText(OnConflict.UPDATE, (), reader.until(("RETURNING",)))
    if not reader.take("ON", "CONFLICT"):
        return ConflictText(OnConflict.REPLACE)
    if reader.is_at("ON", "CONSTRAINT"):
        raise reader.unsupported_error(
            "Constraints have no names here: give the key columns, ON CONFLICT (..); this stands"
        )
    columns = reader.read_name_list("The name of a key column") if reader.word == "(" else ()
    reader.expect("DO")
    if reader.take("NOTHING"):
        return ConflictText(OnConflict.NOTHING, columns)
    reader.expect("UPDATE", "SET")
    assignments = reader.until(("WHERE",), ("RETURNING",))
    condition = reader.clause("WHERE", ("RETURNING",))
    return ConflictText(OnConflict.UPDATE, columns, assignments, condition)


@dataclass(frozen=True, eq=False)
class Conflict:
    """A checked ON CONFLICT.

    Attributes:
        action: what to do with rows whose key exists.
        session: session that reads.
        target: table.
        joined: for DO UPDATE: the join of new and existing rows, and the computation of changes from it.
        parameter_types: ordinal -> type that DO UPDATE expects.
    """

    action: OnConflict
    session: ReadSession
    target: Target
    joined: tuple[RowsQuery, Compute] | None = None
    parameter_types: Mapping[int, pa.DataType] = field(default_factory=dict)

    @property
    def is_lookup_required(self) -> bool:
        """Whether keys must be looked up before rows are written."""
        return self.action is not OnConflict.REPLACE

    def write_rows(
        self, rows: pa.Table, parameters: Sequence[pa.Scalar], control: RunControl
    ) -> tuple[Outcome, WriteReceipt]:
        """Look up the keys of rows, then write the rows.

        Raises:
            LanceGatewayError: reading or writing failed; nothing was written.
        """
        target, keys = self.target, select_distinct_keys(rows, self.target.key)
        wanted = target.key if self.joined is None else target.schema.names

        def compute(existing: pa.Table) -> Outcome:
            if self.joined is None:
                fresh = exclude_keys(rows, existing, target.key)
                return Outcome(fresh.num_rows, Changes(fresh) if fresh.num_rows else None, fresh)
            query, merge = self.joined
            joined_rows = query.execute({_EXCLUDED: rows, target.name: existing}, parameters, control)
            return merge(joined_rows, parameters, control)

        places = rows.select(list(target.place_columns))
        step = ReadStep(
            lambda writer: writer.find_regions(places),
            lambda: rows_of_keys(self.session.with_strong_consistency(), target, keys, wanted, control),
        )
        return read_and_write(target, step, compute, control, durable=self.session.settings.durable_writes)


def prepare_conflict(
    session: ReadSession, statement: WriteText, text: ConflictText, target: Target, alias: str | None
) -> Conflict:
    """Prepare ON CONFLICT.

    Raises:
        LanceGatewayError: the clause is invalid.
    """
    if text.action is not OnConflict.REPLACE:
        target.check_key("ON CONFLICT")
    for name, token in text.columns:
        target.check_column(name)
        if name not in target.key or len(text.columns) != len(target.key):
            key = ", ".join(target.key)
            message = f"The only conflicts that are noticed are those of the key ({key}); here stands"
            raise statement.reader(token).unsupported_error(message)
    if text.action is not OnConflict.UPDATE:
        return Conflict(text.action, session, target)
    name = alias or target.name.table
    assignments = read_assignments(statement, text.assignments, frozenset({name}))
    columns = prepare_set_columns(statement, target, assignments)
    all_columns = SetColumns(target, source_columns=tuple(target.schema.names))
    clauses = (
        Clause(0, Match.MATCHED, Action.UPDATE, text.condition, columns),
        Clause(1, Match.NOT_BY_TARGET, Action.INSERT, NO_PART, all_columns),
    )
    condition = " AND ".join(
        f"{quote(name)}.{quote(one)} = {quote(_EXCLUDED)}.{quote(one)}" for one in target.key
    )
    splice = Splice(statement)
    query = splice_join(splice, target, name, quote(_EXCLUDED), _EXCLUDED, condition, clauses).build()
    joined = RowsQuery(query, {_EXCLUDED: target.schema, target.name: target.schema})
    for clause in clauses:
        clause.columns.check_types(joined.schema, clause.prefix)
    types = joined.parameter_types | columns.parameter_types
    return Conflict(text.action, session, target, (joined, build_merge(target, clauses, _EXCLUDED)), types)
