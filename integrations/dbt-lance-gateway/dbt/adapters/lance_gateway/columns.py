"""Columns as dbt names them."""

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from dbt.adapters.base import Column
from dbt.adapters.lance_gateway.types import write_type


@dataclass
class LanceGatewayColumn(Column):
    """A column with its SQL type; text has a length where a rule of the table says so."""

    TYPE_LABELS: ClassVar[dict[str, str]] = {
        "STRING": "text",
        "FLOAT": "double precision",
        "INTEGER": "integer",
        "TIMESTAMP": "timestamp(6)",
    }

    @classmethod
    def from_arrow(cls, field: pa.Field, max_length: int | None) -> "LanceGatewayColumn":
        """Return the column of a field.

        Args:
            field: of a result.
            max_length: of a column of text, in characters; None for any.
        """
        if pa.types.is_decimal(field.type):
            return cls(field.name, "numeric", None, field.type.precision, field.type.scale)
        return cls(field.name, write_type(field.type), max_length)

    @property
    def data_type(self) -> str:
        """Return the type as CREATE TABLE takes it."""
        if self.is_string():
            return self.string_type(self.string_size())
        return str(super().data_type)

    def string_size(self) -> int:
        """Return the length in characters; 0 for any."""
        return int(self.char_size or 0)

    def can_expand_to(self, other_column: Column) -> bool:
        """Return whether text of the other column may be too long for this one."""
        if not (self.is_string() and other_column.is_string()) or not self.string_size():
            return False
        size = int(other_column.string_size())
        return size == 0 or size > self.string_size()

    @classmethod
    def string_type(cls, size: int) -> str:
        """Return the type of text of at most `size` characters; of any length for 0."""
        return f"varchar({size})" if size else "text"
