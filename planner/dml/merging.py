"""What a MERGE writes, from the join of source and table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from memwal.errors import InvalidInputError
from memwal.writing import Changes
from planner.control import RunControl
from planner.dml.assignment import assigned
from planner.dml.changing import Compute, no_change
from planner.dml.filling import filled
from planner.dml.lookup import key_text, repeated_key
from planner.dml.merge_text import Action, Match
from planner.dml.rewriting import Outcome
from planner.dml.set_clause import SetColumns
from planner.dml.statement import Part
from planner.dml.target import Target

__all__ = ["FOUND", "GIVEN", "TARGET", "Clause", "merged"]

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
        source: whose columns are taken by their names; None where they are not.
    """

    number: int
    match: Match
    action: Action
    condition: Part
    columns: SetColumns
    source: str | None = None

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
