"""Values of columns in rows that were written before the columns were added.

A generation or log entry may be older than a column. Its rows have NULL there, or, where the column was added
with a default, the value that the default had at that moment. The base table stores it for every row.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa

from lance_gateway.memwal.errors import CorruptDataError

INITIAL_VALUE: Final = b"lance-gateway:initial-value"
"""In a column's metadata: an Arrow IPC stream of one row and one column, in base64."""
_COLUMN: Final = "value"


@dataclass(frozen=True)
class InitialValue:
    """The value of a column in rows that don't store it.

    Attributes:
        encoded: as the metadata of the column has it.
    """

    encoded: bytes

    @staticmethod
    def of(value: pa.Array) -> InitialValue:
        """Encode the one value of an array."""
        sink = pa.BufferOutputStream()
        batch = pa.record_batch([value], names=[_COLUMN])
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        return InitialValue(base64.b64encode(sink.getvalue()))

    @cached_property
    def _value(self) -> pa.Array:
        try:
            batch = pa.ipc.open_stream(base64.b64decode(self.encoded, validate=True)).read_next_batch()
        except (binascii.Error, pa.ArrowException, StopIteration) as error:
            msg = f"{INITIAL_VALUE.decode()} of a column can't be read ({error}): it is {self.encoded[:40]!r}"
            raise CorruptDataError(msg) from error
        return batch.column(_COLUMN)

    def repeat(self, rows: int, kind: pa.DataType) -> pa.Array:
        """Return the value once for each of some rows.

        Raises:
            CorruptDataError: the metadata is not a value.
        """
        return self._value.cast(kind).take(pa.nulls(rows, pa.int64()).fill_null(0))


def list_initial_values(schema: pa.Schema) -> dict[str, InitialValue]:
    """Return column -> initial value of a stored schema, for columns that have one."""
    return {
        field.name: InitialValue(field.metadata[INITIAL_VALUE])
        for field in schema
        if field.metadata and INITIAL_VALUE in field.metadata
    }


def build_initial_column(field: pa.Field, rows: int) -> pa.Array:
    """Return a column for rows that don't store it.

    Args:
        field: of a stored schema.
        rows: how many.
    """
    encoded = (field.metadata or {}).get(INITIAL_VALUE)
    return pa.nulls(rows, field.type) if encoded is None else InitialValue(encoded).repeat(rows, field.type)
