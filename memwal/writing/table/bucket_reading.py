"""Which of its two readings `bucket` has in a table: found out from regions that have rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from memwal.base.index_details import RegionField, RegionSpec
from memwal.errors import PreconditionError
from memwal.regions.manifest import list_regions, read_latest_manifests
from memwal.regions.region_ids import some_rows, values_by_id
from memwal.storage.files import Storage
from memwal.transforms.transforms import BucketHash, decode_region_value, transform_of

_REGIONS: Final = 8


def bucket_reading(storage: Storage, spec: RegionSpec | None) -> BucketHash:
    """How the table's regions came by their bucket numbers; as Lance does it where none has rows.

    Args:
        storage: directory of the table.
        spec: that governs new rows.

    Raises:
        PreconditionError: rows are in buckets where neither reading puts them.
        LanceGatewayError: a region can't be read.
    """
    buckets = () if spec is None else tuple(one for one in spec.fields if one.transform == "bucket")
    if spec is None or not buckets:
        return BucketHash.LANCE
    possible = list(BucketHash)
    sources = frozenset(source for one in buckets for source in one.source_ids)
    for manifest in read_latest_manifests(storage, list_regions(storage)[:_REGIONS], known={}):
        if manifest is None or manifest.region_spec_id != spec.spec_id:
            continue
        known = manifest.region_values or values_by_id(spec, manifest.region_id)
        columns = some_rows(storage, manifest, sources) if known else None
        if columns is None or not sources <= columns.keys():
            continue
        possible = [one for one in possible if _explains(one, buckets, known, columns)]
        if not possible:
            msg = (
                f"{storage.uri}: region {manifest.region_id} has rows of other buckets than it records, by "
                "whatever hash: write through the writers that made it"
            )
            raise PreconditionError(msg)
        if len(possible) == 1:
            break
    return possible[0]


def _explains(
    reading: BucketHash,
    buckets: tuple[RegionField, ...],
    known: Mapping[str, bytes],
    columns: Mapping[int, pa.Array],
) -> bool:
    for field in buckets:
        values = transform_of(field, reading).apply([columns[source] for source in field.source_ids])
        recorded = decode_region_value(field, known.get(field.field_id, b""))
        if set(values.unique().to_pylist()) != {recorded}:
            return False
    return True
