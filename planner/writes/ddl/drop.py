"""``DROP TABLE | VIEW | INDEX | TAG [IF EXISTS] ..``."""

from __future__ import annotations

from memwal.creating import delete_table, table_exists
from memwal.errors import InvalidInputError
from planner.access.rights import Access
from planner.access.visible_catalog import unknown_table_error
from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.writes.ddl.indexes import prepare_drop_index
from planner.writes.ddl.statement import DONE, PreparedDefinition, Reader, check_may_create
from planner.writes.ddl.tags import prepare_drop_tag
from planner.writes.dml.prepared_write import WriteResult
from planner.writes.dml.statement.target import check_may_write, check_writable


def prepare_drop(
    engine: QueryPlanner,
    sql: str,
    settings: SessionSettings,  # noqa: ARG001 - same signature as other statements
    access: Access,
) -> PreparedDefinition:
    """Prepare a DROP statement.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    reader = Reader.of(sql, "DROP")
    what = reader.choose("what is dropped", "TABLE", "VIEW", "INDEX", "TAG")
    if_exists = reader.take("IF", "EXISTS")
    if what == "INDEX":
        return prepare_drop_index(engine, reader, access, if_exists=if_exists)
    if what == "TAG":
        return prepare_drop_tag(engine, reader, access, if_exists=if_exists)
    name = reader.table("a table" if what == "TABLE" else "a view")
    if reader.word == ",":
        raise reader.unsupported_error("One table at a time is dropped; a second one follows")
    # Both mean the same: nothing depends on a table, since views are resolved by name.
    reader.take("CASCADE") or reader.take("RESTRICT")
    reader.expect_end()
    check_writable(engine, name)
    if what == "VIEW":
        return _prepare_drop_view(engine, reader, access, name, if_exists=if_exists)
    if _has_table(engine, access, name) or not if_exists:
        check_may_write(engine, name, access)

    def drop(_control: RunControl | None) -> WriteResult:
        if if_exists and not _has_table(engine, access, name):
            return DONE
        check_may_write(engine, name, access)
        drop_table(engine, name)
        return DONE

    return PreparedDefinition(sql, drop, name)


def drop_table(engine: QueryPlanner, name: str) -> None:
    """Drop a table: remove it from the catalog and delete its files.

    Raises:
        NotFoundError: the table does not exist.
        UnavailableError: storage failed; dropping the table again continues.
    """
    catalog = engine.catalog
    storage = catalog.locate_table(name)
    catalog.forget(name)
    if not table_exists(storage):
        raise unknown_table_error(name, catalog.names())
    delete_table(storage)
    # Another statement may have opened the table while it was being deleted.
    catalog.forget(name)


def _has_table(engine: QueryPlanner, access: Access, name: str) -> bool:
    """Whether the principal sees a table of that name.

    Raises:
        InvalidInputError: the name is that of a view.
    """
    visible = engine.visible_catalog(access)
    if visible.view_sql(name) is not None:
        msg = f"{name!r} is a view: DROP VIEW drops it"
        raise InvalidInputError(msg)
    return visible.has_table(name) and table_exists(engine.catalog.locate_table(name))


def _prepare_drop_view(
    engine: QueryPlanner, reader: Reader, access: Access, name: str, *, if_exists: bool
) -> PreparedDefinition:
    def check() -> bool:
        visible = engine.visible_catalog(access)
        if visible.view_sql(name) is None:
            if visible.has_table(name):
                msg = f"{name!r} is a table: DROP TABLE drops it"
                raise InvalidInputError(msg)
            if if_exists:
                return False
            raise unknown_table_error(name, visible.names())
        check_may_create(engine, name, access)
        return True

    check()

    def drop(_control: RunControl | None) -> WriteResult:
        if check():
            engine.catalog.drop_view(name)
        return DONE

    return PreparedDefinition(reader.text.sql, drop, name)
