"""``ALTER TABLE t ..``: a MemWAL for a table, and columns that come, go, and get other names.

Lance and this gateway match columns by field id, so writers that are open, generations and log entries go on
meaning what they meant. `memwal.creating.fields` sees to it that no id is given twice.
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
from memwal.regions.manifest import list_regions
from memwal.stored_fields import read_dataset_fields, read_entry_fields
from planner.access.rights import Access
from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.tables.sources.base_table import BaseTable
from planner.tables.state.table import Table
from planner.writes.ddl.indexes import check_column
from planner.writes.ddl.options import table_options, truth
from planner.writes.ddl.statement import DONE, PreparedDefinition, Reader, check_writable, committed
from planner.writes.ddl.types import read_column, read_type
from planner.writes.dml.prepared_write import WriteResult
from planner.writes.dml.statement.target import check_may_write

DISCARD_REGIONS: Final = "discard_regions"


@dataclass(frozen=True)
class AddColumn:
    """A column whose value is NULL in all rows that there are."""

    field: pa.Field
    skips: bool

    def check(self, table: Table) -> bool:
        """Refuse a name that is taken."""
        if self.field.name in table.base().dataset.schema.names:
            if self.skips:
                return False
            raise self._taken(table)
        return True

    def apply(self, table: Table) -> None:
        """Commit a schema with one more column; no data file changes."""

        def add(dataset: Any) -> None:  # noqa: ANN401 (lance types)
            if self.field.name in dataset.schema.names:  # since it was checked
                raise self._taken(table)
            schema = add_fields(dataset, [self.field], find_last_field_id(dataset, _ids_elsewhere(table)))
            fragments = [one.metadata for one in dataset.get_fragments()]
            operation = lance.LanceOperation.Merge(fragments, schema, preserves_nullability=True)
            _commit(dataset, operation)

        committed(table, f"add column {self.field.name!r}", add)

    def _taken(self, table: Table) -> AlreadyExistsError:
        msg = f"table {table.name!r} has a column {self.field.name!r} already: use IF NOT EXISTS"
        return AlreadyExistsError(msg)


@dataclass(frozen=True)
class DropColumn:
    """A column that nobody sees any more; indexes on it go with it, and its field id stays in use."""

    name: str
    skips: bool

    def check(self, table: Table) -> bool:
        """Refuse columns that say which row, or which region, it is."""
        base = table.base()
        if self.skips and self.name not in base.schema.names:
            return False
        check_column(base, self.name)
        _refuse(base, self.name, "dropped", base.primary_key, "it is part of the primary key")
        _refuse(base, self.name, "dropped", _region_columns(base), "regions are made of it")
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
        """Commit a schema without it."""

        def remember(dataset: Any) -> None:  # noqa: ANN401 (lance types)
            record_last_field_id(dataset, find_last_field_id(dataset, _ids_elsewhere(table)))

        def drop(dataset: Any) -> None:  # noqa: ANN401 (lance types)
            schema = remove_field(dataset, self.name)
            _commit(dataset, lance.LanceOperation.Project(schema, preserves_nullability=True))

        committed(table, "record field ids", remember)
        committed(table, f"drop column {self.name!r}", drop)


@dataclass(frozen=True)
class RenameColumn:
    """A column under another name."""

    name: str
    new_name: str

    def check(self, table: Table) -> bool:
        """Refuse a name that is taken, and keys, by whose names writers tell rows apart."""
        base = table.base()
        check_column(base, self.name)
        if self.new_name in base.schema.names:
            msg = f"table {table.name!r} has a column {self.new_name!r} already: choose another name"
            raise AlreadyExistsError(msg)
        build_stored_schema(pa.schema([(self.new_name, pa.int64())]))  # whether a column can be called so
        if base.details is not None:
            _refuse(base, self.name, "renamed", base.primary_key, "it is part of the primary key")
        return True

    def apply(self, table: Table) -> None:
        """Commit a schema in which the field has another name."""
        alteration = {"path": self.name, "name": self.new_name}
        committed(table, f"rename column {self.name!r}", lambda dataset: dataset.alter_columns(alteration))


@dataclass(frozen=True)
class RetypeColumn:
    """A column of another type."""

    name: str
    kind: pa.DataType

    def check(self, table: Table) -> bool:
        """Refuse it where rows may be written under the old type."""
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
        """Write the column anew."""
        alteration = {"path": self.name, "data_type": self.kind}
        committed(table, f"change column {self.name!r}", lambda dataset: dataset.alter_columns(alteration))


def adding(reader: Reader) -> Change:
    """``ADD [COLUMN] [IF NOT EXISTS] name type [COMMENT 'text']``."""
    reader.take("COLUMN")
    skips = reader.take("IF", "NOT", "EXISTS")
    if reader.word in ("PRIMARY", "CONSTRAINT"):
        raise reader.refused(
            "The key of a table is given when it is made: CREATE TABLE .. AS SELECT; it stands"
        )
    column = read_column(reader)
    if column.is_key:
        raise reader.refused(
            "The key of a table is given when it is made: CREATE TABLE .. AS SELECT; it ends"
        )
    if not column.field.nullable:
        raise reader.refused("Rows that exist have NULL in a new column, so it can't be NOT NULL; it ends")
    (field,) = build_stored_schema(pa.schema([column.field]))
    return AddColumn(field, skips)


def dropping(reader: Reader) -> Change:
    """``DROP [COLUMN] [IF EXISTS] name``."""
    reader.take("COLUMN")
    skips = reader.take("IF", "EXISTS")
    name = reader.name("The name of a column")
    reader.take("CASCADE") or reader.take("RESTRICT")
    return DropColumn(name, skips)


def renaming(reader: Reader) -> Change:
    """``RENAME [COLUMN] name TO name``."""
    if reader.take("TO"):
        raise reader.refused(
            "Tables can't be renamed, since object stores move no directories: CREATE TABLE .. AS SELECT, "
            "then DROP; the name stands"
        )
    reader.take("COLUMN")
    name = reader.name("The name of a column")
    reader.expect("TO")
    return RenameColumn(name, reader.name("Its new name"))


def retyping(reader: Reader) -> Change:
    """``ALTER [COLUMN] name [SET DATA] TYPE type``."""
    reader.take("COLUMN")
    name = reader.name("The name of a column")
    if reader.word in ("SET", "DROP") and reader.next_word in ("NOT", "DEFAULT"):
        raise reader.refused("NOT NULL and defaults of a column don't change; the change stands")
    reader.take("SET", "DATA")
    reader.expect("TYPE")
    return RetypeColumn(name, read_type(reader))


def _commit(dataset: Any, operation: Any) -> None:  # noqa: ANN401 (lance types)
    lance.LanceDataset.commit(dataset, operation, read_version=dataset.version, max_retries=0)


def _refuse(base: BaseTable, name: str, done: str, columns: tuple[str, ...], reason: str) -> None:
    if name in columns:
        msg = f"column {name!r} of table {base.name!r} can't be {done}: {reason}"
        raise PreconditionError(msg)


def _region_columns(base: BaseTable) -> tuple[str, ...]:
    specs = () if base.details is None else base.details.region_specs
    ids = {one for spec in specs for one in list_region_columns(spec)}
    return tuple(name for at, name in base.field_names.items() if at in ids)


def _ids_elsewhere(table: Table) -> Iterator[int]:
    """Field ids in generations and log entries, which the base table may not know any more."""
    if table.base().details is None:
        return
    for manifest in table.manifests():
        for flushed in manifest.flushed_generations:
            dataset = table.generation(manifest.region_id, flushed).dataset
            yield from (one.field_id for field in read_dataset_fields(dataset) for one in field.walk())
        for entry in table.unflushed(manifest):
            if entry.rows is not None:
                fields = read_entry_fields(entry.rows.schema)
                yield from (one.field_id for field in fields for one in field.walk())


@dataclass(frozen=True)
class EnableMemWal:
    """A MemWAL for a table that has none.

    Attributes:
        options: how it is set up.
        given: what was said of it.
        discards: whether regions of an earlier MemWAL are given up; without that they are in the way.
    """

    options: MemWalOptions
    given: Mapping[str, str]
    discards: bool = False

    def check(self, table: Table) -> bool:
        """Refuse a second one, options that don't fit the table, and regions that would get into it."""
        # Before the base: they are not of a MemWAL that others just set up.
        left = list_regions(table.storage)
        base = table.base()
        if base.details is not None:
            if self.given.keys() == {"memwal"}:
                return False
            msg = (
                f"table {table.name!r} has a MemWAL already, and its regions may have rows: its options "
                "don't change. CREATE TABLE .. AS SELECT makes another table"
            )
            raise AlreadyExistsError(msg)
        build_mem_wal_index(base.dataset, self.options)
        if left and not self.discards:
            raise _left(table, left)
        return True

    def apply(self, table: Table) -> None:
        """Commit the index; of several gateways that try at once one does it, and the others find it done."""
        left = list_regions(table.storage)
        if table.base().details is not None:
            return
        if left and not self.discards:
            raise _left(table, left)
        # Regions are sealed before the index records them as merged: this order must not change (ADR 33).
        given_up = give_up_regions(table.storage, left)

        def enable(dataset: Any) -> None:  # noqa: ANN401 (lance types)
            if read_index_details(table.storage, dataset.version) is not None:
                return
            index = build_mem_wal_index(dataset, self.options, given_up)
            operation = lance.LanceOperation.CreateIndex([index], [])
            # Not on top of anything else that was committed meanwhile: it could be the same.
            lance.LanceDataset.commit(dataset, operation, read_version=dataset.version, max_retries=0)

        committed(table, "set up the MemWAL", enable)


