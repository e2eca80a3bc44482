"""A primary key of any shape as one Arrow column that can be hashed and compared."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

SEPARATOR = b":"


def key_column(keys: pa.Table) -> pa.Array:
    """One value per row; two rows are equal exactly if all their key columns are.

    A single column stays as it is. Several columns become one binary column in which each part is preceded
    by its length, so that ("a", "bc") and ("ab", "c") differ.

    Args:
        keys: the key columns, without NULLs, in the table's own types.
    """
    if keys.num_columns == 1:
        return _combined(keys.column(0))
    parts: list[pa.Array] = []
    for column in keys.columns:
        text = _as_binary(_combined(column))
        parts += [pc.cast(pc.cast(pc.binary_length(text), pa.string()), pa.binary()), text]
    return pc.binary_join_element_wise(*parts, pa.scalar(SEPARATOR, pa.binary()))


def _combined(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _as_binary(column: pa.Array) -> pa.Array:
    if pa.types.is_fixed_size_binary(column.type) or pa.types.is_large_binary(column.type):
        return column.cast(pa.binary())
    if pa.types.is_binary(column.type):
        return column
    return column.cast(pa.string()).cast(pa.binary())
