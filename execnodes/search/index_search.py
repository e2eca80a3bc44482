"""The nearest rows of a source, as Lance's vector index finds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS
from execnodes.row_filter import RowFilter
from execnodes.search.nearest import Found
from execnodes.search.restriction import restriction
from execnodes.search.source import DISTANCE, QUERY_INDEX, SearchSource
from execnodes.search.vector_blocks import Keep
from execnodes.source import LanceSource

THOROUGH = 0.8
"""Effort where the rows that are wanted may lie farther away than the nearest ones."""


@dataclass(frozen=True, slots=True)
class IndexSearch:
    """How an index is used.

    Attributes:
        name: of the index.
        type: as Lance calls it.
        effort: how many partitions Lance looks at, by their distances: 0 for the nearest alone, 1 for all.
        nprobes: partitions to look at instead, at least; Lance looks at more where these have fewer than k
            rows.
        refine_factor: so many times k candidates are ranked by their true distances; None for an index that
            has whole vectors.
        ef: candidates that HNSW keeps, at least; None for other indexes.
    """

    name: str
    type: str
    effort: float
    nprobes: int | None = None
    refine_factor: int | None = None
    ef: int | None = None

    def describe(self, metric: str) -> str:
        """For plans."""
        effort = None if self.nprobes is not None else self.effort
        options = {"nprobes": self.nprobes, "effort": effort, "ef": self.ef, "refine": self.refine_factor}
        said = [f"{name}={value}" for name, value in options.items() if value is not None]
        return ", ".join([f"index={self.name} ({self.type} {metric})", *said])

    def ranked(self, source: SearchSource, column: str, queries: np.ndarray, k: int) -> list[Found]:
        """The k nearest rows of the index by its own distances, superseded ones among them; nearest first.

        Args:
            source: a Lance dataset with the index.
            column: of vectors.
            queries: one a row.
            k: rows wanted for each.
        """
        return self._search(source, column, queries, self._options(k, self.effort, None), {})

    def find(
        self,
        source: SearchSource,
        column: str,
        queries: np.ndarray,
        k: int,
        row_filter: RowFilter | None,
        keep: Keep,
    ) -> list[Found]:
        """The k nearest live rows for every query, or fewer; nearest first.

        Args:
            source: a Lance dataset with the index.
            column: of vectors.
            queries: one a row.
            k: rows wanted for each.
            row_filter: what rows must fulfil; one that Lance can say.
            keep: holds row ids.
        """
        rows = source.rows
        assert isinstance(rows, LanceSource)  # noqa: S101 (nothing else has an index)
        live: dict[str, Any] = dict(restriction(source, keep))
        if row_filter is not None:
            live["filter"] = row_filter.sql(rows.stored_names)
        options = self._options(k, max(self.effort, THOROUGH), self.refine_factor)
        return self._search(source, column, queries, options, live)

    def _options(self, k: int, effort: float, refine_factor: int | None) -> dict[str, Any]:
        options: dict[str, Any] = {"k": k}
        if self.nprobes is None:
            options["search_effort"] = effort
        else:
            options["minimum_nprobes"] = self.nprobes
        if refine_factor is not None:
            options["refine_factor"] = refine_factor
        if self.ef is not None:
            options["ef"] = max(self.ef, k * (refine_factor or 1))
        return options

    def _search(
        self,
        source: SearchSource,
        column: str,
        queries: np.ndarray,
        options: dict[str, Any],
        live: dict[str, Any],
    ) -> list[Found]:
        rows = source.rows
        assert isinstance(rows, LanceSource)  # noqa: S101 (nothing else has an index)
        dataset: Any = rows.dataset
        nearest = {"column": rows.stored_names[column], **options}

        def search(query: np.ndarray) -> pa.Table:
            return dataset.scanner(
                columns=[DISTANCE],
                nearest=nearest | {"q": query},
                prefilter=True,
                fast_search=True,
                with_row_address=True,
                disable_scoring_autoprojection=True,
                **live,
            ).to_table()

        if len(queries) == 1 or QUERY_INDEX in dataset.schema.names:
            return [_found(search(query)) for query in queries]
        return _by_query(search(queries), len(queries))


def _found(rows: pa.Table) -> Found:
    return rows.column(DISTANCE).to_numpy(), rows.column(ROW_ADDRESS).to_numpy()


def _by_query(rows: pa.Table, queries: int) -> list[Found]:
    distances, addresses = _found(rows)
    starts = np.searchsorted(rows.column(QUERY_INDEX).to_numpy(), np.arange(1, queries))
    parts = zip(np.split(distances, starts), np.split(addresses, starts), strict=True)
    return list(parts)