def enabling(reader: Reader) -> EnableMemWal:
    """``SET (option = value, ..)``."""
    reader.take("TBLPROPERTIES")
    given = dict(reader.options())
    discards = truth(DISCARD_REGIONS, given.pop(DISCARD_REGIONS, "false"))
    read = table_options(given)
    if read.primary_key is not None:
        msg = "the primary key of a table does not change: CREATE TABLE .. AS SELECT makes another table"
        raise UnsupportedError(msg)
    if read.mem_wal is None:
        msg = "a MemWAL can't be taken away: CREATE TABLE .. WITH (memwal = false) AS SELECT copies the rows"
        raise UnsupportedError(msg)
    if "memwal" not in given and "region_by" not in given:
        msg = f"SET ({', '.join(given)}) changes nothing: give memwal = true, and region_by = '..'"
        raise InvalidInputError(msg)
    return EnableMemWal(read.mem_wal, given, discards)


def _left(table: Table, region_ids: Sequence[str]) -> PreconditionError:
    return PreconditionError(
        f"table {table.name!r} has no MemWAL, but {len(region_ids)} regions of an earlier one, such as "
        f"{region_ids[0]}: the table was overwritten, restored, or its MemWAL was taken away. Their rows "
        "would become rows of this table. To have the table as it was, restore the version that had them "
        f"(system.versions lists versions); to give them up, ALTER TABLE {table.name} SET (memwal = true, "
        f"{DISCARD_REGIONS} = true, ..)"
    )


