"""The wholesale business on disk: tables with fresh and stale rows, and Parquet files of the newest."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.table import create_regions
from benchmarks.wholesale import generate

_LAYOUT = 1
_MARKER = "complete"
_FRESH_SHARE = 0.1
"""Half of them are new, and the other half supersedes a row of the base table."""
_LEAST_FRESH = 1000
"""Smaller tables have no fresh rows."""


@dataclass(frozen=True, slots=True)
class WholesaleTables:
    """Where the business lies.

    Attributes:
        root: catalog root.
        parquet: directory with one file for each table.
    """

    root: Path
    parquet: Path

    @property
    def files(self) -> dict[str, Path]:
        """Table name -> Parquet file."""
        return {path.stem: path for path in sorted(self.parquet.glob("*.parquet"))}


def ensure_wholesale(data_dir: Path, scale: float, generations: int) -> WholesaleTables:
    """Open the business of this size, building it first when it is not there or was left half-built."""
    home = data_dir / f"wholesale-v{_LAYOUT}-scale{scale:g}-gen{generations}"
    tables = WholesaleTables(home / "root", home / "parquet")
    if not (home / _MARKER).exists():
        shutil.rmtree(home, ignore_errors=True)
        for directory in (tables.root, tables.parquet):
            directory.mkdir(parents=True)
        print(f"building {home}", flush=True)
        for name, rows in generate(scale, seed=0).items():
            pq.write_table(rows.replace_schema_metadata(None), tables.parquet / f"{name}.parquet")
            _write_table(tables.root / f"{name}.lance", rows, generations)
        (home / _MARKER).touch()
    return tables


def _write_table(path: Path, rows: pa.Table, generations: int) -> None:
    if rows.num_rows < _LEAST_FRESH:
        lance.write_dataset(rows, path)
        return
    kinds = np.random.default_rng(0).random(rows.num_rows)
    is_stale = kinds < _FRESH_SHARE / 2
    is_new = ~is_stale & (kinds < _FRESH_SHARE)
    lance.write_dataset(_make_stale(rows, is_stale).filter(pa.array(~is_new)), path)
    key = next(field.name for field in rows.schema if field.metadata)
    lance.dataset(path).initialize_mem_wal(bucket_column=key, num_buckets=1)
    dataset = lance.dataset(path)
    (region,) = create_regions(str(path), dataset.version, 1)
    fresh = rows.filter(pa.array(is_stale | is_new))
    step = -(-fresh.num_rows // generations)
    for first in range(0, fresh.num_rows, step):
        # Closing the writer flushes its MemTable: each part becomes one generation.
        with dataset.mem_wal_writer(region, max_memtable_rows=step + 1) as writer:
            writer.put(fresh.slice(first, step))


def _make_stale(rows: pa.Table, is_stale: npt.NDArray[np.bool_]) -> pa.Table:
    """Return the rows, some of them with the values of others in all columns but the key."""
    others = rows.take(pa.array(np.arange(rows.num_rows)[::-1].copy()))
    columns = [
        rows.column(field.name)
        if field.metadata
        else pc.if_else(pa.array(is_stale), others.column(field.name), rows.column(field.name))
        for field in rows.schema
    ]
    return pa.table(columns, schema=rows.schema)
