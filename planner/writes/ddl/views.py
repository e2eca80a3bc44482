"""``CREATE [OR REPLACE] VIEW v AS SELECT ..`` and ``DROP VIEW``: files named ``<name>.view.sql``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from memwal.creating import table_exists
from memwal.errors import AlreadyExistsError, InvalidInputError
from planner.access.rights import Access
from planner.access.visible_catalog import SecuredTable, VisibleCatalog
from planner.binding.bind import bind
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.sql.dialects.translate import NATIVE
from planner.sql.tokens import quote
from planner.writes.ddl.statement.prepared_ddl import DONE, PreparedDefinition, check_may_create
from planner.writes.ddl.statement.reader import Reader
from planner.writes.dml.statement.prepared_write import WriteResult

if TYPE_CHECKING:
    from planner.bridge.run_control import RunControl


class _WithView:
    """What names mean once there is one more view."""

    def __init__(self, known: VisibleCatalog, name: str, select: str) -> None:
        self._known = known
        self._name = name
        self._select = select
        self.names = known.names
        self.system_tables = known.system_tables

    def find(self, name: str) -> SecuredTable | None:
        return None if name == self._name else self._known.find(name)

    def view_sql(self, name: str) -> str | None:
        return self._select if name == self._name else self._known.view_sql(name)


def prepare_create_view(
    engine: QueryPlanner, reader: Reader, settings: SessionSettings, access: Access, *, replaces: bool
) -> PreparedDefinition:
    """Check a statement whose words up to VIEW are taken; its SELECT must run for the principal.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    skips = reader.accept("IF", "NOT", "EXISTS")
    if skips and replaces:
        raise reader.error("OR REPLACE and IF NOT EXISTS exclude each other; the name stands")
    name = reader.table("a view")
    if reader.word == "(":
        raise reader.refused("Names of columns are not offered here: use AS in the SELECT; they stand")
    reader.expect("AS")
    select = reader.rest()
    check_may_create(engine, name, access)
    catalog = engine.catalog
    if settings.dialect != NATIVE:
        msg = f"views are in DataFusion's SQL: choose dialect {NATIVE!r} for it (it is {settings.dialect!r})"
        raise InvalidInputError(msg)

    def check() -> None:
        engine.prepare(select, replace(settings, types="arrow"), access)
        # The view as others will find it: one that reads itself is found out so.
        sql = f"SELECT * FROM {quote(name)}"  # noqa: S608 - quoted
        bind(sql, _WithView(engine.visible(access), name, select))

    check()

    def create(_control: RunControl | None) -> WriteResult:
        if table_exists(catalog.storage_of(name)):
            msg = f"{name!r} is a table: DROP TABLE it first, or choose another name"
            raise AlreadyExistsError(msg)
        check()
        if not catalog.write_view(name, select, replaces=replaces) and not skips:
            msg = f"view {name!r} exists already: use OR REPLACE to replace it"
            raise AlreadyExistsError(msg)
        return DONE

    return PreparedDefinition(reader.text.sql, create, name)
