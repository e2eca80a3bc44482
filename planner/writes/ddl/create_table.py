"""``CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t (..) [WITH (..)]``, also ``(LIKE u)`` and ``AS SELECT``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa
from lance.fragment import FragmentMetadata

from memwal.creating import (
    build_stored_schema,
    create_dataset,
    delete_table,
    list_key_columns,
    list_not_null_columns,
    table_exists,
    write_fragments,
)
from memwal.creating.key_index import (
    check_key_index,
    encode_key_index,
    list_default_columns,
    list_wanted_columns,
)
from memwal.errors import AlreadyExistsError, InvalidInputError, LanceGatewayError, UnavailableError
from memwal.rules import Constraint, RowRules, build_row_rules
from memwal.storage.files import Storage
from planner.access.rights import Access
from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.sql.references import QUERY_STARTS
from planner.sql.tokens import quote
from planner.tables.state.catalog import Catalog
from planner.writes.ddl.key_indexes import build_key_indexes
from planner.writes.ddl.options import format_region_spec, read_table_options
from planner.writes.ddl.rules.columns import COMMENT, ColumnDefinition, read_column
from planner.writes.ddl.rules.constraints import build_constraints, is_constraint, read_constraint
from planner.writes.ddl.statement import PreparedDefinition, Reader, check_may_create
from planner.writes.dml.prepared_write import WriteResult
from planner.writes.dml.reading.read_rows import find_repeated_key, format_key, select_distinct_keys

logger = logging.getLogger(__name__)

Mode = Literal["fail", "skip", "replace"]
_NO_OPTIONS: Mapping[str, str] = {}


def create_table(
    catalog: Catalog,
    name: str,
    schema: pa.Schema,
    primary_key: Sequence[str] = (),
    *,
    options: Mapping[str, str] = _NO_OPTIONS,
    constraints: Sequence[Constraint] = (),
    mode: Mode = "fail",
    rows: Callable[[], Iterator[pa.RecordBatch]] | None = None,
) -> bool:
    """Create a table in one atomic step; of several concurrent calls the first creates it.

    A table that is replaced is dropped first. Readers may find no table in between, but never a mixture.

    Args:
        catalog: catalog of the table.
        name: name in the catalog; must not be that of a view.
        schema: names and types; columns that are not nullable are NOT NULL.
        primary_key: columns in key order; () for none, or for the option of that name.
        options: see `planner.writes.ddl.options.TABLE_OPTIONS`.
        constraints: named constraints; they fit the columns.
        mode: what to do if the table exists: "fail", "skip" or "replace".
        rows: yields the first rows, with columns of `schema` by position; the table is created with them. Not
            called if no table is created.

    Returns:
        Whether this call created the table.

    Raises:
        AlreadyExistsError: a table or view of that name exists.
        LanceGatewayError: the columns, key or options are invalid.
    """
    parsed = read_table_options(options)
    if primary_key and parsed.primary_key is not None and tuple(primary_key) != parsed.primary_key:
        msg = f"the primary key is given twice: ({', '.join(primary_key)}) and {options['primary_key']!r}"
        raise InvalidInputError(msg)
    key = tuple(primary_key) or parsed.primary_key or ()
    declared = build_stored_schema(schema, key)
    check_key_index(parsed.key_index or (), key)
    storage = catalog.locate_table(name)
    if catalog.view_sql(name) is not None:
        msg = f"{name!r} is a view: DROP VIEW it first, or choose another name"
        raise AlreadyExistsError(msg)
    exists = table_exists(storage)
    if exists and mode != "replace":
        return _skip_existing(name, mode)
    # A rehearsal finds errors before anything is written or dropped.
    config: dict[str, str | None] = {one.key: one.encode() for one in constraints}
    if parsed.key_index is not None:
        config |= encode_key_index(parsed.key_index)
    create_dataset(storage, declared, options=parsed.mem_wal, config=config, rehearse=True)
    fragments: list[FragmentMetadata] = []
    if rows is not None:
        rules = build_row_rules(name, declared, constraints)
        fragments = _write_rows(storage, rows(), declared, key, rules)
    if exists:
        catalog.forget(name)
        delete_table(storage, keep=_list_files(fragments))
    if not create_dataset(storage, declared, fragments, parsed.mem_wal, config=config):
        _discard(storage, fragments)
        return _skip_existing(name, mode)
    catalog.forget(name)
    if fragments:
        _index_key(catalog, name)
    return True


def _index_key(catalog: Catalog, name: str) -> None:
    """Build the indexes of the key of a table that was created with rows; the table is there without, too."""
    try:
        build_key_indexes(catalog.table(name))
    except LanceGatewayError as error:
        logger.warning("table %r was created without an index on its key: %s", name, error)


def _skip_existing(name: str, mode: Mode) -> bool:
    if mode == "skip":
        return False
    msg = f"table {name!r} exists already: use IF NOT EXISTS to leave it, or OR REPLACE to drop it first"
    raise AlreadyExistsError(msg)


def _list_files(fragments: Sequence[FragmentMetadata]) -> list[str]:
    return [f"data/{file.path}" for fragment in fragments for file in fragment.files]


def _discard(storage: Storage, fragments: Sequence[FragmentMetadata]) -> None:
    for path in _list_files(fragments):
        storage.delete(path)


def _write_rows(
    storage: Storage, rows: Iterator[pa.RecordBatch], schema: pa.Schema, key: Sequence[str], rules: RowRules
) -> list[FragmentMetadata]:
    """Write the data files of the first rows.

    Raises:
        InvalidInputError: a row violates a rule, a NOT NULL column has a NULL, or two rows have the same key.
    """
    keys: list[pa.Table] = []
    failures: list[Exception] = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from convert_batches()
        except Exception as error:
            # Lance would wrap the error.
            failures.append(error)
            raise

    def convert_batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            columns = [
                column if column.type.equals(field.type) else column.cast(field.type)
                for column, field in zip(batch.columns, schema, strict=True)
            ]
            for name in list_not_null_columns(schema):
                if columns[schema.get_field_index(name)].null_count:
                    msg = f"column {name!r} is NOT NULL, and a row has NULL there"
                    raise InvalidInputError(msg)
            kept = pa.record_batch(columns, schema=schema)
            rules.check(pa.Table.from_batches([kept]))
            if key:
                keys.append(pa.Table.from_batches([kept.select(list(key))]))
            yield kept
        every = pa.concat_tables(keys) if keys else None
        twice = None if every is None else find_repeated_key(every, key)
        if every is not None and twice is not None:
            count = every.num_rows - select_distinct_keys(every, key).num_rows
            msg = f"{count} row(s) have the key of another one, such as {format_key(twice)}"
            raise InvalidInputError(msg)

    try:
        return write_fragments(storage, pa.RecordBatchReader.from_batches(schema, batches()))
    except (OSError, ValueError) as error:
        if failures:
            raise failures[0] from None
        msg = f"rows can't be written below {storage.uri}: {error}"
        raise UnavailableError(msg) from error


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

    name: str
    mode: Mode
    columns: list[ColumnDefinition] = field(default_factory=list)
    primary_key: tuple[str, ...] = ()
    constraints: list[Constraint] = field(default_factory=list)
    like: str | None = None
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
        raise reader.error("OR REPLACE and IF NOT EXISTS exclude each other; the name stands")
    definition = _Definition(reader.table(), "replace" if replaces else "skip" if skips else "fail")
    if reader.take("("):
        _read_body(reader, definition)
    _read_properties(reader, definition)
    check_may_create(engine, definition.name, access)
    if reader.take("AS"):
        return _prepare_as_select(engine, reader, settings, access, definition)
    reader.expect_end()
    if definition.like is not None:
        schema = _read_like_schema(engine, access, definition)
    elif definition.columns:
        schema = pa.schema([column.field for column in definition.columns])
    else:
        raise reader.error("Columns (name type, ..), (LIKE table) or AS SELECT are missing")
    return _prepare_definition(engine, reader, definition, schema.with_metadata(definition.metadata))


def _prepare_definition(
    engine: QueryPlanner,
    reader: Reader,
    definition: _Definition,
    schema: pa.Schema,
    rows: Callable[[RunControl | None], Iterator[pa.RecordBatch]] | None = None,
) -> PreparedDefinition:
    """Check schema and options; whether the table exists is checked by each execution."""
    options = read_table_options(definition.options)
    key = definition.key or options.primary_key or ()
    build_stored_schema(schema, key)
    check_key_index(options.key_index or (), key)
    constraints = build_constraints(definition.name, schema, definition.constraints)

    def create(control: RunControl | None) -> WriteResult:
        count = -1 if rows is None else 0

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal count
            for batch in () if rows is None else rows(control):
                count += batch.num_rows
                yield batch

        create_table(
            engine.catalog,
            definition.name,
            schema,
            definition.key,
            options=definition.options,
            constraints=constraints,
            mode=definition.mode,
            rows=None if rows is None else batches,
        )
        return WriteResult(count)

    return PreparedDefinition(reader.text.sql, create, definition.name)


def _prepare_as_select(
    engine: QueryPlanner, reader: Reader, settings: SessionSettings, access: Access, definition: _Definition
) -> PreparedDefinition:
    if definition.columns or definition.like is not None:
        raise reader.error("A table made AS SELECT takes its columns from there: name them by AS; it stands")
    if reader.word not in QUERY_STARTS | {"("}:
        raise reader.error(f"A table is made of one SELECT, and this begins with {reader.shown}: it stands")
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
        engine, reader, definition, schema, lambda control: iter(source.execute((), read_settings, control))
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
            raise reader.error("A table has one primary key; a second one stands")
        definition.primary_key = tuple(name for name, _ in reader.read_name_list("A key column"))
    elif is_constraint(reader):
        definition.constraints.append(read_constraint(reader, name))
    elif reader.is_at("EXCLUDE", "USING") or reader.is_at("EXCLUDE", "("):
        raise reader.unsupported_error("EXCLUDE is not offered; it stands")
    else:
        column = read_column(reader)
        definition.columns.append(column)
        definition.constraints += column.constraints


def _read_properties(reader: Reader, definition: _Definition) -> None:
    while reader.word not in ("", "AS"):
        if reader.take("WITH"):
            for name, value in reader.options().items():
                if definition.options.setdefault(name, value) != value:
                    raise reader.error(f"Option {name} is given twice, the second time before what stands")
        elif reader.take("COMMENT"):
            reader.take("=")
            definition.metadata[COMMENT] = reader.string("a comment").encode()
        else:
            raise reader.error(f"Expected WITH (..), COMMENT or AS SELECT, not {reader.shown}: it stands")


def _read_like_schema(engine: QueryPlanner, access: Access, definition: _Definition) -> pa.Schema:
    """Return the columns of another table; add key, key_index and regions unless the definition has them."""
    secured = engine.visible_catalog(access).table(definition.like or "")
    declared = secured.declared_schema
    required = list_not_null_columns(declared)
    base = secured.base
    if "primary_key" not in definition.options:
        definition.primary_key = definition.primary_key or secured.primary_key
    if set(list_key_columns(declared)) == set(definition.key):
        wanted = list_wanted_columns(base.dataset)
        if wanted != list_default_columns(base.dataset.schema):
            definition.options.setdefault("key_index", ", ".join(map(quote, wanted)))
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
