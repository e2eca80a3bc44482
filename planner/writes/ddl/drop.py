"""``DROP TABLE | VIEW | INDEX | SCHEMA | TAG | BRANCH [IF EXISTS] ..``."""

from __future__ import annotations

from lance_gateway.memwal.creating import delete_table, table_exists
from lance_gateway.memwal.errors import InvalidInputError, PreconditionError
from lance_gateway.memwal.storage.schemas import RESERVED_SCHEMAS
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.access.unknown_names import (
    unknown_name_error,
    unknown_schema_error,
    unknown_table_error,
)
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.writes.ddl.indexes import prepare_drop_index
from lance_gateway.planner.writes.ddl.statement import (
    DONE,
    PreparedDefinition,
    Reader,
    check_may_create,
    check_may_write_schema,
)
from lance_gateway.planner.writes.ddl.tables.making import check_no_files_elsewhere
from lance_gateway.planner.writes.ddl.versions.branches import prepare_drop_branch
from lance_gateway.planner.writes.ddl.versions.tags import prepare_drop_tag
from lance_gateway.planner.writes.dml.prepared_write import WriteResult
from lance_gateway.planner.writes.dml.statement.target import check_may_write, check_writable


def prepare_drop(
    engine: QueryPlanner,
    sql: str,
    settings: SessionSettings,
    access: Access,
) -> PreparedDefinition:
    """Prepare a DROP statement.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    reader = Reader.of(sql, settings.schema, "DROP")
    reader.refuse_sequence()
    what = reader.choose("what is dropped", "TABLE", "VIEW", "INDEX", "SCHEMA", "TAG", "BRANCH")
    if_exists = reader.take("IF", "EXISTS")
    if what == "INDEX":
        return prepare_drop_index(engine, reader, access, if_exists=if_exists)
    if what == "SCHEMA":
        return _prepare_drop_schema(engine, reader, access, if_exists=if_exists)
    if what == "BRANCH":
        return prepare_drop_branch(engine, reader, access, if_exists=if_exists)
    if what == "TAG":
        return prepare_drop_tag(engine, reader, access, if_exists=if_exists)
    name = reader.table("a table" if what == "TABLE" else "a view")
    if reader.word == ",":
        raise reader.unsupported_error("One table at a time is dropped; a second one follows")
    # Nothing depends on a table, since views are resolved by name; its files may lie elsewhere.
    cascades = reader.take("CASCADE")
    if not cascades:
        reader.take("RESTRICT")
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
        if not cascades:
            check_no_files_elsewhere(engine.catalog, name)
        drop_table(engine, name)
        return DONE

    return PreparedDefinition(sql, drop, name)


def drop_table(engine: QueryPlanner, name: TableName) -> None:
    """Drop a table: remove it from the catalog and delete its files.

    Raises:
        NotFoundError: the table does not exist.
        UnavailableError: storage failed; dropping the table again continues.
    """
    catalog = engine.catalog
    storage = catalog.locate_table(name)
    catalog.forget(name)
    if not table_exists(storage):
        raise unknown_table_error(name, catalog.names(name.schema))
    delete_table(storage)
    # Another statement may have opened the table while it was being deleted.
    catalog.forget(name)


def _has_table(engine: QueryPlanner, access: Access, name: TableName) -> bool:
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
    engine: QueryPlanner, reader: Reader, access: Access, name: TableName, *, if_exists: bool
) -> PreparedDefinition:
    def check() -> bool:
        visible = engine.visible_catalog(access)
        if visible.view_sql(name) is None:
            if visible.has_table(name):
                msg = f"{name!r} is a table: DROP TABLE drops it"
                raise InvalidInputError(msg)
            if if_exists:
                return False
            raise unknown_name_error(name, visible)
        check_may_create(engine, name, access)
        return True

    check()

    def drop(_control: RunControl | None) -> WriteResult:
        if check():
            engine.catalog.drop_view(name)
        return DONE

    return PreparedDefinition(reader.text.sql, drop, name)


def _prepare_drop_schema(
    engine: QueryPlanner, reader: Reader, access: Access, *, if_exists: bool
) -> PreparedDefinition:
    """Prepare DROP SCHEMA, read up to SCHEMA [IF EXISTS]."""
    schema = reader.schema_name()
    cascades = reader.take("CASCADE")
    if not cascades:
        reader.take("RESTRICT")
    reader.expect_end()
    if schema in RESERVED_SCHEMAS:
        msg = f"schema {schema!r} can't be dropped: every catalog has it"
        raise InvalidInputError(msg)
    catalog = engine.catalog

    def check() -> bool:
        """Return whether there is a schema to drop."""
        if not engine.visible_catalog(access).has_schema(schema):
            if if_exists:
                return False
            raise unknown_schema_error(schema)
        check_may_write_schema(engine, schema, access)
        names = catalog.names(schema)
        if names and not cascades:
            msg = (
                f"schema {schema!r} has tables or views ({', '.join(names[:5])}{', ..' * (len(names) > 5)}): "
                "add CASCADE to drop them too"
            )
            raise PreconditionError(msg)
        for name in catalog.table_names(schema):  # before the first one is dropped
            check_may_write(engine, name, access)
        return True

    check()

    def drop(_control: RunControl | None) -> WriteResult:
        if check():
            for view in catalog.view_names(schema):
                catalog.drop_view(view)
            for name in catalog.table_names(schema):
                drop_table(engine, name)
            catalog.schemas.drop(schema)
        return DONE

    return PreparedDefinition(reader.text.sql, drop, schema)
