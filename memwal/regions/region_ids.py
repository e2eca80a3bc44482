"""Ids of regions: derive an id from region values, and values from an id.

LanceDB derives the UUIDs of its regions from the region value, and records no values in their manifests. For
the specs that LanceDB supports, this project uses the same ids, so every writer puts a key into the same
region. All other regions have ids of this project's own.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import lance
import pyarrow as pa

from lance_gateway.memwal.base.index_details import RegionField, RegionSpec
from lance_gateway.memwal.columns.stored_fields import StoredField, read_dataset_fields, read_entry_fields
from lance_gateway.memwal.errors import (
    LanceGatewayError,
    PreconditionError,
    build_read_error,
    is_storage_failure,
)
from lance_gateway.memwal.regions.generation_numbers import is_given_up
from lance_gateway.memwal.regions.manifest import RegionManifest, list_regions, read_latest_manifests
from lance_gateway.memwal.regions.wal import find_last_wal_position, has_unflushed_rows, read_wal_entry
from lance_gateway.memwal.storage.files import Storage, generation_directory
from lance_gateway.memwal.transforms.buckets import BucketHash
from lance_gateway.memwal.transforms.raw_values import parse_result_type
from lance_gateway.memwal.transforms.transforms import (
    build_transform,
    compute_region_values,
    decode_region_value,
    encode_region_value,
)

_LOOKED_AT: Final = 8
"""So many regions tell how buckets are numbered."""

RawValues: TypeAlias = tuple[bytes | None, ...]
"""What a manifest records, by field of the spec; None for NULL."""

_OWN: Final = uuid.UUID("6f0d2d5e-4f0c-5a55-9a07-3a4d5f1f2a10")
_LANCEDB: Final = uuid.UUID("4c534d57-5249-5445-5f53-484152443031")
_LANCEDB_SPEC: Final = 1
"""LanceDB routes by the first spec, and notes this number in manifests whatever that spec's own is."""
_INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_IDENTITIES: Final = frozenset([*_INTEGERS, "string", "large_string", "bool"])
_ZERO: Final = bytes(4)
_BUCKET_BYTES: Final = 4
_MOST_BUCKETS: Final = 1 << 16
"""LanceDB itself makes up to 1024. The ids of all are kept, and of more nobody would keep them."""


def derive_region_id(
    spec: RegionSpec | None, raw: RawValues, table_id: str = "", reading: BucketHash = BucketHash.LANCE
) -> str:
    """Return the id of a new region of these values; the same in every process, so two create only one.

    Args:
        spec: that governs the region; None for the only region of a table without one.
        raw: its values.
        table_id: tells a table from another that had its name before; empty where it has no such id. LanceDB
            does not know it.
        reading: how `bucket` hashes; LanceDB knows one of the readings.
    """
    shared = None if spec is None else derive_lancedb_region_id(spec, raw, reading)
    return shared or derive_own_region_id(spec, raw, table_id)


def derive_own_region_id(spec: RegionSpec | None, raw: RawValues, table_id: str = "") -> str:
    """Return the id of a region that LanceDB can't write.

    Args:
        spec: as above.
        raw: as above.
        table_id: as above.
    """
    parts = (
        ["only"] if spec is None else [str(spec.spec_id), *("-" if one is None else one.hex() for one in raw)]
    )
    return str(uuid.uuid5(_OWN, "\0".join([*parts, table_id] if table_id else parts)))


def derive_lancedb_region_id(
    spec: RegionSpec, raw: RawValues, reading: BucketHash = BucketHash.LANCE
) -> str | None:
    """Return LanceDB's id for a region of these values; None if LanceDB can't write it.

    Args:
        spec: that governs the region.
        raw: its values.
        reading: how `bucket` hashes.
    """
    field = _find_lancedb_field(spec)
    if field is None or len(raw) != 1 or raw[0] is None:
        return None
    if field.transform == "unsharded":
        return _derive_unsharded_id() if raw[0] == _ZERO else None
    if field.transform == "identity":
        return _uuid5(b"identity-" + raw[0])
    if reading is not BucketHash.LANCE or len(raw[0]) != _BUCKET_BYTES:
        return None
    bucket = int.from_bytes(raw[0], "little")
    return _derive_bucket_id(bucket) if bucket < _read_bucket_count(field) else None


