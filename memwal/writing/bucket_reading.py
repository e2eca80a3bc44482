"""Which of its two readings `bucket` has in a table: found out from regions that have rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import lance
import pyarrow as pa

from memwal.errors import PreconditionError
from memwal.index_details import RegionSpec
from memwal.layout import generation_directory
from memwal.manifest import RegionManifest, list_regions, read_latest_manifests
from memwal.storage import Storage
from memwal.transforms import BucketHash, decode_region_value, region_values
from memwal.writing.log import unflushed

_REGIONS: Final = 8
_ROWS: Final = 256


def bucket_reading(storage: Storage, spec: RegionSpec | None, names: Mapping[int, str]) -> BucketHash:
    """How the table's regions came by their bucket numbers; as Lance does it where none has rows.

    Args:
        storage: directory of the table.
        spec: that governs new rows.
        names: column by Lance field id.

    Raises:
        PreconditionError: rows are in buckets where neither reading puts them.
        LanceGatewayError: a region can't be read.
    """
    buckets = () if spec is None else tuple(one for one in spec.fields if one.transform == "bucket")
    if spec is None or not buckets:
        return BucketHash.LANCE
    possible = list(BucketHash)
    for manifest in read_latest_manifests(storage, list_regions(storage)[:_REGIONS], known={}):
        if manifest is None or manifest.region_spec_id != spec.spec_id or not manifest.region_values:
            continue
        columns = _some_rows(storage, manifest, names)
        if columns is None:
            continue
        possible = [one for one in possible if _explains(one, spec, manifest, columns)]
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
    reading: BucketHash, spec: RegionSpec, manifest: RegionManifest, columns: Mapping[int, pa.Array]
) -> bool:
    for field, values in zip(spec.fields, region_values(spec, columns, reading), strict=True):
        if field.transform != "bucket":
            continue
        recorded = decode_region_value(field, manifest.region_values.get(field.field_id, b""))
        if set(values.unique().to_pylist()) != {recorded}:
            return False
    return True


def _some_rows(
    storage: Storage, manifest: RegionManifest, names: Mapping[int, str]
) -> Mapping[int, pa.Array] | None:
    """Columns of a few rows of a region by field id; None where it has none."""
    for entry in unflushed(storage, manifest):
        if entry.rows is not None and entry.rows.num_rows:
            return _by_id(entry.rows.slice(0, _ROWS), names)
    for flushed in manifest.flushed_generations[-1:]:
        uri = storage.locate(generation_directory(manifest.region_id, flushed.path))
        try:
            dataset: Any = lance.dataset(uri, storage_options=dict(storage.options) or None)
            wanted = [name for name in dataset.schema.names if name in set(names.values())]
            return _by_id(dataset.head(_ROWS, columns=wanted), names)
        except (OSError, ValueError):
            return None  # Merged and removed meanwhile.
    return None


def _by_id(rows: pa.Table, names: Mapping[int, str]) -> Mapping[int, pa.Array]:
    return {
        field_id: rows.column(name).combine_chunks()
        for field_id, name in names.items()
        if name in rows.column_names
    }