Change: TypeAlias = AddColumn | DropColumn | RenameColumn | RetypeColumn | EnableMemWal
"""One form of ALTER TABLE: `check` tells whether there is anything to do, and refuses what can't be done."""
_FORMS: Mapping[str, Callable[[Reader], Change]] = MappingProxyType(
    {"ADD": adding, "DROP": dropping, "RENAME": renaming, "ALTER": retyping, "SET": enabling}
)


def prepare_alter(
    engine: QueryPlanner,
    sql: str,
    settings: SessionSettings,  # noqa: ARG001 - a family's face
    access: Access,
) -> PreparedDefinition:
    """Check a statement that changes a table.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    reader = Reader.of(sql, "ALTER")
    what = reader.choose("what is altered", "TABLE", "VIEW", "INDEX")
    if what != "TABLE":
        raise reader.refused(f"ALTER {what} is not offered: drop it and make it anew; its name stands")
    if_exists = reader.take("IF", "EXISTS")
    name = reader.table()
    change = _FORMS[reader.choose("what is to be done", *_FORMS)](reader)
    if reader.word == ",":
        raise reader.refused("One change at a time: a second one follows")
    reader.expect_end()
    check_writable(engine, name)
    if not (if_exists and not engine.visible(access).has_table(name)):
        check_may_write(engine, name, access)
        change.check(engine.catalog.table(name))

    def alter(_control: RunControl | None) -> WriteResult:
        if if_exists and not engine.visible(access).has_table(name):
            return DONE
        check_may_write(engine, name, access)
        table = engine.catalog.table(name)
        if not change.check(table):
            return DONE
        # Rows that were acknowledged are flushed under the columns that they were written with. Whoever wrote
        # meanwhile still has the old columns, and begins anew.
        writer = table.writer()
        writer.flush()
        try:
            change.apply(table)
        finally:
            writer.flush()
        return DONE

    return PreparedDefinition(sql, alter, name)
