"""``CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t (..) [WITH (..)]``, also of LIKE, CLONE and AS SELECT."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from lance_gateway.memwal.creating import build_stored_schema, list_key_columns, list_not_null_columns
from lance_gateway.memwal.creating.key_index import check_key_index, list_default_columns, list_wanted_columns
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.rules import Constraint
from lance_gateway.memwal.storage.jobs import Job
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.sql.text.limits import QUERY_STARTS
from lance_gateway.planner.sql.text.tokens import quote
from lance_gateway.planner.system.definitions import format_region_spec
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.options import STABLE_ROW_IDS, read_table_options
from lance_gateway.planner.writes.ddl.rules.columns import COMMENT, ColumnDefinition, read_column
from lance_gateway.planner.writes.ddl.rules.constraints import (
    build_constraints,
    is_constraint,
    read_constraint,
)
from lance_gateway.planner.writes.ddl.statement import PreparedDefinition, Reader, check_may_create
from lance_gateway.planner.writes.ddl.tables.making import Mode, create_table
from lance_gateway.planner.writes.ddl.versions.cloning import (
    CloneSource,
    build_indexes_of,
    list_clone_options,
    read_clone,
    read_clone_comment,
)
from lance_gateway.planner.writes.dml.prepared_write import WriteResult


@dataclass
class _Definition:
    """The statement up to AS.

    Attributes:
        name: name of the table.
        mode: what to do if the table exists.
        columns: definitions of columns.
        primary_key: columns of the PRIMARY KEY constraint.
        constraints: constraints of the table and its columns.
        like: table of LIKE.
        options: options of WITH.
        metadata: metadata of the schema.
    """

    name: TableName
    mode: Mode
    columns: list[ColumnDefinition] = field(default_factory=list)
    primary_key: tuple[str, ...] = ()
    constraints: list[Constraint] = field(default_factory=list)
    like: TableName | None = None
    options: dict[str, str] = field(default_factory=dict)
    metadata: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, ...]:
        """Key columns of the constraint, or those declared PRIMARY KEY."""
        return self.primary_key or tuple(column.field.name for column in self.columns if column.is_key)


def prepare_create_table(
    engine: QueryPlanner, reader: Reader, settings: SessionSettings, access: Access, *, replaces: bool
) -> PreparedDefinition:
    """Prepare CREATE TABLE, read up to TABLE.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    skips = reader.take("IF", "NOT", "EXISTS")
    if skips and replaces:
        raise reader.error("OR REPLACE and IF NOT EXISTS exclude each other")
    definition = _Definition(reader.new_table(), "replace" if replaces else "skip" if skips else "fail")
    clone = read_clone(reader)
    if clone is None and reader.take("("):
        _read_body(reader, definition)
    _read_properties(reader, definition)
    check_may_create(engine, definition.name, access)
    if clone is not None:
        reader.expect_end()
        return _prepare_clone(engine, reader, settings, access, definition, clone)
    if reader.take("AS"):
        return _prepare_as_select(engine, reader, settings, access, definition)
    reader.expect_end()
    if definition.like is not None:
        schema = _read_like_schema(engine, access, definition)
    elif definition.columns:
        schema = pa.schema([column.field for column in definition.columns])
    else:
        raise reader.error("Columns (name type, ..), (LIKE table) or AS SELECT are missing")
    return _prepare_definition(engine, reader, access, definition, schema.with_metadata(definition.metadata))


def _prepare_definition(
    engine: QueryPlanner,
    reader: Reader,
    access: Access,
    definition: _Definition,
    schema: pa.Schema,
    rows: Callable[[RunControl | None], Iterator[pa.RecordBatch]] | None = None,
    finish: Callable[[Table, Job], None] | None = None,
) -> PreparedDefinition:
    """Check schema and options; whether the table exists is checked by each execution.

    Args:
        engine: engine of the table.
        reader: of the statement.
        access: rights of the principal.
        definition: the statement.
        schema: columns.
        rows: reads the first rows.
        finish: is called with a table that was made, and the job that made it.
    """
    options = read_table_options(definition.options)
    key = definition.key or options.primary_key or ()
    build_stored_schema(schema, key)
    check_key_index(options.key_index or (), key)
    constraints = build_constraints(definition.name, schema, definition.constraints)

    def create(control: RunControl | None) -> WriteResult:
        count = -1 if rows is None else 0

        def batches(job: Job) -> Iterator[pa.RecordBatch]:
            nonlocal count
            job.begin("write rows", None, "row")
            for batch in () if rows is None else rows(control):
                count += batch.num_rows
                yield batch
                job.advance(batch.num_rows)

        with engine.catalog.jobs.run("create table", definition.name, access.user) as job:
            is_made = create_table(
                engine.catalog,
                definition.name,
                schema,
                definition.key,
                options=definition.options,
                constraints=constraints,
                mode=definition.mode,
                rows=None if rows is None else partial(batches, job),
                job=job,
            )
            if is_made and finish is not None:
                finish(engine.catalog.table(definition.name), job)
        return WriteResult(count)

    return PreparedDefinition(reader.text.sql, create, definition.name)


