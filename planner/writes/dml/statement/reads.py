"""The queries that a statement reads with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from planner.access.rights import Access
from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.scans.settings import SessionSettings
from planner.sql.statement_reader import Part
from planner.sql.tokens import quote
from planner.writes.dml.statement.text import Splice, SplicedQuery, WriteText

if TYPE_CHECKING:
    from planner.plans.prepared_query import PreparedQuery

__all__ = ["Computed", "Read", "ReadSession", "computed"]

_AT_ONCE = 256
"""Expressions in one SELECT: DataFusion's planning grows faster than their number."""


@dataclass(frozen=True, eq=False)
class ReadSession:
    """For whom a statement reads, and by what.

    Attributes:
        engine: that the statement came to.
        settings: of the session.
        access: rights of the principal.
    """

    engine: QueryPlanner
    settings: SessionSettings
    access: Access

    def strong(self) -> ReadSession:
        """The same, for reading what is about to be changed: the newest rows."""
        chosen = replace(self.settings, consistency="strong", max_staleness_ms=0, endpoints=1, types="arrow")
        return ReadSession(self.engine, chosen, self.access)

    def prepare(self, query: SplicedQuery) -> Read:
        """Check a query.

        Raises:
            LanceGatewayError: what is wrong with it, shown in the statement.
        """
        with query.telling():
            return Read(query, self.engine.prepare(query.sql, self.settings, self.access), self.settings)


@dataclass(frozen=True, eq=False)
class Read:
    """A query that a statement reads with.

    Attributes:
        query: spliced from the statement.
        prepared: the same, checked.
        settings: under which it was, and runs.
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

    def batches(self, parameters: Sequence[pa.Scalar], control: RunControl) -> pa.RecordBatchReader:
        """Run it with the statement's parameters; lazily.

        Raises:
            LanceGatewayError: what went wrong, shown in the statement.
        """
        with self.query.telling():
            return self.prepared.execute(self.query.values(parameters), self.settings, control)


@dataclass(frozen=True, eq=False)
class Computed:
    """Expressions that are computed once for each execution, each a single value."""

    reads: tuple[Read, ...] = ()

    def types(self) -> list[pa.DataType]:
        """Of the expressions, in order."""
        return [kind for read in self.reads for kind in read.schema.types]

    def values(self, parameters: Sequence[pa.Scalar], control: RunControl) -> list[pa.Array]:
        """One array of one value for each expression."""
        rows = [read.batches(parameters, control).read_all() for read in self.reads]
        return [column.combine_chunks() for one in rows for column in one.columns]


def computed(
    session: ReadSession, statement: WriteText, parts: Sequence[Part], common_tables: Part
) -> Computed:
    """Check expressions that name no row.

    Args:
        session: that computes them.
        statement: they are parts of.
        parts: the expressions.
        common_tables: WITH, which they may use.

    Raises:
        LanceGatewayError: what is wrong with one.
    """
    reads = []
    for first in range(0, len(parts), _AT_ONCE):
        splice = Splice(statement).copy(common_tables).add(" SELECT ")
        for number, part in enumerate(parts[first : first + _AT_ONCE]):
            splice.add(", (" if number else "(").copy(part).add(f") AS {quote(f'value {number}')}")
        reads.append(session.prepare(splice.query()))
    return Computed(tuple(reads))
