"""What a search is asked for, once its arguments are known and checked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

MAX_K = 1_000_000
"""More rows than this are asked for by mistake."""
MAX_ROWS = 10_000_000
"""More rows than this are not found for all queries of a call together: they are held in memory."""


class Staleness(Enum):
    """How rows that newer ones supersede are kept out of a vector search.

    EXACT: they are known by address and given to Lance before it ranks.
    BLOOM: key filters of newer generations tell which may be stale, keys confirm it, more is fetched.
    APPROXIMATE: as the MemWAL specification has it: what may be stale is dropped, nothing more is fetched.
    """

    EXACT = "exact"
    BLOOM = "bloom"
    APPROXIMATE = "approximate"


@dataclass(frozen=True, eq=False, slots=True)
class VectorRequest:
    """Nearest neighbours of one or more vectors.

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
    """How a hybrid search makes one score of a distance and a text score.

    WEIGHTED: both are scaled to 0..1 among the candidates of their branch, and added by weight.
    RRF: reciprocal rank fusion, which goes by the places in the two rankings alone.
    """

    WEIGHTED = "weighted"
    RRF = "rrf"


@dataclass(frozen=True, slots=True)
class HybridRequest:
    """How the candidates of a vector search and of a text search become one ranking.

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
        """Rows that each branch fetches for each query."""
        return min(self.k * self.oversample_factor, MAX_K)