def infer_region_values(spec: RegionSpec, region_id: str) -> Mapping[str, bytes]:
    """Infer the values of a region from LanceDB's id; empty for other ids and those of `identity` regions."""
    field = _find_lancedb_field(spec)
    if field is None:
        return {}
    if field.transform == "unsharded" and region_id == _derive_unsharded_id():
        return {field.field_id: _ZERO}
    if field.transform == "bucket":
        bucket = _map_bucket_ids(_read_bucket_count(field)).get(region_id)
        return {} if bucket is None else {field.field_id: bucket.to_bytes(_BUCKET_BYTES, "little")}
    return {}


def can_be_identity_region(spec: RegionSpec, region_id: str) -> bool:
    """Return whether LanceDB may have derived the id from an identity value."""
    field = _find_lancedb_field(spec)
    return field is not None and field.transform == "identity" and uuid.UUID(region_id).version == 5


def is_drained(storage: Storage, manifest: RegionManifest, merged: int) -> bool:
    """Return whether all rows of a region are merged and it takes no writes any more.

    Args:
        storage: directory of the table.
        manifest: of the region.
        merged: newest generation of it that the base table contains; 0 for none.

    Raises:
        LanceGatewayError: the log can't be read.
    """
    if is_given_up(manifest, merged):
        return True
    takes_no_writes = manifest.sealed and not manifest.unmerged_generations(merged)
    return takes_no_writes and not has_unflushed_rows(storage, manifest)


def _find_lancedb_field(spec: RegionSpec) -> RegionField | None:
    """Return the only field of a spec that LanceDB supports; None for other specs."""
    if spec.spec_id != _LANCEDB_SPEC or len(spec.fields) != 1 or spec.fields[0].expression is not None:
        return None
    field = spec.fields[0]
    if field.transform == "unsharded":
        return field
    if field.transform == "bucket":
        return field if _read_bucket_count(field) else None
    return field if field.transform == "identity" and _is_identity_type(field.result_type) else None


@lru_cache(maxsize=64)
def _is_identity_type(name: str) -> bool:
    try:
        return str(parse_result_type(name)) in _IDENTITIES
    except LanceGatewayError:
        return False


def _read_bucket_count(field: RegionField) -> int:
    text = field.parameters.get("num_buckets", "")
    count = int(text) if text.isascii() and text.isdigit() else 0
    return count if count <= _MOST_BUCKETS else 0


@lru_cache(maxsize=65_536)
def _derive_bucket_id(bucket: int) -> str:
    return _uuid5(b"bucket-%d" % bucket)


@lru_cache(maxsize=4)
def _map_bucket_ids(count: int) -> Mapping[str, int]:
    return MappingProxyType({_derive_bucket_id(bucket): bucket for bucket in range(count)})


@lru_cache(maxsize=1)
def _derive_unsharded_id() -> str:
    return _uuid5(b"unsharded")


def _uuid5(name: bytes) -> str:
    """Compute a version 5 UUID; `uuid.uuid5` takes no bytes before Python 3.12."""
    digest = hashlib.sha1(_LANCEDB.bytes + name, usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest[:16], version=5))


_ROWS: Final = 256


def find_region_values(storage: Storage, spec: RegionSpec, manifest: RegionManifest) -> Mapping[str, bytes]:
    """Return the recorded region values, or those inferred from the id; empty if unknown.

    The id of an `identity` region of LanceDB follows from its value, and not the other way round: the value
    is looked up in a row of the region, and counts if the id follows from it.

    Args:
        storage: directory of the table.
        spec: that governs the region.
        manifest: of the region.

    Raises:
        LanceGatewayError: the region can't be read.
    """
    if manifest.region_spec_id not in (0, spec.spec_id):
        return {}
    recorded = manifest.region_values if manifest.region_spec_id else {}
    known = recorded or infer_region_values(spec, manifest.region_id)
    if known or not can_be_identity_region(spec, manifest.region_id):
        return known
    sources = frozenset(spec.fields[0].source_ids)
    columns = read_sample_rows(storage, manifest, sources)
    if columns is None or not sources <= columns.keys():
        return {}
    field = spec.fields[0]
    (values,) = compute_region_values(spec, columns)
    for value in values.unique():
        if value.is_valid:
            raw = encode_region_value(field, value)
            if derive_lancedb_region_id(spec, (raw,)) == manifest.region_id:
                return {field.field_id: raw}
    return {}


