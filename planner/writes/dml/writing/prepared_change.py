"""A statement that reads rows and writes what becomes of them, as one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from memwal.errors import LanceGatewayError
from memwal.writing import Changes
from planner.bridge.run_control import RunControl
from planner.scans.settings import SessionSettings
from planner.writes.dml.reading.parameter_types import Read
from planner.writes.dml.reading.read_rows import Rows
from planner.writes.dml.statement.prepared_write import Described, WriteResult, check_count
from planner.writes.dml.statement.splice import retold
from planner.writes.dml.statement.target import Target
from planner.writes.dml.writing.retry_fenced import Outcome, rewritten
from planner.writes.dml.writing.returning import Returning

__all__ = ["Compute", "PreparedChange", "no_change"]

Compute = Callable[[pa.Table, Sequence[pa.Scalar], RunControl], Outcome]
"""From rows that were read, and parameters, what is written."""


@dataclass(frozen=True, eq=False)
class PreparedChange(Described):
    """An UPDATE, DELETE or MERGE that was checked.

    Attributes:
        sql: as given.
        what: its name.
        into: table that it writes to.
        rows: that it reads.
        compute: what becomes of them.
        returning: what is answered.
        parameter_schema: name and type of each parameter.
        settings: of the session.
    """

    sql: str
    what: str
    into: Target
    rows: Rows
    compute: Compute
    returning: Returning
    parameter_schema: pa.Schema
    settings: SessionSettings

    @property
    def target(self) -> str:
        """Name of the table."""
        return self.into.name

    @property
    def schema(self) -> pa.Schema:
        """Of what RETURNING gives."""
        return self.returning.schema

    @property
    def reads(self) -> tuple[Read, ...]:
        """Queries that it reads with."""
        return self.rows.reads

    @property
    def shown(self) -> Read:
        """The query whose rows are changed."""
        return self.rows.reads[0]

    @property
    def summary(self) -> str:
        """What would be written."""
        key = ", ".join(self.into.key)
        return f"{self.what.capitalize()}Exec: table={self.target}, key=[{key}], {self.rows.summary}"

    def execute(self, parameters: Sequence[pa.Scalar] = (), control: RunControl | None = None) -> WriteResult:
        """Read, and write.

        Raises:
            LanceGatewayError: what went wrong, and what of it was written.
        """
        check_count(parameters, self.parameter_schema)
        self.into.check_unaltered(self.sql)
        asked = control or RunControl()
        outcome, receipt = rewritten(
            self.into,
            lambda: self.rows.regions(parameters, asked),
            lambda: self.compute(self.rows.table(parameters, asked), parameters, asked),
            asked,
            durable=self.settings.durable_writes,
        )
        answer = self.returning.rows(outcome.shown, parameters, asked)
        return WriteResult(outcome.affected, answer, receipt.is_durable)

    def execute_many(self, parameters: pa.Table, control: RunControl | None = None) -> WriteResult:
        """Do it for one set of parameters after another.

        Raises:
            LanceGatewayError: what went wrong; those before it were done.
        """
        check_count(parameters.columns, self.parameter_schema)
        affected, is_durable, answers = 0, True, []
        for row in range(parameters.num_rows):
            try:
                done = self.execute([column[row] for column in parameters.columns], control)
            except LanceGatewayError as error:
                if not row:
                    raise
                count = f"set {row + 1} of {parameters.num_rows} sets of parameters"
                msg = f"{error}; this was {count}, and the {row} before it were done"
                raise retold(error, msg) from error
            affected += done.affected
            is_durable = is_durable and done.is_durable
            if done.rows is not None:
                answers.append(done.rows)
        rows = None
        if self.returning.query is not None:
            rows = pa.concat_tables([self.schema.empty_table(), *answers])
        return WriteResult(affected, rows, is_durable)


def no_change(target: Target) -> Outcome:
    """Nothing was found that is to be changed."""
    return Outcome(0, None, target.schema.empty_table())


def deleted(target: Target, rows: pa.Table) -> Changes:
    """The change that deletes rows."""
    return Changes(deletes=rows.select(list(target.place_columns)))
