"""Hybrid search: a vector search and a text search of one snapshot, fused.

LimitExec: k=10
  HybridExec: weighted, alpha=0.5
    (vector search for k * oversample_factor rows)
    (text search for k * oversample_factor rows)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from execnodes import ExecNode, LanceSource, MemTableSource
from execnodes.search.operators.hybrid import HybridExec
from execnodes.search.operators.sort import LimitExec
from execnodes.search.request import MAX_K, Fusion, HybridRequest, Staleness, VectorRequest
from execnodes.search.source import SearchSource
from planner.search.request.arguments import Arguments, vector_request

__all__ = ["hybrid_request", "hybrid_vector_request", "plan_hybrid"]

MAX_RRF_K = 1_000_000


def hybrid_request(arguments: Arguments, k: int) -> HybridRequest:
    """How the branches of a call are fused.

    Args:
        arguments: of the call.
        k: rows wanted for each query.

    Raises:
        InvalidInputError: an argument that can't be, with its name and value.
    """
    fusion = arguments.choice("fusion", Fusion.WEIGHTED)
    other = "rrf_k" if fusion is Fusion.WEIGHTED else "alpha"
    if other in arguments.values:
        wanted = Fusion.RRF if fusion is Fusion.WEIGHTED else Fusion.WEIGHTED
        msg = f"{other} means something with fusion => '{wanted.value}' only, and fusion is {fusion.value!r}"
        raise arguments.refused(msg)
    return HybridRequest(
        k,
        fusion,
        alpha=arguments.number("alpha", default=0.5, least=0, most=1),
        rrf_k=arguments.number("rrf_k", default=60, least=1, most=MAX_RRF_K),
        oversample_factor=arguments.integer("oversample_factor", most=MAX_K) or 4,
    )


def hybrid_vector_request(arguments: Arguments, request: HybridRequest) -> VectorRequest:
    """The search of the vector branch.

    Args:
        arguments: of the call.
        request: how the branches are fused.

    Raises:
        LanceGatewayError: see `vector_request`.
    """
    found = vector_request(
        arguments,
        request.candidates,
        column="vector_column",
        query="vector_query",
        rows="k * oversample_factor",
    )
    if found.staleness is not Staleness.EXACT:
        msg = "staleness is 'exact' in a hybrid search, whose branches find the same rows, not "
        raise arguments.refused(f"{msg}{found.staleness.value!r}: leave it out")
    return found


def plan_hybrid(
    vector: ExecNode,
    vector_sources: Sequence[SearchSource],
    text: ExecNode,
    text_sources: Sequence[SearchSource],
    request: HybridRequest,
    queries: int = 1,
) -> tuple[ExecNode, tuple[SearchSource, ...]]:
    """Fuse two branches.

    Rows are known by where they lie: by dataset, or log tail, and row address. Branches may divide datasets
    among sources in ways of their own, since an index on one column covers other rows than one on another.

    Args:
        vector: gives `VECTOR_CANDIDATES`, nearest first within a query.
        vector_sources: which their numbers mean.
        text: gives `TEXT_CANDIDATES` of one query, best first.
        text_sources: which their numbers mean.
        request: how.
        queries: how many query vectors there are.

    Returns:
        A node that gives `HYBRID_CANDIDATES`, best first within a query and at most k for each, and the
        sources that their numbers mean.
    """
    numbers: dict[LanceSource | MemTableSource, int] = {}
    fragments: dict[LanceSource | MemTableSource, set[int]] = {}
    for one in (*vector_sources, *text_sources):
        numbers.setdefault(one.rows, len(numbers))
        fragments.setdefault(one.rows, set()).update(one.fragments)
    known = {one.rows: one for one in (*text_sources, *vector_sources)}
    sources = tuple(
        replace(known[rows], number=number, fragments=tuple(sorted(fragments[rows])), index=None)
        for rows, number in numbers.items()
    )
    fused = HybridExec(
        vector,
        text,
        request,
        queries,
        {one.number: numbers[one.rows] for one in vector_sources},
        {one.number: numbers[one.rows] for one in text_sources},
    )
    return LimitExec(fused, request.k), sources
