"""Prepared statements that change data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, copy_error
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.memwal.writing import FencedError
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.bridge.types.plain_types import plain_type
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.planner.tables.state.extended_tables import ROW_NUMBER
from lance_gateway.planner.writes.base_writes import BaseWrite, move_to_base
from lance_gateway.planner.writes.dml.reading.key_rows import Rows
from lance_gateway.planner.writes.dml.reading.read_rows import PlannedRows, collect_rows, combine_batches
from lance_gateway.planner.writes.dml.reading.rows_query import NO_COLUMNS, Returning
from lance_gateway.planner.writes.dml.statement.target import Target
from lance_gateway.planner.writes.dml.statement.text import SourceQuery
from lance_gateway.planner.writes.dml.writing_step import ATTEMPTS, Outcome, pause, read_and_write


@dataclass(frozen=True, eq=False)
class WriteResult:
    """The result of a statement.

    Attributes:
        affected: number of rows inserted, updated or deleted; -1 if the statement has no such number.
        rows: rows of RETURNING; None without it.
        is_durable: whether acknowledged rows survive the end of this process.
    """

    affected: int
    rows: pa.Table | None = None
    is_durable: bool = True


class PreparedWrite(ABC):
    """A checked statement that changes data each time it is executed; safe to share between threads.

    Attributes:
        sql: text of the statement.
        parameter_schema: name and type of each parameter, in order.
    """

    sql: str
    parameter_schema: pa.Schema

    is_transactional: ClassVar[bool] = False
    """Whether it can be part of a transaction; others commit the one that they are sent in."""
    changes_something: ClassVar[bool] = True
    """Whether read-only sessions refuse it."""

    @property
    def target(self) -> str:
        """Name of the table that is changed; "" if there is none."""
        return ""

    @property
    def schema(self) -> pa.Schema:
        """Schema of the returned rows; without columns if no rows are returned."""
        return NO_COLUMNS

    @cached_property
    def digest(self) -> bytes:
        """8-byte digest of the result's schema."""
        return blake2b(bytes(self.schema.serialize()), digest_size=8).digest()

    @abstractmethod
    def execute(self, parameters: Sequence[pa.Scalar] = (), control: RunControl | None = None) -> WriteResult:
        """Execute the statement once.

        Raises:
            LanceGatewayError: execution failed; the message says what was written.
        """

    @abstractmethod
    def execute_many(self, parameters: pa.Table, control: RunControl | None = None) -> WriteResult:
        """Execute the statement for each row of parameters, in order, in as few writes as possible.

        Args:
            parameters: one column per parameter, of the types of `parameter_schema`.
            control: cancels the execution.

        Raises:
            LanceGatewayError: execution failed; the message says what was written.
        """


def build_parameter_schema(count: int, *inferred_types: Mapping[int, pa.DataType]) -> pa.Schema:
    """Build a schema with one nullable field per parameter.

    Args:
        count: number of parameters.
        inferred_types: ordinal -> type; earlier mappings take precedence.
    """
    types: dict[int, pa.DataType] = {}
    for mapping in reversed(inferred_types):
        types |= mapping
    kinds = [types.get(at, pa.string()) for at in range(count)]
    stored = [kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind for kind in kinds]
    return pa.schema([pa.field(f"${at}", plain_type(kind)) for at, kind in enumerate(stored, start=1)])


def check_parameter_count(values: Sequence[object], schema: pa.Schema) -> None:
    """Check that there is one value per parameter.

    Raises:
        InvalidInputError: there are too few or too many values.
    """
    if len(values) != len(schema):
        msg = f"the statement has {len(schema)} parameter(s), but {len(values)} were bound"
        raise InvalidInputError(msg)


