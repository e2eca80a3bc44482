"""Tables that are written under measurement: recreated for each run, with regions for both sides."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.reports.queries import TABLE_NAME
from benchmarks.reports.settings import BenchSettings
from benchmarks.tables.table import create_regions

GROUPS = 100
_SLICE = 500_000
_EPOCH_MICROS = 1_760_000_000_000_000
_SECTORS = 1_000

Keys = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WriteShape:
    """What a table looks like before it is written to.

    Attributes:
        rows: Rows of the base table, with the keys 0 to `rows` - 1.
        regions: Buckets of the key.
        dimension: Of the vectors; 0 for a table without.
    """

    rows: int
    regions: int
    dimension: int = 0

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table."""
        key = {"lance-schema:unenforced-primary-key": "true"}
        fields = [
            pa.field("id", pa.int64(), nullable=False, metadata=key),
            pa.field("grp", pa.int32()),
            pa.field("at", pa.timestamp("us")),
            pa.field("price", pa.float64()),
            pa.field("name", pa.string()),
        ]
        if self.dimension:
            fields.append(pa.field("vec", pa.list_(pa.float32(), self.dimension)))
        return pa.schema(fields)

    def rows_of(self, keys: Keys, seed: int = 0) -> pa.Table:
        """Return rows with these keys."""
        rng = np.random.default_rng(seed)
        names = pa.array([f"sector-{number}" for number in range(_SECTORS)])
        columns: dict[str, Any] = {
            "id": keys,
            "grp": (keys % GROUPS).astype(np.int32),
            "at": pa.array(_EPOCH_MICROS + keys * 1_000, pa.timestamp("us")),
            "price": rng.random(len(keys)),
            "name": names.take(pa.array(keys % _SECTORS)),
        }
        if self.dimension:
            values = pa.array(rng.random(len(keys) * self.dimension, dtype=np.float32))
            columns["vec"] = pa.FixedSizeListArray.from_arrays(values, self.dimension)
        return pa.table(columns, schema=self.schema)


@contextmanager
def create_scratch(settings: BenchSettings) -> Iterator[Path]:
    """Return a directory for catalog roots, removed at the end."""
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix="writes-", dir=settings.data_dir))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class WriteTable:
    """A table with MemWAL, its regions made, nothing put into them yet.

    Attributes:
        root: Catalog root, a path or `s3://bucket/prefix`.
        shape: Its parameters.
        regions: Ids, by bucket.
        options: Storage options.
    """

    root: str
    shape: WriteShape
    regions: tuple[str, ...]
    options: Mapping[str, str]

    @property
    def uri(self) -> str:
        """Path of the Lance dataset."""
        return f"{self.root}/{TABLE_NAME}.lance"

    def open(self) -> lance.LanceDataset:
        """Its newest version."""
        return lance.dataset(self.uri, storage_options=dict(self.options) or None)

    def split(self, rows: pa.Table) -> list[pa.Table]:
        """Return rows by bucket."""
        dataset = self.open()
        spec = dataset.mem_wal_index_details()["sharding_specs"][0]
        keys = pa.record_batch({"id": rows["id"].combine_chunks()})
        values = lance.evaluate_sharding_spec(keys, spec, dataset.lance_schema).column(0)
        buckets = values.to_numpy(zero_copy_only=False)
        return [
            rows.take(pa.array(np.flatnonzero(buckets == bucket))).combine_chunks()
            for bucket in range(len(self.regions))
        ]


def create_table(
    root: Path | str, shape: WriteShape, options: Mapping[str, str] | None = None, *, indexed: bool = True
) -> WriteTable:
    """Write the base table, with a BTREE on its key, and the first manifest of every region.

    Args:
        root: Catalog root; a local one is made.
        shape: What to write.
        options: Storage options.
        indexed: Whether the key has an index; without, Lance keeps none for the rows in MemTables either.
    """
    options = dict(options or {})
    if isinstance(root, Path):
        root.mkdir(parents=True, exist_ok=True)
    uri = f"{root}/{TABLE_NAME}.lance"

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, shape.rows, _SLICE):
            yield from shape.rows_of(np.arange(start, min(start + _SLICE, shape.rows))).to_batches()

    lance.write_dataset(batches(), uri, schema=shape.schema, storage_options=options or None)
    dataset = lance.dataset(uri, storage_options=options or None)
    if indexed:
        dataset.create_scalar_index("id", "BTREE")
        dataset = lance.dataset(uri, storage_options=options or None)
    dataset.initialize_mem_wal(bucket_column="id", num_buckets=shape.regions)
    version = lance.dataset(uri, storage_options=options or None).version
    regions = tuple(create_regions(uri, version, shape.regions, options))
    return WriteTable(str(root), shape, regions, options)


def generate_new_keys(shape: WriteShape, start: int, count: int) -> Keys:
    """Return `count` keys above those of the base, from the `start`-th on."""
    return np.arange(shape.rows + start, shape.rows + start + count)
