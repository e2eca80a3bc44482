"""Region snapshots in the MemWAL index of a base version.

They are a Lance file with one row per region, inline in the index details. Builders of an older text of the
specification wrote large ones to ``_indices/{uuid of the index}/index.lance``. Such files are read but not
written, because a merge commits the index with another UUID.

Column names with "region" and, from newer writers, with "shard" are both read; the newer names are written.
The specification has columns for the identity of a region; writing adds those of its older versions for the
state, which other readers ignore.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from lance.file import LanceFileReader, LanceFileWriter

from lance_gateway.memwal.base.index_details import (
    MEM_WAL_INDEX,
    MemWalIndexDetails,
    RegionSpec,
    read_base_manifest,
)
from lance_gateway.memwal.errors import CorruptDataError, LanceGatewayError, NotFoundError
from lance_gateway.memwal.regions.manifest import FlushedGeneration, RegionManifest
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.transforms.raw_values import decode_raw, encode_raw, parse_result_type

_FORMER: Final = uuid.UUID("8f0c0b35-3ad5-5a0e-9d4c-6f6b7d6f3c11")
_GENERATIONS: Final = pa.list_(
    pa.struct([("generation", pa.uint64()), ("path", pa.string()), ("physical_rows", pa.uint64())])
)
# A snapshot is looked for in so many versions: each costs a look at its manifest.
_OLDER_VERSIONS: Final = 100
_ADVICE: Final = "Read with consistency 'flushed' or 'strong', or take a new snapshot"


@dataclass(frozen=True)
class RegionSnapshot:
    """The state of a region that a base version records.

    Attributes:
        region_id: UUID in its usual text form.
        region_spec_id: spec that governs the region; 0 for a region made by hand.
        region_values: raw value by field id, as in a manifest; NULL values are left out.
        manifest: the region's state at that time; None where the snapshot records identity only.
    """

    region_id: str
    region_spec_id: int
    region_values: Mapping[str, bytes] = field(hash=False)
    manifest: RegionManifest | None


def read_region_snapshots(
    table: Storage, version: int, details: MemWalIndexDetails
) -> tuple[RegionSnapshot, ...]:
    """Read the region snapshots of a base version, inline or external; () if there are none.

    Those that a table was cloned with are its source's, and none of its own.

    Args:
        table: directory of the table.
        version: of the base table.
        details: the MemWAL index of that version.

    Raises:
        NotFoundError: they were in a file of their own, which was cleaned up.
        CorruptDataError: they can't be read.
        UnavailableError: storage failed to answer.
    """
    if details.inline_snapshots or not details.snapshot_ts_millis or not details.num_regions:
        return decode_region_snapshots(details)
    first = ""
    for path in _list_external_paths(table, version, details):
        if path is None:
            return ()
        first = first or path
        try:
            data = table.read(path)
        except FileNotFoundError:
            continue
        return _decode_lance_file(data, details, f"The region snapshots of {table.locate(path)}")
    msg = f"The region snapshots of {table.locate(first)} are gone. {_ADVICE}"
    raise NotFoundError(msg)


def _list_external_paths(table: Storage, version: int, details: MemWalIndexDetails) -> Iterator[str | None]:
    """Yield the possible files of these snapshots; None if they belong to a clone's source.

    The directory has the UUID of the index that the builder committed. A merge changes the UUID and keeps the
    time of the snapshots, so an older version has the first UUID.
    """
    known: set[str] = set()
    for number in range(version, max(version - _OLDER_VERSIONS, 1) - 1, -1):
        try:
            manifest = read_base_manifest(table, number)
        except NotFoundError:
            return
        found = manifest.details
        if found is None or _identify_snapshots(found) != _identify_snapshots(details):
            return
        if manifest.is_inherited:
            yield None
        if manifest.index_id is not None and manifest.index_id not in known:
            known.add(manifest.index_id)
            yield _build_external_path(manifest.index_id)
        if number == version:
            # Where this project's builder once kept them, to be found after merges.
            yield _build_external_path(str(uuid.uuid5(_FORMER, str(details.snapshot_ts_millis))))


def _identify_snapshots(details: MemWalIndexDetails) -> tuple[int, int]:
    return details.snapshot_ts_millis, details.num_regions


def _build_external_path(index_id: str) -> str:
    return f"_indices/{index_id}/index.lance"


def decode_region_snapshots(details: MemWalIndexDetails) -> tuple[RegionSnapshot, ...]:
    """Decode the inline region snapshots of index details; () if there are none.

    Raises:
        CorruptDataError: the snapshots are no Lance file with the columns of a region snapshot.
    """
    if not details.inline_snapshots:
        return ()
    return _decode_lance_file(
        details.inline_snapshots, details, f"The inline region snapshots of {MEM_WAL_INDEX}"
    )


def encode_region_snapshots(manifests: Sequence[RegionManifest], specs: Sequence[RegionSpec]) -> bytes:
    """Encode a Lance file with a row for each region.

    Args:
        manifests: of the regions.
        specs: that they refer to. A field that two specs give different types is left out: regions that don't
            record a value are never pruned.

    Raises:
        LanceGatewayError: a manifest records a value that its field can't have.
    """
    columns: dict[str, pa.Array] = {
        "shard_id": pa.array([manifest.region_id for manifest in manifests], pa.string()),
        "shard_spec_id": pa.array([manifest.region_spec_id for manifest in manifests], pa.uint32()),
    }
    for field_id, data_type in _list_value_types(specs).items():
        values = [
            None
            if (raw := manifest.region_values.get(field_id)) is None
            else decode_raw(data_type, raw, source=f"field {field_id} of region {manifest.region_id}")
            for manifest in manifests
        ]
        columns[f"shard_field_{field_id}"] = pa.array(values, data_type)
    for name in (
        "version",
        "writer_epoch",
        "replay_after_wal_entry_position",
        "wal_entry_position_last_seen",
        "current_generation",
    ):
        columns[name] = pa.array([getattr(manifest, name) for manifest in manifests], pa.uint64())
    generations = [
        [
            {"generation": at.generation, "path": at.path, "physical_rows": at.physical_rows}
            for at in manifest.flushed_generations
        ]
        for manifest in manifests
    ]
    columns["flushed_generations"] = pa.array(generations, _GENERATIONS)
    rows = pa.table(columns)
    # Lance writes files by name only.
    with tempfile.TemporaryDirectory(prefix="lance-gateway-") as scratch:
        path = Path(scratch, "index.lance")
        with LanceFileWriter(str(path), rows.schema) as writer:
            writer.write_batch(rows)
        return path.read_bytes()


def _list_value_types(specs: Sequence[RegionSpec]) -> Mapping[str, pa.DataType]:
    types: dict[str, set[pa.DataType]] = {}
    for spec in specs:
        for one in spec.fields:
            types.setdefault(one.field_id, set()).add(parse_result_type(one.result_type))
    return {field_id: found.pop() for field_id, found in types.items() if len(found) == 1}


def _decode_lance_file(data: bytes, details: MemWalIndexDetails, source: str) -> tuple[RegionSnapshot, ...]:
    try:
        table = _read_lance_file(data)
        # Values stay Arrow's: Python has no type for some of them.
        names = [name for name in table.column_names if name.startswith(_VALUE_PREFIXES)]
        rows = table.drop_columns(names).to_pylist()
        return tuple(
            _build_region_snapshot(row, {name: table.column(name)[at] for name in names}, details)
            for at, row in enumerate(rows)
        )
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException, LanceGatewayError) as error:
        msg = f"{source} ({len(data)} bytes) cannot be read: {error}. {_ADVICE}"
        raise CorruptDataError(msg) from error


def _read_lance_file(data: bytes) -> pa.Table:
    # Lance reads files by name only.
    with tempfile.TemporaryDirectory(prefix="lance-gateway-") as scratch:
        path = Path(scratch, "index.lance")
        path.write_bytes(data)
        return LanceFileReader(str(path)).read_all().to_table()


_VALUE_PREFIXES: Final = ("shard_field_", "shard_string_field_", "region_field_")


def _build_region_snapshot(
    row: Mapping[str, Any], scalars: Mapping[str, pa.Scalar], details: MemWalIndexDetails
) -> RegionSnapshot:
    def column(*names: str) -> Any:  # noqa: ANN401 - what a row holds
        for name in names:
            if name in row:
                return row[name]
        msg = f"there is no column {names[0]}; the columns are {', '.join(row)}"
        raise ValueError(msg)

    identifier = column("region_id", "shard_id")
    region_id = str(uuid.UUID(bytes=identifier) if isinstance(identifier, bytes) else uuid.UUID(identifier))
    spec_id = column("region_spec_id", "shard_spec_id")
    spec = details.specs.get(spec_id)
    values = {}
    for one in spec.fields if spec else ():
        found = (scalars.get(f"{prefix}{one.field_id}") for prefix in _VALUE_PREFIXES)
        value = next((scalar for scalar in found if scalar is not None and scalar.is_valid), None)
        if value is not None:
            values[one.field_id] = encode_raw(
                parse_result_type(one.result_type),
                value,
                source=f"field {one.field_id} of region {region_id}",
            )
    if "version" not in row:
        return RegionSnapshot(region_id, spec_id, values, None)
    manifest = RegionManifest(
        region_id=region_id,
        version=column("version"),
        writer_epoch=column("writer_epoch"),
        replay_after_wal_entry_position=column("replay_after_wal_entry_position", "replay_after_wal_id"),
        wal_entry_position_last_seen=column("wal_entry_position_last_seen", "wal_id_last_seen"),
        current_generation=column("current_generation"),
        flushed_generations=tuple(
            FlushedGeneration(one["generation"], one["path"], one.get("physical_rows"))
            for one in column("flushed_generations")
        ),
        region_spec_id=spec_id,
        region_values=values,
    )
    return RegionSnapshot(region_id, spec_id, values, manifest)