@dataclass(frozen=True, eq=False)
class PreparedRows(PreparedWrite):
    """A checked statement that changes rows.

    Attributes:
        sql: text of the statement.
        write_target: table that the statement writes to.
        returning: evaluates RETURNING.
        parameter_schema: name and type of each parameter.
        settings: session settings.
    """

    sql: str
    write_target: Target
    returning: Returning
    parameter_schema: pa.Schema
    settings: SessionSettings

    is_transactional = True

    @property
    def target(self) -> TableName:
        """Name of the table."""
        return self.write_target.name

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows of RETURNING."""
        return self.returning.schema

    @property
    @abstractmethod
    def source_queries(self) -> tuple[SourceQuery, ...]:
        """Queries that the statement reads with; it must be prepared again if one of them was replanned."""

    @property
    @abstractmethod
    def explained_query(self) -> SourceQuery | None:
        """The query that EXPLAIN shows; None if the statement reads nothing."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """One line for EXPLAIN that describes the write."""

    def execute_many(self, parameters: pa.Table, control: RunControl | None = None) -> WriteResult:
        """Execute each set of parameters in order; sets before an error stay written."""
        check_parameter_count(parameters.columns, self.parameter_schema)
        affected, is_durable, answers = 0, True, []
        for row in range(parameters.num_rows):
            try:
                done = self.execute([column[row] for column in parameters.columns], control)
            except LanceGatewayError as error:
                if not row:
                    raise
                count = f"set {row + 1} of {parameters.num_rows} sets of parameters"
                msg = f"{error}; this was {count}, and the {row} before it were done"
                raise copy_error(error, msg) from error
            affected += done.affected
            is_durable = is_durable and done.is_durable
            if done.rows is not None:
                answers.append(done.rows)
        rows = None
        if self.returning.query is not None:
            rows = pa.concat_tables([self.schema.empty_table(), *answers])
        return WriteResult(affected, rows, is_durable)


Compute = Callable[[pa.Table, Sequence[pa.Scalar], RunControl], Outcome]
"""Computes the outcome from rows and parameters."""


@dataclass(frozen=True, eq=False)
class PreparedChange(PreparedRows):
    """A checked UPDATE, DELETE or MERGE.

    Attributes:
        operation: "UPDATE", "DELETE" or "MERGE".
        rows: rows that the statement reads.
        compute: computes the changes from them.
        by_batch: whether changes may be computed from a part of the rows at a time.
    """

    operation: str
    rows: Rows
    compute: Compute
    by_batch: bool = False

    @property
    def source_queries(self) -> tuple[SourceQuery, ...]:
        """Queries that the rows come from."""
        return self.rows.source_queries

    @property
    def explained_query(self) -> SourceQuery:
        """The query that reads the rows to change."""
        return self.rows.explained_query

    @property
    def summary(self) -> str:
        """One line for EXPLAIN that describes the write."""
        identity = ", ".join(self.write_target.identity)
        return (
            f"{self.operation.capitalize()}Exec: table={self.target}, key=[{identity}], {self.rows.summary}"
        )

    def execute(self, parameters: Sequence[pa.Scalar] = (), control: RunControl | None = None) -> WriteResult:
        """Read the rows, compute the changes and write them."""
        check_parameter_count(parameters, self.parameter_schema)
        self.write_target.check_schema_unchanged(self.sql)
        run_control = control or RunControl()
        if not self.write_target.key:
            return self._execute_numbered(parameters, run_control)
        outcome, receipt = read_and_write(
            self.write_target,
            self.rows.begin(parameters, run_control),
            lambda rows: self.compute(rows, parameters, run_control),
            run_control,
            durable=self.settings.durable_writes,
        )
        answer = self.returning.execute(outcome.returned_rows, parameters, run_control)
        return WriteResult(outcome.affected, answer, receipt.is_durable)

    def _execute_numbered(self, parameters: Sequence[pa.Scalar], control: RunControl) -> WriteResult:
        """Find rows by their numbers, and commit the change; again, if others changed them meanwhile."""
        table = self.write_target.table
        for attempt in range(ATTEMPTS):
            try:
                with BaseWrite.queue(table, control) if attempt else nullcontext():
                    if attempt:
                        pause(attempt)
                    if not self.write_target.is_plain:
                        move_to_base(table, control)
                    return self._try_numbered(parameters, control)
            except FencedError as error:
                if attempt == ATTEMPTS - 1:
                    msg = f"{error}, {ATTEMPTS} times, and nothing was written: send the statement again"
                    raise FencedError(msg) from error
        raise AssertionError

    def _try_numbered(self, parameters: Sequence[pa.Scalar], control: RunControl) -> WriteResult:
        write = BaseWrite.begin(self.write_target.table, control)
        self.write_target.check_version(write.base, self.sql)
        affected, removed, returned = 0, list[np.ndarray](), [self.write_target.schema.empty_table()]

        def compute_rows() -> Iterator[pa.Table]:
            nonlocal affected
            for rows in self._read_numbered(parameters, control):
                control.check()
                outcome = self.compute(rows, parameters, control)
                affected += outcome.affected
                if self.returning.query is not None:
                    returned.append(outcome.returned_rows)
                if outcome.changes is None:
                    continue
                if outcome.changes.deletes is not None:
                    removed.append(outcome.changes.deletes.column(ROW_NUMBER).to_numpy())
                if outcome.changes.upserts is not None:
                    yield outcome.changes.upserts

        write.write(compute_rows(), removed)
        answer = self.returning.execute(pa.concat_tables(returned), parameters, control)
        return WriteResult(affected, answer)

    def _read_numbered(self, parameters: Sequence[pa.Scalar], control: RunControl) -> Iterator[pa.Table]:
        """Yield the rows that the statement changes; all at once if they depend on one another."""
        assert isinstance(self.rows, PlannedRows)  # noqa: S101 - without a key, none are looked up
        batches = self.rows.read.execute(parameters, control)
        with self.rows.read.query.relocate_errors():
            if self.by_batch:
                yield from combine_batches(batches)
            else:
                yield collect_rows(batches, self.target)
