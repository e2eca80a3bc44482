"""``ALTER TABLE t ..``: columns are added, dropped, renamed and retyped; see `rules.changes` for rules.

Lance and this gateway match columns by field id, so open writers, generations and log entries stay valid.
`memwal.creating.fields` ensures that no id is used twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa

from lance_gateway.memwal.creating import build_stored_schema
from lance_gateway.memwal.errors import AlreadyExistsError, UnsupportedError
from lance_gateway.memwal.rules import IDENTITY
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.sql.dialects.translate import NATIVE
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.rules.changes import (
    RuleChange,
    SetLength,
    read_added_constraint,
    read_column_rule,
    read_dropped_constraint,
)
from lance_gateway.planner.writes.ddl.rules.columns import read_column
from lance_gateway.planner.writes.ddl.rules.constraints import is_constraint
from lance_gateway.planner.writes.ddl.rules.primary_key import AddPrimaryKey
from lance_gateway.planner.writes.ddl.statement import (
    DONE,
    FindRows,
    PreparedDefinition,
    Reader,
    check_column,
    commit_change,
)
from lance_gateway.planner.writes.ddl.tables.change_columns import (
    AddColumn,
    ChangeColumns,
    DropColumn,
    check_no_constraint,
    check_not_in,
)
from lance_gateway.planner.writes.ddl.tables.enable_mem_wal import EnableMemWal, read_set
from lance_gateway.planner.writes.ddl.tables.key_indexes import SetKeyIndex
from lance_gateway.planner.writes.ddl.tables.maintained_indexes import SetMaintainedIndexes
from lance_gateway.planner.writes.ddl.tables.manifest_names import RenameManifests
from lance_gateway.planner.writes.ddl.tables.renaming import prepare_rename
from lance_gateway.planner.writes.ddl.types import ColumnType, read_column_type
from lance_gateway.planner.writes.dml.prepared_write import WriteResult
from lance_gateway.planner.writes.dml.statement.target import check_may_write, check_writable
from lance_gateway.planner.writes.dml.statement.text import ReadSession


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
            check_not_in(base, self.name, "renamed", base.primary_key, "it is part of the primary key")
        check_no_constraint(table.name, base.dataset, self.name, "renamed")
        return True

    def apply(self, table: Table) -> None:
        """Commit a schema in which the field is renamed."""
        alteration = {"path": self.name, "name": self.new_name}

        def rename(dataset: Any) -> None:  # noqa: ANN401 - lance types
            check_no_constraint(table.name, dataset, self.name, "renamed")  # Once more: since then.
            dataset.alter_columns(alteration)

        commit_change(table, f"rename column {self.name!r}", rename)


@dataclass(frozen=True)
class RetypeColumn:
    """ALTER COLUMN .. TYPE."""

    name: str
    column_type: ColumnType

    def check(self, table: Table) -> bool:
        """Refuse tables with a MemWAL, whose log may have rows of the old type."""
        base = table.base()
        check_column(base, self.name)
        length = self.find_length(table)
        if length is not None:
            return length.check(table)
        kind = self.column_type.kind
        if self.column_type.rules:
            msg = (
                f"column {self.name!r} is {base.schema.field(self.name).type}: change it to TEXT or BYTEA "
                "first, and then to a type with a length"
            )
            raise UnsupportedError(msg)
        check_no_constraint(table.name, base.dataset, self.name, "given another type")
        if base.details is not None:
            msg = (
                f"the type of column {self.name!r} can't change, since table {table.name!r} has a MemWAL: "
                f"rows in its log have the old one. ADD COLUMN of type {kind}, UPDATE it, DROP the other"
            )
            raise UnsupportedError(msg)
        return True

    def find_length(self, table: Table) -> SetLength | None:
        """Return the change of length if values stay as they are; None if the column is rewritten."""
        is_same = table.base().schema.field(self.name).type.equals(self.column_type.kind)
        return SetLength(self.name, self.column_type) if is_same else None

    def apply(self, table: Table) -> None:
        """Rewrite the column."""
        alteration = {"path": self.name, "data_type": self.column_type.kind}
        commit_change(
            table, f"change column {self.name!r}", lambda dataset: dataset.alter_columns(alteration)
        )


def read_add(reader: Reader) -> Change:
    """Read ``ADD [COLUMN] [IF NOT EXISTS] name type [DEFAULT ..] [COMMENT 'text']``, or a constraint."""
    if reader.is_at("PRIMARY", "KEY") or reader.word == "CONSTRAINT" or is_constraint(reader):
        return read_added_constraint(reader)
    reader.take("COLUMN")
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    column = read_column(reader)
    if column.is_key:
        raise reader.unsupported_error(
            "A column of the key must have values: add the column, fill it by UPDATE, and then ADD PRIMARY "
            "KEY (..)"
        )
    if IDENTITY in (column.field.metadata or {}):
        raise reader.unsupported_error(
            "A column that numbers its rows is made with its table: CREATE TABLE another one with it, INSERT "
            "INTO that SELECT the rows, and rename"
        )
    if column.constraints:
        raise reader.unsupported_error("A constraint is added by ADD CONSTRAINT, after the column")
    (field,) = build_stored_schema(pa.schema([column.field]))
    return ChangeColumns((AddColumn(field, if_not_exists),))


def read_drop(reader: Reader) -> Change:
    """Read ``DROP [COLUMN] [IF EXISTS] name`` or ``DROP CONSTRAINT [IF EXISTS] name``."""
    if reader.word == "CONSTRAINT" and reader.next_word not in ("", "CASCADE", "RESTRICT"):
        return read_dropped_constraint(reader)
    reader.take("COLUMN")
    if_exists = reader.take("IF", "EXISTS")
    name = reader.name("The name of a column")
    reader.take("CASCADE") or reader.take("RESTRICT")
    return ChangeColumns((DropColumn(name, if_exists),))


def read_rename(reader: Reader) -> Change:
    """Read ``RENAME [COLUMN] name TO name``."""
    reader.take("COLUMN")
    name = reader.name("The name of a column")
    reader.expect("TO")
    return RenameColumn(name, reader.name("Its new name"))


def read_retype(reader: Reader) -> Change:
    """Read ``ALTER [COLUMN] name [SET DATA] TYPE type [USING name::type]``, or SET and DROP of a rule."""
    reader.take("COLUMN")
    name = reader.name("The name of a column")
    rule = read_column_rule(reader, name)
    if rule is not None:
        return rule
    reader.take("SET", "DATA")
    reader.expect("TYPE")
    column_type = read_column_type(reader)
    if reader.take("USING"):
        _check_conversion(reader, name, column_type)
    return RetypeColumn(name, column_type)


def _check_conversion(reader: Reader, name: str, column_type: ColumnType) -> None:
    """Read a cast to the new type, which is what happens to the values without it, too."""
    place = reader.at
    in_brackets = reader.take("(")
    is_cast = reader.name("The column") == name and reader.take("::")
    if not is_cast or read_column_type(reader) != column_type:
        reader.at = place
        raise reader.unsupported_error(
            f"Values are cast to the new type, as by USING {name}::type, and by nothing else"
        )
    if in_brackets:
        reader.expect(")")


_ONE_AT_A_TIME = (
    "Only ADD COLUMN and DROP COLUMN are done together, others one at a time; another one follows"
)
Change: TypeAlias = (
    ChangeColumns
    | RenameColumn
    | RetypeColumn
    | EnableMemWal
    | SetKeyIndex
    | SetMaintainedIndexes
    | RenameManifests
    | RuleChange
    | AddPrimaryKey
)
"""One form of ALTER TABLE: `check` returns whether there is anything to do, and refuses invalid changes."""
_FORMS: Mapping[str, Callable[[Reader], Change]] = MappingProxyType(
    {"ADD": read_add, "DROP": read_drop, "RENAME": read_rename, "ALTER": read_retype, "SET": read_set}
)


def prepare_alter(
    engine: QueryPlanner,
    sql: str,
    settings: SessionSettings,
    access: Access,
) -> PreparedDefinition:
    """Prepare an ALTER statement.

    Raises:
        LanceGatewayError: the statement is invalid.
    """
    reader = Reader.of(sql, settings.schema, "ALTER")
    reader.refuse_sequence()
    what = reader.choose("what is altered", "TABLE", "VIEW", "INDEX")
    if what == "INDEX":
        raise reader.unsupported_error("ALTER INDEX is not supported: drop it and create it again")
    if_exists = reader.take("IF", "EXISTS")
    name = reader.table("a table" if what == "TABLE" else "a view")
    if reader.take("RENAME", "TO"):
        return prepare_rename(engine, reader, access, name, what=what, if_exists=if_exists)
    if what == "VIEW":
        raise reader.unsupported_error(
            "A view can only be renamed: CREATE OR REPLACE VIEW gives it another SELECT; its name ends"
        )
    change = _FORMS[reader.choose("what is to be done", *_FORMS)](reader)
    while reader.word == ",":
        if not isinstance(change, ChangeColumns):
            raise reader.unsupported_error(_ONE_AT_A_TIME)
        reader.take(",")
        place = reader.at
        other = _FORMS[reader.choose("what is to be done", *_FORMS)](reader)
        if not isinstance(other, ChangeColumns):
            reader.at = place
            raise reader.unsupported_error(_ONE_AT_A_TIME)
        change = ChangeColumns((*change.changes, *other.changes))
    reader.expect_end()
    check_writable(engine, name)
    if not (if_exists and not engine.visible_catalog(access).has_table(name)):
        check_may_write(engine, name, access)
        change.check(engine.catalog.table(name))

    def alter(control: RunControl | None) -> WriteResult:
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
            _apply(change, table, partial(_find_rows, engine, settings, access, control))
        finally:
            writer.flush()
        return DONE

    return PreparedDefinition(sql, alter, name)


def _apply(change: Change, table: Table, find_rows: FindRows) -> None:
    length = change.find_length(table) if isinstance(change, RetypeColumn) else None
    if length is not None:
        length.rule(table).apply(table, find_rows)
    elif isinstance(change, RuleChange):
        change.rule(table).apply(table, find_rows)
    elif isinstance(change, AddPrimaryKey):
        change.apply(table, find_rows)
    else:
        if isinstance(change, ChangeColumns):
            change.check_rows(table, find_rows)
        change.apply(table)


def _find_rows(
    engine: QueryPlanner, settings: SessionSettings, access: Access, control: RunControl | None, sql: str
) -> pa.Table:
    """Run a query over the newest rows."""
    session = ReadSession(engine, replace(settings, dialect=NATIVE), access).with_strong_consistency()
    query = engine.prepare(sql, session.settings, access)
    return query.execute((), session.settings, control).read_all()
