"""ON CONFLICT: what becomes of rows whose key is in the table already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from memwal.errors import UnsupportedError
from memwal.writing import Changes, WriteReceipt
from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.sql.tokens import at_position, quote
from planner.writes.dml.insert.read_insert import ConflictText, OnConflict
from planner.writes.dml.merge.merge import Clause, joined_query, merged
from planner.writes.dml.merge.read_merge import Action, Match
from planner.writes.dml.reading.evaluate import RowsQuery
from planner.writes.dml.reading.lookup import distinct_keys, not_among, rows_of_keys
from planner.writes.dml.statement.reader import NO_PART, WriteText
from planner.writes.dml.statement.splice import Splice
from planner.writes.dml.statement.target import Target
from planner.writes.dml.values.set_clause import SetColumns, read_assignments, set_columns
from planner.writes.dml.writing.prepared_change import Compute
from planner.writes.dml.writing.retry_fenced import Outcome, rewritten

if TYPE_CHECKING:
    from planner.access.rights import Access

__all__ = ["Conflict", "conflict"]

_EXCLUDED = "excluded"


@dataclass(frozen=True, eq=False)
class Joined:
    """DO UPDATE: the rows that were given, beside those that have their keys."""

    query: RowsQuery
    compute: Compute
    parameter_types: dict[int, pa.DataType]


@dataclass(frozen=True, eq=False)
class Conflict:
    """How keys are looked up before rows are written.

    Attributes:
        action: what becomes of rows whose key is there.
        engine: that reads.
        target: table.
        settings: of the session.
        access: rights of the principal.
        joined: for DO UPDATE.
    """

    action: OnConflict
    engine: QueryPlanner
    target: Target
    settings: SessionSettings
    access: Access
    joined: Joined | None = None

    @property
    def looks_first(self) -> bool:
        """Whether it matters which keys are there."""
        return self.action is not OnConflict.REPLACE

    @property
    def parameter_types(self) -> dict[int, pa.DataType]:
        """Ordinal -> type that DO UPDATE expects."""
        return {} if self.joined is None else self.joined.parameter_types

    def written(
        self, rows: pa.Table, parameters: Sequence[pa.Scalar], control: RunControl
    ) -> tuple[Outcome, WriteReceipt]:
        """Write rows, after a look at the keys that there are.

        Raises:
            LanceGatewayError: what went wrong; nothing was written, then.
        """
        target, keys = self.target, distinct_keys(rows, self.target.key)
        wanted = target.key if self.joined is None else target.schema.names

        def compute() -> Outcome:
            found = rows_of_keys(self.engine, target, keys, wanted, self.settings, self.access, control)
            if self.joined is None:
                fresh = not_among(rows, found, target.key)
                return Outcome(fresh.num_rows, Changes(fresh) if fresh.num_rows else None, fresh)
            both = self.joined.query.rows({_EXCLUDED: rows, target.name: found}, parameters, control)
            return self.joined.compute(both, parameters, control)

        places = rows.select(list(target.place_columns))
        return rewritten(
            target,
            lambda: target.table.writer().regions_of(places),
            compute,
            control,
            durable=self.settings.durable_writes,
        )


def conflict(
    engine: QueryPlanner,
    statement: WriteText,
    text: ConflictText,
    target: Target,
    alias: str | None,
    settings: SessionSettings,
    access: Access,
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
            raise UnsupportedError(at_position(statement.sql, statement.text.start(token), message))
    joined = None
    if text.action is OnConflict.UPDATE:
        joined = _joined(statement, text, target, alias or target.name)
    return Conflict(text.action, engine, target, settings, access, joined)


def _joined(statement: WriteText, text: ConflictText, target: Target, name: str) -> Joined:
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
    types = dict(zip(query.ordinals, made.parameter_types, strict=True)) | columns.parameter_types
    return Joined(made, merged(target, clauses, _EXCLUDED), types)
