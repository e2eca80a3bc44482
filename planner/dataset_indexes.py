"""The indexes of a Lance dataset, as far as it matters which rows they cover."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memwal.index_details import MEM_WAL_INDEX


@dataclass(frozen=True, slots=True)
class DatasetIndex:
    """One index of a dataset version, all of its segments together.

    Attributes:
        name: of the index.
        type: as Lance calls it, such as BTree, Inverted or IVF_PQ.
        columns: names of the indexed columns, as stored; those of nested fields are dotted.
        fragments: ids of the fragments it covers; some of them may be gone.
        segments: ids of its segments, ascending.
        changed_at: dataset version at which the youngest segment was written.
        details: its options.
    """

    name: str
    type: str
    columns: tuple[str, ...]
    fragments: frozenset[int]
    segments: tuple[str, ...]
    changed_at: int
    details: Mapping[str, object]


def dataset_indexes(dataset: Any) -> tuple[DatasetIndex, ...]:  # noqa: ANN401 (lance types)
    """All indexes of a `lance.LanceDataset` but the MemWAL index, by name."""
    found = [_described(one) for one in dataset.describe_indices() if one.name != MEM_WAL_INDEX]
    return tuple(sorted(found, key=lambda index: index.name))


def _described(index: Any) -> DatasetIndex:  # noqa: ANN401 (lance types)
    return DatasetIndex(
        index.name,
        index.index_type,
        tuple(index.field_names),
        frozenset(one for segment in index.segments for one in segment.fragment_ids),
        tuple(sorted(segment.uuid for segment in index.segments)),
        max((segment.dataset_version_at_last_update for segment in index.segments), default=0),
        index.details if isinstance(index.details, dict) else {},
    )
