"""Rows of resident tables that the joins of a statement would drop, found before it runs.

Conditions on one table often leave few of its keys. Where other tables are joined by these, only rows with
one of the keys count, so that other conditions leave fewer of their keys, and so on: from the table with the
fewest rows along the edges of the join graph. What is found by then is exact as to conditions of one table,
and may be too much as to joins, never too little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from execnodes import RowFilter
from execnodes.node import coalesce_batches
from planner.bridge.join_graph import JoinGraph

Member: TypeAlias = Callable[[pa.Array], np.ndarray]
"""Flags the values of a column that are among some keys."""

LARGEST_CONDITION: Final = 1 << 22
"""Conditions of larger tables are left to DataFusion."""
_MOST_KEYS: Final = 1 << 20
_USEFUL_SHARE: Final = 0.8
"""Keys of a larger share of a table's rows hardly tell of other rows."""
_WORTHWHILE_SHARE: Final = 0.5
"""A larger share of a table's rows is not copied."""
_WIDEST_RANGE: Final = 1 << 25
"""Integers in a wider range are compared one by one."""
_LEAST_INTEGER: Final = -(1 << 63)
_TURNS: Final = 3
"""So many times the keys of one table tell of the rows of others."""


@dataclass(eq=False)
class Relation:
    """A table in one place of a plan.

    Attributes:
        rows: of the table.
        selected: flags of the rows that count, for each batch; None as long as all do.
        count: how many do.
    """

    rows: Sequence[pa.RecordBatch]
    selected: list[np.ndarray] | None = None
    count: int = field(init=False)
    total: int = field(init=False)
    turns: int = _TURNS

    def __post_init__(self) -> None:
        self.count = self.total = sum(batch.num_rows for batch in self.rows)

    def type_of(self, column: str) -> pa.DataType:
        """Return the type of a column."""
        return self.rows[0].schema.field(column).type

    @property
    def tells(self) -> bool:
        """Whether the keys that are left are worth looking at."""
        return self.count <= min(self.total * _USEFUL_SHARE, _MOST_KEYS)

    def select(self, flags: list[np.ndarray]) -> bool:
        """Keep the rows that are flagged; return whether much fewer are left than before.

        Args:
            flags: of each batch; they may be changed.
        """
        before = self.count
        if self.selected is not None:
            for mine, old in zip(flags, self.selected, strict=True):
                np.logical_and(mine, old, out=mine)
        self.selected = flags
        self.count = sum(map(int, map(np.count_nonzero, flags)))
        return self.count <= before * _USEFUL_SHARE

    def read_keys(self, column: str) -> pa.Array:
        """Return the values that a column has in the rows that count."""
        chunks: Iterator[pa.Array] = (batch.column(column) for batch in self.rows)
        if self.selected is not None:
            chunks = (
                values.filter(pa.array(flags)) for values, flags in zip(chunks, self.selected, strict=True)
            )
        return pa.concat_arrays(list(chunks))


def flag_condition(
    rows: Sequence[pa.RecordBatch], condition: RowFilter, executor: Executor
) -> list[np.ndarray]:
    """Flag the rows that a condition holds for."""
    return list(executor.map(lambda batch: to_flags(condition.matches(batch)), rows))


def reduce_relations(relations: Sequence[Relation | None], graph: JoinGraph, executor: Executor) -> None:
    """Select the rows that count by their keys.

    Args:
        relations: the leaves of the graph, with what conditions have selected; None for unknown ones.
        graph: of the statement.
        executor: looks at several batches at a time.
    """
    waiting = {number for number, one in enumerate(relations) if one is not None and one.tells}
    while waiting:
        number = min(waiting, key=lambda one: _count(relations, one))
        waiting.remove(number)
        source = relations[number]
        assert source is not None  # noqa: S101 - only those wait
        source.turns -= 1
        for edge in graph.edges:
            target = relations[edge.target.leaf]
            if edge.source.leaf != number or target is None or not target.count:
                continue
            if not _is_comparable(source.type_of(edge.source.name)):
                continue
            member = build_member(source.read_keys(edge.source.name))
            columns = [batch.column(edge.target.name) for batch in target.rows]
            fewer = target.select(list(executor.map(member, columns)))
            if fewer and target.turns and target.tells:
                waiting.add(edge.target.leaf)


