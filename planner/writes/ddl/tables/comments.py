"""``COMMENT ON TABLE t IS 'text'``, likewise ON VIEW and ON COLUMN ``t.c``; NULL removes a comment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lance_gateway.memwal.base.comments import encode_column_comment, encode_table_comment
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.access.unknown_names import unknown_table_error
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.writes.ddl.statement import (
    DONE,
    PreparedDefinition,
    Reader,
    check_column,
    check_may_create,
    commit_change,
)
from lance_gateway.planner.writes.dml.prepared_write import WriteResult
from lance_gateway.planner.writes.dml.statement.target import (
    check_may_write,
    check_writable,
    resolve_table_name,
)


def prepare_comment(
    engine: QueryPlanner,
    sql: str,
    settings: SessionSettings,
    access: Access,
) -> PreparedDefinition:
    """Prepare COMMENT ON.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    reader = Reader.of(sql, settings.schema, "COMMENT", "ON")
    what = reader.choose("what the comment is on", "TABLE", "VIEW", "COLUMN")
    column = ""
    if what == "COLUMN":
        *parts, column = reader.read_qualified_name("The name of a column, table.column,")
        if not parts:
            raise reader.error("A column is named with its table: write COMMENT ON COLUMN table.column IS ..")
        name = resolve_table_name(parts, reader.schema)
    else:
        name = reader.table("a table" if what == "TABLE" else "a view")
    reader.expect("IS")
    comment = None if reader.take("NULL") else reader.string("a comment")
    reader.expect_end()
    if what == "VIEW":
        return PreparedDefinition(sql, _prepare_for_view(engine, access, name, comment), name)

    def check() -> None:
        if engine.visible_catalog(access).view_sql(name) is not None:
            say = "its columns have none" if column else f"write COMMENT ON VIEW {name}"
            raise InvalidInputError(f"{name!r} is a view: {say}")
        check_writable(engine, name)
        check_may_write(engine, name, access)
        if column:
            check_column(engine.catalog.table(name).base(), column)

    def write(_control: RunControl | None) -> WriteResult:
        check()
        table = engine.catalog.table(name)
        if not column:
            entries = dict(encode_table_comment(comment))
            commit_change(table, "write a comment", lambda dataset: dataset.update_config(entries))
            return DONE
        commit_change(
            table,
            f"write a comment on column {column!r}",
            lambda dataset: dataset.update_field_metadata(
                {column: dict(encode_column_comment(dataset.schema.field(column), comment))}
            ),
        )
        return DONE

    check()
    return PreparedDefinition(sql, write, name)


def _prepare_for_view(
    engine: QueryPlanner, access: Access, name: TableName, comment: str | None
) -> Callable[[RunControl | None], WriteResult]:
    def check() -> None:
        visible = engine.visible_catalog(access)
        if visible.view_sql(name) is None:
            if visible.has_table(name):
                raise InvalidInputError(f"{name!r} is a table: write COMMENT ON TABLE {name}")
            raise unknown_table_error(name, visible.names())
        check_may_create(engine, name, access)

    def write(_control: RunControl | None) -> WriteResult:
        check()
        view = engine.catalog.view(name)
        if view is not None:
            engine.catalog.write_view(name, replace(view, comment=comment), replaces=True)
        return DONE

    check()
    return write
