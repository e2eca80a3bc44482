"""INSERT of values or of a query's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp, parse_one

from memwal.errors import InvalidInputError
from memwal.writing import Changes
from planner.access import Access
from planner.control import RunControl
from planner.dml.prepared import NO_COLUMNS, WriteResult
from planner.settings import SessionSettings

if TYPE_CHECKING:
    from planner.engine import QueryEngine
    from planner.prepared_query import PreparedQuery


@dataclass(frozen=True, eq=False)
class PreparedInsert:
    """An INSERT that was checked.

    Attributes:
        sql: as given.
        table: that it writes to.
        columns: that the rows of `source` give, in their order.
        source: the values or query.
    """

    sql: str
    table: str
    columns: tuple[str, ...]
    source: PreparedQuery
    engine: QueryEngine
    settings: SessionSettings

    schema = NO_COLUMNS

    @property
    def parameter_schema(self) -> pa.Schema:
        """Name and type of each parameter."""
        return self.source.parameter_schema

    @property
    def digest(self) -> bytes:
        """8 bytes that tell the result's schema."""
        return blake2b(bytes(self.schema.serialize()), digest_size=8).digest()

    def execute(self, parameters: Sequence[pa.Scalar] = (), control: RunControl | None = None) -> WriteResult:
        """Write the rows."""
        rows = self.source.execute(parameters, self.settings, control).read_all()
        table = self.engine.catalog.table(self.table)
        schema = table.schema
        arrays = []
        for field in schema:
            if field.name in self.columns:
                arrays.append(rows.column(self.columns.index(field.name)).cast(field.type))
            else:
                arrays.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
        receipt = table.writer().write(Changes(pa.Table.from_arrays(arrays, schema=schema)))
        return WriteResult(receipt.num_rows, is_durable=receipt.is_durable)

    def execute_many(self, parameters: pa.Table, control: RunControl | None = None) -> WriteResult:
        """Write the rows of each set of parameters."""
        done = 0
        for row in range(parameters.num_rows):
            done += self.execute([column[row] for column in parameters.columns], control).affected
        return WriteResult(done)


def prepare_insert(
    engine: QueryEngine, sql: str, settings: SessionSettings, access: Access
) -> PreparedInsert:
    """Check an INSERT.

    Raises:
        LanceGatewayError: what is wrong with it.
    """
    tree = parse_one(sql, dialect="postgres")
    if not isinstance(tree, exp.Insert):
        msg = f"{sql!r} is no INSERT"
        raise InvalidInputError(msg)
    target = tree.this
    columns: tuple[str, ...] = ()
    if isinstance(target, exp.Schema):
        columns = tuple(one.name for one in target.expressions)
        target = target.this
    source = engine.prepare(tree.expression.sql(dialect="postgres"), settings, access)
    names = columns or tuple(engine.catalog.table_schema(target.name).names)
    return PreparedInsert(sql, target.name, names, source, engine, settings)
