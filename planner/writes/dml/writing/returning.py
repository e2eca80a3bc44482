"""RETURNING: expressions over the rows that a statement wrote, or deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from planner.bridge.run_control import RunControl
from planner.scans.settings import SessionSettings
from planner.sql.tokens import quote
from planner.writes.dml.reading.evaluate import RowsQuery
from planner.writes.dml.statement.prepared_write import NO_COLUMNS
from planner.writes.dml.statement.reader import Part, Reader, WriteText
from planner.writes.dml.statement.splice import Splice
from planner.writes.dml.statement.target import Target

__all__ = ["Returning", "no_returning", "read_returning", "returning"]


@dataclass(frozen=True, eq=False)
class Returning:
    """What a statement answers, besides how many rows it changed.

    Attributes:
        query: over the rows; None where nothing is returned.
        table: what the rows are called in it.
    """

    query: RowsQuery | None = None
    table: str = ""
    ordinals: tuple[int, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """Of the answer; without columns where there is none."""
        return NO_COLUMNS if self.query is None else self.query.schema

    @property
    def parameter_types(self) -> dict[int, pa.DataType]:
        """Ordinal in the statement -> type that the expressions expect."""
        if self.query is None:
            return {}
        return dict(zip(self.ordinals, self.query.parameter_types, strict=True))

    def rows(self, rows: pa.Table, parameters: Sequence[pa.Scalar], control: RunControl) -> pa.Table | None:
        """The answer; None where nothing is returned."""
        return None if self.query is None else self.query.rows({self.table: rows}, parameters, control)


def no_returning() -> Returning:
    """Of a statement without RETURNING."""
    return Returning()


def read_returning(reader: Reader) -> Part:
    """The expressions behind RETURNING; an empty part without it."""
    if not reader.take("RETURNING"):
        return Part(reader.at, reader.at)
    part = reader.until()
    if not part:
        raise reader.error("RETURNING needs something to return, such as *")
    return part


def returning(
    statement: WriteText, part: Part, target: Target, alias: str | None, settings: SessionSettings
) -> Returning:
    """Check what is returned.

    Args:
        statement: that the part belongs to.
        part: expressions; may be empty.
        target: table whose rows they are of.
        alias: what the statement calls it.
        settings: of the session.

    Raises:
        LanceGatewayError: what is wrong with an expression.
    """
    if not part:
        return no_returning()
    shown = quote(target.name) + ("" if alias is None else f" AS {quote(alias)}")
    query = Splice(statement).add("SELECT ").copy(part).add(f" FROM {shown}").query()
    made = RowsQuery(query, {target.name: target.schema}, settings.type_set)
    return Returning(made, target.name, query.ordinals)
