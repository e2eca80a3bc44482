"""Updates: UPDATE t [AS a] SET .. [FROM ..] [WHERE ..] [RETURNING ..]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from memwal.errors import InvalidInputError
from memwal.writing import Changes
from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings, Shortcut
from planner.sql.tokens import quote
from planner.writes.dml.reading.key_conditions import point_rows
from planner.writes.dml.reading.lookup import key_text, repeated_key, strong
from planner.writes.dml.reading.read_rows import PlannedRows, Rows
from planner.writes.dml.statement.prepared_write import parameter_schema
from planner.writes.dml.statement.reader import Part, Reader, read_statement, skip_common_tables
from planner.writes.dml.statement.splice import Splice
from planner.writes.dml.statement.target import Target, find_target
from planner.writes.dml.values.set_clause import SetColumns, read_assignments, set_columns
from planner.writes.dml.writing.prepared_change import Compute, PreparedChange, no_change
from planner.writes.dml.writing.retry_fenced import Outcome
from planner.writes.dml.writing.returning import read_returning, returning

if TYPE_CHECKING:
    from planner.access.rights import Access

__all__ = ["prepare_update"]

_SET = "set#"


def prepare_update(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedChange:
    """Check an UPDATE.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    statement = read_statement(sql)
    reader = Reader(statement)
    common_tables = skip_common_tables(reader)
    reader.expect("UPDATE")
    parts = reader.names("The name of a table")
    alias = table_alias(reader, "SET")
    reader.expect("SET")
    assignments = reader.until(("FROM",), ("WHERE",), ("RETURNING",))
    others = reader.clause("FROM", ("WHERE",), ("RETURNING",))
    condition = reader.clause("WHERE", ("RETURNING",))
    answer = read_returning(reader)
    reader.expect_end()
    target = find_target(engine, parts, access)
    target.check_key("UPDATE")
    name = alias or target.name
    found = read_assignments(statement, assignments, frozenset({name}))
    directly = Shortcut.LITERAL_VALUES in settings.shortcuts
    columns = set_columns(statement, target, found, directly=directly)
    splice = Splice(statement).copy(common_tables).add(" SELECT ")
    splice.add(", ".join(f"{quote(name)}.{quote(one)}" for one in target.schema.names))
    columns.add_to(splice, _SET)
    add_source(splice, target, name, others, condition)
    chosen = strong(settings)
    planned = PlannedRows.of(engine, target, splice.query(), chosen, access)
    columns.check_types(planned.read.schema, _SET)
    rows: Rows = planned
    if condition and not others and not common_tables:
        rows = point_rows(statement, name, condition, columns, _SET, planned) or planned
    answered = returning(statement, answer, target, alias, settings)
    types = (columns.parameter_types, planned.read.parameter_types, answered.parameter_types)
    schema = parameter_schema(statement.parameter_count, *types)
    compute = _compute(target, columns, "FROM" if others else "")
    return PreparedChange(sql, "UPDATE", target, rows, compute, answered, schema, settings)


def table_alias(reader: Reader, *ends: str) -> str | None:
    """An alias of the table that is written, if one stands next."""
    if reader.take("AS") or (reader.text.is_name(reader.at) and reader.word not in ends):
        return reader.name("An alias")
    return None


def add_source(splice: Splice, target: Target, name: str, others: Part, condition: Part) -> None:
    """Append FROM and WHERE: the target under its name, and what it is joined with."""
    splice.add(f" FROM {quote(target.name)} AS {quote(name)}")
    if others:
        splice.add(", ").copy(others)
    if condition:
        splice.add(" WHERE (").copy(condition).add(")")


def _compute(target: Target, columns: SetColumns, joined: str) -> Compute:
    def outcome(rows: pa.Table, parameters: Sequence[pa.Scalar], control: RunControl) -> Outcome:
        del control
        if not rows.num_rows:
            return no_change(target)
        if joined:
            check_matched_once(target, rows, joined)
        new = columns.applied(rows, _SET, parameters)
        return Outcome(new.num_rows, Changes(new), new)

    return outcome


def check_matched_once(target: Target, rows: pa.Table, joined: str) -> None:
    """Refuse rows that are matched more than once: which of the new values is meant?

    Raises:
        InvalidInputError: names one of them.
    """
    twice = repeated_key(rows, target.key)
    if twice is not None:
        msg = (
            f"the row of table {target.name!r} with {key_text(twice)} matches several rows of {joined}, so "
            "what it becomes is not clear, and nothing was written: make at most one row match"
        )
        raise InvalidInputError(msg)
