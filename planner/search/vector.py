"""A tree of exec nodes that finds the nearest rows of all sources."""

from __future__ import annotations

from collections.abc import Sequence

from execnodes import ExecNode, RowFilter
from execnodes.search.distances import METRICS
from execnodes.search.empty import EmptyExec
from execnodes.search.filter_stale import FilterStaleExec
from execnodes.search.index_search import IndexSearch
from execnodes.search.knn import KnnExec
from execnodes.search.limit import LimitExec
from execnodes.search.request import Staleness, VectorRequest
from execnodes.search.side_by_side import ConcurrentUnionExec
from execnodes.search.sort import SortExec
from execnodes.search.source import DISTANCE, VECTOR_CANDIDATES, SearchSource
from execnodes.search.vector_blocks import Keep
from memwal.errors import InvalidInputError
from planner.search.newer_rows import StaleRows

_REFINE = {"IVF_FLAT": None, "IVF_HNSW_FLAT": None, "IVF_SQ": 2, "IVF_HNSW_SQ": 2}
_REFINE_OTHERS = 10


def plan_vector(
    sources: Sequence[SearchSource],
    request: VectorRequest,
    row_filter: RowFilter | None,
    keep: Keep,
    stale: StaleRows | None = None,
) -> ExecNode:
    """``LimitExec(SortExec(FilterStaleExec(UnionExec(KnnExec...))))``: `VECTOR_CANDIDATES`, nearest first.

    Args:
        sources: what is searched.
        request: what for.
        row_filter: what rows must fulfil to be ranked.
        keep: holds vectors and row ids.
        stale: tells which candidates are superseded; None where the sources' masks know all of them.

    Raises:
        InvalidInputError: there is no such metric.
    """
    metric = chosen_metric(sources, request)
    searches = tuple(_search(source, request, metric, row_filter, keep) for source in sources)
    if not searches:
        return LimitExec(SortExec(EmptyExec(VECTOR_CANDIDATES), DISTANCE), request.k)
    found = ConcurrentUnionExec(searches)
    if stale is None:
        filtered = FilterStaleExec(found, Staleness.EXACT, request.k)
    else:
        filtered = FilterStaleExec(found, request.staleness, request.k, stale.key, stale.newer)
    return LimitExec(SortExec(filtered, DISTANCE), request.k)


def chosen_metric(sources: Sequence[SearchSource], request: VectorRequest) -> str:
    """The metric of all distances: what is asked for, else that of the first source with an index, else l2.

    Raises:
        InvalidInputError: there is no such metric, or none of its kind for the column's elements.
    """
    if request.metric is not None:
        if request.metric not in METRICS:
            msg = f"metric {request.metric!r} is unknown: the metrics are {', '.join(METRICS)}"
            raise InvalidInputError(msg)
        return request.metric
    of_indexes = (metric for source in sources if (metric := index_metric(source)) is not None)
    return next(of_indexes, "l2")


def index_metric(source: SearchSource) -> str | None:
    """The metric by which a source's index ranks."""
    if source.index is None:
        return None
    metric = source.index.details.get("metric_type")
    return metric.lower() if isinstance(metric, str) else None


def _search(
    source: SearchSource, request: VectorRequest, metric: str, row_filter: RowFilter | None, keep: Keep
) -> KnnExec:
    index = None
    if request.use_index and source.index is not None and index_metric(source) == metric:
        refine = request.refine_factor or _REFINE.get(source.index.type, _REFINE_OTHERS)
        index = IndexSearch(source.index.name, source.index.type, request.nprobes, refine, request.ef)
    return KnnExec(source, request, metric, keep, row_filter, index)
