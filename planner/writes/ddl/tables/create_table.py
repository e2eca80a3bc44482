"""``CREATE [OR REPLACE] TABLE [IF NOT EXISTS] t (..) [WITH (..)]``, also ``(LIKE u)`` and ``AS SELECT``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from memwal.creating import declared_schema, key_columns, not_null_columns
from memwal.errors import InvalidInputError
from planner.access.rights import Access
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.sql.references import QUERY_STARTS
from planner.writes.ddl.statement.options import region_text, table_options
from planner.writes.ddl.statement.prepared_ddl import DONE, PreparedDefinition, check_may_create
from planner.writes.ddl.statement.reader import Reader
from planner.writes.ddl.statement.types import COMMENT, ColumnDefinition, read_column
from planner.writes.ddl.tables.make_table import Mode, create_table
from planner.writes.dml.statement.prepared_write import WriteResult

if TYPE_CHECKING:
    from planner.bridge.run_control import RunControl

_REFUSED = {
    "UNIQUE": "UNIQUE is not offered; a PRIMARY KEY keeps the newest row of each key",
    "FOREIGN": "Foreign keys are not offered",
    "CHECK": "CHECK is not offered",
    "EXCLUDE": "EXCLUDE is not offered",
}


@dataclass
class _Definition:
    """What the statement says before AS.

    Attributes:
        name: of the table.
        mode: what to do where there is one.
        columns: between the parentheses.
        primary_key: of a constraint.
        like: table whose columns are taken.
        options: of WITH.
        metadata: of the schema.
    """

    name: str
    mode: Mode
    columns: list[ColumnDefinition] = field(default_factory=list)
    primary_key: tuple[str, ...] = ()
    like: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    metadata: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, ...]:
        """Key columns of a constraint, or those that say so of themselves."""
        return self.primary_key or tuple(one.field.name for one in self.columns if one.is_key)


def prepare_create_table(
    engine: QueryPlanner, reader: Reader, settings: SessionSettings, access: Access, *, replaces: bool
) -> PreparedDefinition:
    """Check a statement whose words up to TABLE are taken.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    skips = reader.accept("IF", "NOT", "EXISTS")
    if skips and replaces:
        raise reader.error("OR REPLACE and IF NOT EXISTS exclude each other; the name stands")
    definition = _Definition(reader.table(), "replace" if replaces else "skip" if skips else "fail")
    if reader.accept("("):
        _read_body(reader, definition)
    _read_properties(reader, definition)
    check_may_create(engine, definition.name, access)
    if reader.accept("AS"):
        return _as_select(engine, reader, settings, access, definition)
    reader.finish()
    if definition.like is not None:
        schema = _like(engine, access, definition)
    elif definition.columns:
        schema = pa.schema([one.field for one in definition.columns])
    else:
        raise reader.error("Columns (name type, ..), (LIKE table) or AS SELECT are missing")
    schema = schema.with_metadata(definition.metadata)
    _check(schema, definition)

    def create(_control: RunControl | None) -> WriteResult:
        create_table(
            engine.catalog,
            definition.name,
            schema,
            definition.key,
            options=definition.options,
            mode=definition.mode,
        )
        return DONE

    return PreparedDefinition(reader.text.sql, create, definition.name)


def _as_select(
    engine: QueryPlanner, reader: Reader, settings: SessionSettings, access: Access, definition: _Definition
) -> PreparedDefinition:
    if definition.columns or definition.like is not None:
        raise reader.error("A table made AS SELECT takes its columns from there: name them by AS; it stands")
    if reader.word not in QUERY_STARTS | {"("}:
        raise reader.error(f"A table is made of one SELECT, and this begins with {reader.shown()}: it stands")
    own = replace(settings, types="arrow", endpoints=1)
    source = engine.prepare(reader.rest(), own, access)
    for one in source.schema:
        if pa.types.is_null(one.type):
            msg = f"column {one.name!r} is always NULL, so its type is unknown: write CAST(NULL AS type)"
            raise InvalidInputError(msg)
    schema = pa.schema([pa.field(one.name, one.type) for one in source.schema], definition.metadata)
    _check(schema, definition)

    def create(control: RunControl | None) -> WriteResult:
        count = 0

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal count
            for batch in source.execute((), own, control):
                count += batch.num_rows
                yield batch

        create_table(
            engine.catalog,
            definition.name,
            schema,
            definition.key,
            options=definition.options,
            mode=definition.mode,
            rows=batches,
        )
        return WriteResult(count)

    return PreparedDefinition(reader.text.sql, create, definition.name)


def _read_body(reader: Reader, definition: _Definition) -> None:
    """Take columns and constraints, and the parenthesis behind them."""
    if reader.accept("LIKE"):
        definition.like = reader.table()
        while reader.accept("INCLUDING"):
            reader.expect("ALL")
    else:
        _read_element(reader, definition)
        while reader.accept(","):
            _read_element(reader, definition)
    reader.expect(")")
    marked = [one.field.name for one in definition.columns if one.is_key]
    if len(marked) > 1 or (marked and definition.primary_key):
        names = ", ".join([*marked, *definition.primary_key])
        msg = f"a table has one primary key, and there are several ({names}): write PRIMARY KEY (a, b) once"
        raise InvalidInputError(msg)


def _read_element(reader: Reader, definition: _Definition) -> None:
    if reader.accept("CONSTRAINT"):
        reader.name("the name of a constraint")
    if reader.accept("PRIMARY", "KEY"):
        if definition.primary_key:
            raise reader.error("A table has one primary key; a second one stands")
        definition.primary_key = reader.names("a key column")
    elif reader.word in _REFUSED and reader.word_after(1) in ("(", "KEY"):
        raise reader.refused(f"{_REFUSED[reader.word]}; it stands")
    else:
        definition.columns.append(read_column(reader))


def _read_properties(reader: Reader, definition: _Definition) -> None:
    while reader.word not in ("", "AS"):
        if reader.accept("WITH"):
            for name, value in reader.options().items():
                if definition.options.setdefault(name, value) != value:
                    raise reader.error(f"Option {name} is given twice, the second time before what stands")
        elif reader.accept("COMMENT"):
            reader.accept("=")
            definition.metadata[COMMENT] = reader.string("a comment").encode()
        else:
            raise reader.error(f"Expected WITH (..), COMMENT or AS SELECT, not {reader.shown()}: it stands")


def _like(engine: QueryPlanner, access: Access, definition: _Definition) -> pa.Schema:
    """Columns of another table; its key and regions too, where the definition says nothing of them."""
    secured = engine.visible(access).table(definition.like or "")
    declared = secured.declared_schema
    required = not_null_columns(declared)
    base = secured.base
    if "primary_key" not in definition.options:
        definition.primary_key = definition.primary_key or secured.primary_key
    details = base.details
    if details is None:
        definition.options.setdefault("memwal", "false")
    elif (
        details.region_specs
        and secured.access.is_unrestricted  # regions tell of values that may be hidden
        and set(key_columns(declared)) == set(definition.key)
    ):
        spec = details.region_specs[-1]
        definition.options.setdefault("region_by", region_text(spec, base.field_names))
    return pa.schema([one.with_nullable(one.name not in required) for one in declared])


def _check(schema: pa.Schema, definition: _Definition) -> None:
    """Find out now what makes no sense; what exists when it is executed is found out then."""
    options: Mapping[str, str] = definition.options
    read = table_options(options)
    declared_schema(schema, definition.key or read.primary_key or ())
