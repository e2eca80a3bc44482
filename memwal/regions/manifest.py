"""Region manifests: the versioned state of a region; read and commit the newest version."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import pairwise
from typing import Final
from uuid import UUID

from google.protobuf.message import DecodeError

from lance_gateway.memwal.errors import CorruptDataError, InvalidInputError, UnavailableError
from lance_gateway.memwal.storage.files import MEM_WAL, Storage, find_last_in_sequence
from lance_gateway.protos import mem_wal_pb2

_REGION_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Addresses of S3 are URLs to Lance: what is escaped there, or left out of a URL, could lead elsewhere.
_PATH: Final = re.compile(r"[A-Za-z0-9_=.-]+(?:/[A-Za-z0-9_=.-]+)*")
_READ_ATTEMPTS: Final = 3
_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class FlushedGeneration:
    """A MemTable that was flushed to an immutable Lance dataset.

    Attributes:
        generation: 1 or more; higher is newer within the region.
        path: directory below the region's own.
        physical_rows: rows it holds, including older duplicates of a key; None when not recorded.
    """

    generation: int
    path: str
    physical_rows: int | None = None

    def __post_init__(self) -> None:
        if self.generation < 1:
            msg = f"Flushed generation {self.generation} ({self.path!r}): generations start at 1"
            raise InvalidInputError(msg)
        if _PATH.fullmatch(self.path) is None or ".." in self.path.split("/"):
            msg = f"Flushed generation {self.generation}: {self.path!r} is not a directory below its region's"
            raise InvalidInputError(msg)

    def is_merged(self, newest_merged: int) -> bool:
        """Return whether the base table contains the generation, so readers must leave it out.

        MemWAL specification, "LSM Tree Merging Read": generations are merged in ascending order, so the
        newest one that is merged tells of all.

        Args:
            newest_merged: generation that the base version contains, of the same region; 0 for none.
        """
        return self.generation <= newest_merged


@dataclass(frozen=True, slots=True)
class ReplayStart:
    """The position in a region's log where replay starts.

    Attributes:
        after: newest WAL position that a flush is known to cover; 0 for none.
        generation: number that the next flushed generation will have.
    """

    after: int
    generation: int

    def is_behind(self, other: "ReplayStart") -> bool:
        """Return whether another start calls entries flushed that this one does not."""
        return other.after > self.after or other.generation > self.generation

    def is_unflushed(self, position: int, generation: int | None) -> bool:
        """Return whether no flushed generation covers a WAL entry.

        MemWAL specification, "WAL Entry Positions" and "WAL Entry Format": replay starts behind
        `replay_after_wal_entry_position`, and an entry names the generation that its rows are flushed in. A
        writer commits the generation first and may leave the position behind, so both count.

        Args:
            position: of the entry.
            generation: that the entry names; None when its writer keeps no MemTable.
        """
        return position > self.after and (generation is None or generation >= self.generation)


@dataclass(frozen=True, slots=True)
class RegionManifest:
    """One version of a region's manifest.

    Attributes:
        region_id: UUID in its usual text form.
        version: 1 or more; each commit adds one.
        writer_epoch: fencing token of the writer that owns the region; 0 when none ever did.
        replay_after_wal_entry_position: newest WAL position that a flush is known to cover; 0 for none.
        wal_entry_position_last_seen: a hint at the newest WAL position.
        current_generation: number that the next flushed generation will have.
        flushed_generations: ascending by generation.
        region_spec_id: spec that governs the region; 0 for a region made by hand.
        region_values: raw value by field id of that spec; empty when its writer recorded none.
        sealed: whether writers may no longer claim the region.
        replay_start: which entries of the region's log are not flushed.
    """

    region_id: str
    version: int
    writer_epoch: int
    replay_after_wal_entry_position: int
    wal_entry_position_last_seen: int
    current_generation: int
    flushed_generations: tuple[FlushedGeneration, ...] = ()
    region_spec_id: int = 0
    region_values: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    sealed: bool = False
    # The message this was decoded from: fields that we don't know, and statistics of generations, outlive
    # a change made with `dataclasses.replace` and a commit.
    origin: bytes = field(default=b"", repr=False, compare=False)
    replay_start: ReplayStart = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if _REGION_ID.fullmatch(self.region_id) is None:
            msg = f"Region id {self.region_id!r} is not a UUID in its usual lower-case form"
            raise InvalidInputError(msg)
        if self.version < 1:
            msg = f"Manifest of region {self.region_id}: version {self.version}, but versions start at 1"
            raise InvalidInputError(msg)
        numbers = [flushed.generation for flushed in self.flushed_generations]
        if any(later <= earlier for earlier, later in pairwise(numbers)):
            msg = f"Manifest of region {self.region_id}: generations {numbers} must ascend without repetition"
            raise InvalidInputError(msg)
        start = ReplayStart(self.replay_after_wal_entry_position, self.current_generation)
        object.__setattr__(self, "replay_start", start)

    def has_opened(self, position: int) -> bool:
        """Return whether its owner has opened the region, and not only claimed it.

        Lance commits the position of its fence once it has read the log. Lance before 14 does so alone where
        it can read it, which entries of Lance 14 prevent.

        Args:
            position: of the newest entry before the claim.
        """
        return self.wal_entry_position_last_seen > position

    def unmerged_generations(self, newest_merged: int) -> tuple[FlushedGeneration, ...]:
        """Return the generations that are not merged, oldest first."""
        return tuple(
            generation for generation in self.flushed_generations if not generation.is_merged(newest_merged)
        )

    def merged(self, newest_merged: int) -> tuple[FlushedGeneration, ...]:
        """Return the listed generations that are merged, oldest first."""
        return tuple(
            generation for generation in self.flushed_generations if generation.is_merged(newest_merged)
        )

    @staticmethod
    def decode(data: bytes, *, source: str) -> "RegionManifest":
        """Decode a manifest.

        Args:
            data: a serialized RegionManifest message.
            source: file that the bytes came from, for messages.

        Raises:
            CorruptDataError: the bytes are no region manifest.
        """
        try:
            message = mem_wal_pb2.RegionManifest.FromString(data)
            return RegionManifest(
                region_id=str(UUID(bytes=message.region_id.uuid)),
                version=message.version,
                writer_epoch=message.writer_epoch,
                replay_after_wal_entry_position=message.replay_after_wal_entry_position,
                wal_entry_position_last_seen=message.wal_entry_position_last_seen,
                current_generation=message.current_generation,
                flushed_generations=_decode_generations(message),
                region_spec_id=message.region_spec_id,
                region_values={entry.field_id: entry.value for entry in message.region_field_entries},
                sealed=message.status == mem_wal_pb2.REGION_STATUS_SEALED,
                origin=data,
            )
        except (DecodeError, InvalidInputError, ValueError) as error:
            msg = (
                f"{source} ({len(data)} bytes) is not a whole region manifest: {error}. If no writer is just "
                "creating it, restore the file, or remove it so that the version before it counts"
            )
            raise CorruptDataError(msg) from error

    def encode(self) -> bytes:
        """Encode the manifest."""
        message = mem_wal_pb2.RegionManifest.FromString(self.origin)
        recorded = {generation.generation: generation for generation in message.flushed_generations}
        del message.flushed_generations[:]
        for flushed in self.flushed_generations:
            entry = message.flushed_generations.add()
            if flushed.generation in recorded:
                entry.CopyFrom(recorded[flushed.generation])
            entry.generation, entry.path = flushed.generation, flushed.path
            if flushed.physical_rows is not None:
                entry.physical_rows = flushed.physical_rows
        del message.region_field_entries[:]
        for field_id, value in self.region_values.items():
            message.region_field_entries.add(field_id=field_id, value=value)
        message.region_id.uuid = UUID(self.region_id).bytes
        message.version = self.version
        message.writer_epoch = self.writer_epoch
        message.replay_after_wal_entry_position = self.replay_after_wal_entry_position
        message.wal_entry_position_last_seen = self.wal_entry_position_last_seen
        message.current_generation = self.current_generation
        message.region_spec_id = self.region_spec_id
        message.status = mem_wal_pb2.REGION_STATUS_SEALED if self.sealed else mem_wal_pb2.REGION_STATUS_ACTIVE
        return message.SerializeToString()


@lru_cache(maxsize=4096)
def format_reversed_bits(number: int) -> str:
    """Format a number as 64 binary digits, lowest first: sequential files spread over an object store.

    MemWAL specification, "WAL Storage Layout" and "Shard Manifest Versioning".

    Raises:
        InvalidInputError: the number does not fit 64 bits.
    """
    if not 0 <= number < 1 << _BITS:
        msg = f"{number} cannot name a file: a version or position is between 0 and 2^{_BITS} - 1"
        raise InvalidInputError(msg)
    return f"{number:0{_BITS}b}"[::-1]


def parse_reversed_bits(digits: str) -> int | None:
    """Parse 64 reversed binary digits; None for other text."""
    if len(digits) != _BITS or digits.strip("01"):
        return None
    return int(digits[::-1], 2)


def manifest_directory(region_id: str) -> str:
    """Return the directory of a region's manifests."""
    return f"{MEM_WAL}/{region_id}/manifest"


