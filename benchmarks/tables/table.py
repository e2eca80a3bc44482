"""The tables under measurement: written by Lance's own writer, kept on disk while their shape matches."""

import dataclasses
import json
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.reports.answers import Answers
from benchmarks.reports.queries import FILTERED_QTY, TABLE_NAME
from lance_gateway.memwal.base.index_details import read_index_details
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.regions.manifest import RegionManifest, commit_manifest
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.transforms.transforms import encode_region_value

GROUPS = 100

_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field("grp", pa.int32()),
        pa.field("qty", pa.int32()),
        pa.field("price", pa.float64()),
        pa.field("name", pa.string()),
    ]
)
_SLICE = 500_000
_MARKER = "complete.json"
# Part of the directory name: another way of writing the same shape must not reuse older files.
_LAYOUT = 1


@dataclass(frozen=True, slots=True)
class TableShape:
    """What decides the content of a table; equal shapes share one table on disk."""

    rows: int
    fresh_rows: int
    generations: int
    regions: int

    def __post_init__(self) -> None:
        if self.generations < self.regions:
            raise InvalidInputError(
                f"{self.generations} generations over {self.regions} regions: every region needs one at least"
            )

    @property
    def directory(self) -> str:
        """Name of the catalog root inside the data directory."""
        return (
            f"v{_LAYOUT}-rows{self.rows}-fresh{self.fresh_rows}-gen{self.generations}-regions{self.regions}"
        )

    def generations_of(self, region: int) -> int:
        """Generations of one region: an even share, the first regions take the rest."""
        return self.generations // self.regions + (region < self.generations % self.regions)


@dataclass(frozen=True, slots=True)
class BenchTable:
    """A finished table.

    Attributes:
        root: Catalog root; the table is `items.lance` in it.
        shape: Its parameters.
        answers: What correct queries return.
        fresh_keys: Keys that have a version in some generation, distinct.
    """

    root: Path
    shape: TableShape
    answers: Answers
    fresh_keys: npt.NDArray[np.int64]

    @property
    def uri(self) -> str:
        """Path of the Lance dataset."""
        return str(self.root / f"{TABLE_NAME}.lance")

    def draw_keys(self, count: int, *, seed: int) -> list[int]:
        """Return existing keys at random, alternately one that only the base holds and a fresh one."""
        rng = np.random.default_rng(seed)
        base_only = np.setdiff1d(np.arange(self.shape.rows), self.fresh_keys, assume_unique=True)
        keys = np.empty(count, dtype=np.int64)
        keys[0::2] = rng.choice(base_only if base_only.size else self.fresh_keys, len(keys[0::2]))
        keys[1::2] = rng.choice(self.fresh_keys, len(keys[1::2]))
        return [int(key) for key in keys]


def ensure_table(data_dir: Path, shape: TableShape) -> BenchTable:
    """Open the table of this shape, building it first when it is not there or was left half-built."""
    root = data_dir / shape.directory
    if not (root / _MARKER).exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        print(f"building {root}", flush=True)
        answers, fresh_keys = _build(root, shape)
        np.save(root / "fresh_keys.npy", fresh_keys)
        (root / _MARKER).write_text(json.dumps(dataclasses.asdict(answers)), encoding="utf-8")
    recorded = json.loads((root / _MARKER).read_text(encoding="utf-8"))
    recorded["group_sums"] = tuple(recorded["group_sums"])
    return BenchTable(root, shape, Answers(**recorded), np.load(root / "fresh_keys.npy"))


def _build(root: Path, shape: TableShape) -> tuple[Answers, npt.NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    content = _Content(shape.rows, rng)
    uri = str(root / f"{TABLE_NAME}.lance")
    lance.write_dataset(content.generate_base(), uri, schema=_SCHEMA, max_rows_per_file=1_000_000)
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("id", "BTREE")
    dataset = lance.dataset(uri)
    dataset.initialize_mem_wal(bucket_column="id", num_buckets=shape.regions)
    dataset = lance.dataset(uri)

    keys = rng.integers(0, shape.rows, shape.fresh_rows)
    spec = dataset.mem_wal_index_details()["sharding_specs"][0]
    buckets = lance.evaluate_sharding_spec(pa.record_batch({"id": keys}), spec, dataset.lance_schema).column(
        0
    )
    buckets = buckets.to_numpy(zero_copy_only=False)
    for region, region_id in enumerate(create_regions(uri, dataset.version, shape.regions)):
        parts = np.array_split(keys[buckets == region], shape.generations_of(region))
        for generation, part in enumerate(parts, start=1):
            # Closing the writer flushes its MemTable: each part becomes one generation.
            with dataset.mem_wal_writer(region_id, max_memtable_rows=shape.fresh_rows + 1) as writer:
                if len(part):
                    writer.put(content.put(part, generation))
    return content.compute_answers(), np.unique(keys)


def create_regions(
    uri: str, version: int, regions: int, options: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Commit every region's first manifest, with its recorded bucket; Lance's writer adopts it."""
    storage = Storage.open(uri, options)
    details = read_index_details(storage, version)
    if details is None:
        raise InvalidInputError(f"{uri} has no MemWAL index at version {version}: delete it, it is rebuilt")
    spec = details.region_specs[0]
    field = spec.fields[0]
    for bucket in range(regions):
        manifest = RegionManifest(
            region_id=str(uuid.uuid4()),
            version=1,
            writer_epoch=0,
            replay_after_wal_entry_position=0,
            wal_entry_position_last_seen=0,
            current_generation=1,
            flushed_generations=(),
            region_spec_id=spec.spec_id,
            region_values={field.field_id: encode_region_value(field, bucket)},
            sealed=False,
        )
        commit_manifest(storage, manifest)
        yield manifest.region_id


class _Content:
    """Rows of the table and, beside them, what the newest version of each row holds."""

    def __init__(self, rows: int, rng: np.random.Generator) -> None:
        self._rng = rng
        self._qty = rng.integers(0, 1_000, rows, dtype=np.int32)
        self._price = rng.random(rows)

    def generate_base(self) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(self._qty), _SLICE):
            ids = np.arange(start, min(start + _SLICE, len(self._qty)))
            yield self._build_table(ids, "base").to_batches()[0]

    def put(self, ids: npt.NDArray[np.int64], generation: int) -> pa.Table:
        """New versions of these rows; of a key that comes twice, the later row is the newer."""
        self._qty[ids] = self._rng.integers(0, 1_000, len(ids), dtype=np.int32)
        self._price[ids] = self._rng.random(len(ids))
        return self._build_table(ids, f"gen{generation}")

    def compute_answers(self) -> Answers:
        groups = np.arange(len(self._qty)) % GROUPS
        sums = np.bincount(groups, weights=self._price, minlength=GROUPS)
        filtered = self._price[self._qty == FILTERED_QTY]
        return Answers(len(self._qty), tuple(map(float, sums)), len(filtered), float(filtered.sum()))

    def _build_table(self, ids: npt.NDArray[np.int64], origin: str) -> pa.Table:
        columns = {
            "id": ids,
            "grp": (ids % GROUPS).astype(np.int32),
            "qty": self._qty[ids],
            "price": self._price[ids],
            "name": pa.array([f"item-{key % 1000}-{origin}" for key in ids]),
        }
        return pa.table(columns, schema=_SCHEMA)