def _prepare_as_select(
    engine: QueryPlanner, reader: Reader, settings: SessionSettings, access: Access, definition: _Definition
) -> PreparedDefinition:
    if definition.columns or definition.like is not None:
        raise reader.error("A table made AS SELECT takes its columns from there: name them by AS")
    if reader.word not in QUERY_STARTS | {"("}:
        raise reader.error(f"A table is made of one SELECT, and this begins with {reader.shown}")
    read_settings = replace(settings, types="arrow", endpoints=1)
    source = engine.prepare(reader.rest(), read_settings, access)
    for column in source.schema:
        if source.schema.names.count(column.name) > 1:
            msg = f"several columns of the SELECT are called {column.name!r}, and a table has one of a name"
            raise InvalidInputError(f"{msg}: give them different names by AS")
        if pa.types.is_null(column.type):
            msg = f"column {column.name!r} is always NULL, so its type is unknown: write CAST(NULL AS type)"
            raise InvalidInputError(msg)
    schema = pa.schema([pa.field(column.name, column.type) for column in source.schema], definition.metadata)
    return _prepare_definition(
        engine,
        reader,
        access,
        definition,
        schema,
        lambda control: iter(source.execute((), read_settings, control)),
    )


def _prepare_clone(
    engine: QueryPlanner,
    reader: Reader,
    settings: SessionSettings,
    access: Access,
    definition: _Definition,
    clone: CloneSource,
) -> PreparedDefinition:
    source = engine.visible_catalog(access).table(clone.name, clone.as_of)
    for name, value in list_clone_options(source).items():
        definition.options.setdefault(name, value)
    comment = read_clone_comment(source)
    if comment is not None:
        definition.metadata.setdefault(COMMENT, comment.encode())
    schema = _add_like(definition, source).with_metadata(definition.metadata)
    read_settings = replace(settings, types="arrow", endpoints=1)
    rows = engine.prepare(clone.render_query(schema.names), read_settings, access)
    return _prepare_definition(
        engine,
        reader,
        access,
        definition,
        schema,
        lambda control: iter(rows.execute((), read_settings, control)),
        lambda table, job: build_indexes_of(source, table, job),
    )


def _read_body(reader: Reader, definition: _Definition) -> None:
    """Read columns and constraints up to the closing parenthesis."""
    if reader.take("LIKE"):
        definition.like = reader.table()
        while reader.take("INCLUDING"):
            reader.expect("ALL")
    else:
        _read_element(reader, definition)
        while reader.take(","):
            _read_element(reader, definition)
    reader.expect(")")
    marked = [column.field.name for column in definition.columns if column.is_key]
    if len(marked) > 1 or (marked and definition.primary_key):
        names = ", ".join([*marked, *definition.primary_key])
        msg = f"a table has one primary key, and there are several ({names}): write PRIMARY KEY (a, b) once"
        raise InvalidInputError(msg)


def _read_element(reader: Reader, definition: _Definition) -> None:
    name = reader.name("The name of a constraint") if reader.take("CONSTRAINT") else ""
    if reader.take("PRIMARY", "KEY"):
        if definition.primary_key:
            raise reader.error("A table has one primary key")
        definition.primary_key = tuple(name for name, _ in reader.read_name_list("A key column"))
    elif is_constraint(reader):
        definition.constraints.append(read_constraint(reader, name))
    elif reader.is_at("EXCLUDE", "USING") or reader.is_at("EXCLUDE", "("):
        raise reader.unsupported_error("EXCLUDE is not supported")
    else:
        column = read_column(reader)
        definition.columns.append(column)
        definition.constraints += column.constraints


def _read_properties(reader: Reader, definition: _Definition) -> None:
    while reader.word not in ("", "AS"):
        if reader.take("WITH"):
            for name, value in reader.options().items():
                if definition.options.setdefault(name, value) != value:
                    raise reader.error(f"Option {name} is given twice")
        elif reader.take("COMMENT"):
            reader.take("=")
            definition.metadata[COMMENT] = reader.string("a comment").encode()
        elif definition.name.is_temporary and reader.take("ON", "COMMIT"):
            if not reader.take("PRESERVE", "ROWS"):
                raise reader.unsupported_error("Temporary tables keep their rows, ON COMMIT PRESERVE ROWS")
        else:
            raise reader.error(f"Expected WITH (..), COMMENT or AS SELECT, not {reader.shown}")


def _read_like_schema(engine: QueryPlanner, access: Access, definition: _Definition) -> pa.Schema:
    """Return the columns of the table of LIKE; see `_add_like`."""
    assert definition.like is not None  # noqa: S101 - the statement has LIKE
    return _add_like(definition, engine.visible_catalog(access).table(definition.like))


def _add_like(definition: _Definition, secured: SecuredTable) -> pa.Schema:
    """Return the columns of a table; add key, key_index and regions unless the definition has them."""
    declared = secured.declared_schema
    required = list_not_null_columns(declared)
    base = secured.base
    if "primary_key" not in definition.options:
        definition.primary_key = definition.primary_key or secured.primary_key
    if set(list_key_columns(declared)) == set(definition.key):
        wanted = list_wanted_columns(base.dataset)
        if wanted != list_default_columns(base.dataset.schema):
            definition.options.setdefault("key_index", ", ".join(map(quote, wanted)))
    if base.dataset.has_stable_row_ids:
        definition.options.setdefault(STABLE_ROW_IDS, "true")
    details = base.details
    if details is None:
        definition.options.setdefault("memwal", "false")
    elif (
        details.region_specs
        and secured.access.is_unrestricted  # a region spec reveals values that may be hidden
        and set(list_key_columns(declared)) == set(definition.key)
    ):
        spec = details.region_specs[-1]
        definition.options.setdefault("region_by", format_region_spec(spec, base.field_names))
    if secured.access.is_unrestricted:  # a condition may name columns that are hidden
        definition.constraints += base.constraints
    return pa.schema([column.with_nullable(column.name not in required) for column in declared])
