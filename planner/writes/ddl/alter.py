"""``ALTER TABLE t ..``: enable a MemWAL; add, drop, rename and retype columns.

Lance and this gateway match columns by field id, so open writers, generations and log entries stay valid.
`memwal.creating.fields` ensures that no id is used twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import lance
import pyarrow as pa

from memwal.base.index_details import read_index_details
from memwal.creating import MemWalOptions, build_stored_schema, list_region_columns
from memwal.creating.fields import add_fields, find_last_field_id, record_last_field_id, remove_field
from memwal.creating.tables import build_mem_wal_index, give_up_regions
from memwal.errors import AlreadyExistsError, InvalidInputError, PreconditionError, UnsupportedError
from memwal.quantities import parse_truth
from memwal.regions.manifest import list_regions
from memwal.stored_fields import read_dataset_fields, read_entry_fields
from planner.access.rights import Access
from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.tables.sources.base_table import BaseTable
from planner.tables.state.table import Table
from planner.writes.ddl.indexes import check_column
from planner.writes.ddl.key_indexes import SetKeyIndex
from planner.writes.ddl.options import parse_key_index, parse_value, read_table_options
from planner.writes.ddl.statement import DONE, PreparedDefinition, Reader, commit_change
from planner.writes.ddl.types import read_column, read_type
from planner.writes.dml.prepared_write import WriteResult
from planner.writes.dml.statement.target import check_may_write, check_writable

DISCARD_REGIONS: Final = "discard_regions"


@dataclass(frozen=True)
class AddColumn:
    """ADD COLUMN; the column is NULL in existing rows."""

    field: pa.Field
    if_not_exists: bool

    def check(self, table: Table) -> bool:
        """Refuse a name that exists."""
        if self.field.name in table.base().dataset.schema.names:
            if self.if_not_exists:
                return False
            raise self._column_exists_error(table)
        return True

    def apply(self, table: Table) -> None:
        """Commit a schema with the column; no data file changes."""

        def add(dataset: Any) -> None:  # noqa: ANN401 - lance types
            if self.field.name in dataset.schema.names:  # since it was checked
                raise self._column_exists_error(table)
            schema = add_fields(
                dataset, [self.field], find_last_field_id(dataset, _list_stored_field_ids(table))
            )
            fragments = [fragment.metadata for fragment in dataset.get_fragments()]
            operation = lance.LanceOperation.Merge(fragments, schema, preserves_nullability=True)
            _commit(dataset, operation)

        commit_change(table, f"add column {self.field.name!r}", add)

    def _column_exists_error(self, table: Table) -> AlreadyExistsError:
        msg = f"table {table.name!r} has a column {self.field.name!r} already: use IF NOT EXISTS"
        return AlreadyExistsError(msg)


@dataclass(frozen=True)
class DropColumn:
    """DROP COLUMN; indexes on the column are dropped too, and its field id is not used again."""

    name: str
    if_exists: bool

    def check(self, table: Table) -> bool:
        """Refuse columns of the primary key or the region spec, the only column, and maintained indexes."""
        base = table.base()
        if self.if_exists and self.name not in base.schema.names:
            return False
        check_column(base, self.name)
        _check_not_in(base, self.name, "dropped", base.primary_key, "it is part of the primary key")
        _check_not_in(base, self.name, "dropped", _find_region_columns(base), "regions are made of it")
        if len(base.schema) == 1:
            msg = f"column {self.name!r} is the only one of table {table.name!r}: DROP TABLE drops both"
            raise PreconditionError(msg)
        details = base.details
        for index in base.indexes:
            if (
                details is not None
                and self.name in index.columns
                and index.name in details.maintained_indexes
            ):
                msg = (
                    f"column {self.name!r} has the index {index.name!r}, which the writers of table "
                    f"{table.name!r} are told to maintain: it can't be dropped"
                )
                raise PreconditionError(msg)
        return True

    def apply(self, table: Table) -> None:
        """Commit a schema without the column."""

        def remember(dataset: Any) -> None:  # noqa: ANN401 - lance types
            record_last_field_id(dataset, find_last_field_id(dataset, _list_stored_field_ids(table)))

        def drop(dataset: Any) -> None:  # noqa: ANN401 - lance types
            schema = remove_field(dataset, self.name)
            _commit(dataset, lance.LanceOperation.Project(schema, preserves_nullability=True))

        commit_change(table, "record field ids", remember)
        commit_change(table, f"drop column {self.name!r}", drop)


@dataclass(frozen=True)
class RenameColumn:
    """RENAME COLUMN."""

    name: str
    new_name: str

    def check(self, table: Table) -> bool:
        """Refuse a name that exists, and key columns, which writers find by name."""
        base = table.base()
        check_column(base, self.name)
        if self.new_name in base.schema.names:
            msg = f"table {table.name!r} has a column {self.new_name!r} already: choose another name"
            raise AlreadyExistsError(msg)
        build_stored_schema(pa.schema([(self.new_name, pa.int64())]))  # checks the name
        if base.details is not None:
            _check_not_in(base, self.name, "renamed", base.primary_key, "it is part of the primary key")
        return True

    def apply(self, table: Table) -> None:
        """Commit a schema in which the field is renamed."""
        alteration = {"path": self.name, "name": self.new_name}
        commit_change(
            table, f"rename column {self.name!r}", lambda dataset: dataset.alter_columns(alteration)
        )


@dataclass(frozen=True)
class RetypeColumn:
    """ALTER COLUMN .. TYPE."""

    name: str
    kind: pa.DataType

    def check(self, table: Table) -> bool:
        """Refuse tables with a MemWAL, whose log may have rows of the old type."""
        base = table.base()
        check_column(base, self.name)
        if base.schema.field(self.name).type.equals(self.kind):
            return False
        if base.details is not None:
            msg = (
                f"the type of column {self.name!r} can't change, since table {table.name!r} has a MemWAL: "
                f"rows in its log have the old one. ADD COLUMN of type {self.kind}, UPDATE it, DROP the other"
            )
            raise UnsupportedError(msg)
        return True

    def apply(self, table: Table) -> None:
        """Rewrite the column."""
        alteration = {"path": self.name, "data_type": self.kind}
        commit_change(
            table, f"change column {self.name!r}", lambda dataset: dataset.alter_columns(alteration)
        )


def read_add(reader: Reader) -> Change:
    """Read ``ADD [COLUMN] [IF NOT EXISTS] name type [COMMENT 'text']``."""
    reader.take("COLUMN")
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    if reader.word in ("PRIMARY", "CONSTRAINT"):
        raise reader.unsupported_error(
            "The key of a table is given when it is made: CREATE TABLE .. AS SELECT; it stands"
        )
    column = read_column(reader)
    if column.is_key:
        raise reader.unsupported_error(
            "The key of a table is given when it is made: CREATE TABLE .. AS SELECT; it ends"
        )
    if not column.field.nullable:
        raise reader.unsupported_error(
            "Rows that exist have NULL in a new column, so it can't be NOT NULL; it ends"
        )
    (field,) = build_stored_schema(pa.schema([column.field]))
    return AddColumn(field, if_not_exists)


def read_drop(reader: Reader) -> Change:
    """Read ``DROP [COLUMN] [IF EXISTS] name``."""
    reader.take("COLUMN")
    if_exists = reader.take("IF", "EXISTS")
    name = reader.name("The name of a column")
    reader.take("CASCADE") or reader.take("RESTRICT")
    return DropColumn(name, if_exists)


def read_rename(reader: Reader) -> Change:
    """Read ``RENAME [COLUMN] name TO name``."""
    if reader.take("TO"):
        raise reader.unsupported_error(
            "Tables can't be renamed, since object stores move no directories: CREATE TABLE .. AS SELECT, "
            "then DROP; the name stands"
        )
    reader.take("COLUMN")
    name = reader.name("The name of a column")
    reader.expect("TO")
    return RenameColumn(name, reader.name("Its new name"))


def read_retype(reader: Reader) -> Change:
    """Read ``ALTER [COLUMN] name [SET DATA] TYPE type``."""
    reader.take("COLUMN")
    name = reader.name("The name of a column")
    if reader.word in ("SET", "DROP") and reader.next_word in ("NOT", "DEFAULT"):
        raise reader.unsupported_error("NOT NULL and defaults of a column don't change; the change stands")
    reader.take("SET", "DATA")
    reader.expect("TYPE")
    return RetypeColumn(name, read_type(reader))


def _commit(dataset: Any, operation: Any) -> None:  # noqa: ANN401 - lance types
    lance.LanceDataset.commit(dataset, operation, read_version=dataset.version, max_retries=0)


def _check_not_in(base: BaseTable, name: str, done: str, columns: tuple[str, ...], reason: str) -> None:
    if name in columns:
        msg = f"column {name!r} of table {base.name!r} can't be {done}: {reason}"
        raise PreconditionError(msg)


def _find_region_columns(base: BaseTable) -> tuple[str, ...]:
    specs = () if base.details is None else base.details.region_specs
    ids = {field_id for spec in specs for field_id in list_region_columns(spec)}
    return tuple(name for at, name in base.field_names.items() if at in ids)


def _list_stored_field_ids(table: Table) -> Iterator[int]:
    """Yield the field ids of generations and log entries, which the base table may have dropped."""
    if table.base().details is None:
        return
    for manifest in table.read_manifests():
        for flushed in manifest.flushed_generations:
            dataset = table.generation(manifest.region_id, flushed).dataset
            yield from (nested.field_id for field in read_dataset_fields(dataset) for nested in field.walk())
        for entry in table.read_unflushed(manifest):
            if entry.rows is not None:
                fields = read_entry_fields(entry.rows.schema)
                yield from (nested.field_id for field in fields for nested in field.walk())


@dataclass(frozen=True)
class EnableMemWal:
    """SET (memwal = true, ..): a MemWAL for a table that has none.

    Attributes:
        options: options of the MemWAL.
        option_values: options as they are written in the statement.
        discards: whether regions of an earlier MemWAL are discarded; without that they are an error.
    """

    options: MemWalOptions
    option_values: Mapping[str, str]
    discards: bool = False

    def check(self, table: Table) -> bool:
        """Refuse a second MemWAL, options that don't fit the table, and regions of an earlier MemWAL."""
        # Listed before the base is read, so that they are not those of a MemWAL just enabled by others.
        leftover = list_regions(table.storage)
        base = table.base()
        if base.details is not None:
            if self.option_values.keys() == {"memwal"}:
                return False
            msg = (
                f"table {table.name!r} has a MemWAL already, and its regions may have rows: its options "
                "don't change. CREATE TABLE .. AS SELECT makes another table"
            )
            raise AlreadyExistsError(msg)
        build_mem_wal_index(base.dataset, self.options)
        if leftover and not self.discards:
            raise _leftover_regions_error(table, leftover)
        return True

    def apply(self, table: Table) -> None:
        """Commit the MemWAL index, unless another gateway has committed it meanwhile."""
        leftover = list_regions(table.storage)
        if table.base().details is not None:
            return
        if leftover and not self.discards:
            raise _leftover_regions_error(table, leftover)
        # Regions are sealed before the index records them as merged: this order must not change (ADR 33).
        given_up = give_up_regions(table.storage, leftover)

        def enable(dataset: Any) -> None:  # noqa: ANN401 - lance types
            if read_index_details(table.storage, dataset.version) is not None:
                return
            index = build_mem_wal_index(dataset, self.options, given_up)
            operation = lance.LanceOperation.CreateIndex([index], [])
            # No retries: another commit could be the same one.
            lance.LanceDataset.commit(dataset, operation, read_version=dataset.version, max_retries=0)

        commit_change(table, "set up the MemWAL", enable)


