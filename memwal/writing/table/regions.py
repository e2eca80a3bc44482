"""Find and create the regions of rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_gateway.memwal.base.index_details import MemWalIndexDetails, RegionField, RegionSpec
from lance_gateway.memwal.errors import PreconditionError, UnsupportedError
from lance_gateway.memwal.regions.generation_numbers import (
    check_not_restarted,
    choose_first_generation,
    extent_path,
)
from lance_gateway.memwal.regions.manifest import (
    RegionManifest,
    commit_manifest,
    list_regions,
    read_latest_manifest,
    read_latest_manifests,
)
from lance_gateway.memwal.regions.region_ids import (
    RawValues,
    can_be_identity_region,
    derive_lancedb_region_id,
    derive_own_region_id,
    derive_region_id,
    find_region_values,
    is_drained,
)
from lance_gateway.memwal.regions.wal import find_last_epoch
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.transforms.buckets import BucketHash
from lance_gateway.memwal.transforms.raw_values import parse_result_type
from lance_gateway.memwal.transforms.transforms import build_transform, encode_region_value

_REMEMBERED = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class RoutedRows:
    """Rows grouped by region.

    Attributes:
        region_ids: regions that have rows among them.
        order: positions of rows, those of the first region first, in each region ascending; None where all
            rows belong to one.
        bounds: end of each region's rows in that order.
    """

    region_ids: tuple[str, ...]
    order: pa.Array | None = None
    bounds: tuple[int, ...] = ()


class Regions:
    """The regions of one table by their values; safe to share between threads.

    Attributes:
        manifests: region id -> the manifest last read or created here; storage may have newer ones.

    Args:
        storage: directory of the table.
        spec: that governs new rows; None for a table whose only region holds all rows.
        reading: how `bucket` hashes.
        table_id: of a table that has an id of its own.
        keyed: whether the table has a primary key; without one, rows may be in any region.
        details: the MemWAL index as it was when the table was opened.
        newest: reads the MemWAL index of the newest base version; None where it never changes.
    """

    def __init__(
        self,
        storage: Storage,
        spec: RegionSpec | None,
        reading: BucketHash = BucketHash.LANCE,
        *,
        table_id: str = "",
        keyed: bool = True,
        details: MemWalIndexDetails | None = None,
        newest: Callable[[], MemWalIndexDetails] | None = None,
    ) -> None:
        known = details or MemWalIndexDetails()
        self.manifests: dict[str, RegionManifest] = {}
        self._storage = storage
        self._newest = newest or (lambda: known)
        self._spec = spec if spec is not None and spec.fields else None
        self._table_id = table_id
        self._keyed = keyed
        self._lock = threading.Lock()
        self._reading = reading
        self._known: dict[RawValues, str] = {}
        self._sole: str | None = None
        self._encoded: dict[tuple[str, int], bytes] = {}
        self._has_looked = False
        self._spec_id = 0 if self._spec is None else self._spec.spec_id
        self._fields = () if self._spec is None else self._spec.fields
        self._transforms = tuple((field, build_transform(field, reading)) for field in self._fields)

    @property
    def source_ids(self) -> tuple[int, ...]:
        """Lance field ids of the columns that determine the region of a row."""
        return tuple(dict.fromkeys(source for field in self._fields for source in field.source_ids))

    def list_existing(self) -> tuple[str, ...]:
        """Return the ids of all regions that may have rows, ascending.

        Raises:
            PreconditionError: rows can't be routed, see `route`.
        """
        with self._lock:
            if self._spec is None:
                return tuple(one for one in (self._find_only_region(),) if one in list_regions(self._storage))
            self._load_regions()
            return (self._sole,) if self._sole is not None else tuple(sorted(self._known.values()))

    def route(self, columns: Mapping[int, pa.Array], rows: int) -> RoutedRows:
        """Return the regions of rows; create missing regions.

        Args:
            columns: array by Lance field id, of the region fields' sources at least.
            rows: their length.

        Raises:
            PreconditionError: regions exist of which nobody recorded which rows they hold.
        """
        if self._spec is None:
            with self._lock:
                return RoutedRows((self._find_only_region(),))
        listed = None
        if not self._has_looked:
            with self._lock:
                listed = self._load_regions()
        if self._sole is not None:
            return RoutedRows((self._sole,))
        raw_of, codes = self._find_distinct_values(columns, rows)
        ids = self._find_or_create_ids(raw_of, listed)
        if len(raw_of) == 1:
            return RoutedRows((ids[0],))
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(1, len(raw_of) + 1))
        return RoutedRows(tuple(ids), pa.array(order), tuple(bounds.tolist()))

    def _find_distinct_values(
        self, columns: Mapping[int, pa.Array], rows: int
    ) -> tuple[list[RawValues], np.ndarray[tuple[int], np.dtype[np.int64]]]:
        """Return the distinct region values of rows, and for each row the index of its values."""
        codes = np.zeros(rows, np.int64)
        distinct: list[RawValues] = [()]
        for field, transform in self._transforms:
            values = transform.apply([columns[source] for source in field.source_ids], rows=rows)
            if rows == 1:
                distinct = [(*distinct[0], self._encode(field, values[0]))]
                continue
            encoded = values.dictionary_encode(null_encoding="encode")
            raw = [self._encode(field, value) for value in encoded.dictionary]
            mixed = codes * len(raw) + np.asarray(encoded.indices, np.int64)
            kept, codes = np.unique(mixed, return_inverse=True)
            distinct = [(*distinct[one // len(raw)], raw[one % len(raw)]) for one in kept.tolist()]
        return distinct, codes.astype(np.int16 if len(distinct) < 1 << 15 else np.int64)

    def _encode(self, field: RegionField, value: pa.Scalar) -> bytes | None:
        """Return a value as manifests record it; those of buckets are remembered."""
        if not value.is_valid:
            return None
        if not pa.types.is_int32(value.type):
            return encode_region_value(field, value)
        key = field.field_id, value.as_py()
        raw = self._encoded.get(key)
        if raw is None:
            raw = encode_region_value(field, value)
            if len(self._encoded) < _REMEMBERED:
                self._encoded[key] = raw
        return raw

    def _find_or_create_ids(self, raw_of: Sequence[RawValues], listed: Collection[str] | None) -> list[str]:
        """Return the regions of values; create missing ones.

        Args:
            raw_of: the values.
            listed: the regions that storage has just listed; None if it has not.
        """
        known = self._known
        ids = [known.get(raw) for raw in raw_of]
        if None not in ids:
            return [one for one in ids if one is not None]
        with self._lock:
            if listed is None and any(raw not in self._known for raw in raw_of):
                listed = self._load_regions()
            missing = [raw for raw in raw_of if raw not in self._known]
            if missing:
                self._create(missing, listed or ())
            return [self._known[raw] for raw in raw_of]

    def _load_regions(self) -> Collection[str]:
        """Read the region values of all regions from their manifests, or infer them from the region ids.

        Returns:
            The ids of all regions.

        Raises:
            PreconditionError: some tell nothing, or follow an older spec: any key might be in them. Or their
                generations contradict the base table.
        """
        known: dict[RawValues, list[RegionManifest]] = {}
        unknown = []
        listed = list_regions(self._storage)
        for manifest in read_latest_manifests(self._storage, listed, cached={}):
            if manifest is None:
                continue
            self.manifests[manifest.region_id] = manifest
            raw = self._read_values(manifest)
            if raw is not None:
                known.setdefault(raw, []).append(manifest)
            elif self._keyed and not self._is_harmless(manifest):
                unknown.append(manifest)
        if len(unknown) == 1 and not known and unknown[0].region_spec_id in (0, self._spec_id):
            self._sole = unknown[0].region_id
        elif unknown:
            raise self._unknown_values_error(unknown)
        self._check_not_restarted([duplicate for duplicates in known.values() for duplicate in duplicates])
        self._known = {
            **self._known,
            **{raw: self._choose_region(raw, duplicates) for raw, duplicates in known.items()},
        }
        self._has_looked = True
        return listed

    def _check_not_restarted(self, manifests: Sequence[RegionManifest]) -> None:
        """Refuse regions that LanceDB created again in a clone.

        Raises:
            RegionMismatchError: there is one.
        """
        without_values = [manifest for manifest in manifests if not manifest.region_values]
        merged = self._newest().merged_generations if without_values else {}
        for manifest in without_values:
            newest = read_latest_manifest(self._storage, manifest.region_id, cached=manifest)
            if newest is not None:
                check_not_restarted(self._storage, newest, merged.get(manifest.region_id, 0))

    def _read_values(self, manifest: RegionManifest) -> RawValues | None:
        """Return the values of a region; None if they are unknown or follow another spec."""
        spec = self._spec
        if spec is None:
            return None
        values = manifest.region_values if manifest.region_spec_id == self._spec_id else {}
        if not values and self._reading is BucketHash.LANCE:  # LanceDB's
            values = find_region_values(self._storage, spec, manifest)
        raw = tuple(_normalize_recorded(field, values.get(field.field_id)) for field in self._fields)
        if values:
            return raw
        # NULL of text is recorded as nothing.
        is_own = manifest.region_id == derive_own_region_id(spec, raw, self._table_id)
        return raw if is_own and manifest.region_spec_id == self._spec_id else None

    def _choose_region(self, raw: RawValues, manifests: Sequence[RegionManifest]) -> str:
        """Return the region that takes rows of these values: LanceDB's if there is one."""
        ids = [manifest.region_id for manifest in manifests]
        lancedb_id = self._lancedb_id(raw)
        return lancedb_id if lancedb_id in ids else ids[-1]

    def _lancedb_id(self, raw: RawValues) -> str | None:
        return None if self._spec is None else derive_lancedb_region_id(self._spec, raw, self._reading)

    def _is_harmless(self, manifest: RegionManifest) -> bool:
        """Return whether a region of unknown values has no unmerged rows, and can't get rows of others."""
        if self._spec is not None and can_be_identity_region(self._spec, manifest.region_id):
            # LanceDB's next writer of such a region knows the value that it is named by.
            return self._is_drained(replace(manifest, sealed=True))
        return self._is_drained(manifest)

    def _is_drained(self, manifest: RegionManifest) -> bool:
        # What is merged is looked up only where it matters.
        if not manifest.sealed:
            return False
        merged = self._newest().newest_merged(manifest.region_id)
        return is_drained(self._storage, manifest, merged)

    def _unknown_values_error(self, unknown: Sequence[RegionManifest]) -> PreconditionError:
        one = unknown[0]
        reason = (
            "records no region values"
            if one.region_spec_id in (0, self._spec_id)
            else f"follows region spec {one.region_spec_id}, but rows now follow spec {self._spec_id}"
        )
        msg = (
            f"{self._storage.uri}: region {one.region_id} {reason} ({len(unknown)} such): "
            "any key may be in it, but a key stays in one region: merge and remove such regions, or write "
            "through the writers that made them"
        )
        return PreconditionError(msg)

    def _create(self, missing: Sequence[RawValues], listed: Collection[str]) -> None:
        """Create regions; if several processes create the same region, one succeeds.

        Args:
            missing: their values.
            listed: the regions that storage has just listed.

        Raises:
            PreconditionError: the table has no MemWAL any more.
        """
        # The base version is read now, before the manifest is made: this order must not change (ADR 33). A
        # region that is not there may have been, and have been merged meanwhile.
        details = self._newest()
        for raw in missing:
            region_id = derive_region_id(self._spec, raw, self._table_id, self._reading)
            has_files = region_id in listed
            if has_files and self._exists(region_id):  # created by LanceDB, without values
                self._known = {**self._known, raw: region_id}
                continue
            values = {
                one.field_id: value or b""
                for one, value in zip(self._fields, raw, strict=True)
                if value is not None or not _is_variable(one)
            }
            first = choose_first_generation(details, region_id)
            if first > 1:  # In a copy, a file of the original may tell of generations that don't come.
                self._storage.delete(extent_path(region_id, first))
            # Entries that a copy without manifests has were written by epochs before the first one to come.
            epoch = find_last_epoch(self._storage, region_id) if has_files else 0
            manifest = RegionManifest(
                region_id, 1, epoch, 0, 0, first, region_spec_id=self._spec_id, region_values=values
            )
            if commit_manifest(self._storage, manifest):
                self.manifests[region_id] = manifest
            self._known = {**self._known, raw: region_id}

    def _exists(self, region_id: str) -> bool:
        return read_latest_manifest(self._storage, region_id) is not None

    def _find_only_region(self) -> str:
        known = self._known.get(())
        if known is not None:
            return known
        ids = list_regions(self._storage)
        if len(ids) > 1 and self._keyed:
            msg = (
                f"{self._storage.uri} has {len(ids)} regions and no region spec that says which rows belong "
                "where: write to it through its own writers, or give it a region spec"
            )
            raise PreconditionError(msg)
        own_id = derive_region_id(None, (), self._table_id)
        region_id = ids[0] if len(ids) == 1 else own_id
        if region_id == own_id and (region_id not in ids or not self._exists(region_id)):
            self._create([()], ids)
        self._known = {(): region_id}
        return region_id


def _normalize_recorded(field: RegionField, value: bytes | None) -> bytes | None:
    """Return the value as manifests record it: without NULL of text and binary; other NULLs have no bytes."""
    return None if value is None or (not value and not _is_variable(field)) else value


def _is_variable(field: RegionField) -> bool:
    try:
        kind = parse_result_type(field.result_type)
    except UnsupportedError:
        return True
    return not pa.types.is_boolean(kind) and not pa.types.is_primitive(kind)
