"""Conditions evaluated in SQL's three values, over record batches.

Arrow's own filter means something else by some of what DataFusion pushes: its `is_in` knows no NULL, so that
`(s IN ('a', 'b')) IS NULL` would never hold, and its NaN equals nothing. Here NULL in or before a list
gives NULL, and floating-point numbers compare as `docs/sql.md` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.predicates.arrow_expressions import Call, Field, Node, Value

__all__ = ["compared_floats", "evaluated"]

_Compare = Callable[[pa.Array, pa.Array | pa.Scalar], pa.BooleanArray]
_COMPARISONS: Mapping[str, _Compare] = MappingProxyType(
    {
        "equal": pc.equal,
        "not_equal": pc.not_equal,
        "less": pc.less,
        "less_equal": pc.less_equal,
        "greater": pc.greater,
        "greater_equal": pc.greater_equal,
    }
)
_COMBINATIONS: Mapping[str, Callable[[pa.Array, pa.Array], pa.BooleanArray]] = MappingProxyType(
    {"and_kleene": pc.and_kleene, "and": pc.and_kleene, "or_kleene": pc.or_kleene, "or": pc.or_kleene}
)


def evaluated(node: Node, batch: pa.RecordBatch) -> pa.BooleanArray | None:
    """One of TRUE, FALSE and NULL for each row; None where something in the tree is not known here.

    Args:
        node: a condition.
        batch: the rows, with all columns that it names.
    """
    found = _value(node, batch)
    return found if isinstance(found, pa.Array) and pa.types.is_boolean(found.type) else None


def _value(node: Node, batch: pa.RecordBatch) -> pa.Array | None:
    match node:
        case Field(name):
            column = batch.column(name)
            return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        case Value(scalar):
            return pa.repeat(scalar, batch.num_rows)
        case Call(function, arguments, options):
            values = [_value(one, batch) for one in arguments]
            known = [one for one in values if one is not None]
            return _call(function, known, options) if len(known) == len(values) else None
    return None


def _call(function: str, values: list[pa.Array], options: pa.StructScalar | None) -> pa.Array | None:
    if function in _COMBINATIONS:
        return reduce(_COMBINATIONS[function], values)
    if function == "invert":
        return pc.invert(values[0])
    if function in {"is_null", "is_valid"}:
        if options is not None and options["nan_is_null"].as_py():
            return None
        return values[0].is_null() if function == "is_null" else values[0].is_valid()
    if function == "is_in" and options is not None:
        return _member(values[0], options["value_set"].values)
    if function in _COMPARISONS:
        return _compare_terms(function, values[0], values[1])
    return None


def _compare_terms(function: str, left: pa.Array, right: pa.Array) -> pa.BooleanArray | None:
    if pa.types.is_floating(left.type) or pa.types.is_floating(right.type):
        return compared_floats(_COMPARISONS[function], left, right)
    try:
        return _COMPARISONS[function](left, right)
    except pa.ArrowNotImplementedError:
        return None


def compared_floats(compare: _Compare, left: pa.Array, right: pa.Array) -> pa.BooleanArray:
    """Compare as Lance does: NaN equals itself and is the greatest, signed the least; 0.0 equals -0.0."""
    hits = compare(_total_order(left), _total_order(right))
    return pc.if_else(pc.and_(left.is_valid(), right.is_valid()), hits, None)


def _total_order(column: pa.Array) -> pa.Array:
    """Integers that compare as Lance compares these numbers."""
    numbers = column.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        bits: np.ndarray = (numbers + 0.0).view(np.int64)
    return pa.array(bits ^ ((bits >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF)))


def _member(column: pa.Array, members: pa.Array) -> pa.BooleanArray | None:
    if pa.types.is_dictionary(members.type):
        members = members.dictionary_decode()
    listed = members.drop_null()
    nothing = pa.array(np.zeros(len(column), np.bool_))
    if pa.types.is_floating(column.type):
        hits = reduce(
            pc.or_,
            (
                pc.fill_null(compared_floats(pc.equal, column, pa.repeat(one, len(column))), fill_value=False)
                for one in listed
            ),
            nothing,
        )
    else:
        try:
            hits = pc.is_in(column, value_set=listed.cast(column.type))
        except pa.ArrowException:
            return None
    is_known = pc.and_(column.is_valid(), pa.scalar(value=len(listed) == len(members)))
    return pc.if_else(pc.or_(hits, is_known), hits, None)
