"""MERGE INTO t USING source ON .. WHEN ..: one join reads the rows of both, with what becomes of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from memwal.errors import InvalidInputError
from memwal.writing import Changes
from planner.access.rights import Access
from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.sql.statement_reader import Part
from planner.sql.tokens import quote
from planner.writes.dml.prepared_write import Compute, Outcome, PreparedChange, no_change, parameter_schema
from planner.writes.dml.read_merge import Action, ClauseText, Match, read_merge
from planner.writes.dml.reading.read_rows import PlannedRows, key_text, repeated_key
from planner.writes.dml.reading.rows_query import returning
from planner.writes.dml.statement.target import Target, find_target
from planner.writes.dml.statement.text import ReadSession, Splice, WriteText, read_statement
from planner.writes.dml.values.assignment import assigned, check_given, filled
from planner.writes.dml.values.set_clause import Assignment, SetColumns, read_assignments, set_columns

__all__ = ["FOUND", "GIVEN", "TARGET", "Clause", "joined_query", "merged", "prepare_merge"]

TARGET = "target#"
"""Before the names of the table's columns."""
FOUND = "clause#"
"""The column that says which clause is for a row."""
GIVEN = "given#"
"""The column that says whether there is a row of the source."""


@dataclass(frozen=True, eq=False)
class Clause:
    """One WHEN clause, checked.

    Attributes:
        number: from 0; the first clause that is for a row decides.
        match: which rows it is for.
        action: what becomes of them.
        condition: behind AND.
        columns: that are set.
    """

    number: int
    match: Match
    action: Action
    condition: Part
    columns: SetColumns

    @property
    def prefix(self) -> str:
        """Of the columns that it computes."""
        return f"set{self.number}#"


def merged(target: Target, clauses: Sequence[Clause], source: str) -> Compute:
    """What the rows of the join come to.

    Args:
        target: table.
        clauses: of the statement.
        source: what the source is called.
    """

    def outcome(rows: pa.Table, parameters: Sequence[pa.Scalar], control: RunControl) -> Outcome:
        control.check()
        chosen = rows.column(FOUND)
        upserts, deletes, touched = [], [], []
        inserted = target.schema.empty_table()
        for clause in clauses:
            if clause.action is Action.NOTHING:
                continue
            mine = rows.filter(pc.equal(chosen, clause.number))
            if not mine.num_rows:
                continue
            if clause.action is Action.INSERT:
                inserted = pa.concat_tables([inserted, _inserted(target, clause, mine, parameters)])
                continue
            old = _old(target, mine)
            touched.append(old.select(list(target.key)))
            if clause.action is Action.DELETE:
                deletes.append(old)
            else:
                new = clause.columns.applied(mine, clause.prefix, parameters, TARGET)
                _check_unmoved(target, old, new)
                upserts.append(new)
        _check_once(target, touched, inserted, source)
        return _outcome(target, [inserted, *upserts] if inserted.num_rows else upserts, deletes)

    return outcome


def _outcome(target: Target, upserts: list[pa.Table], deletes: list[pa.Table]) -> Outcome:
    if not upserts and not deletes:
        return no_change(target)
    written = pa.concat_tables(upserts) if upserts else None
    dead = pa.concat_tables(deletes) if deletes else None
    keys = None if dead is None else dead.select(list(target.place_columns))
    shown = pa.concat_tables([one for one in (written, dead) if one is not None])
    return Outcome(shown.num_rows, Changes(written, keys), shown)


def _old(target: Target, rows: pa.Table) -> pa.Table:
    """The table's rows as they were."""
    columns = [assigned(rows.column(TARGET + field.name), field) for field in target.schema]
    return pa.Table.from_arrays(columns, schema=target.schema)


def _inserted(target: Target, clause: Clause, rows: pa.Table, parameters: Sequence[pa.Scalar]) -> pa.Table:
    columns = clause.columns
    given = [columns.value(name, rows, clause.prefix, parameters) for name in columns.columns]
    return filled(target, pa.table(given, list(columns.columns)))


def _check_unmoved(target: Target, old: pa.Table, new: pa.Table) -> None:
    """SET * may name the key, and must not change it.

    Raises:
        InvalidInputError: it does.
    """
    for name in target.place_columns:
        if not old.column(name).equals(new.column(name)):
            msg = (
                f"UPDATE SET * would change column {name!r} of table {target.name!r}, by which the row is "
                "found: name the columns that are to be set"
            )
            raise InvalidInputError(msg)


def _check_once(target: Target, touched: list[pa.Table], inserted: pa.Table, source: str) -> None:
    """Refuse to do two things to one row.

    Raises:
        InvalidInputError: names the key.
    """
    if touched:
        twice = repeated_key(pa.concat_tables(touched), target.key)
        if twice is not None:
            msg = (
                f"the row of table {target.name!r} with {key_text(twice)} matches several rows of "
                f"{source!r}, and nothing was written: see to it that at most one of them acts on it"
            )
            raise InvalidInputError(msg)
    keys = [*touched, inserted.select(list(target.key))]
    twice = repeated_key(pa.concat_tables(keys), target.key)
    if twice is not None:
        msg = (
            f"several rows of {source!r} would be inserted into table {target.name!r} with "
            f"{key_text(twice)}, or one that another clause changes, and nothing was written: leave out one"
        )
        raise InvalidInputError(msg)


