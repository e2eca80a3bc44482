"""One search of one table, as a run of a statement asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import pyarrow as pa

from execnodes.search.request import HybridRequest, VectorRequest
from execnodes.search.source import DISTANCE, HYBRID_SCORE, QUERY_INDEX, SCORE
from execnodes.text.query.query import TextQuery
from memwal.errors import InvalidInputError
from planner.search.request.arguments import Arguments, is_many, text_query, vector_request
from planner.search.request.hybrid import hybrid_request, hybrid_vector_request
from planner.search.sources.catch_up import CatchUpMode
from planner.sql.search_call import SearchCall, SearchFunction, Subquery, Value

_SCORES = {
    SearchFunction.VECTOR: (DISTANCE,),
    SearchFunction.TEXT: (SCORE,),
    SearchFunction.HYBRID: (HYBRID_SCORE, DISTANCE, SCORE),
}


@dataclass(frozen=True, eq=False)
class Search:
    """What is searched for.

    Attributes:
        k: rows wanted for each query.
        prefilter: whether conditions apply before ranking.
        vector: nearest neighbours; None in a text search.
        text: matching texts; None in a vector search.
        hybrid: how both are fused; None where there is one of them.
        catch_up: when merged generations answer for rows that an index lacks.
    """

    k: int
    prefilter: bool
    vector: VectorRequest | None = None
    text: TextQuery | None = None
    hybrid: HybridRequest | None = None
    catch_up: CatchUpMode = CatchUpMode.AUTO

    @property
    def kind(self) -> str:
        """For those who count searches."""
        if self.vector is None:
            return "text"
        return "vector" if self.text is None else "hybrid"


def added_fields(call: SearchCall) -> tuple[pa.Field, ...]:
    """The columns that a search adds to those of its table."""
    vectors = call.arguments.get("vector_query" if call.function is SearchFunction.HYBRID else "query")
    many = call.function is not SearchFunction.TEXT and (isinstance(vectors, Subquery) or is_many(vectors))  # type: ignore[arg-type]
    numbered = (pa.field(QUERY_INDEX, pa.int32()),) if many else ()
    return (*numbered, *(pa.field(name, pa.float32()) for name in _SCORES[call.function]))


def result_schema(call: SearchCall, schema: pa.Schema) -> pa.Schema:
    """Columns of the table, then those that the search adds.

    Raises:
        InvalidInputError: the table has a column of such a name.
    """
    added = added_fields(call)
    for field in added:
        if field.name in schema.names:
            msg = (
                f"{call.function.value} adds a column {field.name!r}, and table {call.table!r} has one of "
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
    """What a call asks for.

    Args:
        call: of a search function.
        schema: columns of its table that the caller may see.
        values: of the statement's parameters; None checks what does not depend on them.
        masked: columns whose true values the caller may not see.

    Raises:
        LanceGatewayError: an argument that can't be, with its name and value.
    """
    arguments = Arguments(call.function.value, call.table, schema, call.with_values(values), masked)
    k = arguments.k() if values is not None or "k" in arguments.values else 1
    prefilter = arguments.boolean("prefilter", default=True)
    catch_up = arguments.choice("catch_up", CatchUpMode.AUTO)
    match call.function:
        case SearchFunction.VECTOR:
            request = vector_request(arguments, k)
            return Search(
                k, prefilter, request, catch_up=catch_up if request.use_index else CatchUpMode.NEVER
            )
        case SearchFunction.TEXT:
            return Search(k, prefilter, text=text_query(arguments), catch_up=catch_up)
        case SearchFunction.HYBRID:
            hybrid = hybrid_request(arguments, k)
            vector = hybrid_vector_request(arguments, hybrid)
            text = text_query(arguments, column="text_column", query="text_query")
            return Search(k, prefilter, vector, text, hybrid, catch_up)
