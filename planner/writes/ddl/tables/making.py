"""Tables are made in one step, and replaced in one where directories can change places (ADR 51)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import pyarrow as pa
from lance.fragment import FragmentMetadata

from lance_gateway.memwal.base.table_place import reserve_place
from lance_gateway.memwal.columns.blobs import build_plain_schema
from lance_gateway.memwal.creating import (
    MemWalOptions,
    build_stored_schema,
    create_dataset,
    delete_table,
    list_not_null_columns,
    table_exists,
    write_fragments,
)
from lance_gateway.memwal.creating.key_index import check_key_index, encode_key_index
from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceGatewayError,
    PreconditionError,
    UnavailableError,
)
from lance_gateway.memwal.rules import Constraint, RowRules, build_row_rules
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.storage.jobs import Job
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.writes.ddl.options import read_table_options
from lance_gateway.planner.writes.ddl.tables.key_indexes import build_key_indexes
from lance_gateway.planner.writes.dml.reading.read_rows import (
    find_repeated_key,
    format_key,
    select_distinct_keys,
)

logger = logging.getLogger(__name__)

Mode = Literal["fail", "skip", "replace"]
_NO_OPTIONS: Mapping[str, str] = {}
_ATTEMPTS: Final = 8


def create_table(
    catalog: Catalog,
    name: TableName,
    schema: pa.Schema,
    primary_key: Sequence[str] = (),
    *,
    options: Mapping[str, str] = _NO_OPTIONS,
    constraints: Sequence[Constraint] = (),
    mode: Mode = "fail",
    rows: Callable[[], Iterator[pa.RecordBatch]] | None = None,
    job: Job | None = None,
) -> bool:
    """Create a table in one atomic step; of several concurrent calls the first creates it.

    A table that is replaced is there until the new one takes its place. On an object store it is dropped
    first: readers may find no table in between, but never a mixture.

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
        job: is told of the building of indexes; None for nobody.

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
    config: dict[str, str | None] = {one.key: one.encode() for one in constraints}
    if parsed.key_index is not None:
        config |= encode_key_index(parsed.key_index)
    limited = None if rows is None else partial(_limit_rows, catalog, name, rows)
    stable = parsed.stable_row_ids
    contents = _Contents(name, declared, key, parsed.mem_wal, config, tuple(constraints), limited, stable)
    catalog.take_room(name, 0)
    # A rehearsal finds errors before anything is written or dropped.
    create_dataset(
        storage, declared, options=parsed.mem_wal, config=config, stable_row_ids=stable, rehearse=True
    )
    if exists:
        check_no_files_elsewhere(catalog, name)
        has_rows = _replace(catalog, contents, storage)
    else:
        try:
            fragments = contents.write_rows(storage)
        except LanceGatewayError:
            if name.is_temporary and not table_exists(storage):
                storage.delete_all()
                catalog.forget(name)  # so that its room is free
            raise
        if not contents.create(storage, fragments):
            _discard(storage, fragments)
            return _skip_existing(name, mode)
        has_rows = bool(fragments)
    catalog.forget(name)
    if has_rows:
        _index_key(catalog, name, job)
    return True


def check_no_files_elsewhere(catalog: Catalog, name: TableName) -> None:
    """Refuse to drop a table whose files lie in several places: those outside of its directory would stay.

    Others may use them as well, such as shallow clones, so they are nobody's to delete.

    Raises:
        PreconditionError: it has such places; names them.
    """
    try:
        places = catalog.table(name).base().places_elsewhere
    except LanceGatewayError:
        return  # what can't be read may be dropped
    if places:
        msg = (
            f"table {name!r} has files outside of its directory, which stay when it is dropped, as others "
            f"may use them: {', '.join(places)}. DROP TABLE {name} CASCADE drops it and leaves them there"
        )
        raise PreconditionError(msg)


