"""ON CONFLICT: what to do with rows whose key exists in the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.memwal.writing import Changes, WriteReceipt
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.sql.text.tokens import quote
from lance_gateway.planner.writes.dml.merging.merge import Action, Clause, Match, build_merge, splice_join
from lance_gateway.planner.writes.dml.prepared_write import Compute
from lance_gateway.planner.writes.dml.reading.key_rows import rows_of_keys
from lance_gateway.planner.writes.dml.reading.read_rows import ReadStep, exclude_keys, select_distinct_keys
from lance_gateway.planner.writes.dml.reading.rows_query import RowsQuery
from lance_gateway.planner.writes.dml.statement.target import Target
from lance_gateway.planner.writes.dml.statement.text import ReadSession, Splice, Statement
from lance_gateway.planner.writes.dml.statement.tree import fold_name
from lance_gateway.planner.writes.dml.values.set_clause import (
    SetColumns,
    prepare_set_columns,
    read_assignments,
)
from lance_gateway.planner.writes.dml.writing_step import Outcome, read_and_write

_EXCLUDED = "excluded"


class OnConflict(Enum):
    """What to do with a row whose key exists."""

    REPLACE = "replace"
    NOTHING = "nothing"
    UPDATE = "update"


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


def prepare_conflict(session: ReadSession, statement: Statement[exp.Insert], target: Target) -> Conflict:
    """Prepare ON CONFLICT, ON DUPLICATE KEY, or INSERT IGNORE.

    Args:
        session: session that reads.
        statement: an INSERT.
        target: table.

    Raises:
        LanceGatewayError: the clause is invalid.
    """
    conflict, name = statement.tree.args["conflict"], statement.name
    action = OnConflict.REPLACE
    if conflict is not None:
        action = OnConflict.UPDATE if conflict.expressions else OnConflict.NOTHING
    if action is not OnConflict.REPLACE:
        target.check_key("ON CONFLICT")
    keys = [] if conflict is None else conflict.args.get("conflict_keys") or []
    for column in keys:
        key = fold_name(column)
        target.check_column(key)
        if key not in target.key or len(keys) != len(target.key):
            names = ", ".join(target.key)
            message = f"The only conflicts that are noticed are those of the key ({names})"
            raise statement.error(column, message, UnsupportedError)
    if action is not OnConflict.UPDATE:
        return Conflict(action, session, target)
    assert conflict is not None  # noqa: S101 - by its action
    where = conflict.args.get("where")
    assignments = read_assignments(statement, conflict.expressions)
    columns = prepare_set_columns(statement, target, assignments)
    all_columns = SetColumns(target, source_columns=tuple(target.schema.names))
    clauses = (
        Clause(0, Match.MATCHED, Action.UPDATE, where and where.this, columns),
        Clause(1, Match.NOT_BY_TARGET, Action.INSERT, None, all_columns),
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
    return Conflict(action, session, target, (joined, build_merge(target, clauses, _EXCLUDED)), types)
