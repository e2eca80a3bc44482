"""Region manifests and region specs, read and written as protobuf messages.

The project's own reader stands on the other side of the comparison, so it is not used here.
"""

import dataclasses
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import lance

from lance_gateway.protos import mem_wal_pb2


@dataclass(frozen=True, slots=True)
class SpecField:
    """One field of a region spec that Lance has no constructor for."""

    field_id: str
    source_columns: tuple[str, ...]
    result_type: str
    transform: str | None = None
    expression: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


def build_manifest_path(table: Path, region: str, version: int) -> Path:
    """Return the file of one version of a region's manifest."""
    return table / "_mem_wal" / region / "manifest" / f"{f'{version:064b}'[::-1]}.binpb"


def find_newest_version(table: Path, region: str) -> int:
    """Return the newest version of a region's manifest, by listing; 0 when there is none."""
    directory = build_manifest_path(table, region, 0).parent
    return max((int(file.stem[::-1], 2) for file in directory.glob("*.binpb")), default=0)


def list_region_ids(table: Path) -> tuple[str, ...]:
    """Return the regions of a table that have a manifest."""
    directories = {path.parent.parent.name for path in table.glob("_mem_wal/*/manifest/*.binpb")}
    return tuple(sorted(directories))


def read_manifest(table: Path, region: str) -> mem_wal_pb2.RegionManifest:
    """Return the newest manifest of a region."""
    newest = build_manifest_path(table, region, find_newest_version(table, region))
    return mem_wal_pb2.RegionManifest.FromString(newest.read_bytes())


def write_manifest(table: Path, manifest: mem_wal_pb2.RegionManifest) -> None:
    """Commit ``manifest`` under its version, all at once; FileExistsError when that version is taken."""
    path = build_manifest_path(table, str(uuid.UUID(bytes=manifest.region_id.uuid)), manifest.version)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.tmp.{uuid.uuid4().hex}")
    draft.write_bytes(manifest.SerializeToString())
    try:
        path.hardlink_to(draft)
    finally:
        draft.unlink()


def record_region(table: Path, region: str, spec_id: int, values: Mapping[str, bytes]) -> None:
    """Create a region whose rows all have these raw values of the spec's fields; Lance's writer adopts it."""
    manifest = mem_wal_pb2.RegionManifest(version=1, current_generation=1, region_spec_id=spec_id)
    manifest.region_id.uuid = uuid.UUID(region).bytes
    for field_id, value in values.items():
        manifest.region_field_entries.add(field_id=field_id, value=value)
    write_manifest(table, manifest)


def forget_generations(table: Path, region: str, up_to: int) -> tuple[str, ...]:
    """Take generations up to ``up_to`` out of a region's manifest; their directory names are returned."""
    manifest = read_manifest(table, region)
    gone = [entry for entry in manifest.flushed_generations if entry.generation <= up_to]
    kept = [entry for entry in manifest.flushed_generations if entry.generation > up_to]
    del manifest.flushed_generations[:]
    manifest.flushed_generations.extend(kept)
    manifest.version += 1
    write_manifest(table, manifest)
    return tuple(entry.path for entry in gone)


def read_index_details(table: Path) -> mem_wal_pb2.MemWalIndexDetails:
    """Return the MemWAL index of the newest base version, from its manifest file."""
    version = lance.dataset(table).version
    data = (table / "_versions" / f"{2**64 - 1 - version:020d}.manifest").read_bytes()
    base = mem_wal_pb2.BaseManifest.FromString(_build_message(data, int.from_bytes(data[-16:-8], "little")))
    section = mem_wal_pb2.IndexSection.FromString(_build_message(data, base.index_section))
    found = next(index for index in section.indices if index.name == "__lance_mem_wal")
    return mem_wal_pb2.MemWalIndexDetails.FromString(found.index_details.value)


def read_merged_generations(table: Path) -> dict[str, int]:
    """Return the newest generation of each region that the base table contains."""
    return {
        str(uuid.UUID(bytes=entry.region_id.uuid)): entry.generation
        for entry in read_index_details(table).merged_generations
    }


def replace_spec(dataset: lance.LanceDataset, fields: tuple[SpecField, ...], spec_id: int = 1) -> None:
    """Give a table whose MemWAL was just initialised a region spec that Lance has no constructor for."""
    (old,) = dataset.read_transaction(dataset.version).operation.new_indices
    assert old.name == "__lance_mem_wal", old
    kind, payload = old.index_details
    details = mem_wal_pb2.MemWalIndexDetails.FromString(payload)
    del details.region_specs[:]
    spec = details.region_specs.add(spec_id=spec_id)
    ids = {column.name(): column.id() for column in dataset.lance_schema.fields()}
    for item in fields:
        entry = spec.fields.add(field_id=item.field_id, result_type=item.result_type)
        entry.source_ids.extend(ids[column] for column in item.source_columns)
        entry.parameters.update(item.parameters)
        if item.transform is not None:
            entry.transform = item.transform
        if item.expression is not None:
            entry.expression = item.expression
    new = dataclasses.replace(old, uuid=str(uuid.uuid4()), index_details=(kind, details.SerializeToString()))
    operation = lance.LanceOperation.CreateIndex([new], [old])
    lance.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)


def _build_message(data: bytes, position: int) -> bytes:
    length = int.from_bytes(data[position : position + 4], "little")
    return data[position + 4 : position + 4 + length]
