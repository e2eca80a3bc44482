"""A table without a key whose rows are numbered, for statements that change them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Final

import pyarrow as pa

from execnodes.node import ROW_ADDRESS
from execnodes.storage.source import LanceSource, StoredColumn
from memwal.errors import UnsupportedError
from memwal.storage.table_names import TableName
from planner.predicates.pruning import RegionAssignments
from planner.tables.sources.base_table import BaseTable
from planner.tables.sources.decoded_columns import StoredColumns
from planner.tables.sources.snapshot import Consistency, TableSnapshot
from planner.tables.state.table import Table

ROW_NUMBER: Final = "row#"
"""Column with the address of each row in its version of the base table: fragment, then offset."""
_SUFFIX: Final = "/rows"
"""No table is called so: names have no slash."""


def name_numbered(name: TableName) -> TableName:
    """Return the name under which statements read a table with `ROW_NUMBER`."""
    return TableName(f"{name.table}{_SUFFIX}", name.schema)


def split_numbered(name: str) -> tuple[TableName, bool]:
    """Return the table that a name means, and whether its rows are numbered."""
    parsed = TableName.parse(name)
    plain = parsed.table.removesuffix(_SUFFIX)
    return (parsed, False) if plain == parsed.table else (TableName(plain, parsed.schema), True)


class NumberedTable(Table):
    """The base table of another table, with the address of each row. Thread-safe.

    Nothing is kept of its columns: whoever asks for addresses is about to change the rows.

    Attributes:
        plain: the table whose rows are numbered.

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

    def replace_with(self, other: Table) -> Table:
        """See `Table.replace_with`."""
        return NumberedTable(other)

    def settle(self) -> float:
        """See `Table.settle`."""
        return self.plain.settle()

    def base(self) -> BaseTable:
        """See `Table.base`."""
        return self._number(self.plain.base())

    def find_recent_base(self) -> BaseTable:
        """See `Table.find_recent_base`."""
        return self._number(self.plain.find_recent_base())

    def assignments(self, base: BaseTable, consistency: Consistency) -> RegionAssignments:
        """Return no regions: rows on top of the base table have no addresses in it."""
        del base, consistency
        return RegionAssignments()

    def take_snapshot(
        self, regions: Iterable[str], consistency: Consistency = "strong", max_staleness_ms: int = 0
    ) -> TableSnapshot:
        """See `Table.take_snapshot`."""
        return self.number(self.plain.take_snapshot(regions, consistency, max_staleness_ms))

    def number(self, snapshot: TableSnapshot) -> TableSnapshot:
        """Return a snapshot of the plain table with numbered rows, without those on top of the base table."""
        return TableSnapshot(self._number(snapshot.base), {})

    def _number(self, base: BaseTable) -> BaseTable:
        last = self._last
        if last is None or last[0] is not base:
            last = self._last = base, _number_rows(base)
        return last[1]


def _number_rows(base: BaseTable) -> BaseTable:
    """Return a version of a base table with the column `ROW_NUMBER`.

    Raises:
        UnsupportedError: it has a column of that name.
    """
    if ROW_NUMBER in base.schema.names:
        msg = (
            f"rows of table {base.name!r} can't be changed, since its column {ROW_NUMBER!r} has the name "
            "that numbers of rows have: RENAME the column"
        )
        raise UnsupportedError(msg)
    schema = base.schema.append(pa.field(ROW_NUMBER, pa.uint64()))
    known = {field.name: getattr(base, field.name) for field in fields(BaseTable)}
    return _NumberedBase(**{**known, "schema": schema, "details": None})


@dataclass(frozen=True, eq=False)
class _NumberedBase(BaseTable):
    """A version of a base table whose rows have numbers."""

    @cached_property
    def source(self) -> LanceSource:
        """The base table as a source of rows, whose addresses are a column that Lance computes."""
        stored = {field.name: StoredColumn(field.name, field.type) for field in self.schema}
        stored[ROW_NUMBER] = StoredColumn(ROW_ADDRESS, pa.uint64())
        label = f"{self.name} base v{self.version}"
        return LanceSource(
            label, self.dataset, self.schema, stored, self.place, self.find_origin(self.storage)
        )
