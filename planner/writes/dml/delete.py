"""Deletes: DELETE FROM t [AS a] [USING ..] [WHERE ..] [RETURNING ..], and TRUNCATE [TABLE] t."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.sql.tokens import quote
from planner.writes.dml.reading.key_conditions import point_rows
from planner.writes.dml.reading.lookup import last_of_key, strong
from planner.writes.dml.reading.read_rows import PlannedRows, Rows
from planner.writes.dml.statement.prepared_write import parameter_schema
from planner.writes.dml.statement.reader import Reader, read_statement, skip_common_tables
from planner.writes.dml.statement.splice import Splice
from planner.writes.dml.statement.target import Target, find_target
from planner.writes.dml.update import add_source, table_alias
from planner.writes.dml.values.assignment import assigned
from planner.writes.dml.values.set_clause import SetColumns
from planner.writes.dml.writing.prepared_change import Compute, PreparedChange, deleted, no_change
from planner.writes.dml.writing.retry_fenced import Outcome
from planner.writes.dml.writing.returning import read_returning, returning

if TYPE_CHECKING:
    from planner.access.rights import Access

__all__ = ["prepare_delete", "prepare_truncate"]


def prepare_delete(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedChange:
    """Check a DELETE.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    statement = read_statement(sql)
    reader = Reader(statement)
    common_tables = skip_common_tables(reader)
    reader.expect("DELETE")
    reader.take("FROM")
    parts = reader.names("The name of a table")
    alias = table_alias(reader, "USING", "WHERE", "RETURNING")
    others = reader.clause("USING", ("WHERE",), ("RETURNING",))
    condition = reader.clause("WHERE", ("RETURNING",))
    answer = read_returning(reader)
    reader.expect_end()
    target = find_target(engine, parts, access)
    target.check_key("DELETE")
    name = alias or target.name
    wanted = target.schema.names if answer else target.place_columns
    splice = Splice(statement).copy(common_tables).add(" SELECT ")
    splice.add(", ".join(f"{quote(name)}.{quote(one)}" for one in wanted))
    add_source(splice, target, name, others, condition)
    chosen = strong(settings)
    planned = PlannedRows.of(engine, target, splice.query(), chosen, access)
    rows: Rows = planned
    if condition and not others and not common_tables:
        rows = point_rows(statement, name, condition, SetColumns(target), "", planned) or planned
    answered = returning(statement, answer, target, alias, settings)
    types = (planned.read.parameter_types, answered.parameter_types)
    schema = parameter_schema(statement.parameter_count, *types)
    compute = _compute(target, joined=bool(others), whole=bool(answer))
    return PreparedChange(sql, "DELETE", target, rows, compute, answered, schema, settings)


def prepare_truncate(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedChange:
    """Check a TRUNCATE.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    statement = read_statement(sql)
    reader = Reader(statement)
    reader.expect("TRUNCATE")
    reader.take("TABLE")
    parts = reader.names("The name of a table")
    reader.expect_end()
    whole = f"DELETE FROM {'.'.join(map(quote, parts))}"  # noqa: S608 - quoted names
    return prepare_delete(engine, whole, settings, access)


def _compute(target: Target, *, joined: bool, whole: bool) -> Compute:
    def outcome(rows: pa.Table, parameters: Sequence[pa.Scalar], control: RunControl) -> Outcome:
        del parameters, control
        if not rows.num_rows:
            return no_change(target)
        columns = [assigned(rows.column(name), target.schema.field(name)) for name in rows.column_names]
        found = pa.table(columns, schema=pa.schema([target.schema.field(name) for name in rows.column_names]))
        if joined:
            found = last_of_key(found, target.key)
        shown = found if whole else target.schema.empty_table()
        return Outcome(found.num_rows, deleted(target, found), shown)

    return outcome
