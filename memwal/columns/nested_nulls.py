"""NULLs of structs: where a struct is NULL, so are its children."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def push_nulls_down(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows in which the children of NULL structs are NULL, at every depth.

    Arrow allows any value below a NULL struct, and writers put zeros and empty texts there. DataFusion reads
    a child of a struct without the struct's own NULLs, so it would return these values.

    Returns:
        The same object if no struct is NULL.
    """
    if not any(kind.num_fields or isinstance(kind, pa.BaseExtensionType) for kind in rows.schema.types):
        return rows  # which are most: of a thousand columns, each takes some microseconds
    columns = rows.columns
    pushed = list(map(_push_down, columns))
    if all(new is old for new, old in zip(pushed, columns, strict=True)):
        return rows
    return pa.RecordBatch.from_arrays(pushed, schema=rows.schema)


def _push_down(values: pa.Array) -> pa.Array:
    kind = values.type
    if not len(values) or not _has_structs(kind):
        return values
    if isinstance(values, pa.ExtensionArray):
        stored = values.storage
        below = _push_down(stored)
        return values if below is stored else pa.ExtensionArray.from_storage(kind, below)
    mask = values.is_null() if values.null_count else None
    if pa.types.is_struct(kind):
        children = values.flatten()  # which applies the NULLs of the struct to each child
        pushed = list(map(_push_down, children))
        if mask is None and all(new is old for new, old in zip(pushed, children, strict=True)):
            return values
        return pa.StructArray.from_arrays(pushed, fields=list(kind), mask=mask)
    if pa.types.is_fixed_size_list(kind):
        window = values.values.slice(values.offset * kind.list_size, len(values) * kind.list_size)
        below = _push_down(window)
        return values if below is window else pa.FixedSizeListArray.from_arrays(below, type=kind, mask=mask)
    offsets = values.offsets
    first, stop = offsets[0].as_py(), offsets[-1].as_py()
    window = values.values.slice(first, stop - first)
    below = _push_down(window)
    if below is window:
        return values
    offsets = pc.subtract(offsets, pa.scalar(first, offsets.type))
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(offsets, below.field(0), below.field(1), type=kind, mask=mask)
    lists = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    return lists.from_arrays(offsets, below, type=kind, mask=mask)


def _has_structs(kind: pa.DataType) -> bool:
    """Return whether values are structs or contain some, besides the entries of maps."""
    if isinstance(kind, pa.BaseExtensionType):
        return _has_structs(kind.storage_type)
    if pa.types.is_struct(kind):
        return bool(kind.num_fields)
    if pa.types.is_map(kind):
        return _has_structs(kind.key_type) or _has_structs(kind.item_type)
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return is_list and _has_structs(kind.value_type)
