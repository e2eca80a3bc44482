"""Find stored rows by many keys at once: a join of the key columns with sets of keys.

The fragments are divided among threads. Each streams the key columns of its fragments through a join in
DataFusion, whose hash table has the keys of all sets; so a key column never lies in memory as a whole. Batches
of ascending integers are searched by bisection, and need no hash table.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from datafusion import SessionConfig, SessionContext

from execnodes.rows.row_mask import OFFSET_BITS, OFFSET_MASK
from execnodes.storage.data_files import StoredFragment
from memwal.errors import InvalidInputError
from planner.bridge.run_control import raise_panics
from planner.tables.sources.base_table import BaseTable
from planner.tables.sources.keys import combine_key_columns, stream_physical_keys

_ROW, _LAYER = "row", "layer"
_BATCH_ROWS = 1 << 16

KeyColumns = Sequence[pa.Array]
"""The columns of keys, in key order; or the one column that `combine_key_columns` makes of them."""
_Found = tuple[np.ndarray, np.ndarray]
"""Rows, and the number of the set that has the key of each (uint32).

A row is the number of its fragment among those that are searched, and its physical offset (uint64).
"""


def find_rows(
    base: BaseTable, fragments: Sequence[StoredFragment], layers: Sequence[KeyColumns], executor: Executor
) -> list[tuple[np.ndarray, ...]]:
    """Find the rows of fragments whose keys are in sets of keys; deleted rows count.

    Args:
        base: table of the fragments.
        fragments: in which to search.
        layers: keys of each set, without NULLs; a key may repeat within a set and between sets.
        executor: searches several fragments at a time.

    Returns:
        For each set, and for each fragment, the ascending physical offsets (uint32).

    Raises:
        InvalidInputError: there is no set.
    """
    if not layers:
        raise InvalidInputError("find_rows was given no set of keys: it needs at least one")
    search = _KeyJoin(base, layers)
    rows, numbers = _concatenate(list(executor.map(search.find, _divide(fragments))))
    if (rows[1:] < rows[:-1]).any():  # Rows ascend unless some batches were joined and others were not.
        order = np.argsort(rows, kind="stable")
        rows, numbers = rows[order], numbers[order]
    rows = rows[np.argsort(numbers, kind="stable")]
    starts = np.arange(1, len(fragments), dtype=np.uint64) << np.uint64(OFFSET_BITS)
    found = []
    for of_layer in np.split(rows, np.cumsum(np.bincount(numbers, minlength=len(layers)))[:-1]):
        offsets = np.split((of_layer & np.uint64(OFFSET_MASK)).astype(np.uint32), of_layer.searchsorted(starts))
        found.append(tuple([_drop_repeats(part) for part in offsets]))
    return found


def _divide(fragments: Sequence[StoredFragment]) -> list[list[tuple[int, StoredFragment]]]:
    """Divide fragments into runs of about the same number of rows, one per core, each with its number."""
    ends = np.cumsum([fragment.physical_rows for fragment in fragments])
    cores = os.cpu_count() or 1
    parts: list[list[tuple[int, StoredFragment]]] = [[] for _ in range(cores)]
    for number, fragment in enumerate(fragments):
        middle = int(ends[number]) - fragment.physical_rows / 2
        parts[min(int(middle * cores / max(int(ends[-1]), 1)), cores - 1)].append((number, fragment))
    return [part for part in parts if part]


class _KeyJoin:
    """Sets of keys, to be searched for by several threads.

    Args:
        base: table that is searched.
        layers: see `find_rows`.
    """

    def __init__(self, base: BaseTable, layers: Sequence[KeyColumns]) -> None:
        self._base = base
        columns = [pa.concat_arrays([_to_joinable(part) for part in parts]) for parts in zip(*layers, strict=True)]
        numbers = np.repeat(np.arange(len(layers), dtype=np.uint32), [len(layer[0]) for layer in layers])
        names = [f"key{place}" for place in range(len(columns))]
        self._wanted = pa.record_batch([*columns, pa.array(numbers)], names=[*names, _LAYER])
        fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
        self._schema = pa.schema([*fields, pa.field(_ROW, pa.uint64())])
        self._sql = (
            f"SELECT stored.{_ROW}, wanted.{_LAYER} FROM wanted JOIN stored ON "  # noqa: S608 - names of our own
            + " AND ".join(f"wanted.{name} = stored.{name}" for name in names)
        )
        self._is_combined = len(columns) < len(base.primary_key)
        self._sorted: _Found | None = None
        """Integer keys in ascending order, each with the number of its set."""
        if len(columns) == 1 and pa.types.is_signed_integer(columns[0].type):
            keys = columns[0].to_numpy()
            order = np.argsort(keys, kind="stable")
            self._sorted = keys[order], numbers[order]

    def find(self, fragments: Sequence[tuple[int, StoredFragment]]) -> _Found:
        """Find the rows of numbered fragments, one for each set that has its key."""
        found: list[_Found] = []
        unsorted = self._stream(fragments, found)
        first = next(unsorted, None)
        if first is not None:
            found += self._join(itertools.chain([first], unsorted))
        return _concatenate(found)

    def _stream(
        self, fragments: Sequence[tuple[int, StoredFragment]], found: list[_Found]
    ) -> Iterator[pa.RecordBatch]:
        """Search batches of ascending keys, and yield the others, each row with its number."""
        for number, fragment in fragments:
            start = number << OFFSET_BITS
            for batch in stream_physical_keys(self._base, fragment, _BATCH_ROWS):
                columns = [combine_key_columns(pa.table(batch))] if self._is_combined else batch.columns
                keys = [_to_joinable(column) for column in columns]
                at_once = None
                if self._sorted is not None:
                    at_once = _search_ascending(keys[0].to_numpy(), *self._sorted)
                if at_once is not None:
                    offsets, layers = at_once
                    found.append((offsets.astype(np.uint64) + np.uint64(start), layers))
                else:
                    rows = pa.array(np.arange(start, start + batch.num_rows, dtype=np.uint64))
                    yield pa.RecordBatch.from_arrays([*keys, rows], schema=self._schema)
                start += batch.num_rows

    def _join(self, batches: Iterator[pa.RecordBatch]) -> list[_Found]:
        # With one partition, no thread of DataFusion is needed: all of them may be waiting for this result. The
        # table on the left is the one that is hashed, so rows keep the order of the stream.
        config = SessionConfig().with_target_partitions(1).with_batch_size(_BATCH_ROWS)
        context = SessionContext(config.set("datafusion.optimizer.join_reordering", "false"))
        stored = _Stream(self._schema, batches)
        context.register_dataset("stored", stored)
        context.register_record_batches("wanted", [[self._wanted]])
        try:
            joined = raise_panics(context.sql(self._sql).collect)
        except Exception:
            if stored.failure is not None:  # DataFusion would lose its type.
                raise stored.failure from None
            raise
        return [(batch.column(_ROW).to_numpy(), batch.column(_LAYER).to_numpy()) for batch in joined]


class _Stream(pads.Dataset):
    """A dataset of one partition, which can be read once; DataFusion calls it as it does a `TableLeaf`.

    Args:
        schema: of the batches.
        batches: all rows.
    """

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self._schema = self.projected_schema = schema
        self._batches = batches
        self.failure: BaseException | None = None
        """What the batches have raised."""

    schema = property(attrgetter("_schema"), doc="Schema of the batches.")

    def scanner(self, *_: Any, columns: list[str] | None = None, **__: Any) -> _Stream:  # noqa: ANN401
        """Project the dataset; return it as the scanner of itself, and of its only fragment."""
        if columns is not None:
            self.projected_schema = pa.schema([self._schema.field(name) for name in columns])
        return self

    def get_fragments(self, filter: pc.Expression | None = None) -> list[_Stream]:  # noqa: A002, ARG002
        """Return the dataset as its only fragment."""
        return [self]

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches."""
        names = self.projected_schema.names
        try:
            for batch in self._batches:
                yield batch.select(names)
        except BaseException as error:
            self.failure = error
            raise


