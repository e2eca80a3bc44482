"""Which region a row belongs to, and how regions are created."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from memwal.errors import PreconditionError
from memwal.index_details import RegionSpec
from memwal.manifest import RegionManifest, commit_manifest, list_regions, read_latest_manifests
from memwal.storage import Storage
from memwal.transforms import BucketHash, encode_region_value, region_values

_NAMESPACE = uuid.UUID("6f0d2d5e-4f0c-5a55-9a07-3a4d5f1f2a10")


def region_id_of(spec: RegionSpec, raw: Sequence[bytes]) -> str:
    """The id that every process gives to a region of these values, so that two never create two of them."""
    name = b"\0".join((str(spec.spec_id).encode(), *(value.hex().encode() for value in raw)))
    return str(uuid.uuid5(_NAMESPACE, name.decode()))


class Regions:
    """The regions of one table by their values; not safe to share between threads.

    Args:
        storage: directory of the table.
        spec: that governs new rows; None for a table whose only region holds all rows.
        reading: how `bucket` hashes.
    """

    def __init__(
        self, storage: Storage, spec: RegionSpec | None, reading: BucketHash = BucketHash.LANCE
    ) -> None:
        self._storage = storage
        self._spec = spec
        self._reading = reading
        self._known: dict[tuple[bytes, ...], str] = {}

    def route(self, columns: Mapping[int, pa.Array]) -> Iterator[tuple[str, pa.Array | None]]:
        """Regions of rows, created where they don't exist yet, and the rows of each by position.

        Args:
            columns: array by Lance field id, equally long.

        Returns:
            Region id, and positions of its rows in ascending order; None for all rows.
        """
        if self._spec is None or not self._spec.fields:
            yield self._only(), None
            return
        values = region_values(self._spec, columns, self._reading)
        rows = pa.table(
            [*values, pa.array(range(len(values[0])), pa.int64())], [*map(str, range(len(values))), "at"]
        )
        groups: dict[tuple[Any, ...], list[int]] = {}
        for row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            groups.setdefault(row[:-1], []).append(row[-1])
        for key, positions in groups.items():
            raw = tuple(
                encode_region_value(one, value) for one, value in zip(self._spec.fields, key, strict=True)
            )
            yield self._region(raw), pa.array(positions, pa.int64())

    def _region(self, raw: tuple[bytes, ...]) -> str:
        known = self._known.get(raw)
        if known is not None:
            return known
        assert self._spec is not None
        names = tuple(one.field_id for one in self._spec.fields)
        ids = list_regions(self._storage)
        for manifest in read_latest_manifests(self._storage, ids, known={}):
            if manifest is not None and manifest.region_spec_id == self._spec.spec_id:
                self._known[tuple(manifest.region_values.get(name, b"") for name in names)] = (
                    manifest.region_id
                )
        if raw not in self._known:
            region_id = region_id_of(self._spec, raw)
            commit_manifest(
                self._storage,
                RegionManifest(
                    region_id,
                    1,
                    0,
                    0,
                    0,
                    1,
                    region_spec_id=self._spec.spec_id,
                    region_values=dict(zip(names, raw, strict=True)),
                ),
            )
            self._known[raw] = region_id
        return self._known[raw]

    def _only(self) -> str:
        if () not in self._known:
            ids = list_regions(self._storage)
            if len(ids) > 1:
                msg = (
                    f"{self._storage.uri} has {len(ids)} regions and no region spec that says which rows "
                    "belong where: write to it through its own writers, or give it a region spec"
                )
                raise PreconditionError(msg)
            self._known[()] = ids[0] if ids else str(uuid.uuid5(_NAMESPACE, "only"))
        return self._known[()]
