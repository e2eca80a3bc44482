"""Rows of a table in the order of what they tell, and which of them follows which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.scans.changes import CHANGED, NUMBER
from lance_gateway.planner.scans.changes.key_parts import KeyPart
from lance_gateway.planner.tables.sources.keys import combine_key_columns

LINKS: Final = (pa.field(NUMBER, pa.int64()), pa.field(CHANGED, pa.timestamp("us")))
"""Columns of chained rows behind those of the table."""
MOST_BYTES: Final = 1 << 29
"""Most bytes of rows that one statement holds to tell single changes."""


@dataclass(frozen=True, eq=False)
class ChainedRows:
    """All changes of a table between two states, as the rows before and behind each.

    Attributes:
        before: rows that were replaced or deleted, each with the number of the change that did it.
        after: rows that came or replaced others, likewise. A change whose number is only here is an insert;
            one whose number is only in `before`, a delete.
    """

    before: pa.Table
    after: pa.Table


class RowChains:
    """The rows of all keys, in the order of what they tell.

    Args:
        schema: of the table.
        key: columns of its key.
        part: the keys whose rows are kept; None for all of them. Changes are numbered alike in all parts.
    """

    def __init__(self, schema: pa.Schema, key: Sequence[str], part: KeyPart | None = None) -> None:
        self.schema = schema
        self._key = list(key)
        self._part = part
        self._count = 1
        self._numbers: list[np.ndarray] = []
        self._parts: list[pa.Table] = []
        self._dead: list[np.ndarray] = []
        self._begins: list[np.ndarray] = []
        self._times: list[np.ndarray] = []
        self._bytes = 0

    def add(self, rows: pa.Table, time: int, dead: np.ndarray | None = None, *, begins: bool = False) -> None:
        """Add rows.

        Args:
            rows: the table's columns.
            time: of the change, in microseconds since 1970.
            dead: which of them say that their key is gone; None for none.
            begins: whether they are what was there before, and count only as the first of their key.
        """
        # What was there before makes no change, and how much of it is read may differ.
        numbers = np.full(rows.num_rows, -1) if begins else self._count + np.arange(rows.num_rows)
        self._count += 0 if begins else rows.num_rows
        if self._part is not None and rows.num_rows:
            wanted = self._part.find([rows.column(name).combine_chunks() for name in self._key])
            rows, numbers = rows.filter(pa.array(wanted)), numbers[wanted]
            dead = None if dead is None else dead[wanted]
        count = rows.num_rows
        if not count:
            return
        self._numbers.append(numbers)
        self._bytes += int(rows.nbytes)
        check_bytes(self._bytes)
        self._parts.append(rows)
        self._dead.append(np.zeros(count, np.bool_) if dead is None else dead)
        self._begins.append(np.full(count, begins))
        self._times.append(np.full(count, time, np.int64))

    def chain(self) -> ChainedRows:
        """Find the neighbours of each row among those of its key."""
        rows = pa.concat_tables([self.schema.empty_table(), *self._parts]).combine_chunks()
        if not rows.num_rows:
            empty = pa.schema([*self.schema, *LINKS]).empty_table()
            return ChainedRows(empty, empty)
        dead, begins, times, numbers = map(
            np.concatenate, (self._dead, self._begins, self._times, self._numbers)
        )
        keys = pc.dictionary_encode(combine_key_columns(rows.select(self._key))).indices.to_numpy()
        by_key = np.argsort(keys, kind="stable")
        is_first = np.ones(rows.num_rows, np.bool_)
        is_first[by_key[1:]] = keys[by_key[1:]] != keys[by_key[:-1]]
        by_key = by_key[(is_first | ~begins)[by_key]]
        following = np.full(rows.num_rows, -1)
        same = keys[by_key[1:]] == keys[by_key[:-1]]
        following[by_key[:-1][same]] = by_key[1:][same]
        before = np.flatnonzero(~dead & (following >= 0))
        after = np.flatnonzero(~dead & ~begins)
        return ChainedRows(
            _link(rows, before, numbers, times, following[before]), _link(rows, after, numbers, times, after)
        )


def check_bytes(nbytes: int) -> None:
    """Refuse to hold more bytes of rows than one statement may.

    Raises:
        InvalidInputError: there are more.
    """
    if nbytes > MOST_BYTES:
        msg = (
            f"there are more than {MOST_BYTES >> 20} MiB of single changes between the two states: choose "
            "states that are nearer to one another, or mode => 'net'"
        )
        raise InvalidInputError(msg)


def _link(
    rows: pa.Table, places: np.ndarray, numbers: np.ndarray, times: np.ndarray, changes: np.ndarray
) -> pa.Table:
    """Return the rows at some places, with the numbers of the changes that they are part of, and their times.

    Args:
        rows: all rows.
        places: of those that are wanted.
        numbers: of the change that each of all rows made.
        times: likewise.
        changes: place of the row that made the change, for each one that is wanted.
    """
    links = pa.array(numbers[changes], pa.int64()), pa.array(times[changes]).cast(pa.timestamp("us"))
    table = rows.take(pa.array(places))
    for one, values in zip(LINKS, links, strict=True):
        table = table.append_column(one, values)
    return table
