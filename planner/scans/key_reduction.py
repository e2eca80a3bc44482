"""Rows of resident tables that the joins of a statement would drop, found before it runs.

Conditions on one table often leave few of its keys. Where other tables are joined by these, only rows with
one of the keys count, so that they have fewer keys themselves, and so on: from the table that has lost most
of its rows along the edges of the join graph. What is found by then is exact as to conditions of one table,
and may be too much as to joins, never too little.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.execnodes.node import coalesce_batches, never_stop
from lance_gateway.planner.bridge.join_graph import JoinGraph

T = TypeVar("T")
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
_LARGER_SOURCE: Final = 4
"""Tables with so many times fewer rows than the other one are not worth looking at."""
_GROUPS: Final = 8
_LEAST_GROUP: Final = 4
"""Batches are looked at in so many groups, of so many batches at least."""


class Relation:
    """A table in one place of a plan.

    Attributes:
        rows: of the table.
        total: number of rows.
        count: how many of them still count.
        turns: how often its keys may tell of the rows of others.

    Args:
        rows: of the table, at least one batch.
        executor: looks at several batches at a time.
    """

    def __init__(self, rows: Sequence[pa.RecordBatch], executor: Executor) -> None:
        self.rows = rows
        self.total: int = sum(batch.num_rows for batch in rows)
        self.count = self.total
        self.turns = _TURNS
        self._executor = executor
        self._selected: list[np.ndarray | None] | None = None

    @property
    def selected(self) -> Sequence[np.ndarray | None] | None:
        """Flags of the rows of each batch that count, None where none does; None as long as all rows do."""
        return self._selected

    @property
    def tells(self) -> bool:
        """Whether the keys that are left are worth looking at."""
        return self.turns > 0 < self.total and self.count <= min(self.total * _USEFUL_SHARE, _MOST_KEYS)

    def type_of(self, column: str) -> pa.DataType:
        """Return the type of a column."""
        return self.rows[0].schema.field(column).type

    def select(self, flag: Callable[[int], np.ndarray]) -> bool:
        """Keep the rows that are flagged; return whether much fewer are left than before.

        Args:
            flag: returns the flags of the rows of a batch, by its number.
        """
        before, old = self.count, self._selected

        def look(numbers: range) -> list[np.ndarray | None]:
            found: list[np.ndarray | None] = []
            for number in numbers:
                counted = None if old is None else old[number]
                if old is not None and counted is None:
                    found.append(None)
                    continue
                flags = flag(number)
                if counted is not None:
                    flags = np.logical_and(flags, counted)
                found.append(flags if flags.any() else None)
            return found

        self._selected = list(map_groups(look, len(self.rows), self._executor))
        self.count = sum(int(np.count_nonzero(flags)) for flags in self._selected if flags is not None)
        return bool(self.count <= before * _USEFUL_SHARE)

    def read_keys(self, column: str) -> pa.Array:
        """Return the values that a column has in the rows that count."""
        chunks = [batch.column(column) for batch in self.rows]
        if self._selected is not None:
            chunks = [
                values.filter(pa.array(flags))
                for values, flags in zip(chunks, self._selected, strict=True)
                if flags is not None
            ] or [chunks[0].slice(0, 0)]
        return pa.concat_arrays(chunks)


def map_groups(step: Callable[[range], list[T]], count: int, executor: Executor) -> Iterator[T]:
    """Yield what a step returns for each of some numbers, from 0 on: several threads have ranges of them."""
    size = max(-(-count // _GROUPS), _LEAST_GROUP)
    ranges = [range(first, min(first + size, count)) for first in range(0, count, size)]
    return itertools.chain.from_iterable(executor.map(step, ranges))


def reduce_relations(
    relations: Sequence[Relation | None],
    graph: JoinGraph,
    least_rows: int,
    check: Callable[[], None] = never_stop,
) -> None:
    """Select the rows that count by their keys.

    Args:
        relations: the leaves of the graph, with what conditions have selected; None for unknown ones.
        graph: of the statement.
        least_rows: tables with fewer rows are left as they are.
        check: called between steps; raises if the statement was stopped.
    """
    known = {number: one for number, one in enumerate(relations) if one is not None}
    waiting = {number for number, one in known.items() if one.tells}
    while waiting:
        # The one that has lost most of its rows.
        number = min(waiting, key=lambda one: known[one].count / known[one].total)
        waiting.remove(number)
        source = known[number]
        source.turns -= 1
        for edge in graph.edges:
            target = known.get(edge.target.leaf)
            if edge.source.leaf != number or target is None or not _pays(source, target, least_rows):
                continue
            kind = source.type_of(edge.source.name)
            if kind != target.type_of(edge.target.name) or not _is_comparable(kind):
                continue
            check()
            if _narrow(target, edge.target.name, source.read_keys(edge.source.name)) and target.tells:
                waiting.add(edge.target.leaf)


def _pays(source: Relation, target: Relation, least_rows: int) -> bool:
    """Return whether keys of a table may tell so much of another one that looking for them pays."""
    return target.count >= max(least_rows, source.count // _LARGER_SOURCE)


def _narrow(target: Relation, column: str, keys: pa.Array) -> bool:
    member = build_member(keys)
    return target.select(lambda number: member(target.rows[number].column(column)))


def keep_selected(
    rows: Sequence[pa.RecordBatch],
    places: Sequence[Relation | None],
    executor: Executor,
    most_bytes: int = 1 << 62,
) -> list[pa.RecordBatch]:
    """Return the rows of a table that count in any of its places; all, if they are not much fewer.

    Args:
        rows: of the table.
        places: where it stands in the plan; none if that is not known.
        executor: looks at several batches at a time.
        most_bytes: that may be copied; where it would be more, all rows are returned, which are not.
    """
    known = [place.selected for place in places if place is not None and place.selected is not None]
    if not known or len(known) < len(places):
        return list(rows)
    flags = [_unite(each) for each in zip(*known, strict=True)]
    count = sum(int(np.count_nonzero(one)) for one in flags if one is not None)
    share = count / max(sum(batch.num_rows for batch in rows), 1)
    if share > _WORTHWHILE_SHARE or share * sum(batch.nbytes for batch in rows) > most_bytes:
        return list(rows)

    def keep(numbers: range) -> list[pa.RecordBatch]:
        counted = ((rows[number], flags[number]) for number in numbers)
        kept = (batch.filter(pa.array(one)) for batch, one in counted if one is not None)
        return list(coalesce_batches(kept))

    return list(map_groups(keep, len(rows), executor)) or [rows[0].slice(0, 0)]


def _unite(flags: Sequence[np.ndarray | None]) -> np.ndarray | None:
    known = [one for one in flags if one is not None]
    return np.logical_or.reduce(known) if known else None


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
    return any(bool(test(kind)) for test in tests) or kind in {pa.uint8(), pa.uint16(), pa.uint32()}


def _is_comparable(kind: pa.DataType) -> bool:
    """Return whether values that are equal for a join are equal here."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_decimal, pa.types.is_binary)
    return _is_integral(kind) or any(bool(test(kind)) for test in tests)


def _read_integers(column: pa.Array) -> np.ndarray:
    """Return the values of a column of integers, dates or timestamps, not copied; any in place of NULL."""
    width = column.type.bit_width // 8
    if not len(column):
        return np.empty(0, dtype=np.int64)
    kind = f"u{width}" if pa.types.is_unsigned_integer(column.type) else f"i{width}"
    values = np.frombuffer(column.buffers()[1], dtype=kind, count=column.offset + len(column))
    return values[column.offset :]
