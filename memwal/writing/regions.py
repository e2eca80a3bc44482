"""Which region a row belongs to, and how regions are created."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from memwal.errors import PreconditionError, UnsupportedError
from memwal.index_details import MemWalIndexDetails, RegionField, RegionSpec
from memwal.layout import extent_path
from memwal.manifest import (
    RegionManifest,
    commit_manifest,
    list_regions,
    read_latest_manifest,
    read_latest_manifests,
)
from memwal.numbering import first_generation, is_given_up
from memwal.raw_values import parse_result_type
from memwal.storage import Storage
from memwal.transforms import BucketHash, encode_region_value, transform_of
from memwal.writing.log import has_unflushed

_NAMESPACE = uuid.UUID("6f0d2d5e-4f0c-5a55-9a07-3a4d5f1f2a10")

_REMEMBERED = 100_000

RawValues = tuple[bytes | None, ...]
"""What a manifest records, by field of the spec; None for NULL."""


def region_id_of(spec: RegionSpec | None, raw: RawValues, table_id: str = "") -> str:
    """The id that every process gives to a region of these values, so that two never create two of them.

    Args:
        spec: that governs the region; None for the only region of a table without one.
        raw: its values.
        table_id: tells a table from another that had its name before; empty where it has no such id.
    """
    parts = (
        ["only"] if spec is None else [str(spec.spec_id), *("-" if one is None else one.hex() for one in raw)]
    )
    return str(uuid.uuid5(_NAMESPACE, "\0".join([*parts, table_id] if table_id else parts)))


@dataclass(frozen=True, slots=True, eq=False)
class RoutedRows:
    """Which of a number of rows belong to which region.

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
        self._storage = storage
        self._merged = known.merged_generations
        self._newest = newest or (lambda: known)
        self._spec = spec if spec is not None and spec.fields else None
        self._table_id = table_id
        self._keyed = keyed
        self._lock = threading.Lock()
        self._known: dict[RawValues, str] = {}
        self._sole: str | None = None
        self._encoded: dict[tuple[str, int | None], bytes | None] = {}
        self._has_looked = False
        self._spec_id = 0 if self._spec is None else self._spec.spec_id
        self._fields = () if self._spec is None else self._spec.fields
        self._transforms = tuple((one, transform_of(one, reading)) for one in self._fields)

    @property
    def source_ids(self) -> tuple[int, ...]:
        """Lance field ids of the columns that a row's region follows from."""
        return tuple(dict.fromkeys(source for one in self._fields for source in one.source_ids))

    def existing(self) -> tuple[str, ...]:
        """Ids of all regions that rows may be in, ascending.

        Raises:
            PreconditionError: rows can't be routed, see `route`.
        """
        with self._lock:
            if self._spec is None:
                return tuple(one for one in (self._only(),) if one in list_regions(self._storage))
            self._look()
            return (self._sole,) if self._sole is not None else tuple(sorted(self._known.values()))

    def route(self, columns: Mapping[int, pa.Array], rows: int) -> RoutedRows:
        """Regions of rows, created where they don't exist yet.

        Args:
            columns: array by Lance field id, of the region fields' sources at least.
            rows: their length.

        Raises:
            PreconditionError: regions exist of which nobody recorded which rows they hold.
        """
        if self._spec is None:
            with self._lock:
                return RoutedRows((self._only(),))
        if not self._has_looked:
            with self._lock:
                self._look()
        if self._sole is not None:
            return RoutedRows((self._sole,))
        raw_of, codes = self._valued(columns, rows)
        if len(raw_of) == 1:
            return RoutedRows((self._ids(raw_of)[0],))
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(1, len(raw_of) + 1))
        return RoutedRows(tuple(self._ids(raw_of)), pa.array(order), tuple(bounds.tolist()))

    def _valued(
        self, columns: Mapping[int, pa.Array], rows: int
    ) -> tuple[list[RawValues], np.ndarray[tuple[int], np.dtype[np.int64]]]:
        """The distinct region values of rows, and for each row which of them it has."""
        codes = np.zeros(rows, np.int64)
        distinct: list[RawValues] = [()]
        for field, transform in self._transforms:
            values = transform.apply([columns[source] for source in field.source_ids], rows=rows)
            if rows == 1:
                distinct = [(*distinct[0], self._raw_of_one(field, values[0]))]
                continue
            encoded = values.dictionary_encode(null_encoding="encode")
            raw = [_raw(field, value) for value in encoded.dictionary]
            mixed = codes * len(raw) + np.asarray(encoded.indices, np.int64)
            kept, codes = np.unique(mixed, return_inverse=True)
            distinct = [(*distinct[one // len(raw)], raw[one % len(raw)]) for one in kept.tolist()]
        return distinct, codes.astype(np.int16 if len(distinct) < 1 << 15 else np.int64)

    def _raw_of_one(self, field: RegionField, value: pa.Scalar) -> bytes | None:
        """As `_raw`, remembered for the few integers that buckets are."""
        if not pa.types.is_int32(value.type):
            return _raw(field, value)
        key = (field.field_id, value.as_py())
        known = self._encoded.get(key)
        if known is None and len(self._encoded) < _REMEMBERED:
            known = self._encoded[key] = _raw(field, value)
        return _raw(field, value) if known is None else known

    def _ids(self, raw_of: Sequence[RawValues]) -> list[str]:
        known = self._known
        ids = [known.get(raw) for raw in raw_of]
        if None not in ids:
            return [one for one in ids if one is not None]
        with self._lock:
            if any(raw not in self._known for raw in raw_of):
                self._look()
            missing = [raw for raw in raw_of if raw not in self._known]
            if missing:
                self._create(missing)
            return [self._known[raw] for raw in raw_of]

    def _look(self) -> None:
        """Learn what all regions record.

        Raises:
            PreconditionError: some record nothing, or follow an older spec: any key might be in them.
        """
        names = tuple(one.field_id for one in self._fields)
        known, strangers = {}, []
        for manifest in read_latest_manifests(self._storage, list_regions(self._storage), known={}):
            if manifest is None:
                continue
            raw = tuple(
                _recorded(one, manifest.region_values.get(name))
                for name, one in zip(names, self._fields, strict=True)
            )
            recorded = manifest.region_spec_id == self._spec_id and (
                manifest.region_values or manifest.region_id == region_id_of(self._spec, raw, self._table_id)
            )
            if recorded:
                known[raw] = manifest.region_id
            elif self._keyed and not _is_over(self._storage, manifest, self._merged):
                strangers.append(manifest)
        if len(strangers) == 1 and not known and strangers[0].region_spec_id in (0, self._spec_id):
            self._sole = strangers[0].region_id
        elif strangers:
            raise self._strange(strangers)
        self._known = {**self._known, **known}
        self._has_looked = True

    def _strange(self, strangers: Sequence[RegionManifest]) -> PreconditionError:
        one = strangers[0]
        reason = (
            "records no region values"
            if one.region_spec_id in (0, self._spec_id)
            else f"follows region spec {one.region_spec_id}, but rows now follow spec {self._spec_id}"
        )
        msg = (
            f"{self._storage.uri}: region {one.region_id} {reason} ({len(strangers)} such): "
            "any key may be in it, but a key stays in one region: merge and remove such regions, or write "
            "through the writers that made them"
        )
        return PreconditionError(msg)

    def _create(self, missing: Sequence[RawValues]) -> None:
        """Create regions; of several processes that create one, one does.

        Raises:
            PreconditionError: the table has no MemWAL any more.
        """
        # Read now: a region that is not there may have been, and have been merged meanwhile.
        details = self._newest()
        for raw in missing:
            region_id = region_id_of(self._spec, raw, self._table_id)
            values = {
                one.field_id: value or b""
                for one, value in zip(self._fields, raw, strict=True)
                if value is not None or not _is_variable(one)
            }
            first = first_generation(details, region_id)
            if first > 1:  # In a copy, a file of the original may tell of generations that don't come.
                self._storage.delete(extent_path(region_id, first))
            commit_manifest(
                self._storage,
                RegionManifest(
                    region_id, 1, 0, 0, 0, first, region_spec_id=self._spec_id, region_values=values
                ),
            )
            self._known = {**self._known, raw: region_id}

    def _only(self) -> str:
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
        own_id = region_id_of(None, (), self._table_id)
        region_id = ids[0] if len(ids) == 1 else own_id
        if region_id == own_id and (
            region_id not in ids or read_latest_manifest(self._storage, region_id) is None
        ):
            self._create([()])
        self._known = {(): region_id}
        return region_id


def _is_over(storage: Storage, manifest: RegionManifest, merged: Mapping[str, int]) -> bool:
    """Whether a region has no rows that the base table lacks, and never gets any again."""
    until = merged.get(manifest.region_id, 0)
    newest = max((one.generation for one in manifest.flushed_generations), default=0)
    return is_given_up(manifest, until) or (
        manifest.sealed and newest <= until and not has_unflushed(storage, manifest)
    )


def _raw(field: RegionField, value: pa.Scalar) -> bytes | None:
    if not value.is_valid:
        return None
    return encode_region_value(field, value)


def _recorded(field: RegionField, value: bytes | None) -> bytes | None:
    """What a manifest records; NULL of text and binary is left out, all other NULLs have no bytes."""
    return None if value is None or (not value and not _is_variable(field)) else value


def _is_variable(field: RegionField) -> bool:
    try:
        kind = parse_result_type(field.result_type)
    except UnsupportedError:
        return True
    return not pa.types.is_boolean(kind) and not pa.types.is_primitive(kind)
