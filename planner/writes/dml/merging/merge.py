"""MERGE: one join reads the rows of table and source, and the clause for each.

MERGE INTO t [AS a] USING source [AS s] ON condition
  WHEN MATCHED [AND condition] THEN UPDATE SET .. | UPDATE SET * | DELETE | DO NOTHING
  WHEN NOT MATCHED [BY TARGET] [AND condition] THEN INSERT [(columns)] VALUES (..) | INSERT * | DO NOTHING
  WHEN NOT MATCHED BY SOURCE [AND condition] THEN UPDATE SET .. | DELETE | DO NOTHING
  [RETURNING ..]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.rules import DefaultValues
from lance_gateway.memwal.writing import Changes
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.sql.text.tokens import quote
from lance_gateway.planner.writes.dml.prepared_write import Compute, PreparedChange, build_parameter_schema
from lance_gateway.planner.writes.dml.reading.read_rows import (
    PlannedRows,
    find_repeated_key,
    find_repeated_row,
    format_key,
)
from lance_gateway.planner.writes.dml.reading.rows_query import prepare_returning
from lance_gateway.planner.writes.dml.statement.target import Target, find_target
from lance_gateway.planner.writes.dml.statement.text import ReadSession, Splice, Statement, parse_write
from lance_gateway.planner.writes.dml.statement.tree import fold_name
from lance_gateway.planner.writes.dml.values.assignment import assign, check_required_columns, fill_columns
from lance_gateway.planner.writes.dml.values.set_clause import (
    Assignment,
    SetColumns,
    prepare_set_columns,
    read_assignments,
)
from lance_gateway.planner.writes.dml.writing_step import Outcome, empty_outcome

TARGET = "target#"
"""Prefix of the target's columns in the join."""
CLAUSE_NUMBER = "clause#"
"""Column of the join with the number of the clause that applies; -1 for none."""
SOURCE_MARK = "given#"
"""Column of the join that is NULL where no row of the source matches."""


class Match(Enum):
    """Which rows a clause matches."""

    MATCHED = "MATCHED"
    NOT_BY_TARGET = "NOT MATCHED"
    NOT_BY_SOURCE = "NOT MATCHED BY SOURCE"


class Action(Enum):
    """What a clause does with the rows."""

    UPDATE = "UPDATE"
    DELETE = "DELETE"
    INSERT = "INSERT"
    NOTHING = "DO NOTHING"


@dataclass(frozen=True, eq=False)
class Clause:
    """A checked WHEN clause.

    Attributes:
        number: from 0; the first clause that matches a row applies.
        match: which rows the clause matches.
        action: what to do with them.
        condition: condition behind AND; None without it.
        columns: columns that the clause sets.
    """

    number: int
    match: Match
    action: Action
    condition: exp.Expr | None
    columns: SetColumns

    @property
    def prefix(self) -> str:
        """Prefix of the columns that the clause computes."""
        return f"set{self.number}#"


def build_merge(target: Target, clauses: Sequence[Clause], source: str) -> Compute:
    """Build the function that computes changes from the rows of the join.

    Args:
        target: table.
        clauses: clauses of the statement.
        source: name of the source, for messages.
    """

    def compute(rows: pa.Table, parameters: Sequence[pa.Scalar], control: RunControl) -> Outcome:
        control.check()
        numbers, defaults = rows.column(CLAUSE_NUMBER), DefaultValues(target.defaults)
        upserts, deletes, replaced, touched = [], [], [], []
        inserted = target.schema.empty_table()
        for clause in clauses:
            if clause.action is Action.NOTHING:
                continue
            matches = rows.filter(pc.equal(numbers, clause.number))
            if not matches.num_rows:
                continue
            if clause.action is Action.INSERT:
                new = _build_inserts(target, clause, matches, parameters, defaults)
                inserted = pa.concat_tables([inserted, new])
                continue
            old = _take_old_rows(target, matches)
            touched.append(old)
            if clause.action is Action.DELETE:
                deletes.append(old)
            else:
                new = clause.columns.apply(matches, clause.prefix, parameters, defaults, TARGET)
                _check_place_unchanged(target, old, new)
                upserts.append(new)
                if not target.key:
                    replaced.append(old)
        _check_unique_matches(target, touched, inserted, source)
        return _build_outcome(
            target, [inserted, *upserts] if inserted.num_rows else upserts, deletes, replaced
        )

    return compute


def _build_outcome(
    target: Target, upserts: list[pa.Table], deletes: list[pa.Table], replaced: list[pa.Table]
) -> Outcome:
    if not upserts and not deletes:
        return empty_outcome(target)
    written = pa.concat_tables(upserts) if upserts else None
    gone = [rows.select(list(target.place_columns)) for rows in (*deletes, *replaced)]
    touched = pa.concat_tables([*upserts, *(rows.select(target.schema.names) for rows in deletes)])
    return Outcome(touched.num_rows, Changes(written, pa.concat_tables(gone) if gone else None), touched)


