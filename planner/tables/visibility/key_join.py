"""Find stored rows by many keys at once: a join of the key columns with sets of keys.

The fragments are divided among threads. Each streams the key columns of its fragments through a join in
DataFusion, whose hash table has the keys of all sets; so a key column never lies in memory as a whole.
Batches of ascending integers are searched by bisection, and need no hash table.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from datafusion import SessionConfig, SessionContext

from lance_gateway.execnodes.rows.row_mask import OFFSET_BITS, OFFSET_MASK
from lance_gateway.execnodes.storage.data_files import StoredFragment
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.bridge.run_control import raise_panics
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.keys import combine_key_columns, stream_physical_keys
from lance_gateway.planner.tables.visibility.newest import sort_integers

_ROW, _LAYER = "row", "layer"
_BATCH_ROWS = 1 << 16
_AHEAD_BYTES = 16 << 20
"""So many bytes of keys are read before it is known which are searched for."""

KeyColumns = Sequence[pa.Array]
"""The columns of keys, in key order; or the one column that `combine_key_columns` makes of them."""
FoundRows = tuple[np.ndarray, np.ndarray]
"""Numbers of rows (uint64), and for each the number of a set that has its key (uint32)."""


class KeysAhead:
    """Key columns of the first rows of a base table, read before the keys to search for are known.

    Args:
        base: the table.
        executor: reads them.
    """

    def __init__(self, base: BaseTable, executor: Executor) -> None:
        self._parts = [_read_keys(base, part, is_combined=False) for part in _divide(base.fragments)]
        self._fragments = base.fragments
        self._first = executor.submit(_read_first, self._parts[0]) if self._parts else None

    def take(self, fragments: Sequence[StoredFragment]) -> list[Iterator[tuple[int, KeyColumns]]] | None:
        """Return what `find_rows` reads of fragments, once; None if these are others."""
        first, self._first = self._first, None
        # A task that has not begun may have to wait for the thread that asks.
        if first is None or first.cancel() or list(fragments) != list(self._fragments):
            return None
        return [itertools.chain(first.result(), self._parts[0]), *self._parts[1:]]


def _read_first(keys: Iterator[tuple[int, KeyColumns]]) -> list[tuple[int, KeyColumns]]:
    read = []
    nbytes = 0
    while nbytes < _AHEAD_BYTES and (batch := next(keys, None)) is not None:
        read.append(batch)
        nbytes += sum(column.nbytes for column in batch[1])
    return read


def find_rows(
    base: BaseTable,
    fragments: Sequence[StoredFragment],
    layers: Sequence[KeyColumns],
    executor: Executor,
    ahead: KeysAhead | None = None,
) -> list[tuple[np.ndarray, ...]]:
    """Find the rows of fragments whose keys are in sets of keys; deleted rows count.

    Args:
        base: table of the fragments.
        fragments: in which to search.
        layers: keys of each set, without NULLs; a key may repeat within a set and between sets.
        executor: searches several fragments at a time.
        ahead: keys of the table that were read already; None where none were.

    Returns:
        For each set, and for each fragment, the ascending physical offsets (uint32).

    Raises:
        InvalidInputError: there is no set.
    """
    join = KeyJoin(layers)
    if not fragments:
        return [() for _ in layers]
    is_combined = len(layers[0]) < len(base.primary_key)
    keys = None if ahead is None or is_combined else ahead.take(fragments)
    if keys is None:
        keys = [_read_keys(base, part, is_combined=is_combined) for part in _divide(fragments)]
    rows, numbers = _concatenate(list(executor.map(join.search, keys)))
    starts = np.arange(1, len(fragments), dtype=np.uint64) << np.uint64(OFFSET_BITS)
    found = []
    for of_layer in split_by_layer(rows, numbers, len(layers)):
        offsets = (of_layer & np.uint64(OFFSET_MASK)).astype(np.uint32)
        found.append(tuple(np.split(offsets, of_layer.searchsorted(starts))))
    return found


def _divide(fragments: Sequence[StoredFragment]) -> list[list[tuple[int, StoredFragment]]]:
    """Divide fragments into runs of about the same number of rows, each fragment with its number.

    A run takes two cores: on the other one, Lance decodes what is joined next.
    """
    ends = np.cumsum([fragment.physical_rows for fragment in fragments])
    runs = max((os.cpu_count() or 1) // 2, 1)
    parts: list[list[tuple[int, StoredFragment]]] = [[] for _ in range(runs)]
    for number, fragment in enumerate(fragments):
        middle = int(ends[number]) - fragment.physical_rows / 2
        parts[min(int(middle * runs / max(int(ends[-1]), 1)), runs - 1)].append((number, fragment))
    return [part for part in parts if part]


def _read_keys(
    base: BaseTable, fragments: Iterable[tuple[int, StoredFragment]], *, is_combined: bool
) -> Iterator[tuple[int, KeyColumns]]:
    for number, fragment in fragments:
        start = number << OFFSET_BITS
        for batch in stream_physical_keys(base, fragment, _BATCH_ROWS):
            if batch.num_rows:
                yield start, [combine_key_columns(pa.table(batch))] if is_combined else batch.columns
            start += batch.num_rows


class KeyJoin:
    """Sets of keys that are searched for together, by several threads.

    Args:
        layers: keys of each set, without NULLs; a key may repeat within a set and between sets.

    Raises:
        InvalidInputError: there is no set.
    """

    def __init__(self, layers: Sequence[KeyColumns]) -> None:
        if not layers:
            raise InvalidInputError("no set of keys was given to search for: at least one is needed")
        columns = [pa.concat_arrays(map(_to_joinable, parts)) for parts in zip(*layers, strict=True)]
        numbers = np.repeat(np.arange(len(layers), dtype=np.uint32), [len(layer[0]) for layer in layers])
        names = [f"key{place}" for place in range(len(columns))]
        self._wanted = pa.record_batch([*columns, pa.array(numbers)], names=[*names, _LAYER])
        fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
        self._schema = pa.schema([*fields, pa.field(_ROW, pa.uint64())])
        same = " AND ".join(f"wanted.{name} = stored.{name}" for name in names)
        self._sql = f"SELECT stored.{_ROW}, wanted.{_LAYER} FROM wanted JOIN stored ON {same}"  # noqa: S608 - own names
        self._sorted: FoundRows | None = None
        """Integer keys in ascending order, each with the number of its set."""
        if len(columns) == 1 and pa.types.is_signed_integer(columns[0].type):
            ordered, rows = sort_integers(columns[0].to_numpy())
            self._sorted = ordered, numbers[rows]

    def search(self, keys: Iterable[tuple[int, KeyColumns]]) -> FoundRows:
        """Find the rows whose keys are in the sets; a row is found once for each key that is its own.

        Args:
            keys: of all rows, batch by batch, each with the number of its first row.
        """
        found: list[FoundRows] = []
        unsorted = self._search_sorted(keys, found)
        first = next(unsorted, None)
        if first is not None:
            found += self._join(itertools.chain([first], unsorted))
        return _concatenate(found)

    def _search_sorted(
        self, keys: Iterable[tuple[int, KeyColumns]], found: list[FoundRows]
    ) -> Iterator[pa.RecordBatch]:
        """Search batches of ascending integers, and yield all others, with the numbers of their rows."""
        for start, columns in keys:
            joinable = [_to_joinable(column) for column in columns]
            if self._sorted is not None:
                at_once = _search_ascending(_to_int64(joinable[0]), *self._sorted)
                if at_once is not None:
                    found.append((at_once[0].astype(np.uint64) + np.uint64(start), at_once[1]))
                    continue
            rows = pa.array(np.arange(start, start + len(columns[0]), dtype=np.uint64))
            yield pa.RecordBatch.from_arrays([*joinable, rows], schema=self._schema)

    def _join(self, batches: Iterator[pa.RecordBatch]) -> list[FoundRows]:
        # With one partition, no thread of DataFusion is needed: all of them may be waiting for this result.
        # The table on the left is the one that is hashed, so rows keep the order of the stream.
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


def _to_int64(column: pa.Array) -> np.ndarray:
    values: np.ndarray = column.to_numpy().astype(np.int64, copy=False)
    return values


def _search_ascending(keys: np.ndarray, wanted: np.ndarray, layers: np.ndarray) -> FoundRows | None:
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


def _concatenate(parts: Sequence[FoundRows]) -> FoundRows:
    if len(parts) == 1:
        return parts[0]
    rows = [np.empty(0, np.uint64), *(part[0] for part in parts)]
    return np.concatenate(rows), np.concatenate([np.empty(0, np.uint32), *(part[1] for part in parts)])


def split_by_layer(rows: np.ndarray, numbers: np.ndarray, layers: int) -> list[np.ndarray]:
    """Return the ascending rows of each set, each once."""
    if (rows[1:] < rows[:-1]).any():  # Rows ascend unless some batches were joined and others were not.
        order = np.argsort(rows, kind="stable")
        rows, numbers = rows[order], numbers[order]
    # Numpy sorts short numbers by radix, in a tenth of the time.
    short = numbers.astype(np.uint16) if layers <= 1 << 16 else numbers
    rows = rows[np.argsort(short, kind="stable")]
    parts = np.split(rows, np.cumsum(np.bincount(numbers, minlength=layers))[:-1])
    return [
        part[np.concatenate(([True], part[1:] != part[:-1]))] if len(part) > 1 else part for part in parts
    ]
