"""A statement that defines something, checked and ready to be executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from memwal.base import versions
from memwal.base.versions import Outcome
from memwal.errors import InvalidInputError, PermissionDeniedError, PreconditionError
from planner.access.rights import Access
from planner.bridge.run_control import RunControl
from planner.plans.query_planner import QueryPlanner
from planner.tables.state.table import Table
from planner.writes.dml.statement.prepared_write import NO_COLUMNS, WriteResult


def check_may_create(engine: QueryPlanner, name: str, access: Access) -> None:
    """The one check of all that make a table or a view, whether or not there is one.

    Raises:
        PermissionDeniedError: the principal may not; nothing is told of what exists.
        PreconditionError: the gateway only reads.
        InvalidInputError: nothing can have that name.
    """
    engine.catalog.check_name(name)
    rights = access.of(name)
    if rights is None or not access.may_write(name) or not rights.is_unrestricted:
        msg = f"user {access.user!r} may not make a table or view {name!r}: an administrator must grant it"
        raise PermissionDeniedError(msg)
    check_writable(engine, name)


def check_writable(engine: QueryPlanner, name: str) -> None:
    """Refuse changes where the gateway only reads.

    Raises:
        PreconditionError: it does.
    """
    if engine.catalog.writing is None:
        msg = f"{name!r} can't be made, changed or dropped: this gateway was started read-only"
        raise PreconditionError(msg)


def committed(table: Table, what: str, change: Callable[[Any], Outcome]) -> Outcome:
    """Apply a change to the newest version of a base table, again if a merge or another change came first.

    Args:
        table: that is changed.
        what: is done, for messages: "add a column".
        change: takes the `lance.LanceDataset` and commits.

    Raises:
        PreconditionError: Lance refuses it; says why.
        UnavailableError: others were first, time after time.
    """

    def attempt() -> Outcome:
        dataset = table.base().dataset
        outcome = change(dataset.checkout_version(dataset.latest_version))
        table.base()  # This gateway's next statement knows, also where versions are looked for rarely.
        return outcome

    return versions.committed(f"can't {what} of table {table.name!r}", attempt)


DONE = WriteResult(-1)
"""Of a statement that writes no rows and returns none."""
Action = Callable[[RunControl | None], WriteResult]


@dataclass(frozen=True, eq=False)
class PreparedDefinition:
    """See `planner.writes.dml.statement.prepared_write.PreparedWrite`.

    Attributes:
        sql: as given.
        action: what it does, each time it is executed.
        target: name of the table or view that it makes, changes or drops.
        schema: of the rows that it returns.
    """

    sql: str
    action: Action
    target: str
    schema: pa.Schema = NO_COLUMNS

    parameter_schema = NO_COLUMNS

    @property
    def digest(self) -> bytes:
        """8 bytes that tell the result's schema."""
        return blake2b(bytes(self.schema.serialize()), digest_size=8).digest()

    def execute(self, parameters: Sequence[pa.Scalar] = (), control: RunControl | None = None) -> WriteResult:
        """Do it once.

        Raises:
            LanceGatewayError: why it was not done.
        """
        if parameters:
            msg = f"statements that define tables take no parameters, and {len(parameters)} were bound"
            raise InvalidInputError(msg)
        return self.action(control)

    def execute_many(self, parameters: pa.Table, control: RunControl | None = None) -> WriteResult:
        """Refused for more than one set of parameters: there are none that could differ."""
        if parameters.num_columns:
            msg = f"statements that define tables take no parameters, and {parameters.num_columns} were bound"
            raise InvalidInputError(msg)
        return self.action(control)
