"""Tables to search: base with indexes, fresh rows by Lance's own writer, and the same rows merged."""

import gc
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import lance
import numpy as np
import pyarrow as pa

from benchmarks.reports.queries import TABLE_NAME
from benchmarks.tables.search_content import Keys, SearchContent, Vectors, find_nearest
from benchmarks.tables.table import create_regions
from lance_gateway.memwal.errors import InvalidInputError

IndexType = Literal["IVF_PQ", "IVF_FLAT", "IVF_HNSW_SQ"]
K = 10
QUERIES = 100
_QUERIES_FILE = "queries.npz"
_MARKER = "complete"
# Part of the directory name: another way of writing the same shape must not reuse older files.
_LAYOUT = 1
_ROWS_PER_PARTITION = 1_600
_MOST_PARTITIONS = 256
_NEW_KEYS = 0.1


@dataclass(frozen=True, slots=True)
class SearchShape:
    """What decides the content of a table; equal shapes share one table on disk.

    Attributes:
        rows: Rows of the base table.
        dimension: Of the vectors; a multiple of 4.
        fresh_rows: Rows put on top and flushed; every tenth has a new key, the others move a row of the base.
        generations: Flushed generations over all regions.
        regions: Buckets of the key.
        tail_rows: Rows put last, that only the write-ahead log holds.
        index: Type of the base table's vector index.
        text_index: Whether the base table's text has an inverted index.
    """

    rows: int
    dimension: int
    fresh_rows: int
    generations: int
    regions: int
    tail_rows: int
    index: IndexType = "IVF_PQ"
    text_index: bool = True

    def __post_init__(self) -> None:
        if self.generations < self.regions:
            raise InvalidInputError(
                f"{self.generations} generations over {self.regions} regions: every region needs one at least"
            )
        if self.dimension % 4:
            raise InvalidInputError(f"dimension is {self.dimension}: it must be a multiple of 4")

    @property
    def base_directory(self) -> str:
        """Name, inside the data directory, of what shapes with this base share."""
        text = "-text" if self.text_index else ""
        return f"v{_LAYOUT}-search-{self.index.lower()}{text}-rows{self.rows}x{self.dimension}"

    @property
    def directory(self) -> str:
        """Name of the table's directory inside the data directory."""
        fresh = f"fresh{self.fresh_rows}-tail{self.tail_rows}"
        return f"{self.base_directory}-{fresh}-gen{self.generations}-regions{self.regions}"

    @property
    def partitions(self) -> int:
        """Partitions of the base table's vector index."""
        return int(np.clip(self.rows // _ROWS_PER_PARTITION, 1, _MOST_PARTITIONS))

    def content(self) -> SearchContent:
        """Return the base's rows, to be changed."""
        return SearchContent(self.rows, self.dimension, texts=self.text_index)

    def generations_of(self, region: int) -> int:
        """Generations of one region: an even share, the first regions take the rest."""
        return self.generations // self.regions + (region < self.generations % self.regions)


@dataclass(frozen=True, slots=True)
class SearchTable:
    """A finished table, its queries and their right answers.

    Attributes:
        root: Catalog root; the table is `items.lance` in it.
        shape: Its parameters.
        vectors: Vectors to search for, one a row.
        neighbours: Keys of the nearest newest rows of each, nearest first.
        flushed_neighbours: The same without the rows that only the log holds.
        texts: Queries of the full-text search.
    """

    root: Path
    shape: SearchShape
    vectors: Vectors
    neighbours: Keys
    flushed_neighbours: Keys
    texts: tuple[str, ...]

    @property
    def uri(self) -> str:
        """Path of the Lance dataset."""
        return str(self.root / f"{TABLE_NAME}.lance")

    def compute_recall(self, found: Sequence[Keys], *, flushed_only: bool = False) -> float:
        """Share of the true nearest neighbours among the keys found for the first queries, or for all."""
        truth = (self.flushed_neighbours if flushed_only else self.neighbours)[: len(found)]
        hits = sum(len(np.intersect1d(got, true)) for got, true in zip(found, truth, strict=True))
        return hits / truth.size


def ensure_search_table(data_dir: Path, shape: SearchShape) -> SearchTable:
    """Open the table of this shape, building it first when it is not there or was left half-built."""
    directory = data_dir / shape.directory
    root = directory / "fresh"
    if not (directory / _QUERIES_FILE).exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        copy_base(data_dir, shape, root)
        print(f"building {directory}", flush=True)
        _write_fresh(root, directory / _QUERIES_FILE, shape)
    with np.load(directory / _QUERIES_FILE) as queries:
        return SearchTable(
            root,
            shape,
            queries["vectors"],
            queries["neighbours"],
            queries["flushed_neighbours"],
            tuple(queries["texts"].tolist()),
        )


def ensure_merged(table: SearchTable) -> str:
    """Return the path of a dataset with the table's newest rows, freshly indexed; build it if missing."""
    directory = table.root.parent / "merged"
    uri = str(directory / f"{TABLE_NAME}.lance")
    if not (directory / _MARKER).exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        print(f"building {directory}", flush=True)
        shape = table.shape
        content = shape.content()
        content.draw_queries(QUERIES)
        for write in _list_writes(shape, lance.dataset(table.uri)):
            content.put(write.keys)
        _write_indexed(uri, content.table(), shape)
        (directory / _MARKER).touch()
    return uri


def copy_base(data_dir: Path, shape: SearchShape, root: Path) -> None:
    """Put the base table of this shape, indexed and without fresh rows, into a new catalog root.

    Shapes that differ in what comes on top share the files by hard links: Lance changes no file.
    """
    base = data_dir / shape.base_directory
    if not (base / _MARKER).exists():
        shutil.rmtree(base, ignore_errors=True)
        base.mkdir(parents=True)
        print(f"building {base}", flush=True)
        content = shape.content()
        _write_indexed(str(base / f"{TABLE_NAME}.lance"), content.table(), shape)
        (base / _MARKER).touch()
    shutil.copytree(base, root, copy_function=os.link, ignore=shutil.ignore_patterns(_MARKER))


@dataclass(frozen=True, slots=True)
class _Write:
    """Rows that go into one region together, and whether they are flushed then."""

    region: int
    keys: Keys
    flushed: bool


def _list_writes(shape: SearchShape, dataset: lance.LanceDataset) -> list[_Write]:
    """Return the writes on top of the base, in order; the rows that stay in the log come last."""
    rng = np.random.default_rng(1)
    count = shape.fresh_rows + shape.tail_rows
    new = round(count * _NEW_KEYS)
    old = rng.choice(shape.rows, count - new, replace=False)
    keys = rng.permutation(np.concatenate([old, np.arange(shape.rows, shape.rows + new)]))
    spec = dataset.mem_wal_index_details()["sharding_specs"][0]
    values = lance.evaluate_sharding_spec(pa.record_batch({"id": keys}), spec, dataset.lance_schema)
    buckets = values.column(0).to_numpy(zero_copy_only=False)

    flushed, tail = np.split(np.arange(count), [shape.fresh_rows])
    writes = []
    for region in range(shape.regions):
        mine = keys[flushed[buckets[flushed] == region]]
        writes += [
            _Write(region, part, flushed=True) for part in np.array_split(mine, shape.generations_of(region))
        ]
    writes += [
        _Write(region, keys[tail[buckets[tail] == region]], flushed=False) for region in range(shape.regions)
    ]
    return [write for write in writes if len(write.keys)]


def _write_fresh(root: Path, queries_file: Path, shape: SearchShape) -> None:
    content = shape.content()
    vectors, texts = content.draw_queries(QUERIES)
    uri = str(root / f"{TABLE_NAME}.lance")
    lance.dataset(uri).initialize_mem_wal(bucket_column="id", num_buckets=shape.regions)
    dataset = lance.dataset(uri)
    regions = tuple(create_regions(uri, dataset.version, shape.regions))
    writes = _list_writes(shape, dataset)
    for write in writes:
        if write.flushed:
            # Closing the writer flushes its MemTable: each part becomes one generation.
            limit = shape.fresh_rows + 1
            with dataset.mem_wal_writer(regions[write.region], max_memtable_rows=limit) as writer:
                writer.put(content.put(write.keys))
    flushed_neighbours = find_nearest(content.vectors, vectors, K)
    for write in writes:
        if not write.flushed:
            # A writer that is dropped, not closed, leaves its rows in the log alone.
            dataset.mem_wal_writer(regions[write.region]).put(content.put(write.keys))
    gc.collect()
    np.savez(
        queries_file,
        vectors=vectors,
        texts=np.array(texts),
        neighbours=find_nearest(content.vectors, vectors, K),
        flushed_neighbours=flushed_neighbours,
    )


def _write_indexed(uri: str, table: pa.Table, shape: SearchShape) -> None:
    lance.write_dataset(table, uri, max_rows_per_file=1_000_000)
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("id", "BTREE")
    options = {"num_partitions": shape.partitions, "sample_rate": 64}
    if shape.index == "IVF_PQ":
        options["num_sub_vectors"] = shape.dimension // 4
    dataset.create_index("vec", shape.index, metric="l2", **options)
    if shape.text_index:
        dataset.create_scalar_index("text", "INVERTED")
