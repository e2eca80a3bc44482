"""Bulk ingestion: CommandStatementIngest, whose DoPut stream becomes rows of a table.

The command's options decide what happens to an existing table and to a missing one. A table that is created
or replaced appears when the whole stream has arrived, with the columns of the stream and the options of
CREATE TABLE. Appended rows are written while they arrive: acknowledged ones stay when the stream breaks off,
and the same stream may be sent again if the table has a primary key.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

import pyarrow as pa
from pyarrow import flight

from lance_gateway.gateway.config.sections.limits import LimitsSection
from lance_gateway.gateway.execution.batches import align_batch, read_batches, read_schema
from lance_gateway.gateway.execution.query import Query
from lance_gateway.gateway.execution.updates import Updates, encode_update_result
from lance_gateway.gateway.protocol.commands import Call, Handler, Upload
from lance_gateway.gateway.statements.session.temporary import SessionTables
from lance_gateway.memwal.columns.blobs import BLOB_ENCODING, is_blob_struct
from lance_gateway.memwal.creating import list_key_columns
from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    PreconditionError,
    UnsupportedError,
)
from lance_gateway.memwal.storage.jobs import Job
from lance_gateway.memwal.storage.table_names import CATALOG, MAIN_SCHEMA, TEMPORARY, TableName
from lance_gateway.planner.access.visible_catalog import SYSTEM_SCHEMAS
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.bridge.types.plain_types import conform, plain_type
from lance_gateway.planner.bridge.types.value_sizes import check_rows, split_batch
from lance_gateway.planner.engine import QueryEngine, WriteResult
from lance_gateway.planner.writes.ddl.options import read_table_options
from lance_gateway.planner.writes.ddl.statement import check_may_create
from lance_gateway.planner.writes.ddl.tables.making import create_table
from lance_gateway.planner.writes.dml.ingest import PART_BYTES, prepare_ingest
from lance_gateway.planner.writes.dml.statement.target import check_may_write, check_writable, has_table
from lance_gateway.protos import flight_sql_pb2 as sql

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
_NO_SESSION = (
    "temporary tables are of a session, and this ingestion names none, so nothing was written: let the "
    "driver keep cookies (ADBC: adbc.flight.sql.rpc.with_cookie_middleware) and connect again"
)
# The metadata of columns that tables keep: Lance's marks of a key and of blobs, and remarks.
_KEY = b"lance-schema:unenforced-primary-key"
_REMARKS = (b"comment", b"description", b"remarks")


@dataclass(frozen=True, slots=True)
class Target:
    """The target table of an ingestion.

    Args:
        table: its name in the catalog.
        makes: whether a table is made where there is none.
        mode: what becomes of one that is there.
        options: of a table that is made; see CREATE TABLE.
    """

    table: TableName
    makes: bool
    mode: _Mode
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.table.table:
            raise InvalidInputError("the ingestion names no table")
        if not self.makes and self.mode == "fail":
            raise InvalidInputError(
                f"table {self.table!r} may neither be there nor be made: choose create, append or replace"
            )

    @property
    def statement(self) -> str:
        """Text of the ingestion in `system.queries`."""
        name = self.table.table.replace('"', '""')
        shown = f'"{name}"' if self.table.schema == MAIN_SCHEMA else self.table.sql
        return f"INGEST INTO {shown}"


def read_target(command: sql.CommandStatementIngest, schema: str) -> Target:
    """Return the target of an ingestion command.

    Args:
        command: the command.
        schema: of targets without one.

    Raises:
        InvalidInputError: the command contradicts itself, or has an option that does not exist.
        NotFoundError: there is no such catalog, or its schema has system tables.
    """
    if command.catalog not in ("", CATALOG):
        raise NotFoundError(f"catalog {command.catalog!r} takes no tables: there is {CATALOG!r}")
    if (command.schema or schema) in SYSTEM_SCHEMAS:
        raise NotFoundError(f"schema {command.schema or schema!r} takes no tables: choose another schema")
    if command.options:
        read_table_options(command.options)
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
    if command.temporary and command.schema not in ("", TEMPORARY):
        raise InvalidInputError(
            f"table {command.table!r} is to be temporary, and so in no schema like {command.schema!r}: leave "
            "it out"
        )
    qualifier = TEMPORARY if command.temporary else command.schema
    return Target(
        TableName.qualify(command.table, qualifier, schema),
        definition.if_not_exist == _Options.TABLE_NOT_EXIST_OPTION_CREATE,
        mode,
        dict(command.options),
    )


class Ingestion:
    """The command family with one command."""

    def __init__(
        self, engine: QueryEngine, updates: Updates, limits: LimitsSection, temporary: SessionTables
    ) -> None:
        self._temporary = temporary
        self._engine = engine
        self._updates = updates
        self._limits = limits

    def list_handlers(self) -> Sequence[Handler]:
        """Return the handlers of this family."""
        return (Upload(sql.CommandStatementIngest, self._accept),)

    def _accept(
        self, command: sql.CommandStatementIngest, reader: flight.MetadataRecordBatchReader, call: Call
    ) -> bytes:
        if command.temporary:
            extended = self._temporary.open(call)
            if extended is None:
                raise PreconditionError(_NO_SESSION)
            call = extended
        target = self._find_target(command, call)
        if not target.table.is_temporary:
            call.check_may_change(target.statement)
        received = read_schema(reader, call)

        def step(query: Query) -> WriteResult:
            creates = self._must_create(target, call)
            with self._engine.catalog.jobs.run("load", target.table, call.access.user) as job:
                return load(query, job, creates=creates)

        def load(query: Query, job: Job, *, creates: bool) -> WriteResult:
            schema = derive_columns(received)
            batches = _count_rows(
                decode_batches(query.relay_each(read_batches(reader, call, query)), schema, self._limits), job
            )
            if creates and query.control.transaction is not None:
                query.control.transaction.commit_before()
            if creates and target.mode != "skip":
                return self._create_filled(target, schema, batches, query.control, job)
            if creates:
                self._create(target, schema)
            rows = prepare_ingest(self._engine, target.table, schema, call.settings, call.access)
            return rows.execute(batches, query.control)

        return encode_update_result(
            self._updates.run(target.statement, target.table, call.settings, call, step).affected
        )

    def _find_target(self, command: sql.CommandStatementIngest, call: Call) -> Target:
        """Return what a command names: a temporary table if it says so, or as the only one to append to."""
        found = read_target(command, call.find_path(call.settings).schema)
        if command.temporary:
            return found
        target = read_target(command, call.settings.schema)
        # No deadline holds yet: storage is asked only where there is a temporary table of that name.
        if target.makes or target == found or has_table(self._engine, target.table, call.access):
            return target
        return found

    def _must_create(self, target: Target, call: Call) -> bool:
        """Return whether a table is made, since there is none or it is replaced.

        Raises:
            LanceGatewayError: the caller may not make it.
        """
        name, access = target.table, call.access
        if target.makes and not has_table(self._engine, name, access):
            check_may_create(self._engine, name, access)
            return True
        if target.mode == "skip":
            return False
        check_may_write(self._engine, name, access)
        check_writable(self._engine, name)
        if target.mode == "fail":
            raise AlreadyExistsError(
                f"table {name!r} exists already: append to it, replace it, or choose another name"
            )
        return True

    def _create(
        self,
        target: Target,
        schema: pa.Schema,
        rows: Callable[[], Iterator[pa.RecordBatch]] | None = None,
        job: Job | None = None,
    ) -> None:
        unknown = [field.name for field in schema if pa.types.is_null(field.type)]
        if unknown:
            msg = f"column {unknown[0]!r} of the stream is always NULL, so its type is unknown: give it one"
            raise InvalidInputError(msg)
        create_table(
            self._engine.catalog,
            target.table,
            schema,
            () if "primary_key" in target.options else list_key_columns(schema),
            options=target.options,
            mode=target.mode,
            rows=rows,
            job=job,
        )

    def _create_filled(
        self,
        target: Target,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        control: RunControl,
        job: Job,
    ) -> WriteResult:
        """Make a table that has its rows from the first moment on."""
        count = 0

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal count
            for batch in batches:
                control.check()
                count += batch.num_rows
                yield batch

        self._create(target, schema, rows, job)
        return WriteResult(count)  # a table is durable when it is made


def _count_rows(batches: Iterator[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """Yield batches, and count their rows once the next batch is asked for."""
    job.begin("write rows", None, "row")
    for batch in batches:
        yield batch
        job.advance(batch.num_rows)


def derive_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns that a stream has for a table: in plain types, with some of their metadata.

    Raises:
        UnsupportedError: a column has blobs as structs.
    """
    fields = []
    for column in schema:
        if is_blob_struct(column):
            raise UnsupportedError(
                f"column {column.name!r} of the stream has type lance.blob.v2: send its values as "
                f"large_binary, with {BLOB_ENCODING.decode()} in the metadata of the field"
            )
        stored = column.metadata or {}
        metadata = {k: v for k, v in stored.items() if k in _REMARKS or k.startswith((_KEY, BLOB_ENCODING))}
        fields.append(pa.field(column.name, plain_type(column.type), column.nullable, metadata or None))
    return pa.schema(fields)


def decode_batches(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, limits: LimitsSection
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in plain types, large batches in pieces; whether NULL may be there, the table says.

    Args:
        batches: of the stream.
        schema: its columns in plain types.
        limits: of the server.

    Raises:
        InvalidInputError: a row is too large, or there are many rows of nothing; see `split_batch`.
    """
    plain = pa.schema([column.with_nullable(nullable=True) for column in schema])
    for batch in batches:
        check_rows(batch, limits.max_bound_rows)
        for piece in split_batch(batch, plain.types, PART_BYTES, row_bytes=limits.max_bound_bytes):
            yield align_batch(conform(piece, plain))
