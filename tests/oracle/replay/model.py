"""The oracle: a plain replay of every acknowledged write, and what a schema change does to the rows in it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

Key = tuple[Any, ...]
Cells = dict[int, Any]
"""The values of one row by field id."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table as it is now; its field id stays when its name changes."""

    name: str
    field_id: int
    type: pa.DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Write:
    """One acknowledged upsert (cells) or delete (None) of one key."""

    generation: int
    key: Key
    cells: Cells | None


@dataclass
class RegionHistory:
    """What one region acknowledged and has not merged yet, oldest first."""

    writes: list[Write] = field(default_factory=list)
    current_generation: int = 1

    def replayed_into(self, field_ids: set[int]) -> None:
        """A new writer replayed the unflushed writes into the columns that it knows."""
        self.writes = [
            write
            if write.cells is None or write.generation < self.current_generation
            else Write(
                write.generation,
                write.key,
                {field_id: value for field_id, value in write.cells.items() if field_id in field_ids},
            )
            for write in self.writes
        ]

    def flushed(self) -> list[Write]:
        """The writes that are in flushed generations."""
        return [write for write in self.writes if write.generation < self.current_generation]


@dataclass
class TableModel:
    """A table as it must read: its base rows and the unmerged writes of every region.

    Cells are kept by field id, as Lance matches columns, so that a renamed column keeps its values and a
    dropped one loses them.
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    base: dict[Key, Cells] = field(default_factory=dict)
    regions: dict[str, RegionHistory] = field(default_factory=dict)

    def region(self, region: str) -> RegionHistory:
        return self.regions.setdefault(region, RegionHistory())

    def load(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take ``rows`` as the base table's content."""
        for row in rows:
            self.base[self._key(row)] = {column.field_id: row[column.name] for column in self.columns}

    def write(
        self,
        region: str,
        rows: Iterable[Mapping[str, Any]],
        field_ids: Mapping[str, int] | None,
        generation: int,
        current_generation: int,
    ) -> None:
        """Record one durable write: rows by the writer's column names, or keys when ``field_ids`` is None."""
        history = self.region(region)
        for row in rows:
            cells = None if field_ids is None else {field_ids[name]: value for name, value in row.items()}
            history.writes.append(Write(generation, self._key(row), cells))
        history.current_generation = current_generation

    def merged(self, region: str, up_to: int) -> None:
        """Generations up to ``up_to`` moved into the base table, with the columns that it has now."""
        history = self.region(region)
        moved = [write for write in history.writes if write.generation <= up_to]
        history.writes = [write for write in history.writes if write.generation > up_to]
        present = {column.field_id for column in self.columns}
        rewritten = {write.key for write in moved}
        self.base = {
            key: {field_id: value for field_id, value in cells.items() if field_id in present}
            if key in rewritten
            else cells
            for key, cells in _replayed(self.base, moved).items()
        }

    def set_columns(self, columns: tuple[Column, ...]) -> None:
        """The base table's schema changed; base rows forget the cells of columns that are gone."""
        gone = {column.field_id for column in self.columns} - {column.field_id for column in columns}
        self.columns = columns
        for cells in self.base.values():
            for field_id in gone:
                cells.pop(field_id, None)

    def rows(self, *, flushed_only: bool = False) -> dict[Key, Cells]:
        """The newest version of every live row."""
        rows = dict(self.base)
        for history in self.regions.values():
            rows = _replayed(rows, history.flushed() if flushed_only else history.writes)
        return rows

    def table(self, *, flushed_only: bool = False) -> pa.Table:
        """The rows as an Arrow table under the present column names."""
        rows = self.rows(flushed_only=flushed_only).values()
        columns = [
            pa.array([cells.get(column.field_id) for cells in rows], column.type) for column in self.columns
        ]
        schema = pa.schema([pa.field(column.name, column.type, column.nullable) for column in self.columns])
        return pa.Table.from_arrays(columns, schema=schema)

    def _key(self, row: Mapping[str, Any]) -> Key:
        return tuple(row[name] for name in self.key)


def _replayed(rows: Mapping[Key, Cells], writes: Iterable[Write]) -> dict[Key, Cells]:
    """``rows`` after ``writes``; the input is not changed."""
    result = dict(rows)
    for write in writes:
        if write.cells is None:
            result.pop(write.key, None)
        else:
            result[write.key] = write.cells
    return result
