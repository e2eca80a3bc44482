"""Expressions of VALUES and SET that are neither literals nor parameters, computed by the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.sql.tokens import quote
from planner.writes.dml.statement.reader import Part, WriteText
from planner.writes.dml.statement.splice import Splice, SplicedQuery

if TYPE_CHECKING:
    from planner.access.rights import Access
    from planner.plans.prepared_query import PreparedQuery
    from planner.scans.settings import SessionSettings

__all__ = ["Computed", "Read", "computed", "prepared_read"]

_AT_ONCE = 256
"""Expressions in one SELECT: DataFusion's planning grows faster than their number."""


@dataclass(frozen=True, eq=False)
class Read:
    """A query that a statement reads with.

    Attributes:
        query: spliced from the statement.
        prepared: the same, checked.
        settings: under which it was.
    """

    query: SplicedQuery
    prepared: PreparedQuery
    settings: SessionSettings

    @property
    def schema(self) -> pa.Schema:
        """Of the result."""
        return self.prepared.schema

    @property
    def parameter_types(self) -> dict[int, pa.DataType]:
        """Ordinal in the statement -> type that the query expects."""
        return dict(zip(self.query.ordinals, self.prepared.parameter_schema.types, strict=True))

    def batches(
        self, parameters: Sequence[pa.Scalar], settings: SessionSettings, control: RunControl
    ) -> pa.RecordBatchReader:
        """Run it with the statement's parameters; lazily.

        Raises:
            LanceGatewayError: what went wrong, shown in the statement.
        """
        with self.query.telling():
            values = [parameters[one] for one in self.query.ordinals]
            return self.prepared.execute(values, settings, control)


def prepared_read(
    engine: QueryPlanner, query: SplicedQuery, settings: SessionSettings, access: Access
) -> Read:
    """Check a query.

    Raises:
        LanceGatewayError: what is wrong with it, shown in the statement.
    """
    with query.telling():
        return Read(query, engine.prepare(query.sql, settings, access), settings)


@dataclass(frozen=True, eq=False)
class Computed:
    """Expressions that are computed once for each execution, each a single value."""

    reads: tuple[Read, ...] = ()

    def types(self) -> list[pa.DataType]:
        """Of the expressions, in order."""
        return [kind for read in self.reads for kind in read.schema.types]

    def values(
        self, parameters: Sequence[pa.Scalar], settings: SessionSettings, control: RunControl
    ) -> list[pa.Array]:
        """One array of one value for each expression."""
        found: list[pa.Array] = []
        for read in self.reads:
            rows = read.batches(parameters, settings, control).read_all()
            found += [column.combine_chunks() for column in rows.columns]
        return found


def computed(
    engine: QueryPlanner,
    statement: WriteText,
    parts: Sequence[Part],
    common_tables: Part,
    settings: SessionSettings,
    access: Access,
) -> Computed:
    """Check expressions that name no row.

    Args:
        engine: that computes them.
        statement: they are parts of.
        parts: the expressions.
        common_tables: WITH, which they may use.
        settings: of the session.
        access: rights of the principal.

    Raises:
        LanceGatewayError: what is wrong with one.
    """
    reads = []
    for first in range(0, len(parts), _AT_ONCE):
        splice = Splice(statement).copy(common_tables).add(" SELECT ")
        for number, part in enumerate(parts[first : first + _AT_ONCE]):
            splice.add(", (" if number else "(").copy(part).add(f") AS {quote(f'value {number}')}")
        reads.append(prepared_read(engine, splice.query(), settings, access))
    return Computed(tuple(reads))