def _to_joinable(column: pa.Array) -> pa.Array:
    """Return values that are equal in a join exactly if Arrow takes those of the column for equal."""
    kind = column.type
    if pa.types.is_floating(kind):
        # One NaN equals another, and zero is not minus zero.
        values = column.to_numpy()
        values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
        return pa.array(values.view(f"i{values.dtype.itemsize}"))
    if pa.types.is_boolean(kind):
        return column.cast(pa.uint8())
    if pa.types.is_temporal(kind) and kind.bit_width in (32, 64):
        return column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_dictionary(kind):
        return column.dictionary_decode()
    return column


def _search_ascending(keys: np.ndarray, wanted: np.ndarray, layers: np.ndarray) -> _Found | None:
    """Return offsets of wanted keys, and the set of each; None if the keys don't ascend, each once.

    Args:
        keys: that are searched, at least one.
        wanted: ascending; a key may repeat.
        layers: number of the set of each wanted key.
    """
    if not (keys[1:] > keys[:-1]).all():
        return None
    first, last = wanted.searchsorted(keys[0]), wanted.searchsorted(keys[-1], side="right")
    possible, numbers = wanted[first:last], layers[first:last]
    if int(keys[-1]) - int(keys[0]) + 1 == len(keys):
        return possible - keys[0], numbers  # no key between the first and the last is missing
    offsets = keys.searchsorted(possible)
    is_found = keys[offsets] == possible
    return offsets[is_found], numbers[is_found]


def _concatenate(parts: Sequence[_Found]) -> _Found:
    if len(parts) == 1:
        return parts[0]
    rows = [np.empty(0, np.uint64), *(part[0] for part in parts)]
    return np.concatenate(rows), np.concatenate([np.empty(0, np.uint32), *(part[1] for part in parts)])


def _drop_repeats(ascending: np.ndarray) -> np.ndarray:
    if len(ascending) < 2:
        return ascending
    return ascending[np.concatenate(([True], ascending[1:] != ascending[:-1]))]
