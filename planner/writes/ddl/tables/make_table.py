"""Making a table: what CREATE TABLE, CREATE TABLE AS and ingestion have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import FragmentMetadata

from memwal.creating import (
    create_dataset,
    declared_schema,
    delete_table,
    not_null_columns,
    table_exists,
    write_fragments,
)
from memwal.errors import AlreadyExistsError, InvalidInputError, UnavailableError
from memwal.storage.files import Storage
from planner.tables.state.catalog import Catalog
from planner.writes.ddl.statement.options import table_options

Mode = Literal["fail", "skip", "replace"]
_NO_OPTIONS: Mapping[str, str] = {}


def create_table(
    catalog: Catalog,
    name: str,
    schema: pa.Schema,
    primary_key: Sequence[str] = (),
    region_by: str | None = None,
    options: Mapping[str, str] = _NO_OPTIONS,
    mode: Mode = "fail",
    *,
    not_null: Sequence[str] = (),
    rows: Callable[[], Iterator[pa.RecordBatch]] | None = None,
) -> bool:
    """Make a table, whole and in one step; the first of several that try at once makes it.

    A table that is replaced is dropped first: a moment without either is possible, a mixture of both is not.

    Args:
        catalog: of the table.
        name: in the catalog; no view may have it.
        schema: names and types; columns that are not nullable there are NOT NULL.
        primary_key: columns in key order; () for none, or for the option of that name.
        region_by: how rows map to regions; None for the option of that name.
        options: see `planner.writes.ddl.statement.options.TABLE_OPTIONS`.
        mode: what to do where there is a table: "fail", "skip" it, or "replace" it.
        not_null: more columns in which NULL is refused.
        rows: gives the first rows, in columns of `schema` by position; they are there when the table is. Not
            called where nothing is made.

    Returns:
        Whether this call made it.

    Raises:
        AlreadyExistsError: there is a table or a view of that name.
        LanceGatewayError: the columns, key or options make no sense.
    """
    given = dict(options)
    if region_by is not None:
        given["region_by"] = region_by
    read = table_options(given)
    if primary_key and read.primary_key is not None and tuple(primary_key) != read.primary_key:
        msg = f"the primary key is given twice: ({', '.join(primary_key)}) and {given['primary_key']!r}"
        raise InvalidInputError(msg)
    key = tuple(primary_key) or read.primary_key or ()
    declared = declared_schema(schema, key, not_null)
    storage = catalog.storage_of(name)
    if catalog.view_sql(name) is not None:
        msg = f"{name!r} is a view: DROP VIEW it first, or choose another name"
        raise AlreadyExistsError(msg)
    exists = table_exists(storage)
    if exists and mode != "replace":
        return _skipped(name, mode)
    # What doesn't fit is found out before anything is written, let alone dropped.
    create_dataset(storage, declared, options=read.mem_wal, rehearse=True)
    fragments: list[FragmentMetadata] = []
    if rows is not None:
        fragments = _written(storage, rows(), declared, key)
    if exists:
        catalog.forget(name)
        delete_table(storage, keep=_files(fragments))
    if not create_dataset(storage, declared, fragments, read.mem_wal):
        _discard(storage, fragments)
        return _skipped(name, mode)
    catalog.forget(name)
    return True


def _skipped(name: str, mode: Mode) -> bool:
    if mode == "skip":
        return False
    msg = f"table {name!r} exists already: use IF NOT EXISTS to leave it, or OR REPLACE to drop it first"
    raise AlreadyExistsError(msg)


def _files(fragments: Sequence[FragmentMetadata]) -> list[str]:
    return [f"data/{file.path}" for fragment in fragments for file in fragment.files]


def _discard(storage: Storage, fragments: Sequence[FragmentMetadata]) -> None:
    for path in _files(fragments):
        storage.delete(path)


def _written(
    storage: Storage, rows: Iterator[pa.RecordBatch], schema: pa.Schema, key: Sequence[str]
) -> list[FragmentMetadata]:
    """Write rows as the table stores them.

    Raises:
        InvalidInputError: NULL where it is refused, or two rows of one key.
    """
    keys: list[pa.Table] = []
    failures: list[Exception] = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from stored()
        except Exception as error:
            # Lance would tell of it in words of its own.
            failures.append(error)
            raise

    def stored() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            columns = [
                column if column.type.equals(field.type) else column.cast(field.type)
                for column, field in zip(batch.columns, schema, strict=True)
            ]
            for name in not_null_columns(schema):
                if columns[schema.get_field_index(name)].null_count:
                    msg = f"column {name!r} is NOT NULL, and a row has NULL there"
                    raise InvalidInputError(msg)
            kept = pa.record_batch(columns, schema=schema)
            if key:
                keys.append(pa.Table.from_batches([kept.select(list(key))]))
            yield kept
        _check_unique(keys, key)

    try:
        return write_fragments(storage, pa.RecordBatchReader.from_batches(schema, batches()))
    except (OSError, ValueError) as error:
        if failures:
            raise failures[0] from None
        msg = f"rows can't be written below {storage.uri}: {error}"
        raise UnavailableError(msg) from error


def _check_unique(keys: Sequence[pa.Table], key: Sequence[str]) -> None:
    if not keys:
        return
    every = pa.concat_tables(keys)
    counted = every.group_by(list(key), use_threads=False).aggregate([([], "count_all")])
    if counted.num_rows == every.num_rows:
        return
    twice = counted.filter(pc.greater(counted["count_all"], 1)).slice(0, 1).to_pylist()[0]
    shown = ", ".join(f"{name} = {twice[name]!r}" for name in key)
    msg = f"{every.num_rows - counted.num_rows} row(s) have the key of another one, such as {shown}"
    raise InvalidInputError(msg)
