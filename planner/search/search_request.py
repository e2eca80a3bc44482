"""Request of one search of one table, with the values of a run's parameters.

A hybrid search is a vector search and a text search of one snapshot, fused:

    LimitExec: k=10
      HybridExec: weighted, alpha=0.5
        (vector search for k * oversample_factor rows)
        (text search for k * oversample_factor rows)
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lance_gateway.execnodes import ExecNode, LanceSource, MemTableSource
from lance_gateway.execnodes.search.candidates import LimitExec
from lance_gateway.execnodes.search.hybrid import HybridExec
from lance_gateway.execnodes.search.source import (
    DISTANCE,
    HYBRID_SCORE,
    MAX_K,
    QUERY_INDEX,
    SCORE,
    Fusion,
    HybridRequest,
    SearchSource,
    Staleness,
    VectorRequest,
)
from lance_gateway.execnodes.text.query.query import TextQuery
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.search.arguments import (
    Arguments,
    has_many_vectors,
    read_text_query,
    read_vector_request,
)
from lance_gateway.planner.search.search_call import SearchCall, SearchFunction, Subquery, Value
from lance_gateway.planner.search.sources.catch_up import CatchUpMode

MAX_RRF_K = 1_000_000


def read_hybrid_request(arguments: Arguments, k: int) -> HybridRequest:
    """Read how the branches of a call are fused.

    Args:
        arguments: of the call.
        k: rows wanted for each query.

    Raises:
        InvalidInputError: an argument that can't be, with its name and value.
    """
    fusion = arguments.read_choice("fusion", Fusion.WEIGHTED)
    other = "rrf_k" if fusion is Fusion.WEIGHTED else "alpha"
    if other in arguments.values:
        wanted = Fusion.RRF if fusion is Fusion.WEIGHTED else Fusion.WEIGHTED
        msg = f"{other} means something with fusion => '{wanted.value}' only, and fusion is {fusion.value!r}"
        raise arguments.build_error(msg)
    return HybridRequest(
        k,
        fusion,
        alpha=arguments.read_number("alpha", default=0.5, least=0, most=1),
        rrf_k=arguments.read_number("rrf_k", default=60, least=1, most=MAX_RRF_K),
        oversample_factor=arguments.read_integer("oversample_factor", most=MAX_K) or 4,
    )


def read_hybrid_vector_request(arguments: Arguments, request: HybridRequest) -> VectorRequest:
    """Read the vector search of a hybrid call.

    Args:
        arguments: of the call.
        request: how the branches are fused.

    Raises:
        LanceGatewayError: see `read_vector_request`.
    """
    found = read_vector_request(
        arguments,
        request.candidates,
        column="vector_column",
        query="vector_query",
        rows="k * oversample_factor",
    )
    if found.staleness is not Staleness.EXACT:
        msg = "staleness is 'exact' in a hybrid search, whose branches find the same rows, not "
        raise arguments.build_error(f"{msg}{found.staleness.value!r}: leave it out")
    return found


def plan_hybrid(
    vector: ExecNode,
    vector_sources: Sequence[SearchSource],
    text: ExecNode,
    text_sources: Sequence[SearchSource],
    request: HybridRequest,
    queries: int = 1,
) -> tuple[ExecNode, tuple[SearchSource, ...]]:
    """Fuse a vector search and a text search.

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
        {source.number: numbers[source.rows] for source in vector_sources},
        {source.number: numbers[source.rows] for source in text_sources},
    )
    return LimitExec(fused, request.k), sources


_SCORES = {
    SearchFunction.VECTOR: (DISTANCE,),
    SearchFunction.TEXT: (SCORE,),
    SearchFunction.HYBRID: (HYBRID_SCORE, DISTANCE, SCORE),
}


@dataclass(frozen=True, eq=False)
class Search:
    """Arguments of a search.

    Attributes:
        k: rows wanted for each query.
        prefilter: whether conditions apply before ranking.
        vector: nearest neighbours; None in a text search.
        text: matching texts; None in a vector search.
        hybrid: how both are fused; None where there is one of them.
        catch_up: when merged generations answer for rows that an index lacks.
        kind: of the search, for metrics.
    """

    k: int
    prefilter: bool
    vector: VectorRequest | None = None
    text: TextQuery | None = None
    hybrid: HybridRequest | None = None
    catch_up: CatchUpMode = CatchUpMode.AUTO
    kind: str = field(init=False)

    def __post_init__(self) -> None:
        of_vectors = "vector" if self.text is None else "hybrid"
        object.__setattr__(self, "kind", "text" if self.vector is None else of_vectors)


def list_added_fields(call: SearchCall) -> tuple[pa.Field, ...]:
    """Return the columns that a search adds to those of its table."""
    vectors = call.arguments.get("vector_query" if call.function is SearchFunction.HYBRID else "query")
    many = call.function is not SearchFunction.TEXT and (
        isinstance(vectors, Subquery) or has_many_vectors(vectors)  # type: ignore[arg-type]
    )
    numbered = (pa.field(QUERY_INDEX, pa.int32()),) if many else ()
    return (*numbered, *(pa.field(name, pa.float32()) for name in _SCORES[call.function]))


def build_result_schema(call: SearchCall, schema: pa.Schema) -> pa.Schema:
    """Return the columns of the table, then those that the search adds.

    Raises:
        InvalidInputError: the table has a column of such a name.
    """
    added = list_added_fields(call)
    for column in added:
        if column.name in schema.names:
            msg = (
                f"{call.function.value} adds a column {column.name!r}, and table {call.table!r} has one of "
                "that name: search a table without it"
            )
            raise InvalidInputError(msg)
    return pa.schema([*schema, *added])


def read_search(
    call: SearchCall,
    schema: pa.Schema,
    values: Sequence[Value] | None,
    masked: AbstractSet[str] = frozenset(),
) -> Search:
    """Read the arguments of a call.

    Args:
        call: of a search function.
        schema: columns of its table that the caller may see.
        values: of the statement's parameters; None checks what does not depend on them.
        masked: columns whose true values the caller may not see.

    Raises:
        LanceGatewayError: an argument that can't be, with its name and value.
    """
    arguments = Arguments(call.function.value, call.table, schema, call.with_values(values), masked)
    k = arguments.read_k() if values is not None or "k" in arguments.values else 1
    prefilter = arguments.read_boolean("prefilter", default=True)
    catch_up = arguments.read_choice("catch_up", CatchUpMode.AUTO)
    match call.function:
        case SearchFunction.VECTOR:
            request = read_vector_request(arguments, k)
            return Search(
                k, prefilter, request, catch_up=catch_up if request.use_index else CatchUpMode.NEVER
            )
        case SearchFunction.TEXT:
            return Search(k, prefilter, text=read_text_query(arguments), catch_up=catch_up)
        case SearchFunction.HYBRID:
            hybrid = read_hybrid_request(arguments, k)
            vector = read_hybrid_vector_request(arguments, hybrid)
            text = read_text_query(arguments, column="text_column", query="text_query")
            return Search(k, prefilter, vector, text, hybrid, catch_up)
