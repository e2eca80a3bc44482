"""What every statement that changes something looks like to the gateway, and those that change rows.

Most of these read rows and write what becomes of them, as one step that begins anew if need be.
"""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TypeVar

import pyarrow as pa

from memwal.errors import InvalidInputError, LanceGatewayError
from memwal.writing import Changes, FencedError, TableWriter, WriteReceipt
from planner.bridge.plain_types import plain_type
from planner.bridge.run_control import RunControl
from planner.scans.settings import SessionSettings
from planner.writes.dml.reading.key_rows import Rows
from planner.writes.dml.reading.read_rows import ReadStep
from planner.writes.dml.reading.rows_query import NO_COLUMNS, Returning
from planner.writes.dml.statement.target import Target
from planner.writes.dml.statement.text import Read, retold

ATTEMPTS = 12
"""Each of them claims the regions anew; more would only add to a fight between writers."""
_PAUSE_SECONDS = 0.005
_MAX_PAUSE_SECONDS = 0.5

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class WriteResult:
    """What a statement did.

    Attributes:
        affected: rows that were inserted, updated or deleted; -1 where that means nothing.
        rows: what RETURNING asked for; None without it.
        is_durable: whether what was acknowledged survives the end of this process.
    """

    affected: int
    rows: pa.Table | None = None
    is_durable: bool = True


class PreparedWrite(ABC):
    """A statement that was checked and changes something each time it is executed; safe to share.

    Preparing and describing it changes nothing.

    Attributes:
        sql: as given.
        parameter_schema: name and type of each parameter, in order.
    """

    sql: str
    parameter_schema: pa.Schema

    @property
    def target(self) -> str:
        """Name of the table that is changed; "" for none."""
        return ""

    @property
    def schema(self) -> pa.Schema:
        """Of the rows that it returns; without columns where nothing is returned."""
        return NO_COLUMNS

    @cached_property
    def digest(self) -> bytes:
        """8 bytes that tell the result's schema."""
        return blake2b(bytes(self.schema.serialize()), digest_size=8).digest()

    @abstractmethod
    def execute(self, parameters: Sequence[pa.Scalar] = (), control: RunControl | None = None) -> WriteResult:
        """Do it once.

        Raises:
            LanceGatewayError: what went wrong, and what of it was written.
        """

    @abstractmethod
    def execute_many(self, parameters: pa.Table, control: RunControl | None = None) -> WriteResult:
        """Do it once for each row of parameters, in order, in as few writes as that allows.

        Args:
            parameters: one column per parameter, of the types of `parameter_schema`.
            control: stops it.

        Raises:
            LanceGatewayError: what went wrong, and what of it was written.
        """


def parameter_schema(count: int, *known: Mapping[int, pa.DataType]) -> pa.Schema:
    """One nullable field per parameter.

    Args:
        count: of parameters.
        known: ordinal -> type; earlier ones count for more.
    """
    types: dict[int, pa.DataType] = {}
    for one in reversed(known):
        types |= one
    kinds = [types.get(at, pa.string()) for at in range(count)]
    stored = [kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind for kind in kinds]
    return pa.schema([pa.field(f"${at}", plain_type(kind)) for at, kind in enumerate(stored, start=1)])