def _limit_rows(
    catalog: Catalog, name: TableName, rows: Callable[[], Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows as long as there is room for them."""
    for batch in rows():
        catalog.take_room(name, batch.nbytes)
        yield batch


@dataclass(frozen=True, eq=False)
class _Contents:
    """A table that is to be made.

    Attributes:
        name: in the catalog.
        schema: as it is stored.
        key: columns in key order.
        mem_wal: how its MemWAL is set up; None for a table without.
        config: entries of its configuration.
        constraints: of its rows.
        rows: yields the first rows; None for a table without.
        stable_row_ids: whether rows keep their ids when they are changed.
    """

    name: TableName
    schema: pa.Schema
    key: tuple[str, ...]
    mem_wal: MemWalOptions | None
    config: Mapping[str, str | None]
    constraints: tuple[Constraint, ...]
    rows: Callable[[], Iterator[pa.RecordBatch]] | None
    stable_row_ids: bool

    def write_rows(self, storage: Storage) -> list[FragmentMetadata]:
        """Write the data files of the first rows below the directory of a table."""
        if self.rows is None:
            return []
        rules = build_row_rules(self.name, self.schema, self.constraints)
        return _write_rows(storage, self.rows(), self.schema, self.key, rules)

    def create(self, storage: Storage, fragments: Sequence[FragmentMetadata]) -> bool:
        """Create the table in a directory; return False if there is one."""
        return create_dataset(
            storage,
            self.schema,
            fragments,
            self.mem_wal,
            config=self.config,
            stable_row_ids=self.stable_row_ids,
        )


def _replace(catalog: Catalog, contents: _Contents, storage: Storage) -> bool:
    """Replace a table; return whether the new one has rows.

    Where directories can change places, there is one of both tables at every moment.

    Raises:
        UnavailableError: others make and drop a table of that name at the same time.
    """
    if not storage.is_local:
        fragments = contents.write_rows(storage)
        catalog.forget(contents.name)
        delete_table(storage, keep=_list_files(storage, fragments))
        if not contents.create(storage, fragments):
            _discard(storage, fragments)
            raise _contested_error(contents.name)
        return bool(fragments)
    made = catalog.create_scratch(contents.name)
    try:
        fragments = contents.write_rows(made)
        contents.create(made, fragments)
        with reserve_place(storage):
            catalog.forget(contents.name)
            _put_in_place(made, storage, contents.name)
        # Another statement may have opened the old table meanwhile.
        catalog.forget(contents.name)
    finally:
        # What is there now is the old table, or else a new one that has found no place.
        delete_table(made)
    return bool(fragments)


def _put_in_place(made: Storage, storage: Storage, name: TableName) -> None:
    """Let the directory of a new table take the place of another one, which may have been dropped."""
    for _ in range(_ATTEMPTS):
        try:
            if made.exchange_with(storage):
                return
        except FileNotFoundError:
            if made.move_to(storage):
                return
        else:
            delete_table(storage)
            if made.move_to(storage):
                return
    raise _contested_error(name)


def _contested_error(name: TableName) -> UnavailableError:
    return UnavailableError(f"table {name!r} is made and dropped by others at the same time; retry")


def _index_key(catalog: Catalog, name: TableName, job: Job | None) -> None:
    """Build the indexes of the key of a table that was created with rows; the table is there without, too."""
    try:
        build_key_indexes(catalog.table(name), job)
    except LanceGatewayError as error:
        logger.warning("table %r was created without an index on its key: %s", name, error)


def _skip_existing(name: TableName, mode: Mode) -> bool:
    if mode == "skip":
        return False
    msg = f"table {name!r} exists already: use IF NOT EXISTS to leave it, or OR REPLACE to replace it"
    raise AlreadyExistsError(msg)


def _list_files(storage: Storage, fragments: Sequence[FragmentMetadata]) -> list[str]:
    """Return the data files of fragments, and the files with their blobs."""
    files = [f"data/{file.path}" for fragment in fragments for file in fragment.files]
    beside = [path.removesuffix(".lance") for path in files]
    return files + [f"{path}/{one.name}" for path in beside for one in storage.list(path)]


def _discard(storage: Storage, fragments: Sequence[FragmentMetadata]) -> None:
    for path in _list_files(storage, fragments):
        storage.delete(path)


def _write_rows(
    storage: Storage, rows: Iterator[pa.RecordBatch], schema: pa.Schema, key: Sequence[str], rules: RowRules
) -> list[FragmentMetadata]:
    """Write the data files of the first rows.

    Raises:
        InvalidInputError: a row violates a rule, a NOT NULL column has a NULL, or two rows have the same key.
    """
    plain = build_plain_schema(schema)
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
                for column, field in zip(batch.columns, plain, strict=True)
            ]
            for name in list_not_null_columns(schema):
                if columns[schema.get_field_index(name)].null_count:
                    msg = f"column {name!r} is NOT NULL, and a row has NULL there"
                    raise InvalidInputError(msg)
            kept = pa.record_batch(columns, schema=plain)
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
        return write_fragments(storage, pa.RecordBatchReader.from_batches(plain, batches()), schema)
    except (OSError, ValueError) as error:
        if failures:
            raise failures[0] from None
        msg = f"rows can't be written below {storage.uri}: {error}"
        raise UnavailableError(msg) from error
