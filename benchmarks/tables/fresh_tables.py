"""Tables of analysts: with fresh and stale rows for the gateway, and the newest rows as Parquet files."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.tables.table import create_regions

GENERATIONS: Final = 4
"""That the fresh rows of each table are in, by default."""
_LAYOUT = 2
_MARKER = "complete"
_FRESH_SHARE = 0.1
"""Half of them are new, and the other half supersedes a row of the base table."""
_LEAST_FRESH = 1000
"""Smaller tables have no fresh rows."""

Generate: TypeAlias = Callable[[], Iterable[tuple[str, pa.Table]]]
"""Yields tables with their names; key columns have metadata that says so."""


@dataclass(frozen=True, slots=True)
class FreshTables:
    """Where the tables lie.

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


def ensure_fresh_tables(home: Path, generate: Generate, generations: int = GENERATIONS) -> FreshTables:
    """Open the tables of a directory, building them first when they are not there or were left half-built.

    Args:
        home: the directory; its name says what is in it.
        generate: yields the newest rows of each table.
        generations: that the fresh rows of each table are in.
    """
    home = home.with_name(f"{home.name}-v{_LAYOUT}-gen{generations}")
    tables = FreshTables(home / "root", home / "parquet")
    if not (home / _MARKER).exists():
        shutil.rmtree(home, ignore_errors=True)
        for directory in (tables.root, tables.parquet):
            directory.mkdir(parents=True)
        print(f"building {home}", flush=True)
        for name, rows in generate():
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
