"""``ALTER TABLE t ADD COLUMN .., DROP COLUMN ..``: columns come and go in one commit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import lance
import pyarrow as pa

from lance_gateway.memwal.columns.stored_fields import read_dataset_fields, read_entry_fields
from lance_gateway.memwal.creating import list_region_columns
from lance_gateway.memwal.creating.columns import list_not_null_columns
from lance_gateway.memwal.creating.fields import change_fields, find_last_field_id, record_last_field_id
from lance_gateway.memwal.errors import AlreadyExistsError, InvalidInputError, PreconditionError
from lance_gateway.memwal.rules import (
    INITIAL_VALUE,
    ColumnDefault,
    InitialValue,
    find_constraint_on,
    list_constraints,
    list_defaults,
)
from lance_gateway.memwal.rules.defaults import Change
from lance_gateway.memwal.rules.filled_columns import write_filled_columns
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.ddl.statement import FindRows, check_column, commit_change


@dataclass(frozen=True)
class AddColumn:
    """ADD COLUMN; existing rows have the column's default, or NULL, and no data file changes.

    Raises:
        InvalidInputError: the column is NOT NULL, and has no default that rows could have.
    """

    field: pa.Field
    if_not_exists: bool

    def __post_init__(self) -> None:
        name = self.field.name
        if not list_not_null_columns(pa.schema([self.field])):
            return
        if self._default is None:
            msg = (
                f"column {name!r} can't be added as NOT NULL, since rows that exist would have NULL there: "
                f"give it a DEFAULT, or ADD COLUMN {name} without NOT NULL, fill it by UPDATE, and then "
                f"ALTER COLUMN {name} SET NOT NULL"
            )
            raise InvalidInputError(msg)
        if self._changes_by_row:
            msg = (
                f"column {name!r} can't be added as NOT NULL with a DEFAULT that is another for each row: "
                f"ADD COLUMN {name} without NOT NULL, set {name} = DEFAULT by UPDATE, and then ALTER COLUMN "
                f"{name} SET NOT NULL"
            )
            raise InvalidInputError(msg)

    def check(self, table: Table, names: Collection[str]) -> bool:
        """Refuse a name that is among others; return False where it may be."""
        if self.field.name not in names:
            return True
        if self.if_not_exists:
            return False
        msg = f"table {table.name!r} has a column {self.field.name!r} already: use IF NOT EXISTS"
        raise AlreadyExistsError(msg)

    def check_rows(self, table: Table, find_rows: FindRows) -> None:
        """Refuse a default that is another for each row where there are rows."""
        if not self._changes_by_row:
            return
        if find_rows(f"SELECT 1 FROM {table.name.sql} LIMIT 1").num_rows:  # noqa: S608 - quoted
            name = self.field.name
            assert self._default is not None  # noqa: S101 - it changes
            msg = (
                f"column {name!r} can't be added with DEFAULT {self._default.expression}, which is another "
                f"for each row, since table {table.name!r} has rows: ADD COLUMN {name} without it, then "
                f"ALTER COLUMN {name} SET DEFAULT .., and set {name} = DEFAULT by UPDATE, range by range if "
                "there are many rows"
            )
            raise PreconditionError(msg)

    def find_initial_value(self) -> InitialValue | None:
        """Return what existing rows have in the column, as its default is now; None for NULL.

        Raises:
            InvalidInputError: the default can't be evaluated.
        """
        if self._default is None or self._changes_by_row:
            return None
        return InitialValue.of(self._default.evaluate(1))

    @property
    def _default(self) -> ColumnDefault | None:
        return list_defaults(pa.schema([self.field])).get(self.field.name)

    @property
    def _changes_by_row(self) -> bool:
        return self._default is not None and self._default.change is Change.BY_ROW


@dataclass(frozen=True)
class DropColumn:
    """DROP COLUMN; indexes on the column are dropped too, and its field id is not used again."""

    name: str
    if_exists: bool

    def check(self, table: Table) -> bool:
        """Refuse columns of the primary key or the region spec, and maintained indexes."""
        base = table.base()
        if self.if_exists and self.name not in base.schema.names:
            return False
        check_column(base, self.name)
        check_not_in(base, self.name, "dropped", base.primary_key, "it is part of the primary key")
        check_not_in(base, self.name, "dropped", _find_region_columns(base), "regions are made of it")
        check_no_constraint(table.name, base.dataset, self.name, "dropped")
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


@dataclass(frozen=True)
class ChangeColumns:
    """Columns that are added and dropped, all or none.

    Attributes:
        changes: each of another column: Lance gives no name to another column in one commit.
    """

    changes: tuple[AddColumn | DropColumn, ...]

    def __post_init__(self) -> None:
        names = [*(one.field.name for one in self._added), *(one.name for one in self._dropped)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            msg = f"column {twice!r} is named twice: write one ALTER TABLE after the other"
            raise InvalidInputError(msg)

    def check(self, table: Table) -> bool:
        """Return whether there is anything to do; refuse what can't be done."""
        names = table.base().dataset.schema.names
        dropped = [one.name for one in self._dropped if one.check(table)]
        added = [one.field.name for one in self._added if one.check(table, names)]
        if len(dropped) == len(names) and not added:
            shown = ", ".join(dropped)
            msg = f"table {table.name!r} has no columns but {shown}: DROP TABLE drops it with them"
            raise PreconditionError(msg)
        return bool(dropped or added)

    def check_rows(self, table: Table, find_rows: FindRows) -> None:
        """Refuse defaults that change row by row where there are rows."""
        for one in self._added:
            one.check_rows(table, find_rows)

    def apply(self, table: Table) -> None:
        """Commit the schema, with a file of the default for each fragment.

        Indexes of dropped columns are dropped. Generations and log entries stay as they are: the metadata of
        a column tells what their rows have there.
        """
        found = ((one.field.name, one.find_initial_value()) for one in self._added)
        values = {name: value for name, value in found if value is not None}

        def remember(dataset: Any) -> None:  # noqa: ANN401 - lance types
            record_last_field_id(dataset, find_last_field_id(dataset, _list_stored_field_ids(table)))

        def change(dataset: Any) -> None:  # noqa: ANN401 - lance types
            # Once more: another commit may have come since it was checked.
            names = dataset.schema.names
            dropped = [one.name for one in self._dropped if one.name in names]
            for name in dropped:
                check_no_constraint(table.name, dataset, name, "dropped")
            added = [_declare(one.field, values) for one in self._added if one.check(table, names)]
            last_id = find_last_field_id(dataset, _list_stored_field_ids(table))
            schema = change_fields(dataset, dropped, added, last_id)
            if not added:
                _commit(dataset, lance.LanceOperation.Project(schema, preserves_nullability=True))
                return
            fragments = write_filled_columns(dataset, added, values, schema, table.storage.options)
            _commit(dataset, lance.LanceOperation.Merge(fragments, schema, preserves_nullability=True))

        what = ", ".join(
            f"drop column {one.name!r}" if isinstance(one, DropColumn) else f"add column {one.field.name!r}"
            for one in self.changes
        )
        if self._dropped:
            commit_change(table, "record field ids", remember)
        streams = bool(values) and table.base().details is not None
        with table.writer().apart_from_new_columns() if streams else nullcontext():
            commit_change(table, what, change)

    @property
    def _added(self) -> list[AddColumn]:
        return [one for one in self.changes if isinstance(one, AddColumn)]

    @property
    def _dropped(self) -> list[DropColumn]:
        return [one for one in self.changes if isinstance(one, DropColumn)]


def _declare(field: pa.Field, values: Mapping[str, InitialValue]) -> pa.Field:
    if field.name not in values:
        return field
    return field.with_metadata({**(field.metadata or {}), INITIAL_VALUE: values[field.name].encoded})


def _commit(dataset: Any, operation: Any) -> None:  # noqa: ANN401 - lance types
    lance.LanceDataset.commit(dataset, operation, read_version=dataset.version, max_retries=0)


def check_not_in(base: BaseTable, name: str, done: str, columns: tuple[str, ...], reason: str) -> None:
    """Refuse a change of a column that is one of some.

    Raises:
        PreconditionError: it is.
    """
    if name in columns:
        msg = f"column {name!r} of table {base.name!r} can't be {done}: {reason}"
        raise PreconditionError(msg)


def check_no_constraint(table: str, dataset: Any, name: str, done: str) -> None:  # noqa: ANN401 - lance types
    """Refuse a change of a column that a constraint names.

    Raises:
        PreconditionError: one does.
    """
    constraint = find_constraint_on(list_constraints(table, dataset.config()), name)
    if constraint is not None:
        msg = (
            f"column {name!r} of table {table!r} can't be {done}: constraint {constraint.name!r} names "
            "it; DROP CONSTRAINT first"
        )
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