def prepare_merge(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedChange:
    """Check a MERGE.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    statement = read_statement(sql)
    text = read_merge(statement)
    session = ReadSession(engine, settings, access)
    target = find_target(session, text.target)
    target.check_key("MERGE")
    name = text.alias or target.name
    if name == text.source_name:
        msg = f"table and source of a MERGE are both called {name!r}: give one of them another name with AS"
        raise InvalidInputError(msg)
    strong = session.strong()
    given: pa.Schema | None = None
    if any(one.action is not Action.NOTHING and _takes_all(one) for one in text.clauses):
        query = Splice(statement).copy(text.common_tables).add(" SELECT * FROM ").copy(text.source).query()
        given = strong.prepare(query).schema
    clauses = [
        Clause(at, one.match, one.action, one.condition, _columns(statement, one, target, name, given))
        for at, one in enumerate(text.clauses)
    ]
    splice = Splice(statement).copy(text.common_tables)
    joined_query(splice, target, name, text.source, text.source_name, text.condition, clauses)
    planned = PlannedRows(target, strong.prepare(splice.query()))
    for clause in clauses:
        clause.columns.check_types(planned.read.schema, clause.prefix)
    answered = returning(statement, text.returning, target, text.alias, settings)
    types = [clause.columns.parameter_types for clause in clauses]
    schema = parameter_schema(
        statement.parameter_count, *types, planned.read.parameter_types, answered.parameter_types
    )
    compute = merged(target, clauses, text.source_name)
    return PreparedChange(sql, target, answered, schema, settings, "MERGE", planned, compute)


def _takes_all(clause: ClauseText) -> bool:
    """Whether it takes the columns of the source by their names: SET *, INSERT *."""
    if clause.action is Action.UPDATE:
        return not clause.assignments
    return clause.action is Action.INSERT and clause.values is None


def _columns(
    statement: WriteText, clause: ClauseText, target: Target, name: str, given: pa.Schema | None
) -> SetColumns:
    if clause.action in (Action.DELETE, Action.NOTHING):
        return SetColumns(target)
    if _takes_all(clause):
        assert given is not None  # noqa: S101 - read where a clause needs it
        missing = [one for one in target.schema.names if one not in given.names]
        if missing:
            msg = (
                f"{clause.action.value} * takes all columns of table {target.name!r} from the source, which "
                f"has no {missing[0]!r}: name the columns instead"
            )
            raise InvalidInputError(msg)
        return SetColumns(target, taken=tuple(target.schema.names))
    if clause.action is Action.UPDATE:
        found = read_assignments(statement, clause.assignments, frozenset({name}))
        return set_columns(statement, target, found)
    assert clause.values is not None  # noqa: S101 - not INSERT *
    names = tuple(target.schema.names)
    if clause.columns is not None:
        names = tuple(column for column, _ in clause.columns)
    if len(clause.values) != len(names):
        at = clause.values[0].start if clause.values else 0
        raise statement.text.error(at, f"{len(names)} value(s) are needed, and {len(clause.values)} stand")
    pairs = [Assignment(column, part) for column, part in zip(names, clause.values, strict=True)]
    made = set_columns(statement, target, pairs, key_too=True)
    check_given(target, made.columns, "the INSERT of the MERGE")
    return made


def joined_query(
    splice: Splice,
    target: Target,
    name: str,
    source: Part | str,
    source_name: str,
    condition: Part | str,
    clauses: Sequence[Clause],
) -> Splice:
    """The join of source and table: its columns, which clause is for a row, and what that clause sets.

    Args:
        splice: what stands before it.
        target: table.
        name: what the statement calls it.
        source: a part of the statement, or text of our own.
        source_name: what the source is called.
        condition: of the join, likewise.
        clauses: of the statement.
    """
    alias = quote(name)
    splice.add(" SELECT ")
    splice.add(", ".join(f"{alias}.{quote(one)} AS {quote(TARGET + one)}" for one in target.schema.names))
    splice.add(", CASE")
    for clause in clauses:
        splice.add(" WHEN ")
        _add_guard(splice, clause, target, alias, source_name)
        splice.add(f" THEN {clause.number}")
    splice.add(f" ELSE -1 END AS {quote(FOUND)}")
    for clause in clauses:
        for column in clause.columns.taken:
            value = f"{quote(source_name)}.{quote(column)}"
            splice.add(f", {value} AS {quote(clause.prefix + column)}")
        for column, part in clause.columns.expressions.items():
            splice.add(", CASE WHEN ")
            _add_guard(splice, clause, target, alias, source_name)
            splice.add(" THEN (").copy(part).add(f") END AS {quote(clause.prefix + column)}")
    _put(splice.add(" FROM (SELECT *, TRUE AS ").add(quote(GIVEN)).add(" FROM "), source)
    splice.add(f") AS {quote(source_name)} {_join(clauses)} {quote(target.name)} AS {alias} ON (")
    return _put(splice, condition).add(")")


def _put(splice: Splice, what: Part | str) -> Splice:
    return splice.add(what) if isinstance(what, str) else splice.copy(what)


def _add_guard(splice: Splice, clause: Clause, target: Target, alias: str, source: str) -> None:
    """The condition of a clause; earlier clauses come first all the same."""
    key, given = f"{alias}.{quote(target.key[0])}", f"{quote(source)}.{quote(GIVEN)}"
    known = {
        Match.MATCHED: f"{key} IS NOT NULL AND {given} IS NOT NULL",
        Match.NOT_BY_TARGET: f"{key} IS NULL",
        Match.NOT_BY_SOURCE: f"{given} IS NULL",
    }[clause.match]
    splice.add(f"({known}")
    if clause.condition:
        splice.add(" AND (").copy(clause.condition).add(")")
    splice.add(")")


def _join(clauses: Sequence[Clause]) -> str:
    matches = {clause.match for clause in clauses}
    left, right = Match.NOT_BY_TARGET in matches, Match.NOT_BY_SOURCE in matches
    if left:
        return "FULL JOIN" if right else "LEFT JOIN"
    return "RIGHT JOIN" if right else "JOIN"