def read_set(reader: Reader) -> EnableMemWal | SetKeyIndex:
    """Read ``SET (option = value, ..)``."""
    reader.take("TBLPROPERTIES")
    option_values = dict(reader.options())
    if option_values.keys() == {"key_index"}:
        return SetKeyIndex(parse_key_index(option_values["key_index"]))
    if "key_index" in option_values:
        raise InvalidInputError("key_index is set by a statement of its own: leave the other options out")
    discards = parse_value(DISCARD_REGIONS, option_values.pop(DISCARD_REGIONS, "false"), parse_truth)
    options = read_table_options(option_values)
    if options.primary_key is not None:
        msg = "the primary key of a table does not change: CREATE TABLE .. AS SELECT makes another table"
        raise UnsupportedError(msg)
    if options.mem_wal is None:
        msg = "a MemWAL can't be taken away: CREATE TABLE .. WITH (memwal = false) AS SELECT copies the rows"
        raise UnsupportedError(msg)
    if "memwal" not in option_values and "region_by" not in option_values:
        msg = f"SET ({', '.join(option_values)}) changes nothing: give memwal = true, and region_by = '..'"
        raise InvalidInputError(msg)
    return EnableMemWal(options.mem_wal, option_values, discards)


def _leftover_regions_error(table: Table, region_ids: Sequence[str]) -> PreconditionError:
    return PreconditionError(
        f"table {table.name!r} has no MemWAL, but {len(region_ids)} regions of an earlier one, such as "
        f"{region_ids[0]}: the table was overwritten, restored, or its MemWAL was taken away. Their rows "
        "would become rows of this table. To have the table as it was, restore the version that had them "
        f"(system.versions lists versions); to give them up, ALTER TABLE {table.name} SET (memwal = true, "
        f"{DISCARD_REGIONS} = true, ..)"
    )


