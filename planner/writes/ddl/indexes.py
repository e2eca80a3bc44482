"""``CREATE INDEX [name] ON t USING type (column) [WITH (..)]`` and ``DROP INDEX name [ON t]``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from lance.progress import IndexProgress

from lance_gateway.memwal.creating.index_groups import INDEX_GROUP, encode_index_group, list_index_groups
from lance_gateway.memwal.creating.index_types import FULL_TEXT, INDEX_TYPES, IndexType
from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceGatewayError,
    NotFoundError,
    PreconditionError,
    UnsupportedError,
)
from lance_gateway.memwal.storage.jobs import Job
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.options import check_option_names, parse_value
from lance_gateway.planner.writes.ddl.statement import (
    DONE,
    PreparedDefinition,
    Reader,
    check_column,
    commit_change,
    flush_logs_if_possible,
)
from lance_gateway.planner.writes.ddl.tables.key_indexes import give_up_key_index
from lance_gateway.planner.writes.dml.prepared_write import WriteResult
from lance_gateway.planner.writes.dml.statement.target import check_may_write, check_writable

_TYPES: Final = MappingProxyType({**INDEX_TYPES, FULL_TEXT: INDEX_TYPES["INVERTED"]})
_OF_SEVERAL_COLUMNS: Final = frozenset({"BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"})
"""Types of which one index for each column finds what one of several columns would."""
_BITS: Final = frozenset({4, 8})


@dataclass(frozen=True, slots=True)
class IndexCall:
    """The call of Lance that builds an index.

    Attributes:
        kind: type of the index.
        arguments: arguments of Lance's function.
    """

    kind: IndexType
    arguments: Mapping[str, Any]

    def build(self, dataset: Any, column: str, name: str, job: Job | None, *, replace: bool) -> None:  # noqa: ANN401 - lance types
        """Build and commit the index, and tell of its stages."""

        def show(event: IndexProgress) -> None:
            if job is None:
                return
            unit = event.unit.removesuffix("s") or "step"
            job.show(f"{name}: {event.stage}", event.completed or 0, event.total, unit)

        create = dataset.create_index if self.kind.is_vector else dataset.create_scalar_index
        create(column, self.kind.name, name, replace=replace, progress_callback=show, **self.arguments)


def read_index_options(name: str, column: pa.Field, given: Mapping[str, str]) -> IndexCall:
    """Parse the options of an index, and check that the column can have it.

    Raises:
        UnsupportedError: the index does not support the column's type.
        InvalidInputError: an option is unknown, or a value is invalid.
    """
    kind = _TYPES[name]
    if not kind.takes(column.type):
        msg = f"an index of type {name} is of {kind.columns}, and column {column.name!r} is {column.type}"
        raise UnsupportedError(msg)
    if not kind.parameters and given:
        msg = f"an index of type {name} has no options, and {', '.join(given)} is given: leave it out"
        raise InvalidInputError(msg)
    check_option_names(given, tuple(kind.parameters), f"an index of type {name}")
    arguments = {
        option: parse_value(option, value, kind.parameters[option]) for option, value in given.items()
    }
    if kind.is_vector:
        arguments.setdefault("metric", "l2")
        _check_vector(name, column, arguments)
    return IndexCall(kind, arguments)


def _check_vector(name: str, column: pa.Field, arguments: dict[str, Any]) -> None:
    size = column.type.list_size
    parts = arguments.get("num_sub_vectors")
    if parts is not None and size % parts:
        msg = f"num_sub_vectors is {parts}, which does not divide the {size} dimensions of {column.name!r}"
        raise InvalidInputError(msg)
    if "PQ" in name and arguments.get("num_bits", 8) not in _BITS:
        msg = f"num_bits is {arguments['num_bits']}, but must be 4 or 8"
        raise InvalidInputError(msg)
    if {"num_partitions", "target_partition_size"} <= arguments.keys():
        msg = "num_partitions and target_partition_size say the same in two ways: give one of them"
        raise InvalidInputError(msg)


def prepare_create_index(
    engine: QueryPlanner, reader: Reader, access: Access, *, replaces: bool
) -> PreparedDefinition:
    """Prepare CREATE INDEX, read up to INDEX.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    reader.take("CONCURRENTLY")
    skips = reader.take("IF", "NOT", "EXISTS")
    name = None if reader.word == "ON" else reader.name("The name of an index, or ON")
    reader.expect("ON")
    table_name = reader.table()
    kind = "BTREE"
    if reader.take("USING"):
        kind = reader.choose("a type of index", *_TYPES)
    columns = _read_columns(reader)
    if kind == "BTREE" and reader.take("USING"):
        kind = reader.choose("a type of index", *_TYPES)
    options = reader.options() if reader.take("WITH") else {}
    if reader.word == "WHERE":
        raise reader.unsupported_error("An index is of all rows: leave the condition out")
    reader.expect_end()
    if len(columns) > 1 and (kind not in _OF_SEVERAL_COLUMNS or len(set(columns)) < len(columns)):
        msg = (
            f"an index of type {kind} is of one column, and this one would be of {', '.join(columns)}: make "
            "one for each"
        )
        raise UnsupportedError(msg)
    check_may_write(engine, table_name, access)
    check_writable(engine, table_name)
    base = engine.catalog.table(table_name).base()
    for column in columns:
        check_column(base, column)
    index_name = name or f"{'_'.join(columns)}_idx"
    calls = {column: read_index_options(kind, base.schema.field(column), options) for column in columns}

    def create(_control: RunControl | None) -> WriteResult:
        check_may_write(engine, table_name, access)
        table = engine.catalog.table(table_name)
        if _has_index(table.base(), index_name) and not replaces:
            if skips:
                return DONE
            msg = f"table {table_name!r} has an index {index_name!r} already: use IF NOT EXISTS"
            raise AlreadyExistsError(msg)
        flush_logs_if_possible(table)
        if calls[columns[0]].kind.is_vector and not table.base().dataset.count_rows():
            msg = (
                f"an index of type {kind} is trained on rows of the base table, and table {table_name!r} has "
                "none there yet. Its rows are flushed: merge them first (lance-gateway pipeline merge)"
            )
            raise PreconditionError(msg)
        with engine.catalog.jobs.run("create index", table_name, access.user) as job:
            if len(columns) == 1:
                build_index(table, calls[columns[0]], columns[0], index_name, replaces=replaces, job=job)
            else:
                _build_group(table, calls, index_name, job, replaces=replaces)
        # Open writers don't maintain the index; those opened after the flush do.
        table.writer().flush()
        return DONE

    return PreparedDefinition(reader.text.sql, create, table_name)