def _take_old_rows(target: Target, rows: pa.Table) -> pa.Table:
    """Return the target's rows before the change."""
    columns = [assign(rows.column(TARGET + field.name), field) for field in target.read_schema]
    return pa.Table.from_arrays(columns, schema=target.read_schema)


def _build_inserts(
    target: Target,
    clause: Clause,
    rows: pa.Table,
    parameters: Sequence[pa.Scalar],
    defaults: DefaultValues,
) -> pa.Table:
    columns = clause.columns
    arrays = [
        columns.build_column(name, rows, clause.prefix, parameters, defaults) for name in columns.columns
    ]
    return fill_columns(target, pa.table(arrays, list(columns.columns)), defaults)


def _check_place_unchanged(target: Target, old: pa.Table, new: pa.Table) -> None:
    """Check that SET * changes neither the key nor a column that decides about the region.

    Raises:
        InvalidInputError: it changes one of them.
    """
    for name in target.place_columns if target.key else ():
        if not old.column(name).equals(new.column(name)):
            msg = (
                f"UPDATE SET * would change column {name!r} of table {target.name!r}, by which the row is "
                "found: name the columns that are to be set"
            )
            raise InvalidInputError(msg)


def _check_unique_matches(target: Target, touched: list[pa.Table], inserted: pa.Table, source: str) -> None:
    """Check that at most one row of the source acts on each row of the target.

    Raises:
        InvalidInputError: several rows do; names the key.
    """
    if touched:
        twice = find_repeated_row(pa.concat_tables(touched), target)
        if twice is not None:
            msg = (
                f"the row of table {target.name!r} with {twice} matches several rows of "
                f"{source!r}, and nothing was written: see to it that at most one of them acts on it"
            )
            raise InvalidInputError(msg)
    if not target.key:
        return
    keys = [rows.select(list(target.key)) for rows in (*touched, inserted)]
    twice = find_repeated_key(pa.concat_tables(keys), target.key)
    if twice is not None:
        msg = (
            f"several rows of {source!r} would be inserted into table {target.name!r} with "
            f"{format_key(twice)}, or one that another clause changes, and nothing was written: leave out one"
        )
        raise InvalidInputError(msg)


