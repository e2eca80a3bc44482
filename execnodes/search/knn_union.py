"""Find the nearest rows of many sources, small ones together."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import TaskContext
from lance_gateway.execnodes.search.candidates import ConcurrentUnionExec, run_concurrently
from lance_gateway.execnodes.search.distances import NearestRows
from lance_gateway.execnodes.search.knn import KnnExec
from lance_gateway.execnodes.search.source import VECTOR_CANDIDATES, SearchSource
from lance_gateway.execnodes.search.vector_blocks import VectorBlock, VectorCache, read_vector_blocks
from lance_gateway.execnodes.search.vector_search import collect_nearest, find_visible
from lance_gateway.execnodes.storage.source import LanceSource


@dataclass(frozen=True, slots=True)
class _UnitedName:
    """Cache key of the vectors of several sources; equal for the same rows and column.

    Attributes:
        rows: names of the fragments of each source.
        column: of the table.
    """

    rows: tuple[tuple[Hashable, ...], ...]
    column: str


@dataclass(frozen=True, slots=True)
class _Part:
    """Where the rows of one fragment are among those of several sources: from `start` on, before `stop`."""

    source: int
    fragment_id: int
    start: int
    stop: int


@dataclass(frozen=True, eq=False, slots=True)
class UnitedVectors:
    """The vectors of several sources in one matrix.

    Attributes:
        block: the vectors; their addresses are their places in it.
        addresses: within their sources.
        sources: places of these in the sequence of sources.
        parts: fragment by fragment.
    """

    block: VectorBlock
    addresses: np.ndarray
    sources: np.ndarray
    parts: tuple[_Part, ...]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.block.nbytes + self.addresses.nbytes + self.sources.nbytes)

    def find_visible(self, sources: Sequence[SearchSource]) -> np.ndarray | None:
        """Return which rows are live; None if all are."""
        visible = None
        for part in self.parts:
            mask = sources[part.source].live.fragments.get(part.fragment_id)
            shown = find_visible(self.addresses[part.start : part.stop], mask)
            if shown is not None:
                if visible is None:
                    visible = np.ones(len(self.addresses), dtype=np.bool_)
                visible[part.start : part.stop] = shown
        return visible


@dataclass(frozen=True, eq=False)
class KnnUnionExec(ConcurrentUnionExec):
    """Concatenates the candidates of searches; those of a group that compare all rows do so at once.

    Each search by itself costs a tenth of a millisecond, whether it has ten rows or a thousand. Where nodes
    are measured, each runs by itself.

    Args:
        inputs: searches for the same.
    """

    inputs: tuple[KnnExec, ...]

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Search the groups; yield candidates in no particular order, at least the k nearest of all."""
        if partition:
            return
        groups = self.groups or tuple((number,) for number in range(len(self.inputs)))
        tasks = [partial(_search_group, [self.inputs[one] for one in group], context) for group in groups]
        for batches in run_concurrently(tasks, self.helpers):
            yield from batches


def _search_group(searches: Sequence[KnnExec], context: TaskContext) -> list[pa.RecordBatch]:
    united = [] if context.metrics is not None else [one for one in searches if _can_be_united(one)]
    if len(united) < 2:
        united = []
    apart = set(searches).difference(united)
    batches = [batch for one in searches if one in apart for batch in one.execute(0, context)]
    if united:
        batches += _search_together(united, context)
    return batches


def _can_be_united(search: KnnExec) -> bool:
    """Return whether a search compares all live rows of files that hold its column."""
    rows = search.source.rows
    has_files = isinstance(rows, LanceSource) and search.request.column in rows.stored
    return has_files and search.index is None and search.row_filter is None


def _search_together(searches: Sequence[KnnExec], context: TaskContext) -> Iterator[pa.RecordBatch]:
    context.check()
    first = searches[0]
    sources = [one.source for one in searches]
    united = _unite(sources, first.request.column, first.keep)
    if united is None:
        return
    queries = first.request.vectors
    if not len(queries):
        return
    collected = [NearestRows(first.wanted) for _ in queries]
    collect_nearest(united.block, united.find_visible(sources), queries, collected, first.metric)
    results = [best.result() for best in collected]
    places = np.concatenate([found for _, found in results])
    if not len(places):
        return
    numbers = np.array([source.number for source in sources], dtype=np.int32)
    arrays = [
        pa.array(np.repeat(np.arange(len(results), dtype=np.int32), [len(found) for _, found in results])),
        pa.array(numbers[united.sources[places]]),
        pa.array(united.addresses[places]),
        pa.array(np.concatenate([distances for distances, _ in results])),
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=VECTOR_CANDIDATES)


def _unite(sources: Sequence[SearchSource], column: str, keep: VectorCache) -> UnitedVectors | None:
    """Return the vectors of sources; None if they have no rows."""
    rows = tuple(tuple(one.fragment_identity(each) for each in one.fragments) for one in sources)
    return keep.compute(
        _UnitedName(rows, column), partial(_concatenate, sources, column, keep), _measure_united
    )


def _concatenate(sources: Sequence[SearchSource], column: str, keep: VectorCache) -> UnitedVectors | None:
    blocks: list[VectorBlock] = []
    parts: list[_Part] = []
    start = 0
    for number, source in enumerate(sources):
        for block in read_vector_blocks(source, column, keep):
            blocks.append(block)
            stop = start + len(block.addresses)
            parts.append(_Part(number, block.fragment_id, start, stop))
            start = stop
    if not blocks:
        return None
    return UnitedVectors(
        VectorBlock(np.arange(start, dtype=np.uint64), np.concatenate([one.vectors for one in blocks])),
        np.concatenate([one.addresses for one in blocks]),
        np.repeat(
            np.array([part.source for part in parts], dtype=np.int32),
            [part.stop - part.start for part in parts],
        ),
        tuple(parts),
    )


def _measure_united(united: UnitedVectors | None) -> int:
    return 0 if united is None else united.nbytes
