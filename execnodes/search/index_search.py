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


@dataclass(frozen=True, slots=True)
class IndexSearch:
    """How an index is used.

    Attributes:
        name: of the index.
        type: as Lance calls it.
        nprobes: partitions to look at, at least; Lance looks at more where these have fewer than k rows.
            None leaves the number to Lance.
        refine_factor: so many times k candidates are ranked by their true distances; None for an index that
            has whole vectors.
        ef: candidates that HNSW keeps, at least; None leaves it to Lance.
    """

    name: str
    type: str
    nprobes: int | None = None
    refine_factor: int | None = None
    ef: int | None = None

    def describe(self, metric: str) -> str:
        """For plans."""
        options = (("nprobes", self.nprobes), ("ef", self.ef), ("refine", self.refine_factor))
        said = [f"{name}={value}" for name, value in options if value is not None]
        return ", ".join([f"index={self.name} ({self.type} {metric})", *said])

    def find(
        self,
        source: SearchSource,
        column: str,
        queries: np.ndarray,
        k: int,
        metric: str,
        row_filter: RowFilter | None,
        keep: Keep,
    ) -> list[Found]:
        """The k nearest live rows for every query, or fewer; nearest first.

        Args:
            source: a Lance dataset with the index.
            column: of vectors.
            queries: one a row.
            k: rows wanted for each.
            metric: the index's.
            row_filter: what rows must fulfil; one that Lance can say.
            keep: holds row ids.
        """
        rows = source.rows
        assert isinstance(rows, LanceSource)  # noqa: S101 (nothing else has an index)
        dataset: Any = rows.dataset
        live = restriction(source, keep)
        condition = None if row_filter is None else row_filter.sql(rows.stored_names)
        options: dict[str, Any] = {"column": rows.stored_names[column], "k": k, "metric": metric}
        if self.nprobes is not None:
            options["minimum_nprobes"] = self.nprobes
        if self.refine_factor is not None:
            options["refine_factor"] = self.refine_factor
        if self.ef is not None:
            options["ef"] = max(self.ef, k * (self.refine_factor or 1))

        def search(query: np.ndarray) -> pa.Table:
            return dataset.scanner(
                columns=[DISTANCE],
                nearest=options | {"q": query},
                filter=condition,
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