def prepare_merge(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedChange:
    """Prepare a MERGE.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    session, statement = ReadSession(engine, settings, access), parse_write(sql, exp.Merge)
    target = find_target(session, statement.table)
    name, condition = statement.name, statement.tree.args["on"]
    source, whens = statement.tree.args["using"], statement.tree.args["whens"].expressions
    source_name = _read_source_name(source)
    if name == source_name:
        msg = f"table and source of a MERGE are both called {source_name!r}: name one of them with AS"
        raise InvalidInputError(msg)
    strong = session.with_strong_consistency()
    source_schema: pa.Schema | None = None
    if any(isinstance(when.args["then"].this, exp.Star) for when in whens):
        query = Splice(statement).copy(statement.common_tables).add(" SELECT * FROM ").copy(source).build()
        source_schema = strong.prepare(query).schema
    clauses = []
    for at, when in enumerate(whens):
        then, is_by_source = when.args["then"], when.args["source"]
        match = Match.NOT_BY_SOURCE if is_by_source else Match.NOT_BY_TARGET
        match = Match.MATCHED if when.args["matched"] else match
        action = Action(then.name if isinstance(then, exp.Var) else then.key.upper())
        columns = _prepare_columns(statement, then, target, source_schema)
        clauses.append(Clause(at, match, action, when.args["condition"], columns))
    splice = Splice(statement).copy(statement.common_tables)
    if _is_never(condition):
        # DataFusion takes conditions without columns for those of the rows above a join.
        condition = f"{quote(name)}.{quote(target.identity[0])} IS NULL"
    splice_join(splice, target, name, source, source_name, condition, clauses)
    planned = PlannedRows(target, strong.prepare(splice.build()))
    for clause in clauses:
        clause.columns.check_types(planned.read.schema, clause.prefix)
    answered = prepare_returning(statement, target, settings)
    types = [clause.columns.parameter_types for clause in clauses]
    schema = build_parameter_schema(
        statement.parameter_count, *types, planned.read.parameter_types, answered.parameter_types
    )
    compute = build_merge(target, clauses, source_name)
    return PreparedChange(sql, target, answered, schema, settings, "MERGE", planned, compute)


def _read_source_name(source: exp.Expr) -> str:
    """Return the name or the alias of the source."""
    alias = source.args.get("alias")
    name = source.this if alias is None else alias.this
    return fold_name(name) if isinstance(name, exp.Identifier) else name.name or "source"


def _is_never(condition: exp.Expr) -> bool:
    """Return whether the condition of the join is FALSE, or two numbers that differ (1 = 0)."""
    match condition.unnest():
        case exp.Boolean(this=value):
            return not value
        case exp.EQ(this=exp.Literal(is_int=True) as left, expression=exp.Literal(is_int=True) as right):
            return int(left.name) != int(right.name)
    return False


def _prepare_columns(
    statement: Statement[exp.Merge], then: exp.Expr, target: Target, source_schema: pa.Schema | None
) -> SetColumns:
    if isinstance(then, exp.Var):
        return SetColumns(target)
    if isinstance(then.this, exp.Star):
        assert source_schema is not None  # noqa: S101 - read where a clause needs it
        missing = [column for column in target.schema.names if column not in source_schema.names]
        if missing:
            msg = (
                f"{then.key.upper()} * takes all columns of table {target.name!r} from the source, which "
                f"has no {missing[0]!r}: name the columns instead"
            )
            raise InvalidInputError(msg)
        target.check_numbers(target.schema.names, "name the columns instead of *")
        return SetColumns(target, source_columns=tuple(target.schema.names))
    if isinstance(then, exp.Update):
        return prepare_set_columns(statement, target, read_assignments(statement, then.expressions))
    names = target.schema.names
    if then.args["columns"]:
        names = [fold_name(column) for column in then.args["columns"]]
    values = then.expression.expressions
    if len(values) != len(names):
        raise statement.error(then, f"{len(names)} value(s) are needed, and {len(values)} are given")
    pairs = [Assignment(column, value) for column, value in zip(names, values, strict=True)]
    columns = prepare_set_columns(statement, target, pairs, allow_key=True)
    check_required_columns(target, columns.columns, "the INSERT of the MERGE")
    return columns


def splice_join(
    splice: Splice,
    target: Target,
    name: str,
    source: exp.Expr | str,
    source_name: str,
    condition: exp.Expr | str,
    clauses: Sequence[Clause],
) -> Splice:
    """Append the join of source and target, with the clause for each row and the values that it sets.

    Args:
        splice: the query so far.
        target: table.
        name: name or alias of the target in the statement.
        source: a part of the statement, or SQL text.
        source_name: name of the source.
        condition: condition of the join; a part of the statement, or SQL text.
        clauses: clauses of the statement.
    """
    alias = quote(name)
    splice.add(" SELECT ")
    splice.add(
        ", ".join(f"{alias}.{quote(name)} AS {quote(TARGET + name)}" for name in target.read_schema.names)
    )
    splice.add(", CASE")
    for clause in clauses:
        splice.add(" WHEN ")
        _add_guard(splice, clause, target, alias, source_name)
        splice.add(f" THEN {clause.number}")
    splice.add(f" ELSE -1 END AS {quote(CLAUSE_NUMBER)}")
    for clause in clauses:
        for column in clause.columns.source_columns:
            value = f"{quote(source_name)}.{quote(column)}"
            splice.add(f", {value} AS {quote(clause.prefix + column)}")
        for column, expression in clause.columns.expressions.items():
            splice.add(", CASE WHEN ")
            _add_guard(splice, clause, target, alias, source_name)
            _copy(splice.add(" THEN ("), expression, clause, target, source_name)
            splice.add(f") END AS {quote(clause.prefix + column)}")
    _append(splice.add(" FROM (SELECT *, TRUE AS ").add(quote(SOURCE_MARK)).add(" FROM "), source)
    splice.add(f") AS {quote(source_name)} {_join_type(clauses)} {target.relation(name)} ON (")
    return _append(splice, condition).add(")")


def _append(splice: Splice, what: exp.Expr | str) -> Splice:
    return splice.add(what) if isinstance(what, str) else splice.copy(what)


def _add_guard(splice: Splice, clause: Clause, target: Target, alias: str, source: str) -> None:
    """Append the condition under which a clause applies, if no earlier one does."""
    key, given = f"{alias}.{quote(target.identity[0])}", f"{quote(source)}.{quote(SOURCE_MARK)}"
    match = {
        Match.MATCHED: f"{key} IS NOT NULL AND {given} IS NOT NULL",
        Match.NOT_BY_TARGET: f"{key} IS NULL",
        Match.NOT_BY_SOURCE: f"{given} IS NULL",
    }[clause.match]
    splice.add(f"({match}")
    if clause.condition is not None:
        _copy(splice.add(" AND ("), clause.condition, clause, target, source).add(")")
    splice.add(")")


def _copy(splice: Splice, part: exp.Expr, clause: Clause, target: Target, source: str) -> Splice:
    """Append an expression of a clause; one for new rows can only be about the source."""
    if clause.match is Match.NOT_BY_TARGET:
        return splice.copy_of_relation(part, target.schema.names, source)
    return splice.copy(part)


def _join_type(clauses: Sequence[Clause]) -> str:
    matches = {clause.match for clause in clauses}
    left, right = Match.NOT_BY_TARGET in matches, Match.NOT_BY_SOURCE in matches
    if left:
        return "FULL JOIN" if right else "LEFT JOIN"
    return "RIGHT JOIN" if right else "JOIN"
