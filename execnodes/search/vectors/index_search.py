"""The nearest rows of a source, as Lance's vector index finds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS
from execnodes.search.source import DISTANCE, QUERY_INDEX, SearchSource
from execnodes.search.vectors.nearest import Found
from execnodes.storage.source import LanceSource


@dataclass(frozen=True, slots=True)
class IndexSearch:
    """How an index is used.

    Attributes:
        name: of the index.
        type: as Lance calls it.
        effort: how many partitions Lance looks at, by their distances: 0 for the nearest alone, 1 for all.
        nprobes: partitions to look at instead, exactly so many.
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

    def ranked(
        self, source: SearchSource, column: str, queries: np.ndarray, k: int, effort: float
    ) -> list[Found]:
        """The k nearest rows of the index by its own distances, superseded ones among them; nearest first.

        Args:
            source: a Lance dataset with the index.
            column: of vectors.
            queries: one a row.
            k: rows wanted for each.
            effort: as above.
        """
        rows = source.rows
        assert isinstance(rows, LanceSource)  # noqa: S101 (nothing else has an index)
        dataset: Any = rows.dataset
        nearest: dict[str, Any] = {"column": rows.stored_names[column], "k": k}
        if self.nprobes is None:
            nearest["search_effort"] = effort
        else:
            nearest["nprobes"] = self.nprobes
        if self.ef is not None:
            nearest["ef"] = max(self.ef, k)

        def search(query: np.ndarray) -> pa.Table:
            return dataset.scanner(
                columns=[DISTANCE],
                nearest=nearest | {"q": query},
                fast_search=True,
                with_row_address=True,
                disable_scoring_autoprojection=True,
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
