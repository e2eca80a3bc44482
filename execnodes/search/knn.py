"""Find the nearest rows of one source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import ROW_ADDRESS, ExecNode, TaskContext
from lance_gateway.execnodes.rows.lance_filter import RowFilter
from lance_gateway.execnodes.rows.row_mask import CHUNK_ROWS, OFFSET_BITS, OFFSET_MASK, FragmentMask, RowMask
from lance_gateway.execnodes.search.distances import Found
from lance_gateway.execnodes.search.source import VECTOR_CANDIDATES, SearchSource, VectorRequest
from lance_gateway.execnodes.search.vector_blocks import VectorCache, count_hidden_rows
from lance_gateway.execnodes.search.vector_search import FEW_ROWS, IndexSearch, search_all_rows, search_index
from lance_gateway.execnodes.storage.source import LanceSource, MemTableSource, convert_columns


def filter_source(source: SearchSource, row_filter: RowFilter) -> SearchSource:
    """Return the source without rows that fail a condition.

    Args:
        source: what is searched.
        row_filter: evaluated by Lance where Lance can say it, with the help of its scalar indexes.
    """
    rows = source.rows
    if isinstance(rows, MemTableSource):
        admitted = {0: _find_admitted_in_memory(rows, row_filter)}
    else:
        admitted = _find_admitted(rows, source.fragments, row_filter)
    before = source.live.fragments
    masks = {
        one: mask if one not in before else before[one].both(mask)
        for one, flags in admitted.items()
        for mask in (FragmentMask(pa.array(flags)),)
    }
    return replace(source, live=RowMask(masks))


def _find_admitted(
    rows: LanceSource, fragments: tuple[int, ...], row_filter: RowFilter
) -> dict[int, np.ndarray]:
    """Return, by fragment id, which rows pass a condition; deleted ones don't."""
    dataset: Any = rows.dataset
    found = [dataset.get_fragment(fragment_id) for fragment_id in fragments]
    flags = {one.fragment_id: np.zeros(one.physical_rows, dtype=np.bool_) for one in found}
    for addresses in _find_admitted_addresses(rows, found, row_filter):
        places = addresses >> OFFSET_BITS
        for fragment_id in np.unique(places).tolist():
            flags[fragment_id][addresses[places == fragment_id] & OFFSET_MASK] = True
    return flags


def _find_admitted_addresses(
    rows: LanceSource, fragments: list[Any], row_filter: RowFilter
) -> Iterator[np.ndarray]:
    columns = sorted(row_filter.columns)
    condition = row_filter.sql(rows.stored_names) if rows.has_plain_columns(columns) else None
    dataset: Any = rows.dataset
    scanner = dataset.scanner(
        columns=[]
        if condition
        else [rows.stored_names[column] for column in columns if column in rows.stored],
        filter=condition,
        fragments=fragments,
        batch_size=CHUNK_ROWS,
        use_scalar_index=rows.trusts_scalar_indexes,
        with_row_address=True,
    )
    fields = [rows.schema.field(column) for column in columns]
    for batch in scanner.to_batches():
        addresses = batch.column(ROW_ADDRESS).to_numpy()
        if condition is None and len(addresses):
            read = pa.RecordBatch.from_arrays(
                convert_columns(batch, fields, rows.stored), schema=pa.schema(fields)
            )
            addresses = addresses[row_filter.matches(read).to_numpy(zero_copy_only=False)]
        yield addresses


def _find_admitted_in_memory(rows: MemTableSource, row_filter: RowFilter) -> np.ndarray:
    needed = rows.rows.select(sorted(row_filter.columns))
    matches = [
        row_filter.matches(batch).to_numpy(zero_copy_only=False)
        for batch in needed.to_batches()
        if batch.num_rows
    ]
    return np.concatenate(matches) if matches else np.zeros(0, dtype=np.bool_)


WORTH_ASKING = 20
"""For fewer rows than so many times those that an index must name, the distances of all are computed."""


@dataclass(frozen=True, eq=False)
class KnnExec(ExecNode):
    """Finds the k nearest live rows of one source for every query, with true distances; nearest first.

    It never gives fewer rows than there are: where an index finds fewer than k, all rows of the source are
    looked at.

    Args:
        source: what is searched.
        request: what for.
        metric: one of `distances.METRICS`.
        keep: holds vectors.
        row_filter: what rows must fulfil to be ranked.
        index: how the source's index is used; None where distances to all rows are computed.
        k: rows wanted for each query, where it isn't the request's number.
    """

    source: SearchSource
    request: VectorRequest
    metric: str
    keep: VectorCache
    row_filter: RowFilter | None = None
    index: IndexSearch | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        if self.index is not None and self.source.index is None:
            raise ValueError(f"{self.source.label} has no index that could be used")

    @property
    def schema(self) -> pa.Schema:
        """`VECTOR_CANDIDATES`."""
        return VECTOR_CANDIDATES

    @property
    def wanted(self) -> int:
        """Number of rows to find for each query."""
        return self.request.k if self.k is None else self.k

    def describe(self) -> str:
        """Return the source, the search method, and the hidden rows."""
        parts = [self.source.label]
        if self.index is None:
            parts += [f"fragments={len(self.source.fragments)}", "flat", self.metric]
        else:
            parts.append(self.index.describe(self.metric))
        if self.row_filter is not None:
            parts.append(f"filter={self.row_filter}")
        blocked = count_hidden_rows(self.source)
        return f"KnnExec: {', '.join(parts)}, blocked={blocked}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce one batch, or none if nothing is found."""
        if partition:
            return
        found = self.find(self.request.vectors, self.wanted, context)
        if sum(len(addresses) for _, addresses in found):
            yield build_candidates(self.source.number, found)

    def find(self, queries: np.ndarray, k: int, context: TaskContext) -> list[Found]:
        """Return distances and addresses of the nearest rows of each query, nearest first."""
        source, column = self._filtered_source, self.request.column
        if self.index is None or not self._is_index_worthwhile(self.index, k):
            return search_all_rows(source, column, queries, k, self.metric, self.keep, context)
        found = search_index(source, self.index, column, queries, k, self.metric, self.keep, context)
        short = [number for number, (_, addresses) in enumerate(found) if len(addresses) < k]
        if short:
            context.count(self, "flat_searches", len(short))
            again = search_all_rows(source, column, queries[short], k, self.metric, self.keep, context)
            for number, result in zip(short, again, strict=True):
                found[number] = result
        return found

    @cached_property
    def _filtered_source(self) -> SearchSource:
        return self.source if self.row_filter is None else filter_source(self.source, self.row_filter)

    def _is_index_worthwhile(self, index: IndexSearch, k: int) -> bool:
        """Return whether reading all live rows would cost more than an index search."""
        live = self._filtered_source.physical_rows - count_hidden_rows(self._filtered_source)
        return live > max(FEW_ROWS, WORTH_ASKING * k * (index.refine_factor or 1))


def build_candidates(source: int, rows: list[Found]) -> pa.RecordBatch:
    """Return the rows found in a source as `VECTOR_CANDIDATES`."""
    counts = [len(addresses) for _, addresses in rows]
    queries = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
    distances = np.concatenate([distances for distances, _ in rows])
    addresses = np.concatenate([addresses for _, addresses in rows])
    sources = np.full(len(queries), source, dtype=np.int32)
    arrays = [pa.array(one) for one in (queries, sources, addresses, distances)]
    return pa.RecordBatch.from_arrays(arrays, schema=VECTOR_CANDIDATES)
