"""``CREATE ..``, schemas, and views, which are files named ``<name>.view.sql``."""

from __future__ import annotations

from dataclasses import replace

from memwal.creating import table_exists
from memwal.errors import AlreadyExistsError, InvalidInputError
from memwal.storage.table_names import TableName
from planner.access.rights import Access
from planner.access.visible_catalog import SecuredTable, VisibleCatalog
from planner.binding.bind import bind
from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.sql.dialects.translate import NATIVE
from planner.tables.state.catalog import View
from planner.writes.ddl.create_table import prepare_create_table
from planner.writes.ddl.indexes import prepare_create_index
from planner.writes.ddl.statement import (
    DONE,
    PreparedDefinition,
    Reader,
    check_may_create,
    check_may_write_schema,
)
from planner.writes.ddl.versions.branches import prepare_create_branch
from planner.writes.ddl.versions.tags import prepare_create_tag
from planner.writes.dml.prepared_write import WriteResult

_TEMPORARY = "There are no temporary tables and views: make one and drop it, or use WITH"
_REFUSED = {
    "TEMP": _TEMPORARY,
    "TEMPORARY": _TEMPORARY,
    "EXTERNAL": "External tables are not offered: put the data into a table of this catalog",
    "UNLOGGED": "Tables without a log are not offered: SET durable_writes = false is the faster, weaker way",
    "MATERIALIZED": "Materialized views are not offered: CREATE TABLE .. AS SELECT keeps a result",
    "DATABASE": "There is one catalog: 'lance'",
    "FUNCTION": "Functions can't be made",
    "SEQUENCE": "Sequences are not offered",
    "UNIQUE": "Unique indexes are not offered; a PRIMARY KEY keeps the newest row of each key",
}


def prepare_create(
    engine: QueryPlanner, sql: str, settings: SessionSettings, access: Access
) -> PreparedDefinition:
    """Prepare a CREATE statement.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    reader = Reader.of(sql, settings.schema, "CREATE")
    replaces = reader.take("OR", "REPLACE")
    if reader.word in ("LOCAL", "GLOBAL") and reader.next_word in ("TEMP", "TEMPORARY"):
        reader.at += 1
    if reader.word in _REFUSED:
        raise reader.unsupported_error(f"{_REFUSED[reader.word]}; it stands")
    what = reader.choose("what is created", "TABLE", "VIEW", "INDEX", "SCHEMA", "TAG", "BRANCH")
    if what == "TABLE":
        return prepare_create_table(engine, reader, settings, access, replaces=replaces)
    if what == "VIEW":
        return prepare_create_view(engine, reader, settings, access, replaces=replaces)
    if what == "TAG":
        return prepare_create_tag(engine, reader, access, replaces=replaces)
    if what == "BRANCH":
        return prepare_create_branch(engine, reader, access, replaces=replaces)
    if what == "SCHEMA":
        return prepare_create_schema(engine, reader, access, replaces=replaces)
    return prepare_create_index(engine, reader, access, replaces=replaces)


class _CatalogWithView:
    """A catalog with one more view."""

    def __init__(self, catalog: VisibleCatalog, name: TableName, select: str) -> None:
        self._catalog = catalog
        self._name = name
        self._select = select
        self.names = catalog.names
        self.has_schema = catalog.has_schema
        self.system_tables = catalog.system_tables

    def find(self, name: TableName) -> SecuredTable | None:
        return None if name == self._name else self._catalog.find(name)

    def view_sql(self, name: TableName) -> str | None:
        return self._select if name == self._name else self._catalog.view_sql(name)


def prepare_create_view(
    engine: QueryPlanner, reader: Reader, settings: SessionSettings, access: Access, *, replaces: bool
) -> PreparedDefinition:
    """Prepare CREATE VIEW, read up to VIEW; the principal must be able to run its SELECT.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    skips = reader.take("IF", "NOT", "EXISTS")
    if skips and replaces:
        raise reader.error("OR REPLACE and IF NOT EXISTS exclude each other; the name stands")
    name = reader.table("a view")
    comment = None
    if reader.take("COMMENT"):
        reader.take("=")
        comment = reader.string("a comment")
    if reader.word == "(":
        raise reader.unsupported_error(
            "Names of columns are not offered here: use AS in the SELECT; they stand"
        )
    reader.expect("AS")
    select = reader.rest()
    check_may_create(engine, name, access)
    catalog = engine.catalog
    if settings.dialect != NATIVE:
        msg = f"views are in DataFusion's SQL: choose dialect {NATIVE!r} for it (it is {settings.dialect!r})"
        raise InvalidInputError(msg)

    def check() -> None:
        # Names without a schema are in the schema of the view, whoever reads it.
        engine.prepare(select, replace(settings, types="arrow", schema=name.schema), access)
        # Binds a query of the view too, which finds a view that reads itself.
        sql = f"SELECT * FROM {name.sql}"  # noqa: S608 - quoted
        bind(sql, _CatalogWithView(engine.visible_catalog(access), name, select))

    check()

    def create(_control: RunControl | None) -> WriteResult:
        if table_exists(catalog.locate_table(name)):
            msg = f"{name!r} is a table: DROP TABLE it first, or choose another name"
            raise AlreadyExistsError(msg)
        check()
        if not catalog.write_view(name, View(select, comment), replaces=replaces) and not skips:
            msg = f"view {name!r} exists already: use OR REPLACE to replace it"
            raise AlreadyExistsError(msg)
        return DONE

    return PreparedDefinition(reader.text.sql, create, name)


def prepare_create_schema(
    engine: QueryPlanner, reader: Reader, access: Access, *, replaces: bool
) -> PreparedDefinition:
    """Prepare CREATE SCHEMA, read up to SCHEMA.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    if replaces:
        raise reader.unsupported_error("A schema is not replaced: DROP SCHEMA drops it; its name stands")
    skips = reader.take("IF", "NOT", "EXISTS")
    schema = reader.schema_name()
    reader.expect_end()
    schemas = engine.catalog.schemas
    schemas.check_name(schema)
    check_may_write_schema(engine, schema, access)

    def create(_control: RunControl | None) -> WriteResult:
        check_may_write_schema(engine, schema, access)
        is_made = not schemas.exists(schema) and schemas.create(schema)
        if not is_made and not skips:
            msg = f"schema {schema!r} exists already: use IF NOT EXISTS to leave it"
            raise AlreadyExistsError(msg)
        return DONE

    return PreparedDefinition(reader.text.sql, create, schema)
