"""A statement that defines something, checked and ready to be executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import pyarrow as pa

from memwal.errors import InvalidInputError
from planner.control import RunControl
from planner.dml.prepared import NO_COLUMNS, WriteResult

DONE = WriteResult(-1)
"""Of a statement that writes no rows and returns none."""
Action = Callable[[RunControl | None], WriteResult]


@dataclass(frozen=True, eq=False)
class PreparedDefinition:
    """See `planner.dml.prepared.PreparedWrite`.

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
