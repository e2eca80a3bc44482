"""What an UPDATE, DELETE or MERGE reads before it writes, and the regions that this concerns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.plans.results import ResourcesExhaustedError
from planner.writes.dml.reading.evaluate import RowsQuery
from planner.writes.dml.reading.parameter_types import Read, prepared_read
from planner.writes.dml.statement.splice import SplicedQuery
from planner.writes.dml.statement.target import Target

if TYPE_CHECKING:
    from planner.access.rights import Access
    from planner.scans.settings import SessionSettings

__all__ = ["MAX_COLLECTED_BYTES", "Collected", "PlannedRows", "PointRows", "Rows", "collected"]

MAX_COLLECTED_BYTES = 512 << 20
"""Of rows and keys that one statement changes at once."""


class Collected:
    """What a statement wrote in parts.

    Args:
        target: table.
        wanted: whether the rows are returned; otherwise they are only counted.
    """

    def __init__(self, target: Target, *, wanted: bool) -> None:
        self.affected = 0
        self._target = target
        self._wanted = wanted
        self._rows: list[pa.Table] = []

    @property
    def rows(self) -> pa.Table:
        """All of them."""
        return pa.concat_tables([self._target.schema.empty_table(), *self._rows])

    def add(self, rows: pa.Table, affected: int) -> None:
        """One more part."""
        self.affected += affected
        if self._wanted:
            self._rows.append(rows)


def collected(batches: pa.RecordBatchReader, table: str) -> pa.Table:
    """All rows of a stream.

    Raises:
        ResourcesExhaustedError: they are too large to be changed at once.
    """
    held, size = [], 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > MAX_COLLECTED_BYTES:
            msg = (
                f"the statement changes more than {MAX_COLLECTED_BYTES >> 20} MiB of rows of table {table!r} "
                "at once, and nothing was written: run it in several pieces, such as ranges of the key"
            )
            raise ResourcesExhaustedError(msg)
    return pa.Table.from_batches(held, batches.schema)


class Rows(Protocol):
    """Rows that a statement reads: columns of the target, and expressions behind them."""

    @property
    def reads(self) -> tuple[Read, ...]:
        """Queries that they come from."""

    @property
    def summary(self) -> str:
        """How they are found, in words."""

    def regions(self, parameters: Sequence[pa.Scalar], control: RunControl) -> frozenset[str]:
        """Where the rows may lie, as far as is known without reading them."""

    def table(self, parameters: Sequence[pa.Scalar], control: RunControl) -> pa.Table:
        """The rows as they are now.

        Raises:
            LanceGatewayError: they can't be read, or are too many.
        """


@dataclass(frozen=True, eq=False)
class PlannedRows:
    """Rows that a query finds.

    Attributes:
        engine: that runs it.
        target: table that is written.
        read: the query.
        access: rights of the principal.
    """

    engine: QueryPlanner
    target: Target
    read: Read
    access: Access

    @staticmethod
    def of(
        engine: QueryPlanner, target: Target, query: SplicedQuery, settings: SessionSettings, access: Access
    ) -> PlannedRows:
        """Check the query.

        Raises:
            LanceGatewayError: what is wrong with it, shown in the statement.
        """
        return PlannedRows(engine, target, prepared_read(engine, query, settings, access), access)

    @property
    def settings(self) -> SessionSettings:
        """It runs with."""
        return self.read.settings

    @property
    def reads(self) -> tuple[Read, ...]:
        """The query."""
        return (self.read,)

    @property
    def summary(self) -> str:
        """How they are found."""
        return "regions that the conditions admit are claimed"

    def regions(self, parameters: Sequence[pa.Scalar], control: RunControl) -> frozenset[str]:
        """Those that the query's conditions admit."""
        with self.read.query.telling():
            values = [parameters[one] for one in self.read.query.ordinals]
            return self.read.prepared.admitted_regions(self.target.name, values, self.settings, control)

    def table(self, parameters: Sequence[pa.Scalar], control: RunControl) -> pa.Table:
        """Run the query."""
        return collected(self.read.batches(parameters, self.settings, control), self.target.name)


@dataclass(frozen=True, eq=False)
class PointRows:
    """Rows that are named by their keys, so that no plan is needed to find them.

    Attributes:
        target: table that is written; the regions of its rows follow from the key.
        lookup: a query that is but a lookup; gives the target's columns.
        expressions: gives what `planned` gives, from what the lookup gives; None where that is the same.
        planned: the same rows by a query, where a value is not exactly of the key's type.
    """

    target: Target
    lookup: Read
    expressions: RowsQuery | None
    planned: PlannedRows

    @property
    def reads(self) -> tuple[Read, ...]:
        """Both queries."""
        return (self.planned.read, self.lookup)

    @property
    def summary(self) -> str:
        """How they are found."""
        return "the region of each key is claimed"

    def regions(self, parameters: Sequence[pa.Scalar], control: RunControl) -> frozenset[str]:
        """Those of the keys."""
        keys = self._keys(parameters)
        if keys is None:
            return self.planned.regions(parameters, control)
        return frozenset(self.target.table.writer().regions_of(keys)) if keys.num_rows else frozenset()

    def table(self, parameters: Sequence[pa.Scalar], control: RunControl) -> pa.Table:
        """Look the keys up."""
        if self._keys(parameters) is None:
            return self.planned.table(parameters, control)
        found = self.lookup.batches(parameters, self.planned.settings, control).read_all()
        if self.expressions is None:
            return found
        if not found.num_rows:
            return self.planned.read.schema.empty_table()
        return self.expressions.rows({self.target.name: found}, parameters, control)

    def _keys(self, parameters: Sequence[pa.Scalar]) -> pa.Table | None:
        values = [parameters[one] for one in self.lookup.query.ordinals]
        return self.lookup.prepared.wanted_keys(values)
