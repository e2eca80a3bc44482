"""Sources of vectors for tests: small Lance datasets and rows in memory; and what brute force finds there."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from lance_gateway.execnodes import LanceSource, MemTableSource, RowMask, StoredColumn, TaskContext
from lance_gateway.execnodes.node import ROW_ADDRESS
from lance_gateway.execnodes.rows.row_mask import OFFSET_BITS, OFFSET_MASK, build_fragment_mask
from lance_gateway.execnodes.search.source import DISTANCE, IndexDescription, SearchSource, VectorRequest
from lance_gateway.execnodes.storage.source import ColumnMapping
from lance_gateway.planner.search.plan_search import plan_vector
from lance_gateway.planner.tables.sources.caches import ByteCache

DIMENSION = 16
BYTES = np.dtype(np.uint8)


def clustered(rows: int, seed: int = 0, dimension: int = DIMENSION, clusters: int = 20) -> np.ndarray:
    """Vectors in overlapping clusters, float32."""
    random = np.random.default_rng(seed)
    centers = random.normal(size=(clusters, dimension))
    drawn = centers[random.integers(0, clusters, rows)] + 0.6 * random.normal(size=(rows, dimension))
    return drawn.astype(np.float32)


def as_vectors(values: np.ndarray, missing: Sequence[int] = ()) -> pa.FixedSizeListArray:
    """A column of vectors; rows of the given numbers have none."""
    mask = np.zeros(len(values), dtype=np.bool_)
    mask[list(missing)] = True
    return pa.FixedSizeListArray.from_arrays(
        pa.array(values.ravel()), values.shape[1], mask=pa.array(mask) if missing else None
    )


def rows_of(values: np.ndarray, missing: Sequence[int] = (), first: int = 0) -> pa.Table:
    """Rows with ids from `first` on; `even` says whether the id is even."""
    ids = np.arange(first, first + len(values))
    return pa.table({"id": ids, "even": ids % 2 == 0, "vec": as_vectors(values, missing)})


def table_schema(dataset: Any) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in dataset.schema])


def dataset_of(path: Path, rows: pa.Table, **options: Any) -> Any:
    return lance.write_dataset(rows, str(path), **options)


def source_of(
    dataset: Any,
    *,
    number: int = 0,
    hidden: Sequence[int] = (),
    fragments: Sequence[int] | None = None,
    stored: Mapping[str, str] | None = None,
    schema: pa.Schema | None = None,
) -> SearchSource:
    """A dataset as a source, with its index if it has one.

    Args:
        dataset: Lance dataset.
        number: of the source.
        hidden: addresses of superseded rows.
        fragments: that are searched; all by default.
        stored: table column -> stored column, where their names differ.
        schema: of the table.
    """
    schema = schema or table_schema(dataset)
    names = {name: name for name in schema.names} if stored is None else stored
    types = {field.name: field.type for field in dataset.schema}
    columns = {name: StoredColumn(one, types[one]) for name, one in names.items() if one in types}
    rows = {one.fragment_id: one.physical_rows for one in dataset.get_fragments()}
    places = np.array(sorted(hidden), dtype=np.uint64)
    masks = {
        one: build_fragment_mask(count, places[places >> OFFSET_BITS == one] & OFFSET_MASK)
        for one, count in rows.items()
        if (places >> OFFSET_BITS == one).any()
    }
    (index,) = dataset.describe_indices() or [None]
    return SearchSource(
        number,
        LanceSource(f"source {number}", dataset, schema, ColumnMapping(columns)),
        (dataset.uri, dataset.version, number),
        RowMask(masks),
        tuple(sorted(rows if fragments is None else fragments)),
        None if index is None else IndexDescription(index.name, index.index_type, index.details),
    )


def memory_source(rows: pa.Table, *, number: int = 0, hidden: Sequence[int] = ()) -> SearchSource:
    """Rows in memory as a source."""
    tombstones = pa.array(np.zeros(rows.num_rows, dtype=np.bool_))
    source = MemTableSource(f"source {number}", rows.append_column("_tombstone", tombstones))
    mask = build_fragment_mask(rows.num_rows, np.array(hidden, dtype=np.uint32))
    return SearchSource(number, source, ("memory", number, id(rows)), RowMask({0: mask}))


def found(
    sources: SearchSource | Sequence[SearchSource],
    queries: np.ndarray,
    k: int,
    *,
    row_filter: Any = None,
    **options: Any,
) -> list[list[tuple[int, int, float]]]:
    """What a search finds, for each query: source, row address and distance."""
    every = (sources,) if isinstance(sources, SearchSource) else tuple(sources)
    request = VectorRequest("vec", np.atleast_2d(queries), k, **options)
    plan = plan_vector(every, request, row_filter, ByteCache(1 << 24))
    answers: list[list[tuple[int, int, float]]] = [[] for _ in request.vectors]
    for batch in plan.execute(0, TaskContext()):
        for row in batch.to_pylist():
            place = (row["_source"], row[ROW_ADDRESS], row[DISTANCE])
            answers[row["query_index"]].append(place)
    return answers


def true_distances(metric: str, vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    """In float64, after Lance's definitions."""
    if metric == "hamming":
        return np.bitwise_count(vectors ^ query.astype(np.uint8)).sum(axis=1).astype(float)
    wide, wanted = vectors.astype(float), query.astype(vectors.dtype).astype(float)
    if metric == "l2":
        return ((wide - wanted) ** 2).sum(axis=1)
    if metric == "dot":
        return 1 - wide @ wanted
    with np.errstate(all="ignore"):
        return 1 - wide @ wanted / (np.linalg.norm(wide, axis=1) * np.linalg.norm(wanted))


def nearest_places(distances: np.ndarray, addresses: np.ndarray, k: int) -> list[tuple[int, float]]:
    """Addresses and distances of the k nearest; rows without a distance are none."""
    order = [one for one in np.lexsort((addresses, distances)) if not np.isnan(distances[one])]
    return [(int(addresses[one]), float(distances[one])) for one in order[:k]]


def stored_vectors(dataset: Any) -> tuple[np.ndarray, np.ndarray]:
    """Addresses and vectors of the rows of a dataset that have a vector and are not deleted."""
    rows = dataset.to_table(columns=["vec"], with_row_address=True)
    rows = rows.filter(rows["vec"].combine_chunks().is_valid())
    vectors = rows["vec"].combine_chunks().flatten().to_numpy().reshape(rows.num_rows, -1)
    return rows[ROW_ADDRESS].to_numpy(), vectors
