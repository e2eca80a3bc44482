"""Remove superseded rows from the results of a vector search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import ExecNode, TaskContext, UnaryExec
from lance_gateway.execnodes.rows.keys import Key, KeySet, list_key_tuples
from lance_gateway.execnodes.search.candidates import choose_helper_count, run_concurrently
from lance_gateway.execnodes.search.distances import Found
from lance_gateway.execnodes.search.knn import KnnExec, build_candidates
from lance_gateway.execnodes.search.source import VECTOR_CANDIDATES, SearchSource, Staleness
from lance_gateway.execnodes.search.take_rows import take_columns
from lance_gateway.execnodes.storage.source import LanceSource
from lance_gateway.memwal.columns.stored_fields import TOMBSTONE

OVER_FETCH = 2
"""So many times k rows are asked for where nothing more can be fetched later."""


class NewerRows(Protocol):
    """Rows that supersede older rows of the same key: a flushed generation, or a region's unflushed rows."""

    @property
    def description(self) -> str:
        """A short description for plans."""

    def find_possible(self, keys: KeySet) -> frozenset[Key]:
        """Return the keys that may be among these rows, without I/O."""

    def confirm(self, keys: KeySet, context: TaskContext) -> frozenset[Key]:
        """Return the keys that are among these rows."""


