"""The MemWAL index of a base table: region specs, merge and index progress.

Lance stores it in the base table's manifest. pylance returns the configuration but not the progress, so this
module reads the manifest file itself.
"""

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final
from uuid import UUID, uuid4

import lance
from google.protobuf.message import DecodeError
from lance.dataset import Index

from lance_gateway.memwal.errors import (
    CorruptDataError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lance_gateway.memwal.storage.files import Storage, base_manifest_paths
from lance_gateway.protos import mem_wal_pb2

KNOWN_FLAGS: Final = frozenset({0, 1, 2, 3, 4, 5, 7, 8, 10, 11, 14, 15})
"""Bits of the features that Lance reads and writes; it refuses versions with any other one."""
MEM_WAL_INDEX: Final = "__lance_mem_wal"
MOVED_ROWS_INDEX: Final = "__lance_frag_reuse"
"""Has the new addresses of rows that a compaction moved, and whose former addresses are in other indexes."""
SYSTEM_INDEXES: Final = frozenset({MEM_WAL_INDEX, MOVED_ROWS_INDEX})
"""Records that Lance keeps as indexes without columns."""
MEM_WAL_INDEX_TYPE: Final = "/lance.table.MemWalIndexDetails"
_MAGIC: Final = b"LANC"
# Position of the Manifest message, format version (major, minor), magic.
_FOOTER: Final = struct.Struct("<QHH4s")
_LENGTH: Final = struct.Struct("<I")
_ATTEMPTS: Final = 4


@dataclass(frozen=True)
class RegionField:
    """One derived value of a region spec, computed by a transform or an expression.

    Attributes:
        field_id: name under which manifests record the region's value.
        source_ids: Lance field ids of the columns it is derived from, `col0`, `col1`, ... in an expression.
        transform: name of a well-known transform; None where an expression is given.
        expression: DataFusion SQL; None where a transform is given.
        result_type: Arrow name of the value's type.
        parameters: of the transform, such as `num_buckets`.
    """

    field_id: str
    source_ids: tuple[int, ...]
    transform: str | None
    expression: str | None
    result_type: str
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class RegionSpec:
    """The mapping of rows to regions: the rows of a region have equal values of every field.

    Attributes:
        spec_id: 1 or more; manifests refer to it.
        fields: the derived values.
    """

    spec_id: int
    fields: tuple[RegionField, ...]

    def __post_init__(self) -> None:
        names = [field.field_id for field in self.fields]
        if self.spec_id < 1 or len(set(names)) != len(names):
            msg = f"Region spec {self.spec_id} with fields {names}: ids start at 1 and fields differ in name"
            raise InvalidInputError(msg)


@dataclass(frozen=True)
class MemWalIndexDetails:
    """The details of the MemWAL index of one base version.

    Attributes:
        snapshot_ts_millis: when the region snapshots were taken (Unix time in ms); 0 for never.
        num_regions: as recorded; with bucket regions the number of buckets.
        inline_snapshots: a Lance file with one row per region, see `region_snapshots`; None where they
            are in a file of their own, or were never taken.
        region_specs: every spec that a region may refer to.
        maintained_indexes: names of the indexes that flushed generations carry too.
        maintain_all_indexes: whether every index of the table is maintained, named or not.
        merged_generations: region id -> newest generation that this base version contains.
        index_catchup: index name -> region id -> newest generation that the index covers.
        writer_config_defaults: options that writers start from.
    """

    snapshot_ts_millis: int = 0
    num_regions: int = 0
    inline_snapshots: bytes | None = field(default=None, repr=False)
    region_specs: tuple[RegionSpec, ...] = ()
    maintained_indexes: tuple[str, ...] = ()
    maintain_all_indexes: bool = False
    merged_generations: Mapping[str, int] = field(default_factory=dict, hash=False)
    index_catchup: Mapping[str, Mapping[str, int]] = field(default_factory=dict, hash=False)
    writer_config_defaults: Mapping[str, str] = field(default_factory=dict, hash=False)
    # The message this was decoded from.
    origin: bytes = field(default=b"", repr=False, compare=False)

    @cached_property
    def specs(self) -> Mapping[int, RegionSpec]:
        """Region specs by id; id 0 is reserved for regions made by hand."""
        return {spec.spec_id: spec for spec in self.region_specs}

    def newest_merged(self, region_id: str) -> int:
        """Return the newest merged generation of a region; 0 if there is none."""
        return self.merged_generations.get(region_id, 0)

    def newest_covered(self, index_name: str, region_id: str) -> int:
        """Return the newest merged generation of a region that an index covers.

        MemWAL specification, "MemWAL Index Details": what is not recorded is not covered, so 0.
        """
        return self.index_catchup.get(index_name, {}).get(region_id, 0)

    def encode(self) -> bytes:
        """Encode the index details."""
        message = mem_wal_pb2.MemWalIndexDetails(
            snapshot_ts_millis=self.snapshot_ts_millis,
            num_regions=self.num_regions,
            inline_snapshots=self.inline_snapshots,
            maintained_indexes=self.maintained_indexes,
            maintain_all_indexes=self.maintain_all_indexes,
            writer_config_defaults=self.writer_config_defaults,
        )
        for spec in self.region_specs:
            message.region_specs.append(_encode_region_spec(spec))
        message.merged_generations.extend(_encode_progress(self.merged_generations))
        for name, generations in self.index_catchup.items():
            catchup = message.index_catchup.add(index_name=name)
            catchup.caught_up_generations.extend(_encode_progress(generations))
        return message.SerializeToString()

    def encode_with_snapshots(
        self, snapshot_ts_millis: int, num_regions: int, inline_snapshots: bytes | None
    ) -> bytes:
        """Encode the original details with other region snapshots; unknown fields stay."""
        message = mem_wal_pb2.MemWalIndexDetails.FromString(self.origin or self.encode())
        message.snapshot_ts_millis = snapshot_ts_millis
        message.num_regions = num_regions
        if inline_snapshots is None:
            message.ClearField("inline_snapshots")
        else:
            message.inline_snapshots = inline_snapshots
        return message.SerializeToString()

    def encode_with_merged(self, merged_generations: Mapping[str, int]) -> bytes:
        """Encode the original details with other merged generations; unknown fields stay."""
        message = mem_wal_pb2.MemWalIndexDetails.FromString(self.origin or self.encode())
        del message.merged_generations[:]
        message.merged_generations.extend(_encode_progress(merged_generations))
        return message.SerializeToString()

    def encode_with_maintained(self, names: Sequence[str] | None) -> bytes:
        """Encode the original details with other maintained indexes, None for all; unknown fields stay."""
        message = mem_wal_pb2.MemWalIndexDetails.FromString(self.origin or self.encode())
        message.maintain_all_indexes = names is None
        message.maintained_indexes[:] = names or ()
        return message.SerializeToString()

    @staticmethod
    def decode(data: bytes, *, source: str) -> "MemWalIndexDetails":
        """Decode index details.

        Raises:
            CorruptDataError: the bytes are no MemWalIndexDetails message.
        """
        try:
            message = mem_wal_pb2.MemWalIndexDetails.FromString(data)
            return MemWalIndexDetails(
                snapshot_ts_millis=message.snapshot_ts_millis,
                num_regions=message.num_regions,
                inline_snapshots=message.inline_snapshots if message.HasField("inline_snapshots") else None,
                region_specs=tuple(map(_decode_region_spec, message.region_specs)),
                maintained_indexes=tuple(message.maintained_indexes),
                maintain_all_indexes=message.maintain_all_indexes,
                merged_generations=dict(map(_decode_progress, message.merged_generations)),
                index_catchup={
                    catchup.index_name: dict(map(_decode_progress, catchup.caught_up_generations))
                    for catchup in message.index_catchup
                },
                writer_config_defaults=dict(message.writer_config_defaults),
                origin=data,
            )
        except (DecodeError, InvalidInputError, ValueError) as error:
            msg = (
                f"{source}: the index {MEM_WAL_INDEX} cannot be read: {error}. Restore an older table version"
            )
            raise CorruptDataError(msg) from error


@dataclass(frozen=True)
class BaseManifest:
    """The parts of a base version's manifest that this project reads.

    Attributes:
        details: the MemWAL index, or None when that version has none.
        digest: of the whole file, 16 bytes; it has the time of its writing in it.
        path: of the file, below the table's directory.
        index_id: UUID of the MemWAL index; None when there is none.
        index_names: of the table's other indexes.
        reader_flags: bits of the features that readers must know.
        writer_flags: bits of the features that writers must know.
        is_inherited: whether the MemWAL index is that of the table which this one was cloned from.
    """

    details: MemWalIndexDetails | None
    digest: bytes
    path: str
    index_id: str | None
    index_names: frozenset[str]
    reader_flags: int = 0
    writer_flags: int = 0
    is_inherited: bool = False

    def check_readable(self, name: str) -> None:
        """Refuse a version with a feature that Lance can't read.

        Args:
            name: of the table, for messages.

        Raises:
            UnsupportedError: there is one.
        """
        _check_flags(name, self.path, "reader", self.reader_flags)

    def check_writable(self, name: str) -> None:
        """Refuse a version with a feature that Lance can't write: its log would never be merged.

        Args:
            name: of the table, for messages.

        Raises:
            UnsupportedError: there is one.
        """
        _check_flags(name, self.path, "writer", self.writer_flags)


def _check_flags(name: str, path: str, kind: str, flags: int) -> None:
    unknown = [bit for bit in range(flags.bit_length()) if flags >> bit & 1 and bit not in KNOWN_FLAGS]
    if unknown:
        bits = ", ".join(f"{1 << bit} (bit {bit})" for bit in unknown)
        msg = (
            f"table {name!r}: {path} has the {kind} feature flag {bits}, which Lance {lance.__version__} "
            "does not know: use a version of Lance Gateway with a newer Lance"
        )
        raise UnsupportedError(msg)


def build_index(index_id: str, version: int, encoded: bytes) -> Index:
    """Build the entry of a MemWAL index in the manifest of a base version.

    Args:
        index_id: UUID in its usual text form.
        version: that it is made from.
        encoded: details.
    """
    return Index(
        uuid=index_id,
        name=MEM_WAL_INDEX,
        fields=[],
        dataset_version=version,
        # Covers no fragment: compaction doesn't concern it.
        fragment_ids=set(),
        index_version=0,
        created_at=datetime.now(UTC),
        index_details=(MEM_WAL_INDEX_TYPE, encoded),
    )


def replace_details(table: Storage, version: int, encoded: bytes) -> Any:  # noqa: ANN401 - lance types
    """Build the operation that gives the MemWAL index of a base version other details."""
    found = read_base_manifest(table, version)
    return lance.LanceOperation.CreateIndex(
        [build_index(str(uuid4()), version, encoded)],
        [build_index(found.index_id or str(uuid4()), version, b"")],
    )


def list_merged_generations(details: MemWalIndexDetails | None) -> Mapping[str, int]:
    """Return the newest merged generation by region id; empty without MemWAL.

    MemWAL specification, "MemWAL Index Details": the record is committed with the rows.
    """
    return {} if details is None else details.merged_generations


def read_index_details(table: Storage, version: int) -> MemWalIndexDetails | None:
    """Read the MemWAL index of one base version; None without MemWAL."""
    return read_base_manifest(table, version).details


def read_newest_version(name: str, dataset: Any) -> int:  # noqa: ANN401 - lance types
    """Return the number of the newest version of a base table.

    Raises:
        UnavailableError: storage failed to answer.
    """
    try:
        newest: int = dataset.latest_version
    except (OSError, ValueError) as error:
        msg = f"table {name!r}: its newest version can't be found: {error}"
        raise UnavailableError(msg) from error
    return newest


def find_newest_details(name: str, storage: Storage, dataset: Any) -> MemWalIndexDetails | None:  # noqa: ANN401
    """Return the MemWAL index of the newest version of a base table; None if it has none.

    Raises:
        UnavailableError: storage failed to answer.
    """
    for _ in range(_ATTEMPTS):
        with suppress(NotFoundError):  # Cleaned up just now: there is a newer one.
            return read_index_details(storage, read_newest_version(name, dataset))
    msg = f"table {name!r}: versions are cleaned up as fast as they are found; retry"
    raise UnavailableError(msg)


def read_base_manifest(table: Storage, version: int) -> BaseManifest:
    """Read the manifest file of one version of a base table.

    Raises:
        NotFoundError: the table has no such version.
        CorruptDataError: the manifest file is not a whole base table manifest.
        UnavailableError: storage failed to answer.
    """
    data, path = _read_base_manifest(table, version)
    source = table.locate(path)
    try:
        message = _find_manifest(data)
        section = _find_index_section(data, message)
    except (DecodeError, ValueError, struct.error) as error:
        msg = (
            f"{source} ({len(data)} bytes) is not a whole base table manifest: {error}. It ends with a "
            "16-byte footer that leads to its messages. Restore the file, or check out another version"
        )
        raise CorruptDataError(msg) from error
    digest = hashlib.blake2b(data, digest_size=16).digest()
    names = frozenset(entry.name for entry in section.indices) - SYSTEM_INDEXES
    flags = message.reader_feature_flags, message.writer_feature_flags
    index = next((entry for entry in section.indices if entry.name == MEM_WAL_INDEX), None)
    if index is None:
        return BaseManifest(None, digest, path, None, names, *flags)
    details = MemWalIndexDetails.decode(index.index_details.value, source=source)
    index_id = str(UUID(bytes=index.uuid.uuid))
    return BaseManifest(details, digest, path, index_id, names, *flags, index.HasField("base_id"))


def _read_base_manifest(table: Storage, version: int) -> tuple[bytes, str]:
    paths = base_manifest_paths(version)
    found = _read_first_existing(table, paths)
    if found is None and table.committed_by:
        # Decided on, but not under its own name yet: Lance renames it for whoever opens that version.
        with suppress(ValueError, OSError):
            lance.dataset(table.uri, version=version, storage_options=dict(table.options))
        found = _read_first_existing(table, paths)
    if found is not None:
        return found
    msg = f"{table.uri} has no version {version} (neither {paths[0]} nor {paths[1]} exists): use a newer one"
    raise NotFoundError(msg)


def _read_first_existing(table: Storage, paths: Iterable[str]) -> tuple[bytes, str] | None:
    for path in paths:
        try:
            return table.read(path), path
        except FileNotFoundError:
            continue
    return None


def _find_manifest(data: bytes) -> mem_wal_pb2.BaseManifest:
    position, _, _, magic = _FOOTER.unpack(data[-_FOOTER.size :])
    if magic != _MAGIC:
        msg = f"it ends with {magic!r} instead of {_MAGIC!r}"
        raise ValueError(msg)
    return mem_wal_pb2.BaseManifest.FromString(_read_message(data, position))


def _find_index_section(data: bytes, manifest: mem_wal_pb2.BaseManifest) -> mem_wal_pb2.IndexSection:
    if not manifest.HasField("index_section"):  # 0 is a position like any other.
        return mem_wal_pb2.IndexSection()
    return mem_wal_pb2.IndexSection.FromString(_read_message(data, manifest.index_section))


def _read_message(data: bytes, position: int) -> bytes:
    """Return the message at a position: a length of 4 bytes, then the message."""
    start = position + _LENGTH.size
    if start > len(data):
        msg = f"a message is recorded at byte {position}"
        raise ValueError(msg)
    (length,) = _LENGTH.unpack_from(data, position)
    if start + length > len(data) - _FOOTER.size:
        msg = f"the message at byte {position} is recorded with {length} bytes"
        raise ValueError(msg)
    return data[start : start + length]


def _decode_region_spec(message: mem_wal_pb2.RegionSpec) -> RegionSpec:
    return RegionSpec(message.spec_id, tuple(map(_decode_region_field, message.fields)))


def _decode_region_field(message: mem_wal_pb2.RegionField) -> RegionField:
    return RegionField(
        field_id=message.field_id,
        source_ids=tuple(message.source_ids),
        transform=message.transform if message.HasField("transform") else None,
        expression=message.expression if message.HasField("expression") else None,
        result_type=message.result_type,
        parameters=dict(message.parameters),
    )


def _encode_region_spec(spec: RegionSpec) -> mem_wal_pb2.RegionSpec:
    message = mem_wal_pb2.RegionSpec(spec_id=spec.spec_id)
    for region_field in spec.fields:
        message.fields.add(
            field_id=region_field.field_id,
            source_ids=region_field.source_ids,
            transform=region_field.transform,
            expression=region_field.expression,
            result_type=region_field.result_type,
            parameters=region_field.parameters,
        )
    return message


def _encode_progress(generations: Mapping[str, int]) -> list[mem_wal_pb2.MergedGeneration]:
    return [
        mem_wal_pb2.MergedGeneration(
            region_id=mem_wal_pb2.Uuid(uuid=UUID(region_id).bytes), generation=generation
        )
        for region_id, generation in generations.items()
    ]


def _decode_progress(message: mem_wal_pb2.MergedGeneration) -> tuple[str, int]:
    return str(UUID(bytes=message.region_id.uuid)), message.generation
