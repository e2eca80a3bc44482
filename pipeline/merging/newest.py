"""The newest row of each key among a region's generations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from memwal.layout import generation_directory
from memwal.manifest import FlushedGeneration
from memwal.storage import Storage
from memwal.stored_fields import TOMBSTONE, fields_of_dataset

_ROW = "__row"


@dataclass(frozen=True, slots=True)
class Newest:
    """What generations amount to.

    Attributes:
        rows: the newest row of each key that is not deleted, in the base table's columns.
        deleted: keys whose newest row is a tombstone, in the key's columns.
    """

    rows: pa.Table
    deleted: pa.Table


def newest(
    storage: Storage,
    region_id: str,
    generations: Sequence[FlushedGeneration],
    base: Any,  # noqa: ANN401 (lance types)
    key: Sequence[str],
) -> Newest:
    """Read generations, ascending, of one region."""
    schema = base.schema
    parts = [_rows(storage, region_id, one, base) for one in generations]
    rows = pa.concat_tables(parts)
    numbered = rows.select(key).append_column(_ROW, pa.array(np.arange(rows.num_rows)))
    last = numbered.group_by(list(key)).aggregate([(_ROW, "max")])
    rows = rows.take(np.sort(last.column(f"{_ROW}_max").to_numpy()))
    dead = rows.column(TOMBSTONE)
    live = pa.compute.invert(dead)
    kept = rows.filter(live).drop_columns([TOMBSTONE])
    return Newest(kept.cast(schema), rows.filter(dead).select(key))


def _rows(storage: Storage, region_id: str, generation: FlushedGeneration, base: Any) -> pa.Table:  # noqa: ANN401
    """All rows of a generation under the base table's names; columns that it never had are NULL."""
    uri = storage.locate(generation_directory(region_id, generation.path))
    dataset = lance.dataset(uri, storage_options=dict(storage.options) or None)
    stored = {field.field_id: field for field in fields_of_dataset(dataset)}
    names = {one.field_id: one.name for field in fields_of_dataset(base) for one in field.walk()}
    table = dataset.to_table()
    columns = []
    for field in fields_of_dataset(base):
        found = stored.get(field.field_id)
        if found is None:
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            columns.append(table.column(found.name).cast(found.named_as(names)).cast(field.type))
    fields = [pa.field(field.name, field.type) for field in fields_of_dataset(base)]
    arrays = [*columns, table.column(TOMBSTONE)]
    return pa.Table.from_arrays(arrays, schema=pa.schema([*fields, pa.field(TOMBSTONE, pa.bool_())]))
