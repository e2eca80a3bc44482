"""Fields at every depth of a column, and values with some of them converted."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

Matches = Callable[[pa.Field], bool]
Convert = Callable[[pa.Array, pa.DataType], pa.Array]


def has_field(field: pa.Field, matches: Matches) -> bool:
    """Return whether a field matches, or one below it."""
    return matches(field) or any(has_field(one, matches) for one in _list_children(field.type))


def replace_fields(field: pa.Field, matches: Matches, replace: Callable[[pa.Field], pa.Field]) -> pa.Field:
    """Return a field with those replaced that match, at every depth."""
    if matches(field):
        return replace(field)
    if not has_field(field, matches):
        return field
    children = [replace_fields(one, matches, replace) for one in _list_children(field.type)]
    return field.with_type(_build_type(field.type, children))


def map_values(
    values: pa.Array, field: pa.Field, target: pa.Field, matches: Matches, convert: Convert
) -> pa.Array:
    """Return values with some of them converted, at every depth.

    Args:
        values: of a column.
        field: of the same shape; says which values are converted.
        target: of the same shape; says what they become.
        matches: whether values of a field are converted.
        convert: returns values with the type of `target` at that place.
    """
    if matches(field):
        return convert(values, target.type)
    if not has_field(field, matches):
        return values
    kind = target.type
    pairs = zip(_list_children(field.type), _list_children(kind), strict=True)
    if pa.types.is_struct(kind):
        below = [map_values(values.field(at), *pair, matches, convert) for at, pair in enumerate(pairs)]
        return pa.StructArray.from_arrays(below, fields=list(kind), mask=values.is_null())
    if values.offset:
        values = values.take(pa.array(range(len(values))))  # Arrow builds no lists with NULLs from a slice.
    mask = values.is_null() if values.null_count else None
    if pa.types.is_map(kind):
        (entries,) = pairs
        of_fields, of_targets = (_list_children(one.type) for one in entries)
        keys, items = (
            map_values(one, of_field, of_target, matches, convert)
            for one, of_field, of_target in zip(
                (values.keys, values.items), of_fields, of_targets, strict=True
            )
        )
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=kind, mask=mask)
    ((of_field, of_target),) = pairs
    elements = map_values(values.values, of_field, of_target, matches, convert)
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(elements, type=kind, mask=mask)
    return type(values).from_arrays(values.offsets, elements, type=kind, mask=mask)


def _list_children(kind: pa.DataType) -> list[pa.Field]:
    if isinstance(kind, pa.BaseExtensionType) or not pa.types.is_nested(kind):
        return []
    return [kind.field(at) for at in range(kind.num_fields)]


def _build_type(kind: pa.DataType, children: list[pa.Field]) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct(children)
    if pa.types.is_large_list(kind):
        return pa.large_list(children[0])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(children[0], kind.list_size)
    if pa.types.is_map(kind):
        return pa.map_(*children[0].type)
    return pa.list_(children[0])
