"""From what is searched for to a tree of exec nodes."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from execnodes import ExecNode, RowFilter
from execnodes.search.source import SearchSource
from execnodes.search.take_rows import TakeRowsExec
from planner.search.search import Search
from planner.search.vector import plan_vector
from planner.table import Table


def plan_search(
    search: Search,
    sources: Sequence[SearchSource],
    before: RowFilter | None,
    after: RowFilter | None,
    output: pa.Schema,
    table: Table,
) -> ExecNode:
    """``TakeRowsExec(LimitExec(SortExec(...)))``.

    Args:
        search: what for.
        sources: where.
        before: what rows must fulfil to be ranked.
        after: what is kept of those that were found.
        output: columns to produce.
        table: whose caches are used.
    """
    assert search.vector is not None  # noqa: S101
    found = plan_vector(tuple(sources), search.vector, before, table.cache)
    return TakeRowsExec(found, tuple(sources), output, after, table.cache)
