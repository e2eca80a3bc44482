"""Finds the rows of a region's generations that are the newest of their keys, and the keys that are deleted.

Only key columns and tombstones are read, and only the keys of one prefix are in memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from lance_gateway.memwal.columns.stored_fields import TOMBSTONE, read_dataset_fields
from lance_gateway.memwal.creating import list_key_columns
from lance_gateway.memwal.errors import CorruptDataError, UnsupportedError
from lance_gateway.memwal.regions.manifest import FlushedGeneration
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging.generations import MergedMeanwhileError, open_generation, scan

Part: TypeAlias = tuple[str, FlushedGeneration, np.ndarray | None]
"""Region id, generation, and mask of its rows to upsert; None for all of them."""
_ROW = "row"


@dataclass(frozen=True, slots=True)
class Prefix:
    """The oldest pending generations of a region, which one commit merges.

    Attributes:
        table: table of the region.
        region_id: id of the region.
        after: newest generation that the base table contains when the merge begins; 0 for none.
        generations: the generations, ascending.
    """

    table: LakeTable
    region_id: str
    after: int
    generations: tuple[FlushedGeneration, ...]

    @property
    def first(self) -> int:
        """The oldest generation."""
        return self.generations[0].generation

    @property
    def through(self) -> int:
        """The newest generation."""
        return self.generations[-1].generation


@dataclass(frozen=True, slots=True)
class Winners:
    """The newest rows of a prefix.

    Attributes:
        prefix: the prefix.
        kept: for each generation, the packed mask of its rows to upsert; None for all of them.
        sizes: number of rows of each generation.
        rows: number of rows to upsert.
        deleted: keys whose newest row is a tombstone; columns are named by the key's field ids.
    """

    prefix: Prefix
    kept: tuple[np.ndarray | None, ...]
    sizes: tuple[int, ...]
    rows: int
    deleted: pa.Table

    def parts(self) -> Iterator[Part]:
        """Yield the generations that have rows to upsert, oldest first."""
        for generation, kept, size in zip(self.prefix.generations, self.kept, self.sizes, strict=True):
            mask = None if kept is None else np.unpackbits(kept, count=size).astype(bool)
            if mask is None or mask.any():
                yield self.prefix.region_id, generation, mask


def find_winners(prefix: Prefix) -> Winners | None:
    """Find the newest row of each key.

    Returns:
        None if another merger was faster.

    Raises:
        UnsupportedError: the table has a key that can't be compared.
    """
    try:
        return _compute_winners(prefix.table, prefix)
    except MergedMeanwhileError:
        return None


def _compute_winners(table: LakeTable, prefix: Prefix) -> Winners:
    base = table.dataset()
    key = check_key(table, base.schema)
    by_name = {field.name: field for field in read_dataset_fields(base)}
    key_fields = [pa.field(str(by_name[name].field_id), by_name[name].type) for name in key]
    schema = pa.schema([*key_fields, pa.field(TOMBSTONE, pa.bool_())])
    parts = table.storage.each(
        lambda generation: _read_keys(table, prefix.region_id, generation, schema), prefix.generations
    )
    sizes = tuple(part.num_rows for part in parts)
    rows = pa.concat_tables(parts)
    newest = _mark_newest(rows, schema.names[:-1]) if rows.num_rows else np.zeros(0, dtype=bool)
    dead = rows.column(TOMBSTONE).to_numpy()
    live = newest & ~dead
    deleted = rows.select(schema.names[:-1]).filter(pa.array(newest & dead))
    kept = tuple(None if part.all() else np.packbits(part) for part in np.split(live, np.cumsum(sizes)[:-1]))
    return Winners(prefix, kept, sizes, int(live.sum()), deleted)


def check_key(table: LakeTable, schema: pa.Schema) -> tuple[str, ...]:
    """Return the key of a table, and check that it can be merged by it.

    Raises:
        UnsupportedError: the key can't be compared.
    """
    key = list_key_columns(schema)
    for name in key:
        kind = schema.field(name).type
        if kinds.is_floating(kind) or kinds.is_nested(kind):
            raise UnsupportedError(
                f"table {table.name!r}: key column {name!r} has type {kind}, whose values are not always "
                "equal to themselves or can't be compared, so its generations can't be merged"
            )
    return key


def _read_keys(
    table: LakeTable, region_id: str, generation: FlushedGeneration, schema: pa.Schema
) -> pa.Table:
    """Read the keys and tombstones of a generation, in order.

    Args:
        table: table of the region.
        region_id: id of the region.
        generation: the generation.
        schema: key columns named by their field ids, and the tombstone.
    """
    dataset = open_generation(table, region_id, generation)
    stored = {str(field.field_id): field.name for field in read_dataset_fields(dataset)}
    missing = [name for name in schema.names[:-1] if name not in stored]
    if missing or TOMBSTONE not in dataset.schema.names:
        raise CorruptDataError(
            f"table {table.name!r}: generation {generation.generation} of region {region_id} has no column "
            f"for {'the field ids ' + ', '.join(missing) + ' of the key' if missing else TOMBSTONE}"
        )
    names = [*(stored[name] for name in schema.names[:-1]), TOMBSTONE]
    batches = [
        pa.RecordBatch.from_arrays(
            [batch.column(name).cast(field.type) for name, field in zip(names, schema, strict=True)],
            schema=schema,
        )
        for batch in scan(table, region_id, generation, dataset, names)
    ]
    return pa.Table.from_batches(batches, schema)


def _mark_newest(rows: pa.Table, key: Sequence[str]) -> np.ndarray:
    """Return the mask of rows that are the last of their key."""
    numbers = pa.array(np.arange(rows.num_rows))
    # One thread: other regions use the others, and several are not faster.
    groups = rows.select(key).append_column(_ROW, numbers).group_by(list(key), use_threads=False)
    last = groups.aggregate([(_ROW, "max")])
    mask = np.zeros(rows.num_rows, dtype=bool)
    mask[pc.cast(last.column(f"{_ROW}_max"), pa.int64()).to_numpy()] = True
    return mask
