"""What a search is asked for, once its arguments are known and checked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

MAX_K = 1_000_000
"""More rows than this are asked for by mistake."""


class Staleness(Enum):
    """How rows that newer ones supersede are kept out of a vector search.

    EXACT: they are known by address and given to Lance before it ranks.
    BLOOM: key filters of newer generations name suspects, keys convict them, more is fetched until k remain.
    APPROXIMATE: as the MemWAL specification has it: suspects are dropped, and nothing more is fetched.
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
