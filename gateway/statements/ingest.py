"""Bulk ingestion: CommandStatementIngest, whose DoPut stream becomes rows of a table.

The options say what becomes of a table that is there, and of one that is not. A table that is made, or
replaced, is there when the whole stream is, and not before; it gets the columns of the stream, and the
options are those of CREATE TABLE. Rows that are appended are written while they arrive: what was acknowledged
stays when the stream breaks off, and the same stream may be sent again where the table has a primary key.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

import pyarrow as pa
from pyarrow import flight

from gateway.execution.parameters import schema_of, uploaded
from gateway.execution.running_queries import Query
from gateway.execution.updates import Updates, update_result
from gateway.protocol.commands import Answer, Call, Upload
from memwal.creating import list_key_columns
from memwal.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedError
from planner.bridge.plain_types import conform, plain_type
from planner.bridge.run_control import RunControl
from planner.engine import QueryEngine, WriteResult
from planner.tables.state.catalog import CATALOG, SCHEMA
from planner.writes.ddl.create_table import create_table
from planner.writes.ddl.options import table_options
from planner.writes.ddl.statement import check_may_create, check_writable
from planner.writes.dml.ingest import prepare_ingest
from planner.writes.dml.statement.target import check_may_write
from protos import flight_sql_pb2 as sql

_Mode: TypeAlias = Literal["fail", "skip", "replace"]
_Options = sql.CommandStatementIngest.TableDefinitionOptions
# What becomes of a table that is there -> how one is made.
_MODES: Mapping[int, _Mode] = MappingProxyType(
    {
        _Options.TABLE_EXISTS_OPTION_FAIL: "fail",
        _Options.TABLE_EXISTS_OPTION_APPEND: "skip",
        _Options.TABLE_EXISTS_OPTION_REPLACE: "replace",
    }
)
# What of a column's metadata counts: Lance's mark of a key, and what somebody noted about it.
_KEY = b"lance-schema:unenforced-primary-key"
_REMARKS = (b"comment", b"description", b"remarks")


@dataclass(frozen=True, slots=True)
class Target:
    """Where rows go.

    Args:
        table: its name.
        makes: whether a table is made where there is none.
        mode: what becomes of one that is there.
        options: of a table that is made; see CREATE TABLE.
    """

    table: str
    makes: bool
    mode: _Mode
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.table:
            raise InvalidInputError("the ingestion names no table")
        if not self.makes and self.mode == "fail":
            raise InvalidInputError(
                f"table {self.table!r} may neither be there nor be made: choose create, append or replace"
            )

    @property
    def statement(self) -> str:
        """What it is called among statements."""
        name = self.table.replace('"', '""')
        return f'INGEST INTO "{name}"'


def target_of(command: sql.CommandStatementIngest) -> Target:
    """Returns where a command's rows go.

    Raises:
        InvalidInputError: the command contradicts itself, or has an option that does not exist.
        NotFoundError: there is no such catalog or schema.
        UnsupportedError: the table is to be a temporary one.
    """
    if command.temporary:
        raise UnsupportedError(
            f"table {command.table!r} cannot be temporary, since the gateway has none that end with a "
            "session: ingest into a table, and drop it"
        )
    for what, value, known in (("catalog", command.catalog, CATALOG), ("schema", command.schema, SCHEMA)):
        if value not in ("", known):
            raise NotFoundError(f"{what} {value!r} takes no tables: there is {known!r}")
    if command.options:
        table_options(command.options)
    definition = command.table_definition_options
    mode = _MODES.get(definition.if_exists)
    if mode is None or definition.if_not_exist not in (
        _Options.TABLE_NOT_EXIST_OPTION_CREATE,
        _Options.TABLE_NOT_EXIST_OPTION_FAIL,
    ):
        raise InvalidInputError(
            "the ingestion must say what becomes of a table that is there (fail, append or replace), and of "
            "one that is not (create or fail)"
        )
    return Target(
        command.table,
        definition.if_not_exist == _Options.TABLE_NOT_EXIST_OPTION_CREATE,
        mode,
        dict(command.options),
    )


class Ingestion:
    """The command family with one command."""

    def __init__(self, engine: QueryEngine, updates: Updates) -> None:
        self._engine = engine
        self._updates = updates

    def answers(self) -> Sequence[Answer]:
        """Return what this family answers."""
        return (Upload(sql.CommandStatementIngest, self._accept),)

    def _accept(
        self, command: sql.CommandStatementIngest, reader: flight.MetadataRecordBatchReader, call: Call
    ) -> bytes:
        target = target_of(command)
        schema = columns_of(schema_of(reader, call))

        def step(query: Query) -> WriteResult:
            control = query.control
            batches = decoded(uploaded(reader, call, query), schema)
            exists = self._check(target, call)
            if target.mode == "replace" or (target.mode == "fail" and not exists):
                return self._filled(target, schema, batches, control)
            if not exists:
                self._create(target, schema)
            rows = prepare_ingest(self._engine, target.table, schema, call.settings, call.access)
            return rows.execute(batches, control)

        return update_result(
            self._updates.run(target.statement, target.table, call.settings, call, step).affected
        )

    def _check(self, target: Target, call: Call) -> bool:
        """Whether the table is there.

        Raises:
            LanceGatewayError: the caller may not do with it what is wanted.
        """
        name, access = target.table, call.access
        exists = self._engine.visible(access).has_table(name)
        if not exists and target.makes:
            check_may_create(self._engine, name, access)
            return False
        check_may_write(self._engine, name, access)
        check_writable(self._engine, name)
        if target.mode == "fail":
            raise AlreadyExistsError(
                f"table {name!r} exists already: append to it, replace it, or choose another name"
            )
        return True

    def _create(
        self, target: Target, schema: pa.Schema, rows: Callable[[], Iterator[pa.RecordBatch]] | None = None
    ) -> None:
        create_table(
            self._engine.catalog,
            target.table,
            schema,
            () if "primary_key" in target.options else list_key_columns(schema),
            options=target.options,
            mode=target.mode,
            rows=rows,
        )

    def _filled(
        self, target: Target, schema: pa.Schema, batches: Iterator[pa.RecordBatch], control: RunControl
    ) -> WriteResult:
        """Makes a table that has its rows from the first moment on."""
        count = 0

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal count
            for batch in batches:
                control.check()
                count += batch.num_rows
                yield batch

        self._create(target, schema, rows)
        return WriteResult(count)  # a table is durable when it is made


def columns_of(schema: pa.Schema) -> pa.Schema:
    """Returns the columns that a stream has for a table: in plain types, with key marks and remarks."""
    fields = []
    for column in schema:
        stored = column.metadata or {}
        kept = {name: value for name, value in stored.items() if name in _REMARKS or name.startswith(_KEY)}
        fields.append(pa.field(column.name, plain_type(column.type), column.nullable, kept or None))
    return pa.schema(fields)


def decoded(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the rows in plain types. Whether NULL may be where it is, the table says."""
    plain = pa.schema([column.with_nullable(nullable=True) for column in schema])
    return (conform(batch, plain) for batch in batches)
