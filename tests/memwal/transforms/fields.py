"""Fields of region specs, and what they compute."""

from typing import Any

import pyarrow as pa

from lance_gateway.memwal.base.index_details import RegionField, RegionSpec
from lance_gateway.memwal.transforms.buckets import BucketHash
from lance_gateway.memwal.transforms.transforms import compute_region_values


def field_of(
    transform: str | None, *, expression: str | None = None, result: str = "int32", **parameters: Any
):
    return RegionField(
        "f", (0,), transform, expression, result, {key: str(value) for key, value in parameters.items()}
    )


def values(field: RegionField, *columns: pa.Array, reading: BucketHash = BucketHash.LANCE) -> pa.Array:
    spec = RegionSpec(1, (RegionField("f", tuple(range(len(columns))), *_rest(field)),))
    (result,) = compute_region_values(spec, dict(enumerate(columns)), reading)
    result.validate(full=True)
    return result


def _rest(field: RegionField) -> tuple[Any, ...]:
    return field.transform, field.expression, field.result_type, field.parameters
