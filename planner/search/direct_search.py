"""Statements that are nothing but a search need DataFusion for planning only, and only once.

    SELECT id, title AS t, _score FROM lance_fts('docs', 'body', $1, k => 10) ORDER BY _score DESC LIMIT 5

A search gives its rows in the order of their rank, so sorting by it has been done already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from datafusion import DataFrame
from datafusion import expr
from datafusion.expr import Column, Projection, Sort, SubqueryAlias

from execnodes.search.source import DISTANCE, HYBRID_SCORE, QUERY_INDEX, SCORE
from planner.bridge.plan_reading import Expression, output_name
from planner.scans.query_run import QueryRun
from planner.search.request.search_request import added_fields
from planner.search.search_scan import SearchLeaf, SearchScan
from planner.sql.search_call import SearchCall, SearchFunction

_RANK = {
    SearchFunction.VECTOR: (DISTANCE, True),
    SearchFunction.TEXT: (SCORE, False),
    SearchFunction.HYBRID: (HYBRID_SCORE, False),
}
"""Column by which rows are ranked, and whether it ascends."""


@dataclass(frozen=True, slots=True)
class DirectSearch:
    """What a statement makes of its search.

    Attributes:
        columns: of the search, in the order of the result.
        names: of the result's columns.
        limit: rows of the result; None for all.
        conditions: on the rows of the search; None for all of them.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    limit: int | None
    conditions: pc.Expression | None

    def schema(self, searched: pa.Schema) -> pa.Schema | None:
        """The result's columns, given all those of the search; None where one is gone."""
        if not set(self.columns) <= set(searched.names):
            return None
        pairs = zip(self.columns, self.names, strict=True)
        return pa.schema([searched.field(column).with_name(name) for column, name in pairs])

    def batches(self, leaf: SearchLeaf) -> Iterator[pa.RecordBatch]:
        """The statement's result; read lazily."""
        left = self.limit
        scan = leaf.scan(tuple(dict.fromkeys(self.columns)), self.conditions)
        for batch in scan.batches(0):
            rows = batch if left is None else batch.slice(0, left)
            if left is not None:
                left -= rows.num_rows
            yield rows.select(self.columns).rename_columns(self.names)
            if left == 0:
                return


def direct_search(frame: DataFrame, call: SearchCall, run: QueryRun) -> DirectSearch | None:
    """What a planned statement makes of its only search; None where DataFusion has work to do.

    Its plan is walked from the result down to the leaf: the columns of the result, and the one that it is
    sorted by, are followed through every change of name.
    """
    plan = frame.optimized_logical_plan()
    names = tuple(frame.schema().names)
    tracked = list(names)
    rank: str | None = None
    limit: int | None = None
    while not isinstance(node := plan.to_variant(), expr.TableScan):
        match node:
            case Sort() if rank is None:
                rank = _ranked_by(node, call)
                if rank is None:
                    return None
                tracked.append(rank)
                limit = node.get_fetch_val()
            case Projection():
                inner = _renamed(node)
                if not inner.keys() >= set(tracked):
                    return None
                tracked = [inner[name] for name in tracked]
            case SubqueryAlias():
                pass
            case _:
                return None
        (plan,) = plan.inputs()
    (scan,) = run.scans
    if rank is not None and tracked.pop() != _RANK[call.function][0]:
        return None
    if not isinstance(scan, SearchScan) or scan.residual:
        return None
    return DirectSearch(tuple(tracked), names, limit, scan.expression)


def _ranked_by(node: Sort, call: SearchCall) -> str | None:
    """The column that a statement is sorted by, if its order can be that of the rank."""
    (first, *others) = node.sort_exprs()
    column = _column(first.expr())
    several = any(field.name == QUERY_INDEX for field in added_fields(call))
    if others or several or column is None or first.ascending() != _RANK[call.function][1]:
        return None
    return str(column.name())


def _renamed(node: Projection) -> dict[str, str]:
    """Name in the output -> name in the input, of the columns that are passed on as they are."""
    found = {}
    for one in node.projections():
        column = _column(one.to_variant().expr() if one.variant_name() == "Alias" else one)
        if column is not None:
            found[output_name(one)] = column.name()
    return found


def _column(expression: Expression) -> Column | None:
    """The column that an expression is; None for everything else, some of which can't be taken apart."""
    column: Column | None = expression.to_variant() if expression.variant_name() == "Column" else None
    return column
