"""Distances between vectors as SQL functions, which DataFusion calls for whole batches.

    SELECT id, l2_distance(vec, [0.1, 0.2]) FROM items WHERE cosine_distance(vec, other) < 0.5

They take lists of any numbers, and columns of vectors. NULL, a NULL in a vector, and the angle to a vector of
length zero give NULL. Names are those of pgvector, DuckDB and DataFusion; functions that replace DataFusion's
give the same values, but better errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datafusion import ScalarUDF, SessionContext, udf

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError


class Distance(Enum):
    """A distance between two vectors.

    Attributes:
        L2: the length of their difference.
        L1: the sum of the absolute differences.
        COSINE: one minus the cosine of the angle between them.
        COSINE_SIMILARITY: the cosine of the angle.
        PRODUCT: their inner product.
        NEGATIVE_PRODUCT: minus the inner product, so that less is nearer.
        HAMMING: how many bits differ, of vectors of bytes.
    """

    L2 = "l2_distance"
    L1 = "l1_distance"
    COSINE = "cosine_distance"
    COSINE_SIMILARITY = "cosine_similarity"
    PRODUCT = "inner_product"
    NEGATIVE_PRODUCT = "negative_inner_product"
    HAMMING = "hamming_distance"


_LISTS = ("array", "list")
DISTANCES: Mapping[str, Distance] = MappingProxyType(
    {one.value: one for one in Distance}
    | {"dot_product": Distance.PRODUCT}
    | {f"{kind}_distance": Distance.L2 for kind in _LISTS}
    | {f"{kind}_cosine_distance": Distance.COSINE for kind in _LISTS}
    | {f"{kind}_cosine_similarity": Distance.COSINE_SIMILARITY for kind in _LISTS}
    | {f"{kind}_{product}_product": Distance.PRODUCT for kind in _LISTS for product in ("inner", "dot")}
    | {
        f"{kind}_negative_{product}_product": Distance.NEGATIVE_PRODUCT
        for kind in _LISTS
        for product in ("inner", "dot")
    }
)
"""Name of a SQL function -> distance."""

_NUMBERS = pa.list_(pa.float64())
_BYTES = pa.list_(pa.uint8())


class Failing(Protocol):
    """An object that keeps an error, of which DataFusion passes on only the text."""

    failure: LanceGatewayError | None


def is_vector_type(kind: pa.DataType) -> bool:
    """Return whether values of a type are vectors: lists of numbers."""
    types = pa.types
    if not (types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind)):
        return False
    return bool(types.is_floating(kind.value_type) or types.is_integer(kind.value_type))


def register_distances(context: SessionContext, names: Iterable[str], run: Failing) -> None:
    """Register distance functions in a context.

    Args:
        context: of one statement.
        names: of the functions that it calls.
        run: its execution, which keeps the error of a failed call.
    """
    for name in names:
        context.register_udf(_make_function(name, run))


def _make_function(name: str, run: Failing) -> ScalarUDF:
    distance = DISTANCES[name]

    def call(left: pa.ListArray, right: pa.ListArray) -> pa.Array:
        try:
            return _compute(name, distance, left, right)
        except LanceGatewayError as error:
            run.failure = run.failure or error
            raise

    vectors = _BYTES if distance is Distance.HAMMING else _NUMBERS
    return udf(call, [vectors, vectors], pa.float64(), "immutable", name)


def _compute(name: str, distance: Distance, left: pa.ListArray, right: pa.ListArray) -> pa.Array:
    """Compute one distance per row; NULL if either vector is NULL."""
    rows = len(left)
    valid = pc.and_(left.is_valid(), right.is_valid())
    positions = None
    if not pc.all(valid).as_py():
        positions = np.flatnonzero(valid.to_numpy(zero_copy_only=False))
        left, right = left.filter(valid), right.filter(valid)
    distances = np.zeros(rows)
    missing = np.ones(rows, dtype=bool)
    for group, group_left, group_right in _group_by_dimension(name, left, right):
        where = group if positions is None else positions[group]
        distances[where], missing[where] = _compute_alike(distance, group_left, group_right)
    return pa.array(distances, mask=missing)


def _group_by_dimension(
    name: str, left: pa.ListArray, right: pa.ListArray
) -> Iterator[tuple[np.ndarray | slice, pa.ListArray, pa.ListArray]]:
    """Yield the rows whose vectors have the same dimension, with these vectors; mostly, that is all rows."""
    lengths = pc.list_value_length(left).to_numpy()
    others = pc.list_value_length(right).to_numpy()
    differing = np.flatnonzero(lengths != others)
    if differing.size:
        first = differing[0]
        msg = (
            f"{name}: a vector of {lengths[first]} numbers and one of {others[first]} have no distance; give "
            "vectors of the same dimension"
        )
        raise InvalidInputError(msg)
    dimensions = np.unique(lengths)
    if dimensions.size == 1:
        yield slice(None), left, right
        return
    for dimension in dimensions:
        rows = np.flatnonzero(lengths == dimension)
        yield rows, left.take(pa.array(rows)), right.take(pa.array(rows))


def _compute_alike(
    distance: Distance, left: pa.ListArray, right: pa.ListArray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute distances of vectors of one dimension, and a mask of those that are NULL."""
    left_matrix, left_missing = _read_matrix(left)
    right_matrix, right_missing = _read_matrix(right)
    missing = left_missing | right_missing
    if distance in _ANGLES:
        lengths = np.sqrt(_product(left_matrix, left_matrix)) * np.sqrt(_product(right_matrix, right_matrix))
        missing |= lengths == 0
        with np.errstate(invalid="ignore", divide="ignore"):
            cosine = np.clip(_product(left_matrix, right_matrix) / lengths, -1.0, 1.0)
        return (cosine if distance is Distance.COSINE_SIMILARITY else 1.0 - cosine), missing
    return _COMPUTE[distance](left_matrix, right_matrix), missing


def _read_matrix(vectors: pa.ListArray) -> tuple[np.ndarray, np.ndarray]:
    """Return a matrix with one row per vector, and a mask of rows with a NULL."""
    values = vectors.flatten()
    rows = len(vectors)
    if not values.null_count:
        return values.to_numpy().reshape(rows, -1), np.zeros(rows, dtype=bool)
    missing = values.is_null().to_numpy(zero_copy_only=False).reshape(rows, -1).any(axis=1)
    return values.fill_null(0).to_numpy().reshape(rows, -1), missing


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    product: np.ndarray = np.einsum("ij,ij->i", left, right)
    return product


def _l2(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    difference = left - right
    length: np.ndarray = np.sqrt(_product(difference, difference))
    return length


def _l1(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    total: np.ndarray = np.abs(left - right).sum(axis=1)
    return total


def _negative_product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return -_product(left, right)


def _hamming(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    bits: np.ndarray = np.bitwise_count(left ^ right).sum(axis=1, dtype=np.float64)
    return bits


_ANGLES = frozenset({Distance.COSINE, Distance.COSINE_SIMILARITY})
_COMPUTE: Mapping[Distance, Callable[[np.ndarray, np.ndarray], np.ndarray]] = MappingProxyType(
    {
        Distance.L2: _l2,
        Distance.L1: _l1,
        Distance.PRODUCT: _product,
        Distance.NEGATIVE_PRODUCT: _negative_product,
        Distance.HAMMING: _hamming,
    }
)
