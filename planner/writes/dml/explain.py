"""EXPLAIN of a statement that writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.sql.text.statement_reader import StatementReader
from lance_gateway.planner.sql.text.tokens import tokenize
from lance_gateway.planner.writes.dml.prepared_write import (
    PreparedRows,
    PreparedWrite,
    WriteResult,
    check_parameter_count,
)

_PLAN = pa.schema([pa.field("plan_type", pa.string()), pa.field("plan", pa.string())])


@dataclass(frozen=True, eq=False)
class PreparedExplain(PreparedWrite):
    """EXPLAIN of a statement that writes; shows the plan of its query, and writes nothing."""

    sql: str
    statement: PreparedRows
    engine: QueryPlanner
    settings: SessionSettings
    access: Access

    is_transactional = True
    changes_something = False

    @property
    def schema(self) -> pa.Schema:
        """Schema of the result of EXPLAIN."""
        return _PLAN

    @property
    def parameter_schema(self) -> pa.Schema:
        """Parameters of the explained statement."""
        return self.statement.parameter_schema

    def execute(self, parameters: Sequence[pa.Scalar] = (), control: RunControl | None = None) -> WriteResult:
        """Return the plan.

        Raises:
            LanceGatewayError: the parameters don't fit the statement.
        """
        check_parameter_count(parameters, self.parameter_schema)
        kinds, plans = ["write_plan"], [self.statement.summary]
        source = self.statement.explained_query
        if source is not None:
            explain = self.engine.prepare(f"EXPLAIN {source.query.sql}", self.settings, self.access)
            rows = explain.execute(source.query.values(parameters), None, control).read_all()
            kinds += rows.column(0).to_pylist()
            plans += rows.column(1).to_pylist()
        return WriteResult(-1, pa.table([kinds, plans], schema=_PLAN))

    def execute_many(self, parameters: pa.Table, control: RunControl | None = None) -> WriteResult:
        """Return the plan for the first set of parameters."""
        return self.execute([column[0] for column in parameters.columns], control)


def split_explain(sql: str) -> tuple[str, bool]:
    """Return the statement behind EXPLAIN and its options, and whether ANALYZE is one of them."""
    reader = StatementReader(tokenize(sql))
    reader.expect("EXPLAIN")
    analyzes = reader.take("ANALYZE")
    reader.take("VERBOSE")
    if reader.take("FORMAT"):
        reader.at += 1
    return reader.text.sql[reader.text.start(reader.at) :], analyzes


def analyze_error(what: str) -> UnsupportedError:
    """Return the error for EXPLAIN ANALYZE of a statement that writes."""
    msg = f"EXPLAIN ANALYZE would execute the {what}: use EXPLAIN, which writes nothing, or run it"
    return UnsupportedError(msg)
