"""Tables with columns that Lance computes for each row: its address, or its lineage.

    "t/rows"      addresses and lineage, for statements that change rows of a table without a key
    "t/lineage"   row ids and versions, for statements that name these columns

No table is called so: names have no slash.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cached_property
from typing import Final

import pyarrow as pa

from lance_gateway.execnodes.node import ROW_ADDRESS
from lance_gateway.execnodes.storage.source import ColumnMapping, LanceSource, StoredColumn
from lance_gateway.memwal.columns.stored_fields import TOMBSTONE
from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.predicates.pruning import RegionAssignments
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.decoded_columns import StoredColumns
from lance_gateway.planner.tables.sources.log_tail import Tail
from lance_gateway.planner.tables.sources.snapshot import Consistency, SnapshotDescription, TableSnapshot
from lance_gateway.planner.tables.state.table import Table

ROW_NUMBER: Final = "row#"
"""Column with the address of each row in its version of the base table: fragment, then offset."""


class Extension(Enum):
    """What a name of a table adds to its columns; the value is the end of the name."""

    NONE = ""
    NUMBERS = "/rows"
    LINEAGE = "/lineage"

    def extend_name(self, name: TableName) -> TableName:
        """Return the name under which statements read a table with these columns."""
        return TableName(f"{name.table}{self.value}", name.schema)


def split_extension(name: str) -> tuple[TableName, Extension]:
    """Return the table that a name means, and what the name adds to its columns."""
    parsed = TableName.parse(name)
    for extension in (Extension.NUMBERS, Extension.LINEAGE):
        plain = parsed.table.removesuffix(extension.value)
        if plain != parsed.table:
            return TableName(plain, parsed.schema), extension
    return parsed, Extension.NONE


def extend_table(plain: Table, extension: Extension) -> Table:
    """Return a table with the columns that a name adds."""
    if extension is Extension.NONE:
        return plain
    return NumberedTable(plain) if extension is Extension.NUMBERS else LineageTable(plain)


class ExtendedTable(Table):
    """Another table, with columns that Lance computes. Thread-safe.

    Nothing is kept of its columns.

    Attributes:
        plain: the other table.

    Args:
        plain: see the attribute.
    """

    def __init__(self, plain: Table) -> None:
        super().__init__(plain.name, plain.storage, plain.cache, StoredColumns(), plain.places, plain.session)
        self.plain = plain
        self._last: tuple[BaseTable, BaseTable] | None = None

    @property
    def described_time(self) -> str:
        """See `Table.described_time`."""
        return self.plain.described_time

    def of(self, plain: Table) -> Table:
        """Return another table with the same columns."""
        return type(self)(plain)

    def replace_with(self, other: Table) -> Table:
        """See `Table.replace_with`."""
        return self.of(self.plain.replace_with(other))

    def settle(self) -> float:
        """See `Table.settle`."""
        return self.plain.settle()

    def base(self) -> BaseTable:
        """See `Table.base`."""
        return self.extend_base(self.plain.base())

    def find_recent_base(self) -> BaseTable:
        """See `Table.find_recent_base`."""
        return self.extend_base(self.plain.find_recent_base())

    def take_snapshot(
        self, regions: Iterable[str], consistency: Consistency = "strong", max_staleness_ms: int = 0
    ) -> TableSnapshot:
        """See `Table.take_snapshot`."""
        return self.extend(self.plain.take_snapshot(regions, consistency, max_staleness_ms))

    def reopen(self, description: SnapshotDescription) -> TableSnapshot:
        """See `Table.reopen`."""
        return self.extend(self.plain.reopen(description))

    @abstractmethod
    def extend(self, snapshot: TableSnapshot) -> TableSnapshot:
        """Return a snapshot of the plain table with the columns."""

    def extend_base(self, base: BaseTable) -> BaseTable:
        """Return a version of the plain table with the columns; the same object while it is the newest."""
        last = self._last
        if last is None or last[0] is not base:
            last = self._last = base, self._extend_base(base)
        return last[1]

    @abstractmethod
    def _extend_base(self, base: BaseTable) -> BaseTable:
        """Return a version with the columns."""


class NumberedTable(ExtendedTable):
    """The base table of another table, with the address of each row, and its lineage."""

    def assignments(self, base: BaseTable, consistency: Consistency) -> RegionAssignments:
        """Return no regions: rows on top of the base table have no addresses in it."""
        del base, consistency
        return RegionAssignments()

    def extend(self, snapshot: TableSnapshot) -> TableSnapshot:
        """Return the base table of a snapshot with numbered rows, without those on top of it."""
        return TableSnapshot(self.extend_base(snapshot.base), {})

    def _extend_base(self, base: BaseTable) -> BaseTable:
        if ROW_NUMBER in base.schema.names:
            msg = (
                f"rows of table {base.name!r} can't be changed, since its column {ROW_NUMBER!r} has the name "
                "that numbers of rows have: RENAME the column"
            )
            raise UnsupportedError(msg)
        lineage = {name: name for name in base.lineage_columns}
        return replace(_add_columns(base, {**lineage, ROW_NUMBER: ROW_ADDRESS}), details=None)


class LineageTable(ExtendedTable):
    """Another table, with the row id of each row and the versions that made and changed it.

    Rows that are not merged have NULL there.
    """

    def assignments(self, base: BaseTable, consistency: Consistency) -> RegionAssignments:
        """See `Table.assignments`."""
        return self.plain.assignments(base, consistency)

    def extend(self, snapshot: TableSnapshot) -> TableSnapshot:
        """Return a snapshot with the columns, which are NULL in rows on top of the base table."""
        base = self.extend_base(snapshot.base)
        regions = {
            region_id: region
            if region.tail is None
            else replace(region, tail=_add_nulls(region.tail, base.schema))
            for region_id, region in snapshot.regions.items()
        }
        return TableSnapshot(base, regions)

    def _extend_base(self, base: BaseTable) -> BaseTable:
        return _add_columns(base, {name: name for name in base.lineage_columns})


def _add_columns(base: BaseTable, computed: Mapping[str, str]) -> _ExtendedBase:
    """Return a version with more columns.

    Args:
        base: the version.
        computed: name -> what Lance calls the column.
    """
    schema = pa.schema([*base.schema, *(pa.field(name, pa.uint64()) for name in computed)])
    known = {one.name: getattr(base, one.name) for one in fields(BaseTable)}
    return _ExtendedBase(**{**known, "schema": schema}, computed=computed)


def _add_nulls(tail: Tail, schema: pa.Schema) -> Tail:
    """Return a tail whose rows have all columns of a schema."""
    rows = tail.rows
    for one in schema:
        if one.name not in rows.schema.names:
            at = rows.schema.get_field_index(TOMBSTONE)
            rows = rows.add_column(at, one, pa.nulls(rows.num_rows, one.type))
    return replace(tail, rows=rows)


@dataclass(frozen=True, eq=False)
class _ExtendedBase(BaseTable):
    """A version of a base table with columns that Lance computes.

    Attributes:
        computed: name -> what Lance calls the column.
    """

    computed: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def source(self) -> LanceSource:
        """The base table as a source of rows."""
        stored = {
            one.name: StoredColumn(self.computed.get(one.name, one.name), one.type) for one in self.schema
        }
        label = f"{self.name} base v{self.version}"
        return LanceSource(
            label,
            self.opened.dataset,
            self.schema,
            ColumnMapping(stored),
            self.place,
            self.find_origin(self.storage),
            self.opened,
        )