def read_sample_rows(
    storage: Storage, manifest: RegionManifest, field_ids: frozenset[int]
) -> Mapping[int, pa.Array] | None:
    """Return columns of a few rows of a region by Lance field id; None if it has no rows.

    Args:
        storage: directory of the table.
        manifest: of the region.
        field_ids: field ids; columns that the rows don't have are left out.

    Raises:
        LanceGatewayError: the log can't be read.
    """
    region_id, after = manifest.region_id, manifest.replay_after_wal_entry_position
    for position in range(after + 1, find_last_wal_position(storage, region_id, after=after) + 1):
        try:
            entry = read_wal_entry(storage, region_id, position)
        except FileNotFoundError:
            continue  # Flushed and removed meanwhile.
        if entry.rows is not None and entry.rows.num_rows:
            fields = _select_fields(read_entry_fields(entry.rows.schema), field_ids)
            return _map_columns(entry.rows.slice(0, _ROWS), fields)
    for flushed in manifest.flushed_generations[-1:]:
        uri = storage.locate(generation_directory(region_id, flushed.path))
        try:
            dataset: Any = lance.dataset(uri, storage_options=dict(storage.options) or None)
            fields = _select_fields(read_dataset_fields(dataset), field_ids)
            return _map_columns(dataset.head(_ROWS, columns=[field.name for field in fields]), fields)
        except (OSError, ValueError) as error:
            if is_storage_failure(error):
                raise build_read_error(f"Generation {uri} can't be read", error) from error
            return None  # Merged and removed meanwhile.
    return None


def _select_fields(fields: tuple[StoredField, ...], field_ids: frozenset[int]) -> tuple[StoredField, ...]:
    return tuple(field for field in fields if field.field_id in field_ids)


def _map_columns(rows: pa.Table, fields: tuple[StoredField, ...]) -> Mapping[int, pa.Array]:
    return {field.field_id: rows.column(field.name).combine_chunks() for field in fields}


def detect_bucket_hash(storage: Storage, spec: RegionSpec | None) -> BucketHash:
    """Detect the hash function of the table's bucket numbers; Lance's if no region has rows.

    Args:
        storage: directory of the table.
        spec: that governs new rows.

    Raises:
        PreconditionError: rows are in buckets where neither reading puts them.
        LanceGatewayError: a region can't be read.
    """
    buckets = () if spec is None else tuple(field for field in spec.fields if field.transform == "bucket")
    if spec is None or not buckets:
        return BucketHash.LANCE
    possible = list(BucketHash)
    sources = frozenset(source for bucket in buckets for source in bucket.source_ids)
    for manifest in read_latest_manifests(storage, list_regions(storage)[:_LOOKED_AT], cached={}):
        if manifest is None or manifest.region_spec_id != spec.spec_id:
            continue
        values = manifest.region_values or infer_region_values(spec, manifest.region_id)
        columns = read_sample_rows(storage, manifest, sources) if values else None
        if columns is None or not sources <= columns.keys():
            continue
        possible = [reading for reading in possible if _matches_values(reading, buckets, values, columns)]
        if not possible:
            msg = (
                f"{storage.uri}: region {manifest.region_id} has rows of other buckets than it records, by "
                "whatever hash: write through the writers that made it"
            )
            raise PreconditionError(msg)
        if len(possible) == 1:
            break
    return possible[0]


def _matches_values(
    reading: BucketHash,
    buckets: tuple[RegionField, ...],
    recorded_values: Mapping[str, bytes],
    columns: Mapping[int, pa.Array],
) -> bool:
    for field in buckets:
        values = build_transform(field, reading).apply([columns[source] for source in field.source_ids])
        recorded = decode_region_value(field, recorded_values.get(field.field_id, b""))
        if set(values.unique().to_pylist()) != {recorded}:
            return False
    return True
