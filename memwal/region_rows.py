"""A few rows of a region, and what they tell of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import lance
import pyarrow as pa

from memwal.index_details import RegionSpec
from memwal.layout import generation_directory
from memwal.manifest import RegionManifest
from memwal.region_ids import lancedb_region_id, may_be_identity, values_by_id
from memwal.storage import Storage
from memwal.stored_fields import StoredField, fields_of_dataset, fields_of_entry
from memwal.transforms import encode_region_value, region_values
from memwal.wal import last_wal_position, read_wal_entry

_ROWS: Final = 256


def known_values(storage: Storage, spec: RegionSpec, manifest: RegionManifest) -> Mapping[str, bytes]:
    """Region values as a manifest records them, or else as the id stands for; empty where nobody knows.

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
    known = recorded or values_by_id(spec, manifest.region_id)
    if known or not may_be_identity(spec, manifest.region_id):
        return known
    sources = frozenset(spec.fields[0].source_ids)
    columns = some_rows(storage, manifest, sources)
    if columns is None or not sources <= columns.keys():
        return {}
    field = spec.fields[0]
    (values,) = region_values(spec, columns)
    for value in values.unique():
        if value.is_valid:
            raw = encode_region_value(field, value)
            if lancedb_region_id(spec, (raw,)) == manifest.region_id:
                return {field.field_id: raw}
    return {}


def some_rows(
    storage: Storage, manifest: RegionManifest, wanted: frozenset[int]
) -> Mapping[int, pa.Array] | None:
    """Columns of a few rows of a region by Lance field id; None where it has no rows.

    Args:
        storage: directory of the table.
        manifest: of the region.
        wanted: field ids; columns that the rows don't have are left out.

    Raises:
        LanceGatewayError: the log can't be read.
    """
    region_id, after = manifest.region_id, manifest.replay_after_wal_entry_position
    for position in range(after + 1, last_wal_position(storage, region_id, after=after) + 1):
        try:
            entry = read_wal_entry(storage, region_id, position)
        except FileNotFoundError:
            continue  # Flushed and removed meanwhile.
        if entry.rows is not None and entry.rows.num_rows:
            fields = _chosen(fields_of_entry(entry.rows.schema), wanted)
            return _by_id(entry.rows.slice(0, _ROWS), fields)
    for flushed in manifest.flushed_generations[-1:]:
        uri = storage.locate(generation_directory(region_id, flushed.path))
        try:
            dataset: Any = lance.dataset(uri, storage_options=dict(storage.options) or None)
            fields = _chosen(fields_of_dataset(dataset), wanted)
            return _by_id(dataset.head(_ROWS, columns=[one.name for one in fields]), fields)
        except (OSError, ValueError):
            return None  # Merged and removed meanwhile.
    return None


def _chosen(fields: tuple[StoredField, ...], wanted: frozenset[int]) -> tuple[StoredField, ...]:
    return tuple(one for one in fields if one.field_id in wanted)


def _by_id(rows: pa.Table, fields: tuple[StoredField, ...]) -> Mapping[int, pa.Array]:
    return {one.field_id: rows.column(one.name).combine_chunks() for one in fields}
