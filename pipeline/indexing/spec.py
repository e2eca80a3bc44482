"""Specifications of indexes to build."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from lance_gateway.memwal.creating.index_types import FULL_TEXT, INDEX_TYPES, IndexType
from lance_gateway.memwal.errors import InvalidInputError, NotFoundError, UnsupportedError
from lance_gateway.pipeline.jobs.lake import LakeTable

# Where segments are built side by side, each has the partitions that all agree on.
_OF_WHOLE_TABLES: Final = "target_partition_size"


def index_type(name: str) -> IndexType:
    """The type of a name, in any case; FTS is INVERTED.

    Raises:
        InvalidInputError: there is none.
    """
    folded = name.upper()
    found = INDEX_TYPES.get("INVERTED" if folded == FULL_TEXT else folded)
    if found is None:
        raise InvalidInputError(f"there is no index of type {name!r}: the types are {', '.join(INDEX_TYPES)}")
    return found


def parameter(kind: IndexType, name: str, text: str) -> Any:  # noqa: ANN401 - parameters differ
    """Read a parameter from its text.

    Raises:
        InvalidInputError: the type has no such parameter, or the value makes no sense.
    """
    known = [parameter for parameter in kind.parameters if parameter != _OF_WHOLE_TABLES]
    if name not in known:
        raise InvalidInputError(
            f"an index of type {kind.name} has no parameter {name!r}: its parameters are "
            f"{', '.join(known) or 'none'}"
        )
    try:
        return kind.parameters[name](text)
    except ValueError as error:
        raise InvalidInputError(
            f"parameter {name} of an index of type {kind.name} is {text!r}, but must be {error}"
        ) from None


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """A new index.

    Attributes:
        column: that it is of.
        type: of `INDEX_TYPES`, in any case.
        name: of the index; the column's with `_idx` where none is given.
        parameters: name -> value.
        replaces: whether an index of that name may be there, and goes.
        segment_rows: a table of more rows is divided into segments of about so many, which are built side by
            side.
    """

    column: str
    type: str = "BTREE"
    name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    replaces: bool = False
    segment_rows: int = 1_000_000

    def __post_init__(self) -> None:
        kind = index_type(self.type)
        object.__setattr__(self, "type", kind.name)
        object.__setattr__(self, "name", self.name or f"{self.column}_idx")
        if not self.column:
            raise InvalidInputError(f"an index of type {self.type} is of a column: name one")
        if self.segment_rows < 1:
            raise InvalidInputError(f"segment_rows is {self.segment_rows}, but must be 1 or more")
        for name, value in self.parameters.items():
            text = ",".join(value) if isinstance(value, list) else str(value)
            parameter(kind, name, text)

    @staticmethod
    def parse(
        text: str,
        parameters: Mapping[str, str] | None = None,
        *,
        replaces: bool = False,
        segment_rows: int = 1_000_000,
    ) -> IndexSpec:
        """Read ``COLUMN:TYPE[:NAME]`` and parameters of that type.

        Raises:
            InvalidInputError: it can't be read; says what can.
        """
        column, *more = text.split(":")
        if not column or not 1 <= len(more) <= 2 or not all(more):
            raise InvalidInputError(
                f"{text!r} is not an index: write it as COLUMN:TYPE or COLUMN:TYPE:NAME, such as id:BTREE"
            )
        kind = index_type(more[0])
        values = {name: parameter(kind, name, value) for name, value in (parameters or {}).items()}
        name = more[1] if len(more) > 1 else ""
        return IndexSpec(column, more[0], name, values, replaces, segment_rows)

    @property
    def kind(self) -> IndexType:
        """Its type."""
        return index_type(self.type)

    def check(self, table: LakeTable, schema: pa.Schema) -> None:
        """Whether a table has such a column.

        Raises:
            NotFoundError: it has none; names those that come close.
            UnsupportedError: the column can't have such an index.
            InvalidInputError: a parameter does not fit the column.
        """
        if self.column not in schema.names:
            close = difflib.get_close_matches(self.column, schema.names, n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else f"it has {', '.join(schema.names)}"
            raise NotFoundError(f"table {table.name!r} has no column {self.column!r}: {hint}")
        kind = schema.field(self.column).type
        if not self.kind.takes(kind):
            raise UnsupportedError(
                f"an index of type {self.type} is of {self.kind.columns}, and column {self.column!r} of "
                f"table {table.name!r} is {kind}"
            )
        parts = self.parameters.get("num_sub_vectors")
        if parts is not None and kind.list_size % parts:
            size = kind.list_size
            raise InvalidInputError(
                f"num_sub_vectors is {parts}, which does not divide the {size} dimensions of {self.column!r}"
            )