@dataclass(frozen=True, eq=False)
class FilterStaleExec(UnaryExec):
    """Keeps candidates that are the newest row of their key, in one of three ways.

    Exact: the sources were told which of their rows are live, so that all of their candidates are. Bloom:
    key filters of newer rows tell which may be stale, a lookup confirms it, and more is fetched until k rows
    remain that nothing unfetched could push out. Approximate: what may be stale is dropped.

    Args:
        input: a union of `KnnExec`; except in exact mode, of sources whose stale rows are not masked.
        staleness: which way.
        k: rows that must remain for each query.
        key: key columns.
        newer: number of a source -> what may supersede its rows, newest first.
    """

    input: ExecNode
    staleness: Staleness
    k: int
    key: tuple[str, ...] = ()
    newer: Mapping[int, tuple[NewerRows, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.newer and not self.key:
            raise ValueError("rows supersede one another by their key: name its columns")

    @property
    def schema(self) -> pa.Schema:
        """`VECTOR_CANDIDATES`."""
        return VECTOR_CANDIDATES

    def describe(self) -> str:
        """Return the way, and its parameters."""
        if self.staleness is Staleness.EXACT:
            return "FilterStaleExec: exact"
        filters = {layer.description: None for layers in self.newer.values() for layer in layers}
        return f"FilterStaleExec: {', '.join([self.staleness.value, *filters])}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce the candidates of all sources, in no particular order."""
        if self.staleness is Staleness.EXACT or not self.newer:
            yield from self.input.execute(partition, context)
            return
        if partition:
            return
        rankings = [
            _Ranking(search, self.newer.get(search.source.number, ()), self.key)
            for search in self.input.children()
            if isinstance(search, KnnExec)
        ]
        if self.staleness is Staleness.APPROXIMATE:
            self._fetch(rankings, OVER_FETCH * self.k, confirm=False, context=context)
        else:
            wanted = self.k
            short = rankings
            while short:
                self._fetch(short, wanted, confirm=True, context=context)
                bounds = self._compute_bounds(rankings)
                short = [ranking for ranking in rankings if ranking.can_improve(bounds)]
                wanted *= 2
                if short:
                    context.count(self, "refills", len(short))
        for ranking in rankings:
            context.count(self, "stale_rows", ranking.stale_rows)
            found = ranking.list_live_rows()
            if any(len(addresses) for _, addresses in found):
                yield build_candidates(ranking.search.source.number, found)

    def _fetch(self, rankings: Sequence[_Ranking], k: int, *, confirm: bool, context: TaskContext) -> None:
        context.check()
        tasks = [partial(ranking.fetch, k, confirm=confirm, context=context) for ranking in rankings]
        run_concurrently(tasks, choose_helper_count(ranking.search.source for ranking in rankings))

    def _compute_bounds(self, rankings: Sequence[_Ranking]) -> np.ndarray:
        """Return the distance of the k-th live row of each query; infinite if fewer are known."""
        queries = zip(*(ranking.list_live_rows() for ranking in rankings), strict=True)
        return np.array([self._find_kth_distance([distances for distances, _ in found]) for found in queries])

    def _find_kth_distance(self, parts: Sequence[np.ndarray]) -> float:
        distances = np.concatenate(parts)
        return float(np.partition(distances, self.k - 1)[self.k - 1]) if len(distances) >= self.k else np.inf


class _Ranking:
    """The ranked rows of one source, stale rows included."""

    def __init__(self, search: KnnExec, newer: Sequence[NewerRows], key: tuple[str, ...]) -> None:
        self.search = search
        self._newer = newer
        self._key = key
        self._found: list[Found] = []
        self._asked = 0
        self._stale: dict[int, bool] = {}

    @property
    def stale_rows(self) -> int:
        """Number of stale rows found."""
        return sum(self._stale.values())

    def fetch(self, k: int, *, confirm: bool, context: TaskContext) -> None:
        """Find the nearest rows, and which of them are stale."""
        self._found = self.search.find(self.search.request.vectors, k, context)
        self._asked = k
        places = np.concatenate([addresses for _, addresses in self._found])
        unknown = np.array(
            [address for address in np.unique(places).tolist() if address not in self._stale], np.uint64
        )
        if len(unknown):
            stale = self._find_stale(unknown, confirm=confirm, context=context)
            self._stale.update(zip(unknown.tolist(), stale.tolist(), strict=True))

    def list_live_rows(self) -> list[Found]:
        """Return the live rows of each query."""
        return [
            (distances[is_live], addresses[is_live])
            for distances, addresses in self._found
            for is_live in (np.array([not self._stale[address] for address in addresses.tolist()], np.bool_),)
        ]

    def can_improve(self, bounds: np.ndarray) -> bool:
        """Return whether rows that were not fetched may be nearer than the bound of a query."""
        return any(
            len(distances) >= self._asked and distances[-1] < bound
            for (distances, _), bound in zip(self._found, bounds, strict=True)
        )

    def _find_stale(self, addresses: np.ndarray, *, confirm: bool, context: TaskContext) -> np.ndarray:
        source = self.search.source
        fields = [_find_field(source, name) for name in self._key]
        if isinstance(source.rows, LanceSource) and _has_tombstones(source.rows):
            fields.append(pa.field(TOMBSTONE, pa.bool_()))
        columns = take_columns(source, addresses, fields, self.search.keep)
        rows = pa.Table.from_arrays(columns, schema=pa.schema(fields))
        stale = np.zeros(len(addresses), dtype=np.bool_)
        if TOMBSTONE in rows.schema.names:
            stale = rows.column(TOMBSTONE).to_numpy().copy()
        keys = list_key_tuples(rows, self._key)
        table = rows.select(list(self._key))
        for layer in self._newer:
            left = np.flatnonzero(~stale)
            if not len(left):
                break
            named = layer.find_possible(KeySet(table.take(pa.array(left))))
            possible = [one for one in left.tolist() if keys[one] in named]
            if confirm and possible:
                confirmed = layer.confirm(KeySet(table.take(pa.array(possible))), context)
                possible = [reading for reading in possible if keys[reading] in confirmed]
            stale[possible] = True
        return stale


def _find_field(source: SearchSource, name: str) -> pa.Field:
    rows = source.rows
    schema: pa.Schema = rows.schema if isinstance(rows, LanceSource) else rows.rows.schema
    return schema.field(name)


def _has_tombstones(rows: LanceSource) -> bool:
    return TOMBSTONE in rows.dataset.schema.names  # type: ignore[attr-defined]
