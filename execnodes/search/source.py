"""Requests, sources, and candidates of searches."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import ROW_ADDRESS
from lance_gateway.execnodes.rows.row_mask import EVERYTHING_VISIBLE, RowMask
from lance_gateway.execnodes.storage.source import LanceSource, MemTableSource

MAX_K = 1_000_000
"""More rows than this are asked for by mistake."""
MAX_ROWS = 10_000_000
"""More rows than this are not found for all queries of a call together: they are held in memory."""


class Staleness(Enum):
    """The way in which a vector search excludes superseded rows.

    EXACT: they are known by address and given to Lance before it ranks.
    BLOOM: key filters of newer generations tell which may be stale, keys confirm it, more is fetched.
    APPROXIMATE: as the MemWAL specification has it: what may be stale is dropped, nothing more is fetched.
    """

    EXACT = "exact"
    BLOOM = "bloom"
    APPROXIMATE = "approximate"


@dataclass(frozen=True, eq=False, slots=True)
class VectorRequest:
    """A search for the nearest neighbours of one or more vectors.

    Attributes:
        column: fixed-size list of numbers.
        vectors: one query a row, of the column's dimension; float32, or uint8 for hamming distance.
        k: rows wanted for each query.
        metric: l2, cosine, dot or hamming; None for the index's own, l2 where there is none.
        nprobes: partitions of an IVF index to look at; None leaves it to Lance.
        ef: candidates that an HNSW index keeps.
        refine_factor: so many times k candidates are ranked by their true distances; None for a good default.
        use_index: whether indexes may answer; otherwise distances of all rows are computed.
        staleness: how superseded rows are kept out.
    """

    column: str
    vectors: np.ndarray
    k: int
    metric: str | None = None
    nprobes: int | None = None
    ef: int | None = None
    refine_factor: int | None = None
    use_index: bool = True
    staleness: Staleness = Staleness.EXACT


class Fusion(Enum):
    """The way in which a hybrid search combines a distance and a text score.

    WEIGHTED: both are scaled to 0..1 among the candidates of their branch, and added by weight.
    RRF: reciprocal rank fusion, which goes by the places in the two rankings alone.
    """

    WEIGHTED = "weighted"
    RRF = "rrf"


@dataclass(frozen=True, slots=True)
class HybridRequest:
    """The fusion of a vector search and a text search.

    Attributes:
        k: rows wanted for each query.
        fusion: see there.
        alpha: share of the vector search in a weighted score, 0 to 1.
        rrf_k: what is added to every rank, so that the first places do not decide alone.
        oversample_factor: each branch fetches so many times k candidates.
    """

    k: int
    fusion: Fusion = Fusion.WEIGHTED
    alpha: float = 0.5
    rrf_k: float = 60.0
    oversample_factor: int = 4

    def __post_init__(self) -> None:
        if self.k < 1 or self.oversample_factor < 1:
            msg = f"k and oversample_factor are at least 1, not {self.k} and {self.oversample_factor}"
            raise ValueError(msg)
        if not 0 <= self.alpha <= 1 or not self.rrf_k > 0:
            msg = f"alpha lies in 0..1 and rrf_k is positive, not {self.alpha} and {self.rrf_k}"
            raise ValueError(msg)

    @property
    def candidates(self) -> int:
        """Number of rows that each branch fetches for each query."""
        return min(self.k * self.oversample_factor, MAX_K)


QUERY_INDEX = "query_index"
"""Int32: which query of a call, counted from 0, a row answers; Lance's own name for it."""
SOURCE = "_source"
"""Int32: `SearchSource.number` of the source in which a candidate was found."""
DISTANCE = "_distance"
"""Float32: smaller is nearer: squared for l2; one minus cosine or product; bits that differ for hamming."""
SCORE = "_score"
"""Float32: BM25, larger is better."""
HYBRID_SCORE = "_hybrid_score"
"""Float32: larger is better."""

PLACE_FIELDS = (
    pa.field(QUERY_INDEX, pa.int32()),
    pa.field(SOURCE, pa.int32()),
    pa.field(ROW_ADDRESS, pa.uint64()),
)
VECTOR_CANDIDATES = pa.schema([*PLACE_FIELDS, pa.field(DISTANCE, pa.float32())])
TEXT_CANDIDATES = pa.schema([*PLACE_FIELDS, pa.field(SCORE, pa.float32())])
HYBRID_CANDIDATES = pa.schema(
    [
        *PLACE_FIELDS,
        pa.field(DISTANCE, pa.float32()),
        pa.field(SCORE, pa.float32()),
        pa.field(HYBRID_SCORE, pa.float32()),
    ]
)


@dataclass(frozen=True, slots=True)
class IndexDescription:
    """An index of a dataset.

    Attributes:
        name: of the index.
        type: as Lance calls it, such as BTree, Inverted or IVF_PQ.
        details: its options, as `describe_indices` tells them.
    """

    name: str
    type: str
    details: Mapping[str, object]


@dataclass(frozen=True, eq=False)
class SearchSource:
    """Rows of one dataset or log tail that are searched together: all covered by one index, or by none.

    Args:
        number: names the source among those of one search.
        rows: where they lie.
        identity: names the rows in caches; equal for the same immutable rows, whichever of them are live.
        live: rows that are the newest of their key (and that the principal may see).
        fragments: ids of the fragments that are searched, ascending; a log tail is fragment 0.
        index: what covers them; None where every row must be looked at.
        region_id: whose rows they are; None for the base table, which has rows of every region.
        fragment_identities: fragment id -> what names its rows in caches, apart from those of the others.
        stem: names rows that grow in number: of sources with one stem, the shorter begins the longer.
    """

    number: int
    rows: LanceSource | MemTableSource
    identity: Hashable
    live: RowMask = EVERYTHING_VISIBLE
    fragments: tuple[int, ...] = (0,)
    index: IndexDescription | None = None
    region_id: str | None = None
    fragment_identities: Mapping[int, Hashable] = field(default_factory=dict)
    stem: Hashable | None = None

    def fragment_identity(self, fragment_id: int) -> Hashable:
        """Return the cache identity of one fragment's rows, independent of the rest of the source."""
        return self.fragment_identities.get(fragment_id, (self.identity, fragment_id))

    @property
    def label(self) -> str:
        """The label for plans."""
        return self.rows.label

    @cached_property
    def physical_rows(self) -> int:
        """Number of rows, hidden and deleted ones included."""
        if not isinstance(self.rows, LanceSource):
            return int(self.rows.rows.num_rows)
        dataset: Any = self.rows.dataset
        masks = self.live.fragments
        return sum(
            len(masks[fragment].visible)
            if fragment in masks
            else dataset.get_fragment(fragment).physical_rows
            for fragment in self.fragments
        )

    @cached_property
    def is_far(self) -> bool:
        """Whether its files lie in an object store."""
        dataset: Any = self.rows.dataset if isinstance(self.rows, LanceSource) else None
        return dataset is not None and "://" in dataset.uri
