"""``CREATE INDEX [name] ON t USING type (column) [WITH (..)]`` and ``DROP INDEX name [ON t]``."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from memwal.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceGatewayError,
    NotFoundError,
    PreconditionError,
)
from planner.access.rights import Access
from planner.plans.query_planner import QueryPlanner
from planner.tables.sources.base_table import BaseTable
from planner.writes.ddl.indexes.index_types import INDEX_TYPES, index_options
from planner.writes.ddl.statement.prepared_ddl import DONE, PreparedDefinition, check_writable, committed
from planner.writes.ddl.statement.reader import Reader
from planner.writes.dml.statement.prepared_write import WriteResult
from planner.writes.dml.statement.target import check_may_write

if TYPE_CHECKING:
    from planner.bridge.run_control import RunControl


def prepare_create_index(
    engine: QueryPlanner, reader: Reader, access: Access, *, replaces: bool
) -> PreparedDefinition:
    """Check a statement whose words up to INDEX are taken.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    reader.accept("CONCURRENTLY")
    skips = reader.accept("IF", "NOT", "EXISTS")
    name = None if reader.word == "ON" else reader.name("the name of an index, or ON")
    reader.expect("ON")
    table_name = reader.table()
    kind = "BTREE"
    if reader.accept("USING"):
        kind = reader.choose("a type of index", *INDEX_TYPES)
    columns = reader.names("a column")
    if len(columns) > 1:
        raise reader.refused("An index has one column; the list of columns ends")
    if kind == "BTREE" and reader.accept("USING"):
        kind = reader.choose("a type of index", *INDEX_TYPES)
    options = reader.options() if reader.accept("WITH") else {}
    reader.finish()
    column = columns[0]
    check_may_write(engine, table_name, access)
    check_writable(engine, table_name)
    base = engine.catalog.table(table_name).base()
    check_column(base, column)
    index_name = name or f"{column}_idx"
    call = index_options(kind, base.schema.field(column), options)

    def create(_control: RunControl | None) -> WriteResult:
        check_may_write(engine, table_name, access)
        table = engine.catalog.table(table_name)
        if index_name in index_names(table.base()) and not replaces:
            if skips:
                return DONE
            msg = f"table {table_name!r} has an index {index_name!r} already: use IF NOT EXISTS"
            raise AlreadyExistsError(msg)
        if call.needs_rows and not table.base().dataset.count_rows():
            msg = (
                f"an index of type {kind} is trained on rows of the base table, and table {table_name!r} has "
                "none there yet: merge its generations first"
            )
            raise PreconditionError(msg)
        committed(
            table,
            f"make index {index_name!r}",
            lambda dataset: call.build(dataset, column, index_name, replaces),
        )
        # Writers that are open don't know the index: the next ones maintain it.
        table.writer().flush()
        return DONE

    return PreparedDefinition(reader.text.sql, create, table_name)


def prepare_drop_index(
    engine: QueryPlanner, reader: Reader, access: Access, *, if_exists: bool
) -> PreparedDefinition:
    """Check a statement whose words up to INDEX [IF EXISTS] are taken.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    name = reader.name("the name of an index")
    given = reader.table() if reader.accept("ON") or reader.accept("FROM") else None
    reader.finish()

    def find() -> str | None:
        """The table that has the index; None where nothing is to be done."""
        owners = [given] if given is not None else _tables_with(engine, access, name)
        if given is not None:
            check_may_write(engine, given, access)
            if name not in index_names(engine.catalog.table(given).base()):
                owners = []
        if len(owners) > 1:
            msg = f"tables {', '.join(sorted(owners))} all have an index {name!r}: DROP INDEX {name} ON one"
            raise InvalidInputError(msg)
        if not owners:
            if if_exists:
                return None
            raise _unknown_index(engine, name, given)
        check_may_write(engine, owners[0], access)
        check_writable(engine, owners[0])
        return owners[0]

    target = find() or ""

    def drop(_control: RunControl | None) -> WriteResult:
        owner = find()
        if owner is None:
            return DONE
        table = engine.catalog.table(owner)
        details = table.base().details
        if details is not None and name in details.maintained_indexes:
            msg = (
                f"table {owner!r} names index {name!r} as one that its writers maintain, so they look for "
                "it: it can't be dropped"
            )
            raise PreconditionError(msg)
        table.writer().flush()
        committed(table, f"drop index {name!r}", lambda dataset: dataset.drop_index(name))
        return DONE

    return PreparedDefinition(reader.text.sql, drop, target)


def index_names(base: BaseTable) -> tuple[str, ...]:
    """Names of a table's indexes, its MemWAL left out."""
    return tuple(one.name for one in base.indexes)


def check_column(base: BaseTable, column: str) -> None:
    """Refuse a column that a table does not have.

    Raises:
        NotFoundError: names those that come close.
    """
    if column not in base.schema.names:
        close = get_close_matches(column, base.schema.names, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"it has {', '.join(base.schema.names)}"
        msg = f"table {base.name!r} has no column {column!r}: {hint}"
        raise NotFoundError(msg)


def _tables_with(engine: QueryPlanner, access: Access, name: str) -> list[str]:
    found = []
    visible = engine.visible(access)
    for table in visible.table_names():
        try:
            if name in index_names(visible.table(table).base):
                found.append(table)
        except LanceGatewayError:
            continue  # One that can't be read hides no other.
    return found


def _unknown_index(engine: QueryPlanner, name: str, table: str | None) -> NotFoundError:
    if table is None:
        return NotFoundError(f"no table has an index {name!r}")
    names = index_names(engine.catalog.table(table).base())
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(names) or 'none'}"
    return NotFoundError(f"table {table!r} has no index {name!r}: {hint}")
