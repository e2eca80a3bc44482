"""What every statement that changes something looks like to the gateway."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import pyarrow as pa

from memwal.errors import InvalidInputError
from planner.bridge.plain_types import plain_type
from planner.bridge.run_control import RunControl

NO_COLUMNS = pa.schema([])


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
