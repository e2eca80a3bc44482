"""UPDATE, DELETE and TRUNCATE.

UPDATE t [AS a] SET .. [FROM ..] [WHERE ..] [RETURNING ..]
DELETE FROM t [AS a] [USING ..] [WHERE ..] [RETURNING ..]
TRUNCATE [TABLE] t
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.rules import DefaultValues
from lance_gateway.memwal.writing import Changes
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.scans.settings import SessionSettings, Shortcut
from lance_gateway.planner.sql.text.tokens import quote
from lance_gateway.planner.writes.dml.prepared_write import Compute, PreparedChange, build_parameter_schema
from lance_gateway.planner.writes.dml.reading.key_rows import Rows, plan_key_rows
from lance_gateway.planner.writes.dml.reading.read_rows import (
    PlannedRows,
    find_repeated_row,
    keep_last_of_key,
)
from lance_gateway.planner.writes.dml.reading.rows_query import prepare_returning
from lance_gateway.planner.writes.dml.statement.target import Target, find_target
from lance_gateway.planner.writes.dml.statement.text import ReadSession, Splice, Statement, parse_write
from lance_gateway.planner.writes.dml.values.assignment import assign
from lance_gateway.planner.writes.dml.values.set_clause import (
    SetColumns,
    prepare_set_columns,
    read_assignments,
)
from lance_gateway.planner.writes.dml.writing_step import Outcome, empty_outcome

_SET = "set#"


def prepare_update(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedChange:
    """Prepare an UPDATE.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    session, statement = ReadSession(engine, settings, access), parse_write(sql, exp.Update)
    target = find_target(session, statement.table)
    found = read_assignments(statement, statement.tree.expressions)
    directly = Shortcut.LITERAL_VALUES in settings.shortcuts
    columns = prepare_set_columns(statement, target, found, directly=directly)
    wanted = target.read_schema.names
    others, answer = statement.tree.args["from_"], statement.returning
    rows = _find_rows(session, statement, target, wanted, columns, others)
    columns.check_types(rows.schema, _SET)
    answered = prepare_returning(statement, target, settings)
    types = (columns.parameter_types, rows.parameter_types, answered.parameter_types)
    schema = build_parameter_schema(statement.parameter_count, *types)
    compute = _build_update(target, columns, "FROM" if others else "")
    # A default has one value for the statement.
    by_batch = not (others or answer or columns.defaulted)
    return PreparedChange(sql, target, answered, schema, settings, "UPDATE", rows, compute, by_batch)


def prepare_delete(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedChange:
    """Prepare a DELETE.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    session, statement = ReadSession(engine, settings, access), parse_write(sql, exp.Delete)
    target = find_target(session, statement.table)
    others, answer = statement.tree.args["using"], statement.returning
    wanted = target.read_schema.names if answer else target.place_columns
    rows = _find_rows(session, statement, target, wanted, SetColumns(target), others)
    answered = prepare_returning(statement, target, settings)
    schema = build_parameter_schema(statement.parameter_count, rows.parameter_types, answered.parameter_types)
    compute = _build_delete(target, joined=bool(others), whole=bool(answer))
    by_batch = not (others or answer)
    return PreparedChange(sql, target, answered, schema, settings, "DELETE", rows, compute, by_batch)


def prepare_truncate(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedChange:
    """Prepare a TRUNCATE.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    table = parse_write(sql, exp.TruncateTable).table
    whole = f"DELETE FROM {'.'.join(map(quote, table))}"  # noqa: S608 - quoted names
    return prepare_delete(engine, whole, settings, access)


def _find_rows(
    session: ReadSession,
    statement: Statement[Any],
    target: Target,
    wanted: Sequence[str],
    columns: SetColumns,
    others: exp.Expr | None,
) -> Rows:
    """Plan how to read the rows to change: by their keys if possible, otherwise by a query.

    Args:
        session: session that reads.
        statement: an UPDATE or DELETE.
        target: table that is written.
        wanted: columns of the target to read.
        columns: expressions of SET.
        others: tables that the target is joined with.
    """
    name, where = statement.name, statement.tree.args["where"]
    strong = session.with_strong_consistency()

    def plan() -> PlannedRows:
        splice = Splice(statement).copy(statement.common_tables).add(" SELECT ")
        splice.add(", ".join([f"{quote(name)}.{quote(one)}" for one in wanted]))
        columns.add_to(splice, _SET)
        splice.add(f" FROM {target.relation(name)}")
        if others:
            splice.add(", ").copy(others)
        if where is not None:
            splice.add(" WHERE (").copy(where.this).add(")")
        return PlannedRows(target, strong.prepare(splice.build()))

    if target.key and where is not None and not others and statement.common_tables is None:
        rows = plan_key_rows(strong, statement, target, columns, _SET, wanted, plan)
        if rows is not None:
            return rows
    return plan()


def _build_update(target: Target, columns: SetColumns, joined: str) -> Compute:
    def compute(rows: pa.Table, parameters: Sequence[pa.Scalar], _control: RunControl) -> Outcome:
        if not rows.num_rows:
            return empty_outcome(target)
        if joined:
            check_matched_once(target, rows, joined)
        new = columns.apply(rows, _SET, parameters, DefaultValues(target.defaults))
        replaced = rows.select(target.identity) if not target.key else None
        return Outcome(new.num_rows, Changes(new, replaced), new)

    return compute


def _build_delete(target: Target, *, joined: bool, whole: bool) -> Compute:
    def compute(rows: pa.Table, _parameters: Sequence[pa.Scalar], _control: RunControl) -> Outcome:
        if not rows.num_rows:
            return empty_outcome(target)
        fields = [target.read_schema.field(name) for name in rows.column_names]
        columns = [assign(column, field) for column, field in zip(rows.columns, fields, strict=True)]
        old_rows = pa.table(columns, schema=pa.schema(fields))
        if joined:
            old_rows = keep_last_of_key(old_rows, target.identity)
        returned = old_rows.select(target.schema.names) if whole else target.schema.empty_table()
        changes = Changes(deletes=old_rows.select(list(target.place_columns)))
        return Outcome(old_rows.num_rows, changes, returned)

    return compute


def check_matched_once(target: Target, rows: pa.Table, joined: str) -> None:
    """Refuse a join that matches a row of the target more than once.

    Raises:
        InvalidInputError: a row is matched more than once; names its key.
    """
    twice = find_repeated_row(rows, target)
    if twice is not None:
        msg = (
            f"the row of table {target.name!r} with {twice} matches several rows of {joined}, so "
            "what it becomes is not clear, and nothing was written: make at most one row match"
        )
        raise InvalidInputError(msg)