def keep_selected(rows: Sequence[pa.RecordBatch], places: Sequence[Relation | None]) -> list[pa.RecordBatch]:
    """Return the rows of a table that count in any of its places; all, if they are not much fewer.

    Args:
        rows: of the table.
        places: where it stands in the plan; none if that is not known.
    """
    known = [place.selected for place in places if place is not None and place.selected is not None]
    if not known or len(known) < len(places):
        return list(rows)
    flags = [np.logical_or.reduce(each) for each in zip(*known, strict=True)]
    if sum(map(int, map(np.count_nonzero, flags))) > sum(map(len, flags)) * _WORTHWHILE_SHARE:
        return list(rows)
    kept = (batch.filter(pa.array(each)) for batch, each in zip(rows, flags, strict=True))
    return list(coalesce_batches(kept)) or [rows[0].slice(0, 0)]


def _count(relations: Sequence[Relation | None], number: int) -> int:
    one = relations[number]
    return 0 if one is None else one.count


def to_flags(matches: pa.BooleanArray) -> np.ndarray:
    """Return which values are true, and not NULL."""
    known = matches.fill_null(False) if matches.null_count else matches  # noqa: FBT003 - a value
    flags: np.ndarray = known.to_numpy(zero_copy_only=False)
    return flags


def build_member(keys: pa.Array) -> Member:
    """Return what flags the values of a column that equal one of the keys; NULL equals none."""
    keys = keys.drop_null()
    if _is_integral(keys.type) and len(keys):
        numbers = _read_integers(keys)
        low, high = int(numbers.min()), int(numbers.max())
        if high - low < _WIDEST_RANGE and low > _LEAST_INTEGER:
            return _build_table(numbers, low, high)
    values = keys.unique()

    def is_member(column: pa.Array) -> np.ndarray:
        return to_flags(pc.is_in(column, value_set=values))

    return is_member


def _build_table(numbers: np.ndarray, low: int, high: int) -> Member:
    # Integers outside of the range are taken for its ends, which are no keys.
    table = np.zeros(high - low + 3, dtype=np.bool_)
    table[np.subtract(numbers, low - 1, dtype=np.int64)] = True

    def is_member(column: pa.Array) -> np.ndarray:
        places = np.subtract(_read_integers(column), low - 1, dtype=np.int64)
        flags: np.ndarray = table.take(places, mode="clip")
        if column.null_count:
            flags &= column.is_valid().to_numpy(zero_copy_only=False)
        return flags

    return is_member


def _is_integral(kind: pa.DataType) -> bool:
    tests = (pa.types.is_signed_integer, pa.types.is_date, pa.types.is_timestamp)
    return any(test(kind) for test in tests) or kind in {pa.uint8(), pa.uint16(), pa.uint32()}


def _is_comparable(kind: pa.DataType) -> bool:
    """Return whether values that are equal for a join are equal here."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_decimal, pa.types.is_binary)
    return _is_integral(kind) or any(test(kind) for test in tests)


def _read_integers(column: pa.Array) -> np.ndarray:
    """Return the values of a column of integers, dates or timestamps, not copied; any in place of NULL."""
    width = column.type.bit_width // 8
    if not len(column):
        return np.empty(0, dtype=np.int64)
    kind = f"u{width}" if pa.types.is_unsigned_integer(column.type) else f"i{width}"
    values = np.frombuffer(column.buffers()[1], dtype=kind, count=column.offset + len(column))
    return values[column.offset :]