def _read_columns(reader: Reader) -> list[str]:
    """Read columns in brackets; an index has no order, and is read in any."""
    reader.expect("(")
    columns: list[str] = []
    while not columns or reader.take(","):
        if reader.next_word == "(":
            raise reader.unsupported_error(
                "An index is of columns, and not of what is computed: keep that in a column"
            )
        columns.append(reader.name("A column"))
        reader.take("ASC") or reader.take("DESC")
        reader.take("NULLS", "FIRST") or reader.take("NULLS", "LAST")
    reader.expect(")")
    return columns


def build_index(
    table: Table, call: IndexCall, column: str, name: str, *, replaces: bool, job: Job | None = None
) -> None:
    """Build an index of a base table.

    Args:
        table: the table.
        call: how the index is built.
        column: that it is of.
        name: of the index.
        replaces: whether it takes the place of one of this name.
        job: is told of the stages; None for nobody.

    Raises:
        PreconditionError: Lance refuses it; says why.
        UnavailableError: others committed first in every attempt, or storage failed.
    """

    def build(dataset: Any) -> None:  # noqa: ANN401 - lance types
        call.build(dataset, column, name, job, replace=replaces)

    commit_change(table, f"make index {name!r}", build)


def _build_group(
    table: Table, calls: Mapping[str, IndexCall], name: str, job: Job, *, replaces: bool
) -> None:
    """Build an index for each column, but for those that have one of this type; safe to repeat."""
    base = table.base()
    known = list_index_groups(base.dataset).get(name, ())
    others = [index for index in base.indexes if index.name not in known]
    indexed = {(column, index.type.upper()) for index in others for column in index.columns}
    names = {
        column: f"{name}_{column}"
        for column, call in calls.items()
        if (column, call.kind.name) not in indexed
    }
    if replaces and known:
        _drop_index(table, name)
    # First: whoever dies below leaves an index that is built by another attempt.
    entry = dict(encode_index_group(name, tuple(names.values())))
    commit_change(table, f"record index {name!r}", lambda dataset: dataset.update_config(entry))
    for column, one in names.items():
        if replaces or one not in list_index_names(table.base()):
            build_index(table, calls[column], column, one, replaces=replaces, job=job)


