"""Columns that come, go, and get other names.

Lance and this gateway match columns by field id, so writers that are open, generations and log entries go on
meaning what they meant. `memwal.creating.fields` sees to it that no id is given twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import lance
import pyarrow as pa

from memwal.creating import declared_schema, region_columns
from memwal.creating.fields import last_field_id, record_last_field_id, with_fields, without_field
from memwal.errors import AlreadyExistsError, PreconditionError, UnsupportedError
from memwal.stored_fields import fields_of_dataset, fields_of_entry
from planner.tables.sources.base_table import BaseTable
from planner.tables.state.table import Table
from planner.writes.ddl.indexes.index_statements import check_column
from planner.writes.ddl.statement.prepared_ddl import committed
from planner.writes.ddl.statement.reader import Reader
from planner.writes.ddl.statement.types import read_column, read_type


class Change(Protocol):
    """One form of ALTER TABLE."""

    def check(self, table: Table) -> bool:
        """Whether there is anything to do.

        Raises:
            LanceGatewayError: it can't be done.
        """

    def apply(self, table: Table) -> None:
        """Do it.

        Raises:
            LanceGatewayError: it was not done.
        """


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
            schema = with_fields(dataset, [self.field], last_field_id(dataset, _ids_elsewhere(table)))
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
            record_last_field_id(dataset, last_field_id(dataset, _ids_elsewhere(table)))

        def drop(dataset: Any) -> None:  # noqa: ANN401 (lance types)
            schema = without_field(dataset, self.name)
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
        declared_schema(pa.schema([(self.new_name, pa.int64())]))  # whether a column can be called so
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
    reader.accept("COLUMN")
    skips = reader.accept("IF", "NOT", "EXISTS")
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
    (field,) = declared_schema(pa.schema([column.field]))
    return AddColumn(field, skips)


def dropping(reader: Reader) -> Change:
    """``DROP [COLUMN] [IF EXISTS] name``."""
    reader.accept("COLUMN")
    skips = reader.accept("IF", "EXISTS")
    name = reader.name("the name of a column")
    reader.accept("CASCADE") or reader.accept("RESTRICT")
    return DropColumn(name, skips)


def renaming(reader: Reader) -> Change:
    """``RENAME [COLUMN] name TO name``."""
    if reader.accept("TO"):
        raise reader.refused(
            "Tables can't be renamed, since object stores move no directories: CREATE TABLE .. AS SELECT, "
            "then DROP; the name stands"
        )
    reader.accept("COLUMN")
    name = reader.name("the name of a column")
    reader.expect("TO")
    return RenameColumn(name, reader.name("its new name"))


def retyping(reader: Reader) -> Change:
    """``ALTER [COLUMN] name [SET DATA] TYPE type``."""
    reader.accept("COLUMN")
    name = reader.name("the name of a column")
    if reader.word in ("SET", "DROP") and reader.word_after(1) in ("NOT", "DEFAULT"):
        raise reader.refused("NOT NULL and defaults of a column don't change; the change stands")
    reader.accept("SET", "DATA")
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
    ids = {one for spec in specs for one in region_columns(spec)}
    return tuple(name for at, name in base.field_names.items() if at in ids)


def _ids_elsewhere(table: Table) -> Iterator[int]:
    """Field ids in generations and log entries, which the base table may not know any more."""
    if table.base().details is None:
        return
    for manifest in table.manifests():
        for flushed in manifest.flushed_generations:
            dataset = table.generation(manifest.region_id, flushed).dataset
            yield from (one.field_id for field in fields_of_dataset(dataset) for one in field.walk())
        for entry in table.unflushed(manifest):
            if entry.rows is not None:
                fields = fields_of_entry(entry.rows.schema)
                yield from (one.field_id for field in fields for one in field.walk())
