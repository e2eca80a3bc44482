"""Sorted rows in pieces that are written at once, without ever holding a partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of one region.

    Attributes:
        number: of the region.
        rows: all columns that came in.
    """

    number: int
    rows: pa.Table


def chunks(batches: Iterable[pa.RecordBatch], region: str, *, rows: int, nbytes: int) -> Iterator[Chunk]:
    """Rows in pieces.

    Args:
        batches: in which rows of one region follow one another.
        region: column with its number.
        rows: of one piece at most.
        nbytes: of one piece, about.
    """
    number = 0
    parts: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        for value, part in _runs(batch, region):
            if parts and value != number:
                yield Chunk(number, pa.Table.from_batches(parts))
                parts, count, size = [], 0, 0
            number, rest = value, part
            while rest.num_rows:
                # At least a row, and about as many as there are bytes left for.
                fitting = max(int((nbytes - size) * rest.num_rows / max(rest.nbytes, 1)), 0 if parts else 1)
                taken = rest.slice(0, min(rows - count, fitting))
                if taken.num_rows:
                    parts.append(taken)
                    count, size = count + taken.num_rows, size + int(taken.nbytes)
                    rest = rest.slice(taken.num_rows)
                if rest.num_rows or count >= rows or size >= nbytes:
                    yield Chunk(number, pa.Table.from_batches(parts))
                    parts, count, size = [], 0, 0
    if parts:
        yield Chunk(number, pa.Table.from_batches(parts))


def last_of_keys(
    batches: Iterable[pa.RecordBatch], region: str, key: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The last row of each key.

    Args:
        batches: in which rows of one region and key follow one another, the oldest first.
        region: column with the number of a row's region.
        key: columns of the key.
    """
    names = [region, *key]
    held: pa.RecordBatch | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        if held is not None and _differs(held, batch.slice(0, 1), names):
            yield held
        is_last = np.zeros(batch.num_rows, np.bool_)
        for name in names:
            column = batch.column(name)
            is_last[:-1] |= pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy(
                zero_copy_only=False
            )
        # Whether the very last row is the last of its key, only the next batch tells.
        held = batch.slice(batch.num_rows - 1)
        if is_last.any():
            yield (
                batch.slice(0, batch.num_rows - 1) if is_last[:-1].all() else batch.filter(pa.array(is_last))
            )
    if held is not None:
        yield held


def _differs(one: pa.RecordBatch, other: pa.RecordBatch, names: Sequence[str]) -> bool:
    return any(one.column(name) != other.column(name) for name in names)


def _runs(batch: pa.RecordBatch, region: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    if not batch.num_rows:
        return
    numbers = batch.column(region).to_numpy()
    ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), batch.num_rows]
    start = 0
    for end in ends:
        yield int(numbers[start]), batch.slice(start, end - start)
        start = end
