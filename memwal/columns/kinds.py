"""Kinds of Arrow types, in all layouts that Arrow has for their values."""

from __future__ import annotations

import pyarrow as pa

_types = pa.types


def is_text(kind: pa.DataType) -> bool:
    """Return whether values are texts."""
    return bool(_types.is_string(kind) or _types.is_large_string(kind) or _types.is_string_view(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Return whether values are bytes."""
    return bool(
        _types.is_binary(kind)
        or _types.is_large_binary(kind)
        or _types.is_binary_view(kind)
        or _types.is_fixed_size_binary(kind)
    )


def is_number(kind: pa.DataType) -> bool:
    """Return whether values are integers, floating-point numbers or decimals."""
    return bool(_types.is_integer(kind) or _types.is_floating(kind) or _types.is_decimal(kind))


def is_list(kind: pa.DataType) -> bool:
    """Return whether values are lists."""
    return bool(
        _types.is_list(kind) or _types.is_large_list(kind) or _types.is_fixed_size_list(kind)
    ) or is_list_view(kind)


def is_list_view(kind: pa.DataType) -> bool:
    """Return whether values are lists that may share their elements."""
    return bool(_types.is_list_view(kind) or _types.is_large_list_view(kind))
