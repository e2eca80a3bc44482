"""RESTORE [TABLE] t TO VERSION [AS OF] n | TAG 'x' | TIMESTAMP [AS OF] '..': the rows of a former state.

The rows that differ are written like those of any other statement: what changed since (`lance_changes`) is
written back. So regions, logs and the progress of merges stay what they are (ADR 61).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.memwal.errors import InvalidInputError, PreconditionError, ResourcesExhaustedError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.memwal.writing import Changes
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.scans.changes import CHANGE
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.sql.text.as_of import AsOf, read_as_of, read_state
from lance_gateway.planner.sql.text.statement_reader import StatementReader
from lance_gateway.planner.sql.text.tokens import STRING, quote
from lance_gateway.planner.tables.state.extended_tables import ROW_NUMBER
from lance_gateway.planner.writes.dml.prepared_write import PreparedChange, PreparedWrite, WriteResult
from lance_gateway.planner.writes.dml.reading.read_rows import (
    MAX_COLLECTED_BYTES,
    PlannedRows,
    ReadStep,
    format_key,
)
from lance_gateway.planner.writes.dml.reading.rows_query import NO_COLUMNS, Returning
from lance_gateway.planner.writes.dml.statement.target import Target, find_target
from lance_gateway.planner.writes.dml.statement.text import ReadSession, Splice, WriteText, read_statement
from lance_gateway.planner.writes.dml.values.assignment import assign
from lance_gateway.planner.writes.dml.writing_step import Outcome, empty_outcome

_STATES = "VERSION [AS OF] n, TAG 'name', or TIMESTAMP [AS OF] '..'"


@dataclass(frozen=True, slots=True)
class _RestoreText:
    """The parts of a RESTORE.

    Attributes:
        target: parts of the table's name.
        state: that the table is to have again.
        written: characters of the state in the text.
        is_moment: whether it is a moment.
        type_name: type of a moment that is written as text only.
    """

    target: tuple[str, ...]
    state: AsOf
    written: range
    is_moment: bool
    type_name: str


def prepare_restore(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedRestore:
    """Prepare a RESTORE.

    Raises:
        LanceGatewayError: the statement is invalid, the table has no such state, or had other columns.
    """
    statement = read_statement(sql)
    session = ReadSession(engine, settings, access).with_strong_consistency()
    prepared = PreparedRestore(sql, statement, _read(statement), session)
    prepared.plan()
    return prepared


@dataclass(frozen=True, eq=False)
class PreparedRestore(PreparedWrite):
    """A checked RESTORE, whose state is found again each time it is executed.

    Attributes:
        sql: text of the statement.
        statement: tokens of the text.
        text: its parts.
        session: reads with strong consistency.
    """

    sql: str
    statement: WriteText
    text: _RestoreText
    session: ReadSession

    parameter_schema = NO_COLUMNS

    @property
    def target(self) -> TableName:
        """Name of the table."""
        return find_target(self.session, self.text.target).name

    def plan(self) -> PreparedChange:
        """Return the statement that writes back what differs from the state as it is now.

        Raises:
            LanceGatewayError: see `prepare_restore`.
        """
        target = find_target(self.session, self.text.target)
        past = self.session.engine.visible_catalog(self.session.access).table(target.name, self.text.state)
        _check_columns(target, past)
        splice = Splice(self.statement)
        if target.key:
            name = target.name.sql.replace("'", "''")
            splice.add(f"SELECT * FROM lance_changes('{name}', since => ")  # noqa: S608 - quoted
            self._add_state(splice).add(")")
        else:
            self._add_all_rows(splice, target, past)
        planned = _Differences(target, self.session.prepare(splice.build()))
        compute = _write_back_changes if target.key else _exchange_rows

        def change(rows: pa.Table, _parameters: Sequence[pa.Scalar], control: RunControl) -> Outcome:
            control.check()
            return compute(target, rows)

        settings = self.session.settings
        return PreparedChange(
            self.sql, target, Returning(), NO_COLUMNS, settings, "RESTORE", planned, change, by_batch=True
        )

    def _add_state(self, splice: Splice) -> Splice:
        return splice.add(self.text.type_name).copy_place(self.text.written)

    def _add_all_rows(self, splice: Splice, target: Target, past: SecuredTable) -> None:
        """Append a query for the rows that go, which have numbers, and for those that come back."""
        before = past.visible_fields
        columns = {quote(name): quote(before[number]) for number, name in target.base.field_names.items()}
        now, then = ", ".join(columns), ", ".join(f"{old} AS {new}" for new, old in columns.items())
        kind = "TIMESTAMP" if self.text.is_moment else "VERSION"
        here, there = target.read_name.sql, f"{target.name.sql} FOR {kind} AS OF "
        splice.add(f"SELECT {now}, {quote(ROW_NUMBER)} FROM {here} UNION ALL ")  # noqa: S608 - quoted
        splice.add(f"SELECT {then}, NULL FROM {there}").copy_place(self.text.written)  # noqa: S608 - quoted

    def execute(self, parameters: Sequence[pa.Scalar] = (), control: RunControl | None = None) -> WriteResult:
        """Find what differs, and write it back."""
        if parameters:
            msg = f"RESTORE takes no parameters, and {len(parameters)} were bound"
            raise InvalidInputError(msg)
        return self.plan().execute((), control)

    def execute_many(self, parameters: pa.Table, control: RunControl | None = None) -> WriteResult:
        """Execute the statement once, since it has no parameters."""
        return self.execute(parameters.columns, control)


class _Differences(PlannedRows):
    """Rows that a query reads while all regions are held: any of them may have what is to go."""

    def begin(self, parameters: Sequence[pa.Scalar], control: RunControl) -> ReadStep:
        """See `PlannedRows.begin`."""
        step, table = super().begin(parameters, control), self.target.table

        def read() -> pa.Table:
            try:
                return step.rows()
            except ResourcesExhaustedError as error:
                msg = (
                    f"RESTORE of table {self.target.name!r}: more than {MAX_COLLECTED_BYTES >> 20} MiB of "
                    "rows differ, and nothing was written: make a table of the former state, CREATE TABLE .. "
                    "CLONE .. VERSION AS OF .., and let both change their names"
                )
                raise ResourcesExhaustedError(msg) from error

        def regions(_writer: object) -> frozenset[str]:
            return frozenset(table.assignments(table.base(), "strong").region_ids)

        return ReadStep(regions, read)


def _read(statement: WriteText) -> _RestoreText:
    reader, text = StatementReader(statement.text), statement.text
    reader.expect("RESTORE")
    reader.take("TABLE")
    target = reader.read_qualified_name("The name of a table")
    reader.expect("TO")
    kind, start = reader.word, reader.at
    if kind not in {"VERSION", "TAG", "TIMESTAMP"}:
        raise reader.unexpected_error(f"{_STATES} is expected")
    found = read_as_of(text, start)
    if found is not None:
        start += 3
    else:
        start += kind != "TIMESTAMP"
        if kind != "TIMESTAMP" and text.words[start] not in ({STRING} if kind == "TAG" else {STRING, "0"}):
            raise text.error(start, f"{_STATES} is expected")
        found = read_state(text, start)
    state, reader.at = found
    reader.expect_end()
    written = range(text.start(start), text.end(reader.at - 1))
    is_moment = kind == "TIMESTAMP"
    type_name = "TIMESTAMP " if is_moment and text.words[start] == STRING else ""
    return _RestoreText(target, state, written, is_moment, type_name)


def _check_columns(target: Target, past: SecuredTable) -> None:
    """Refuse a state with other columns: values would be lost, or be NULL that were never so.

    Raises:
        PreconditionError: columns were added, dropped or changed since.
    """
    before, schema = past.visible_fields, past.visible_schema
    now = target.base.field_names
    added = [name for number, name in now.items() if number not in before]
    dropped = [name for number, name in before.items() if number not in now]
    changed = [
        name
        for number, name in now.items()
        if number in before and schema.field(before[number]).type != target.schema.field(name).type
    ]
    for names, what in ((added, "added"), (dropped, "dropped"), (changed, "changed to another type")):
        if names:
            msg = (
                f"table {target.name!r} can't be restored to version {past.base.version}: column "
                f"{names[0]!r} was {what} since. Read it with SELECT .. FOR VERSION AS OF "
                f"{past.base.version}, or copy it with CREATE TABLE .. CLONE .. VERSION AS OF .."
            )
            raise PreconditionError(msg)


def _write_back_changes(target: Target, rows: pa.Table) -> Outcome:
    """Return the changes that undo those of `lance_changes`."""
    kinds = rows.column(CHANGE)
    lost, made, before, after = (
        _take(target, rows.filter(pc.equal(kinds, kind)))
        for kind in ("delete", "insert", "update_before", "update_after")
    )
    _check_places_unchanged(target, before, after)
    return _build_outcome(target, pa.concat_tables([lost, before]), made.select(list(target.place_columns)))


def _exchange_rows(target: Target, rows: pa.Table) -> Outcome:
    """Return the changes that remove rows with a number, and add the others."""
    numbers = rows.column(ROW_NUMBER)
    back = _take(target, rows.filter(pc.is_null(numbers)))
    gone = rows.filter(pc.is_valid(numbers)).select([ROW_NUMBER])
    return _build_outcome(target, back, gone)


def _take(target: Target, rows: pa.Table) -> pa.Table:
    columns = [assign(rows.column(field.name), field) for field in target.schema]
    return pa.Table.from_arrays(columns, schema=target.schema)


def _build_outcome(target: Target, back: pa.Table, gone: pa.Table) -> Outcome:
    if not back.num_rows and not gone.num_rows:
        return empty_outcome(target)
    changes = Changes(back if back.num_rows else None, gone if gone.num_rows else None)
    return Outcome(back.num_rows + gone.num_rows, changes, target.schema.empty_table())


def _check_places_unchanged(target: Target, before: pa.Table, after: pa.Table) -> None:
    """Refuse rows that lie in other regions now, where a write to the former one would not replace them.

    Args:
        target: table that is written.
        before: rows as they were, of keys that are there now, too.
        after: rows of the same keys as they are now.

    Raises:
        PreconditionError: a column that decides about regions has changed; names the row.
    """
    order = [(name, "ascending") for name in target.key]
    before, after = before.sort_by(order), after.sort_by(order)
    for name in target.region_columns:
        pairs = zip(before.column(name).to_pylist(), after.column(name).to_pylist(), strict=True)
        moved = next((row for row, (old, new) in enumerate(pairs) if old != new), None)
        if moved is not None:
            key = format_key(before.slice(moved).select(list(target.key)))
            msg = (
                f"table {target.name!r}: the row with {key} was recreated with another value of {name!r}, by "
                "which rows find their region, although keys_never_move promises otherwise; nothing was "
                "written. Read its former values with SELECT .. FOR VERSION AS OF .."
            )
            raise PreconditionError(msg)
