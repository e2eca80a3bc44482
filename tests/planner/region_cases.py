"""Region specs and regions in the short notation of `data/pruning.txt`."""

import re
from collections.abc import Sequence

import pyarrow as pa

from lance_gateway.memwal.base.index_details import RegionField, RegionSpec
from lance_gateway.memwal.transforms.raw_values import encode_raw, parse_result_type
from lance_gateway.planner.predicates.pruning import RegionAssignment

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.string()),
        ("small", pa.int32()),
        ("f", pa.float64()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("b", pa.bool_()),
        ("word", pa.dictionary(pa.int8(), pa.string())),
        ("utc", pa.timestamp("us", "UTC")),
        ("berlin", pa.timestamp("us", "Europe/Berlin")),
    ]
)
FIELD_IDS = {name: i for i, name in enumerate(SCHEMA.names)}
COLUMNS = {i: SCHEMA.field(name) for name, i in FIELD_IDS.items()}
_FIELD = re.compile(
    r"(?:\[(?P<expression>[^\]]*)\]|(?P<transform>\w+))\((?P<arguments>[^)]*)\) (?P<type>[\w(,)\[\]]+)"
)


def read_spec(text: str) -> RegionSpec:
    """`bucket(id; num_buckets=4) int32, [col0 + 1](small) int64` as spec 1 with fields f0, f1."""
    fields = []
    for i, match in enumerate(_FIELD.finditer(text)):
        sources, _, parameters = match["arguments"].partition(";")
        fields.append(
            RegionField(
                field_id=f"f{i}",
                source_ids=tuple(
                    FIELD_IDS.get(name.strip(), 99) for name in sources.split(",") if name.strip()
                ),
                transform=match["transform"],
                expression=match["expression"],
                result_type=match["type"].rstrip(","),
                parameters=dict([pair.strip().split("=") for pair in parameters.split(",") if pair.strip()]),
            )
        )
    return RegionSpec(1, tuple(fields))


def read_region(spec: RegionSpec, text: str) -> RegionAssignment:
    """`7, x`: recorded values in the order of the fields; NULL, missing and 0x... as raw bytes."""
    values = {}
    for field, value in zip(spec.fields, text.split(",") if text else [""], strict=True):
        raw = _raw(field, value.strip())
        if raw is not None:
            values[field.field_id] = raw
    return RegionAssignment(text, spec.spec_id, values)


def _raw(field: RegionField, text: str) -> bytes | None:
    if text == "missing":
        return None
    if text == "NULL":
        return b""
    if text.startswith("0x"):
        return bytes.fromhex(text[2:])
    dtype = parse_result_type(field.result_type)
    value = pa.scalar(text == "True") if pa.types.is_boolean(dtype) else pa.scalar(text).cast(dtype)
    return encode_raw(dtype, value, source="test")


def region_of(spec: RegionSpec, values: Sequence[pa.Scalar], name: str) -> RegionAssignment:
    """The region that a row with these field values belongs to; NULL of text has no raw form."""
    raw = {}
    for field, value in zip(spec.fields, values, strict=True):
        dtype = parse_result_type(field.result_type)
        if value.is_valid or dtype not in (pa.string(), pa.binary()):
            raw[field.field_id] = encode_raw(dtype, value, source=name)
    return RegionAssignment(name, spec.spec_id, raw)