def manifest_path(region_id: str, version: int) -> str:
    """Return the file of one version of a region's manifest."""
    return f"{manifest_directory(region_id)}/{format_reversed_bits(version)}.binpb"


def version_hint_path(region_id: str) -> str:
    """Return the file that hints at a recent version of a region's manifest."""
    return f"{manifest_directory(region_id)}/version_hint.json"


def parse_manifest_version(name: str) -> int | None:
    """Return the version of a manifest's file name; None for any other file."""
    return (parse_reversed_bits(name.removesuffix(".binpb")) if name.endswith(".binpb") else None) or None


def list_regions(table: Storage) -> tuple[str, ...]:
    """Return the ids of all region directories, ascending; the same tuple while nothing changes."""
    return _filter_region_ids(table.directories(MEM_WAL))


@lru_cache(maxsize=64)
def _filter_region_ids(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that are region ids; cached, since queries ask for the same names."""
    return tuple(sorted(filter(_REGION_ID.fullmatch, names)))


def read_latest_manifest(
    table: Storage, region_id: str, *, cached: RegionManifest | None = None
) -> RegionManifest | None:
    """Read the newest manifest of a region.

    With `cached`, the newest version read before, one probe suffices if nothing changed; `cached` itself is
    then returned. The probe includes the file of `cached`: the table may have been dropped and created again.

    Returns:
        The manifest, or None when the region has none.

    Raises:
        CorruptDataError: the newest manifest cannot be read; older ones are not substituted for it.
        UnavailableError: storage failed to answer, or manifests vanish as fast as they are found.
    """
    if cached is None:
        return _read_newest(table, region_id, _read_version_hint(table, region_id))
    still_there, succeeded = table.exists(*_build_paths(cached))
    if still_there and not succeeded:
        return cached
    return _read_newest(table, region_id, cached.version + 1 if succeeded else None)


def read_latest_manifests(
    table: Storage, region_ids: Sequence[str], *, cached: Mapping[str, RegionManifest]
) -> tuple[RegionManifest | None, ...]:
    """Read the newest manifest of each region; on S3, all regions in `cached` are probed in parallel."""
    remembered = [manifest for region_id in region_ids if (manifest := cached.get(region_id)) is not None]
    answers = table.exists(*(path for manifest in remembered for path in _build_paths(manifest)))
    unchanged = {
        manifest.region_id: manifest
        for manifest, still_there, succeeded in zip(remembered, answers[::2], answers[1::2], strict=True)
        if still_there and not succeeded
    }
    newest: dict[str, RegionManifest | None] = {**unchanged}
    if others := [region_id for region_id in region_ids if region_id not in unchanged]:
        read = table.each(lambda other: read_latest_manifest(table, other, cached=cached.get(other)), others)
        newest |= zip(others, read, strict=True)
    return tuple([newest[region_id] for region_id in region_ids])


def are_newest(table: Storage, manifests: Sequence[RegionManifest]) -> bool:
    """Return whether each manifest is still the newest of its region.

    Raises:
        UnavailableError: storage failed to answer.
    """
    answers = table.exists(*(path for manifest in manifests for path in _build_paths(manifest)))
    return all(answers[::2]) and not any(answers[1::2])


def _build_paths(cached: RegionManifest) -> tuple[str, str]:
    return manifest_path(cached.region_id, cached.version), manifest_path(
        cached.region_id, cached.version + 1
    )


def _read_newest(table: Storage, region_id: str, start: int | None) -> RegionManifest | None:
    """Read the newest manifest, from a version upward or, if that is absent, by the directory's listing."""
    for _ in range(_READ_ATTEMPTS):
        if start is None:
            start = _find_newest_version(table, region_id)
            if start is None:
                return None
        reading = table.start(partial(read_manifest, table, region_id, start))
        version = find_last_in_sequence(table, partial(manifest_path, region_id), start)
        try:
            return reading.result() if version == start else read_manifest(table, region_id, version)
        except FileNotFoundError:
            start = None  # Removed since it was found: look again, from the directory.
    msg = f"Manifests of region {region_id} in {table.uri} vanish while they are read; retry"
    raise UnavailableError(msg)


def read_manifest(table: Storage, region_id: str, version: int) -> RegionManifest:
    """Read one version of a region's manifest.

    Raises:
        FileNotFoundError: there is no such version.
        CorruptDataError: it cannot be read.
        UnavailableError: storage failed to answer.
    """
    path = manifest_path(region_id, version)
    return _decode_checked(table.read(path), region_id, version, table.locate(path))


def commit_manifest(table: Storage, manifest: RegionManifest) -> bool:
    """Create one version of a region's manifest, then write the version hint.

    Returns:
        True when this call created the version; False when it exists already: read the newest and try again
        on top of it.

    Raises:
        UnavailableError: storage failed to answer; whether the version was created is then unknown.
    """
    if not table.put_if_absent(manifest_path(manifest.region_id, manifest.version), manifest.encode()):
        return False
    # The hint after the manifest: this order must not change (ADR 25). Readers probe upward from any hint.
    with suppress(UnavailableError):
        table.put(version_hint_path(manifest.region_id), b'{"version":%d}' % manifest.version)
    return True


def _decode_generations(message: mem_wal_pb2.RegionManifest) -> tuple[FlushedGeneration, ...]:
    # Where storage did not confirm the version that lists a generation, Lance lists it once more in the next.
    found = dict.fromkeys(map(_decode_flushed_generation, message.flushed_generations))
    return tuple(sorted(found, key=lambda one: one.generation))


def _decode_flushed_generation(message: mem_wal_pb2.FlushedGeneration) -> FlushedGeneration:
    rows = message.physical_rows if message.HasField("physical_rows") else None
    return FlushedGeneration(message.generation, message.path, rows)


def _decode_checked(data: bytes, region_id: str, version: int, source: str) -> RegionManifest:
    manifest = RegionManifest.decode(data, source=source)
    if (manifest.region_id, manifest.version) != (region_id, version):
        msg = (
            f"{source} holds version {manifest.version} of region {manifest.region_id}, but its name says "
            f"version {version} of region {region_id}: restore the file, or remove it"
        )
        raise CorruptDataError(msg)
    return manifest


def _read_version_hint(table: Storage, region_id: str) -> int | None:
    """Return the version in the hint file, which need not exist; None if the file is absent or unreadable."""
    try:
        version = json.loads(table.read(version_hint_path(region_id)))["version"]
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    return version if isinstance(version, int) and 0 < version < 1 << 63 else None


def _find_newest_version(table: Storage, region_id: str) -> int | None:
    versions = (parse_manifest_version(entry.name) for entry in table.list(manifest_directory(region_id)))
    return max((version for version in versions if version is not None), default=None)
