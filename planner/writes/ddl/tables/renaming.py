"""``ALTER TABLE t RENAME TO u`` and ``ALTER VIEW v RENAME TO w`` (ADR 51).

On a local disk the directory of a table is renamed, which is one step. Writers of all processes are fenced
off before; one that comes meanwhile notices before it acknowledges rows. Object stores have no such step.
"""

from __future__ import annotations

from lance_gateway.memwal.base.table_place import reserve_place
from lance_gateway.memwal.creating import table_exists
from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    PreconditionError,
    UnavailableError,
    UnsupportedError,
)
from lance_gateway.memwal.storage.files import MEM_WAL, Storage
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.access.unknown_names import unknown_name_error
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.past.branches import read_branches
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.statement import DONE, PreparedDefinition, Reader, check_may_create
from lance_gateway.planner.writes.dml.prepared_write import WriteResult
from lance_gateway.planner.writes.dml.statement.target import check_may_write, check_writable

_GATEWAY_FILES = "_gateway"
_ATTEMPTS = 4


def prepare_rename(
    engine: QueryPlanner, reader: Reader, access: Access, name: TableName, *, what: str, if_exists: bool
) -> PreparedDefinition:
    """Prepare RENAME TO, read up to the new name.

    Args:
        engine: engine of the table.
        reader: at the new name.
        access: rights of the principal.
        name: of the table or view.
        what: TABLE, which views may be called as well, or VIEW.
        if_exists: whether a name that does not exist is not an error.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    # Without a schema, it stays in that of the table.
    new_name = reader.table(f"a {what.lower()}", schema=name.schema)
    reader.expect_end()
    check_writable(engine, name)

    def rename(_control: RunControl | None) -> WriteResult:
        is_view = _check(engine, access, name, new_name, what=what, if_exists=if_exists)
        if is_view is None:
            return DONE
        if is_view:
            _rename_view(engine.catalog, name, new_name)
        else:
            rename_table(engine.catalog, name, new_name)
        return DONE

    _check(engine, access, name, new_name, what=what, if_exists=if_exists)
    return PreparedDefinition(reader.text.sql, rename, name)


def _check(
    engine: QueryPlanner, access: Access, name: TableName, new_name: TableName, *, what: str, if_exists: bool
) -> bool | None:
    """Return whether it is a view that is renamed; None if there is nothing to rename.

    Raises:
        LanceGatewayError: the principal may not do so, or a name is missing, wrong or taken.
    """
    visible, catalog = engine.visible_catalog(access), engine.catalog
    is_view = visible.view_sql(name) is not None
    if not is_view:
        if not (visible.has_table(name) and table_exists(catalog.locate_table(name))):
            if if_exists:
                return None
            raise unknown_name_error(name, visible)
        if what == "VIEW":
            msg = f"{name!r} is a table: ALTER TABLE renames it"
            raise InvalidInputError(msg)
        check_may_write(engine, name, access)
    check_may_create(engine, name, access)
    check_may_create(engine, new_name, access)
    if name.schema != new_name.schema and (name.is_temporary or new_name.is_temporary):
        msg = (
            f"{name!r} can't be renamed to {new_name!r}: temporary tables stay temporary, and others don't "
            "become so; CREATE TABLE .. AS SELECT copies the rows"
        )
        raise UnsupportedError(msg)
    if catalog.view_sql(new_name) is not None or table_exists(catalog.locate_table(new_name)):
        raise _taken_error(name, new_name)
    if not is_view and not catalog.locate_table(name).is_local:
        msg = (
            f"table {name!r} can't be renamed to {new_name!r}: object stores move no directories. CREATE "
            "TABLE .. (PRIMARY KEY (..)) AS SELECT copies its rows, and DROP TABLE removes it then"
        )
        raise UnsupportedError(msg)
    return is_view


def rename_table(catalog: Catalog, name: TableName, new_name: TableName) -> None:
    """Rename a table of a local root; rows that were acknowledged are in it before and after.

    Raises:
        NotFoundError: the table was dropped meanwhile.
        AlreadyExistsError: the new name was taken meanwhile, or files lie there.
        PreconditionError: it has branches.
        UnavailableError: a region of it can't be had; nothing was renamed.
    """
    table, source, target = catalog.table(name), catalog.locate_table(name), catalog.locate_table(new_name)
    _check_has_no_branches(table, name)
    if table.base().details is not None:
        writer = table.writer()
        # Who holds a region is fenced off, so that nothing is flushed to the old place.
        with writer.exclusive():
            pass
        writer.flush()
    try:
        if not _move(catalog, source, target, new_name):
            raise _taken_error(name, new_name) if table_exists(target) else _remains_error(name, target)
    except FileNotFoundError:
        raise NotFoundError(f"table {name!r} was renamed or dropped meanwhile") from None
    finally:
        if not table_exists(source):  # Also where the answer was lost.
            catalog.forget(name)
            catalog.forget(new_name)


def _move(catalog: Catalog, source: Storage, target: Storage, new_name: TableName) -> bool:
    """Move a table; return False if there is one already, or files that are of none."""
    with reserve_place(source):
        for _ in range(_ATTEMPTS):
            if table_exists(target):
                return False
            catalog.forget(new_name)
            _clear_remains(target)  # Writers may come upon it again.
            if source.move_to(target):
                return True
    return False


def _check_has_no_branches(table: Table, name: TableName) -> None:
    """Refuse to move a table with branches, which name the files of the table by where they are.

    Raises:
        PreconditionError: it has some.
    """
    branches = sorted(read_branches(table.base()))
    if branches:
        msg = (
            f"table {name!r} can't be renamed, since its branch {branches[0]!r} could not be read any more: "
            "DROP BRANCH .. ON .. first"
        )
        raise PreconditionError(msg)


def _clear_remains(target: Storage) -> None:
    """Remove what writers of a former table have left of it: it would keep the name taken."""
    for directory in (MEM_WAL, _GATEWAY_FILES):
        target.child(directory).delete_all()


def _rename_view(catalog: Catalog, name: TableName, new_name: TableName) -> None:
    view = catalog.view(name)
    if view is None:
        raise NotFoundError(f"view {name!r} was renamed or dropped meanwhile")
    if not catalog.write_view(new_name, view, replaces=False):
        raise _taken_error(name, new_name)
    catalog.drop_view(name)


def _taken_error(name: TableName, new_name: TableName) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"{name!r} can't be renamed: {new_name!r} exists already; drop it first, or choose another name"
    )


def _remains_error(name: TableName, target: Storage) -> UnavailableError:
    return UnavailableError(
        f"{name!r} can't be renamed: {target.uri} has files that are of no table. A table of that name is "
        "being made, or its making was cut short: retry, remove them, or choose another name"
    )
