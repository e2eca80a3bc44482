"""What is to be built."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from memwal.errors import InvalidInputError, NotFoundError, UnsupportedError
from pipeline.indexing.types import IndexType, index_type, parameter
from pipeline.lake import LakeTable


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """A new index.

    Attributes:
        column: that it is of.
        type: of `types.INDEX_TYPES`, in any case.
        name: of the index; the column's with `_idx` where none is given.
        parameters: name -> value, as `types` reads them.
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
            msg = f"an index of type {self.type} is of a column: name one"
            raise InvalidInputError(msg)
        if self.segment_rows < 1:
            msg = f"segment_rows is {self.segment_rows}, but must be 1 or more"
            raise InvalidInputError(msg)
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
            msg = f"{text!r} is no index: write it as COLUMN:TYPE or COLUMN:TYPE:NAME, such as id:BTREE"
            raise InvalidInputError(msg)
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
            msg = f"table {table.name!r} has no column {self.column!r}: {hint}"
            raise NotFoundError(msg)
        kind = schema.field(self.column).type
        if not self.kind.takes(kind):
            msg = (
                f"an index of type {self.type} is of {self.kind.columns}, and column {self.column!r} of "
                f"table {table.name!r} is {kind}"
            )
            raise UnsupportedError(msg)
        parts = self.parameters.get("num_sub_vectors")
        if parts is not None and kind.list_size % parts:
            size = kind.list_size
            msg = (
                f"num_sub_vectors is {parts}, which does not divide the {size} dimensions of {self.column!r}"
            )
            raise InvalidInputError(msg)