def _has_index(base: BaseTable, name: str) -> bool:
    """Return whether a table has an index of that name, whole also where it is one for each column."""
    names = list_index_names(base)
    group = list_index_groups(base.dataset).get(name)
    return name in names or (group is not None and set(group) <= set(names))


def prepare_drop_index(
    engine: QueryPlanner, reader: Reader, access: Access, *, if_exists: bool
) -> PreparedDefinition:
    """Prepare DROP INDEX, read up to INDEX [IF EXISTS].

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    name = reader.name("The name of an index")
    table_name = reader.table() if reader.take("ON") or reader.take("FROM") else None
    reader.expect_end()

    def find() -> TableName | None:
        """Find the table that has the index; returns None if there is none and IF EXISTS is set."""
        owners = [table_name] if table_name is not None else _find_tables_with_index(engine, access, name)
        if table_name is not None:
            check_may_write(engine, table_name, access)
            if not _knows_index(engine.catalog.table(table_name).base(), name):
                owners = []
        if len(owners) > 1:
            msg = f"tables {', '.join(sorted(owners))} all have an index {name!r}: DROP INDEX {name} ON one"
            raise InvalidInputError(msg)
        if not owners:
            if if_exists:
                return None
            raise _unknown_index_error(engine, name, table_name)
        check_may_write(engine, owners[0], access)
        check_writable(engine, owners[0])
        return owners[0]

    target = find() or ""

    def drop(_control: RunControl | None) -> WriteResult:
        owner = find()
        if owner is None:
            return DONE
        _drop_index(engine.catalog.table(owner), name)
        return DONE

    return PreparedDefinition(reader.text.sql, drop, target)


def _drop_index(table: Table, name: str) -> None:
    """Drop an index, or all that were made for its columns; safe to repeat."""
    base = table.base()
    present = list_index_names(base)
    group = list_index_groups(base.dataset).get(name)
    names = [name] if name in present or group is None else [one for one in group if one in present]
    for one in names:
        if base.details is not None and one in base.details.maintained_indexes:
            msg = (
                f"table {table.name!r} names index {one!r} as one that its writers maintain, so they look "
                "for it: it can't be dropped"
            )
            raise PreconditionError(msg)
    table.writer().flush()
    for one in names:
        # Before the index is gone: upkeep must not build it again.
        give_up_key_index(table, one)
        commit_change(table, f"drop index {one!r}", partial(_drop_from, name=one))
    if group is not None:
        key = INDEX_GROUP + name
        commit_change(table, f"forget index {name!r}", lambda dataset: dataset.delete_config_keys([key]))


def _drop_from(dataset: Any, name: str) -> None:  # noqa: ANN401 - lance types
    dataset.drop_index(name)


def _knows_index(base: BaseTable, name: str) -> bool:
    return name in list_index_names(base) or name in list_index_groups(base.dataset)


def list_index_names(base: BaseTable) -> tuple[str, ...]:
    """Return the names of a table's indexes, without the MemWAL index."""
    return tuple(index.name for index in base.indexes)


def _find_tables_with_index(engine: QueryPlanner, access: Access, name: str) -> list[TableName]:
    tables = []
    visible = engine.visible_catalog(access)
    for table in visible.table_names():
        try:
            if _knows_index(visible.table(table).base, name):
                tables.append(table)
        except LanceGatewayError:
            continue  # A table that can't be read does not fail the others.
    return tables


def _unknown_index_error(engine: QueryPlanner, name: str, table: str | None) -> NotFoundError:
    if table is None:
        return NotFoundError(f"no table has an index {name!r}")
    base = engine.catalog.table(table).base()
    names = (*list_index_names(base), *list_index_groups(base.dataset))
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(names) or 'none'}"
    return NotFoundError(f"table {table!r} has no index {name!r}: {hint}")