def check_count(values: Sequence[object], schema: pa.Schema) -> None:
    """As many values as parameters.

    Raises:
        InvalidInputError: too few or too many.
    """
    if len(values) != len(schema):
        msg = f"the statement has {len(schema)} parameter(s), but {len(values)} were bound"
        raise InvalidInputError(msg)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What was computed from rows that were read.

    Attributes:
        affected: rows that the statement counts.
        changes: to be written; None for none.
        shown: rows that RETURNING is about.
    """

    affected: int
    changes: Changes | None
    shown: pa.Table


def again_if_fenced(step: Callable[[], T], control: RunControl, table: str) -> T:
    """Do something until no other writer comes between.

    Args:
        step: writes all or nothing, and raises `FencedError` where it wrote nothing.
        control: may stop it between two attempts.
        table: for the message.

    Raises:
        FencedError: others came between every time; nothing was written.
        LanceGatewayError: whatever the step raises.
    """
    for attempt in range(ATTEMPTS):
        control.check()
        try:
            return step()
        except FencedError as error:
            if attempt == ATTEMPTS - 1:
                msg = (
                    f"other writers claimed regions of table {table!r} {ATTEMPTS} times while this statement "
                    f"was about to write, and nothing was written: send it again ({error})"
                )
                raise FencedError(msg) from error
        _pause(attempt)
    raise AssertionError


def rewritten(
    target: Target,
    step: ReadStep,
    compute: Callable[[pa.Table], Outcome],
    control: RunControl,
    *,
    durable: bool,
) -> tuple[Outcome, WriteReceipt]:
    """Read rows and write what becomes of them, with nobody in between.

    Args:
        target: table.
        step: reads at consistency "strong"; anew for every attempt.
        compute: from the rows that were read.
        control: may stop it before it writes.
        durable: whether what is acknowledged survives the end of this process.

    Raises:
        FencedError: others came between every time; nothing was written.
        LanceGatewayError: what went wrong.
    """
    writer = target.table.writer()
    held_ids: set[str] = set()

    def attempt() -> tuple[Outcome, WriteReceipt] | None:
        held_ids.update(step.regions(writer))
        with writer.exclusive(frozenset(held_ids)) as held:
            outcome = compute(step.rows())
            if outcome.changes is None:
                return outcome, WriteReceipt({}, durable)
            needed = set() if step.is_whole else _regions_of(target, writer, outcome.changes)
            if not needed <= held_ids:
                # Rows of the base table whose region did not exist yet, or that only the rows tell.
                held_ids.update(needed)
                return None
            control.check()
            return outcome, held.write(outcome.changes, durable=durable)

    while (done := again_if_fenced(attempt, control, target.name)) is None:
        pass
    return done


def _regions_of(target: Target, writer: TableWriter, changes: Changes) -> set[str]:
    written = [rows for rows in (changes.upserts, changes.deletes) if rows is not None]
    return {one for rows in written for one in writer.find_regions(rows.select(list(target.place_columns)))}


def _pause(attempt: int) -> None:
    """Wait a little, differently long in every process, so that two don't fence each other in step."""
    longest = min(_PAUSE_SECONDS * 2**attempt, _MAX_PAUSE_SECONDS)
    threading.Event().wait(random.uniform(0, longest))  # noqa: S311 - no secret


@dataclass(frozen=True, eq=False)
class PreparedRows(PreparedWrite):
    """A statement that was checked and changes rows.

    Attributes:
        sql: as given.
        into: table that it writes to.
        returning: what is answered.
        parameter_schema: name and type of each parameter.
        settings: of the session.
    """

    sql: str
    into: Target
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
    @abstractmethod
    def reads(self) -> tuple[Read, ...]:
        """Queries on which it depends that the statement means what it meant."""

    @property
    @abstractmethod
    def shown(self) -> Read | None:
        """The query whose plan tells most; None where nothing is read."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """What would be written, in a line."""

    def execute_many(self, parameters: pa.Table, control: RunControl | None = None) -> WriteResult:
        """Do it for one set of parameters after another; those before an error were done."""
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


Compute = Callable[[pa.Table, Sequence[pa.Scalar], RunControl], Outcome]
"""From rows that were read, and parameters, what is written."""


@dataclass(frozen=True, eq=False)
class PreparedChange(PreparedRows):
    """An UPDATE, DELETE or MERGE that was checked.

    Attributes:
        what: its name.
        rows: that it reads.
        compute: what becomes of them.
    """

    what: str
    rows: Rows
    compute: Compute

    @property
    def reads(self) -> tuple[Read, ...]:
        """Queries that its rows come from."""
        return self.rows.reads

    @property
    def shown(self) -> Read:
        """The query whose rows are changed."""
        return self.rows.shown

    @property
    def summary(self) -> str:
        """What would be written."""
        key = ", ".join(self.into.key)
        return f"{self.what.capitalize()}Exec: table={self.target}, key=[{key}], {self.rows.summary}"

    def execute(self, parameters: Sequence[pa.Scalar] = (), control: RunControl | None = None) -> WriteResult:
        """Read, and write."""
        check_count(parameters, self.parameter_schema)
        self.into.check_unaltered(self.sql)
        asked = control or RunControl()
        outcome, receipt = rewritten(
            self.into,
            self.rows.begin(parameters, asked),
            lambda rows: self.compute(rows, parameters, asked),
            asked,
            durable=self.settings.durable_writes,
        )
        answer = self.returning.rows(outcome.shown, parameters, asked)
        return WriteResult(outcome.affected, answer, receipt.is_durable)


def no_change(target: Target) -> Outcome:
    """Nothing was found that is to be changed."""
    return Outcome(0, None, target.schema.empty_table())