Change: TypeAlias = AddColumn | DropColumn | RenameColumn | RetypeColumn | EnableMemWal | SetKeyIndex
"""One form of ALTER TABLE: `check` returns whether there is anything to do, and refuses invalid changes."""
_FORMS: Mapping[str, Callable[[Reader], Change]] = MappingProxyType(
    {"ADD": read_add, "DROP": read_drop, "RENAME": read_rename, "ALTER": read_retype, "SET": read_set}
)


def prepare_alter(
    engine: QueryPlanner,
    sql: str,
    settings: SessionSettings,  # noqa: ARG001 - same signature as other statements
    access: Access,
) -> PreparedDefinition:
    """Prepare an ALTER statement.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    reader = Reader.of(sql, "ALTER")
    what = reader.choose("what is altered", "TABLE", "VIEW", "INDEX")
    if what != "TABLE":
        raise reader.unsupported_error(
            f"ALTER {what} is not offered: drop it and make it anew; its name stands"
        )
    if_exists = reader.take("IF", "EXISTS")
    name = reader.table()
    change = _FORMS[reader.choose("what is to be done", *_FORMS)](reader)
    if reader.word == ",":
        raise reader.unsupported_error("One change at a time: a second one follows")
    reader.expect_end()
    check_writable(engine, name)
    if not (if_exists and not engine.visible_catalog(access).has_table(name)):
        check_may_write(engine, name, access)
        change.check(engine.catalog.table(name))

    def alter(_control: RunControl | None) -> WriteResult:
        if if_exists and not engine.visible_catalog(access).has_table(name):
            return DONE
        check_may_write(engine, name, access)
        table = engine.catalog.table(name)
        if not change.check(table):
            return DONE
        # Acknowledged rows are flushed with the columns that they were written with. Writers that opened
        # meanwhile have the old columns, so they are flushed and opened again.
        writer = table.writer()
        writer.flush()
        try:
            change.apply(table)
        finally:
            writer.flush()
        return DONE

    return PreparedDefinition(sql, alter, name)
