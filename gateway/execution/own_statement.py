"""Statements that the gateway answers by itself, without the engine: they read no table."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from functools import cached_property
from hashlib import blake2b
from typing import ClassVar, TypeAlias

import pyarrow as pa

from lance_gateway.gateway.execution.query import Query
from lance_gateway.gateway.protocol.commands import Call


class OwnStatement(ABC):
    """A parsed statement. Nothing happens before `run`.

    Attributes:
        sql: its text.
        schema: of the rows that it returns; without columns, it is an update.
        changes: whether sessions that only read refuse it.
        parameter_schema: has no fields.
    """

    sql: str
    schema: pa.Schema
    changes: ClassVar[bool] = False
    parameter_schema: ClassVar[pa.Schema] = pa.schema([])

    @cached_property
    def serialized_parameter_schema(self) -> bytes:
        """No parameters, as an encapsulated IPC message."""
        return bytes(self.parameter_schema.serialize())

    @cached_property
    def digest(self) -> bytes:
        """8 bytes that identify the result's schema."""
        return blake2b(bytes(self.schema.serialize()), digest_size=8).digest()

    @property
    def is_update(self) -> bool:
        """Whether it returns no rows, and so takes effect when it is planned or put."""
        return not len(self.schema)

    @abstractmethod
    def run(self, call: Call) -> pa.RecordBatch:
        """Do what it says; return the rows.

        Args:
            call: that executes it.

        Raises:
            LanceGatewayError: it can't be done for this call.
        """


class EndlessStatement(OwnStatement):
    """A statement whose result goes on until somebody ends it."""

    def run(self, call: Call) -> pa.RecordBatch:
        """Raise: it returns more than one batch."""
        raise NotImplementedError

    @abstractmethod
    def follow(self, query: Query, call: Call) -> Generator[tuple[pa.RecordBatch, bytes]]:
        """Yield batches, some without rows, each with metadata of the application.

        Args:
            query: the execution, which has no slot.
            call: that waits.

        Raises:
            LanceGatewayError: it can't go on, or was stopped.
        """


ReadOwnStatement: TypeAlias = Callable[[str, Call], OwnStatement | None]
"""Reads a statement for the call that prepares it; returns None for those of the engine."""
