"""``ALTER TABLE t ..``: each form in the module that does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from planner.access import Access
from planner.ddl.enable import enabling
from planner.ddl.prepared import DONE, PreparedDefinition
from planner.ddl.reader import Reader
from planner.ddl.rights import check_writable
from planner.ddl.schema_changes import Change, adding, dropping, renaming, retyping
from planner.dml.prepared import WriteResult
from planner.dml.target import check_may_write
from planner.query_planner import QueryPlanner
from planner.settings import SessionSettings

if TYPE_CHECKING:
    from planner.control import RunControl

_FORMS: Mapping[str, Callable[[Reader], Change]] = MappingProxyType(
    {"ADD": adding, "DROP": dropping, "RENAME": renaming, "ALTER": retyping, "SET": enabling}
)


def prepare_alter(
    engine: QueryPlanner,
    sql: str,
    settings: SessionSettings,  # noqa: ARG001 - a family's face
    access: Access,
) -> PreparedDefinition:
    """Check a statement that changes a table.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    reader = Reader.of(sql)
    reader.expect("ALTER")
    what = reader.choose("what is altered", "TABLE", "VIEW", "INDEX")
    if what != "TABLE":
        raise reader.refused(f"ALTER {what} is not offered: drop it and make it anew; its name stands")
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.table()
    change = _FORMS[reader.choose("what is to be done", *_FORMS)](reader)
    if reader.word == ",":
        raise reader.refused("One change at a time: a second one follows")
    reader.finish()
    check_writable(engine, name)
    if not (if_exists and not engine.visible(access).has_table(name)):
        check_may_write(engine, name, access)
        change.check(engine.catalog.table(name))

    def alter(_control: RunControl | None) -> WriteResult:
        if if_exists and not engine.visible(access).has_table(name):
            return DONE
        check_may_write(engine, name, access)
        table = engine.catalog.table(name)
        if not change.check(table):
            return DONE
        # Rows that were acknowledged are flushed under the columns that they were written with. Whoever wrote
        # meanwhile still has the old columns, and begins anew.
        writer = table.writer()
        writer.flush()
        try:
            change.apply(table)
        finally:
            writer.flush()
        return DONE

    return PreparedDefinition(sql, alter, name)
