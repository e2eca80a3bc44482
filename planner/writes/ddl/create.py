"""``CREATE ..``, schemas, and views, which are files named ``<name>.view.sql``."""

from __future__ import annotations

import re
from dataclasses import replace

from lance_gateway.memwal.creating import table_exists
from lance_gateway.memwal.errors import AlreadyExistsError, InvalidInputError, PreconditionError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.rights import Access, SessionAccess
from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.access.visible_catalog import VisibleCatalog
from lance_gateway.planner.binding.bind import bind
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.sql.dialects.translate import NATIVE
from lance_gateway.planner.sql.forms.functions import NO_SEQUENCES
from lance_gateway.planner.tables.state.views import View
from lance_gateway.planner.writes.ddl.create_table import prepare_create_table
from lance_gateway.planner.writes.ddl.indexes import prepare_create_index
from lance_gateway.planner.writes.ddl.statement import (
    DONE,
    PreparedDefinition,
    Reader,
    check_may_create,
    check_may_write_schema,
)
from lance_gateway.planner.writes.ddl.versions.branches import prepare_create_branch
from lance_gateway.planner.writes.ddl.versions.tags import prepare_create_tag
from lance_gateway.planner.writes.dml.prepared_write import WriteResult

_NO_SESSION = (
    "temporary tables are of a session, and the call names none, so nothing was made: let the driver keep "
    "cookies (ADBC: adbc.flight.sql.rpc.with_cookie_middleware), and execute it again; or make a table and "
    "drop it"
)
_GAP = r"(?>\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)"
_TEMPORARY = re.compile(
    rf"{_GAP}*+CREATE{_GAP}++(?:OR{_GAP}++REPLACE{_GAP}++)?(?:(?:LOCAL|GLOBAL){_GAP}++)?TEMP(?:ORARY)?\b",
    re.IGNORECASE | re.DOTALL,
)
_REFUSED = {
    "EXTERNAL": "External tables are not supported: put the data into a table of this catalog",
    "UNLOGGED": "Tables without a log are not supported: SET durable_writes = false is faster, and weaker",
    "MATERIALIZED": "Materialized views are not supported: CREATE TABLE .. AS SELECT keeps a result",
    "DATABASE": "There is one catalog: 'lance'",
    "FUNCTION": "Functions can't be made",
    "SEQUENCE": NO_SEQUENCES,
    "UNIQUE": "Unique indexes are not supported; a PRIMARY KEY keeps the newest row of each key",
}


def makes_temporary(sql: str) -> bool:
    """Return whether a statement makes a temporary table or view.

    >>> makes_temporary("CREATE TEMP TABLE t (i INT)"), makes_temporary("CREATE TABLE temp (i INT)")
    (True, False)
    """
    return _TEMPORARY.match(sql) is not None


def refuse_temporary(sql: str) -> PreparedDefinition:
    """Return a statement that can't make its temporary table, which it says when it is executed."""

    def refuse(_control: RunControl | None) -> WriteResult:
        raise PreconditionError(_NO_SESSION)

    return PreparedDefinition(sql, refuse)


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
    if reader.take("TEMP") or reader.take("TEMPORARY"):
        return _prepare_temporary(engine, reader, settings, access, replaces=replaces)
    if reader.word in _REFUSED:
        raise reader.unsupported_error(f"{_REFUSED[reader.word]}")
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


def _prepare_temporary(
    engine: QueryPlanner, reader: Reader, settings: SessionSettings, access: Access, *, replaces: bool
) -> PreparedDefinition:
    """Prepare CREATE TEMPORARY TABLE or VIEW, read up to TABLE or VIEW."""
    if not isinstance(access, SessionAccess):
        raise PreconditionError(_NO_SESSION)
    # The new one may be the first one, and so the path is not a search path yet.
    reader.schema = access.find_path(settings.schema)
    reader.new_schema = access.temporary
    if reader.choose("what is temporary", "TABLE", "VIEW") == "TABLE":
        return prepare_create_table(engine, reader, settings, access, replaces=replaces)
    return prepare_create_view(engine, reader, settings, access, replaces=replaces)


class _CatalogWithView:
    """A catalog with one more view."""

    def __init__(self, catalog: VisibleCatalog, name: TableName, view: View) -> None:
        self._catalog = catalog
        self._name = name
        self._view = view
        self.names = catalog.names
        self.has_schema = catalog.has_schema
        self.system_tables = catalog.system_tables

    def find(self, name: TableName) -> SecuredTable | None:
        return None if name == self._name else self._catalog.find(name)

    def view_sql(self, name: TableName) -> str | None:
        return self._view.select if name == self._name else self._catalog.view_sql(name)

    def view_path(self, name: TableName) -> str:
        return self._view.path or name.schema if name == self._name else self._catalog.view_path(name)


def prepare_create_view(
    engine: QueryPlanner, reader: Reader, settings: SessionSettings, access: Access, *, replaces: bool
) -> PreparedDefinition:
    """Prepare CREATE VIEW, read up to VIEW; the principal must be able to run its SELECT.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    skips = reader.take("IF", "NOT", "EXISTS")
    if skips and replaces:
        raise reader.error("OR REPLACE and IF NOT EXISTS exclude each other")
    name = reader.new_table("a view")
    comment = None
    if reader.take("COMMENT"):
        reader.take("=")
        comment = reader.string("a comment")
    if reader.word == "(":
        raise reader.unsupported_error("Names of columns are not supported here: use AS in the SELECT")
    reader.expect("AS")
    select = reader.rest()
    check_may_create(engine, name, access)
    catalog = engine.catalog
    if settings.dialect != NATIVE:
        msg = f"views are in DataFusion's SQL: choose dialect {NATIVE!r} for it (it is {settings.dialect!r})"
        raise InvalidInputError(msg)

    view = View(select, comment, reader.schema if name.is_temporary else None)

    def check() -> None:
        # Names without a schema are in the schema of the view, whoever reads it.
        engine.prepare(select, replace(settings, types="arrow", schema=view.path or name.schema), access)
        # Binds a query of the view too, which finds a view that reads itself.
        sql = f"SELECT * FROM {name.sql}"  # noqa: S608 - quoted
        bind(sql, _CatalogWithView(engine.visible_catalog(access), name, view))

    check()

    def create(_control: RunControl | None) -> WriteResult:
        if table_exists(catalog.locate_table(name)):
            msg = f"{name!r} is a table: DROP TABLE it first, or choose another name"
            raise AlreadyExistsError(msg)
        check()
        if not catalog.write_view(name, view, replaces=replaces) and not skips:
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
        raise reader.unsupported_error("A schema is not replaced: DROP SCHEMA drops it")
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
