"""One look at the indexes of a base table: what each of them covers, and how far it is behind merges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memwal.base.index_details import (
    MEM_WAL_INDEX,
    MemWalIndexDetails,
    merged_generations,
    read_index_details,
)
from pipeline.jobs.lake import LakeTable

_VECTOR_TYPES = ("IVF", "HNSW", "VECTOR")


@dataclass(frozen=True, slots=True)
class Fragment:
    """A fragment of the base table.

    Attributes:
        fragment_id: as Lance numbers it.
        physical_rows: rows stored, deleted ones included.
        deleted: how many of them are deleted.
    """

    fragment_id: int
    physical_rows: int
    deleted: int

    @property
    def rows(self) -> int:
        """Rows that are not deleted."""
        return self.physical_rows - self.deleted


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of an index that was written at once.

    Attributes:
        segment_id: UUID in text form.
        fragments: that it covers and that are still there.
        rows: of these fragments, deleted ones left out.
        version: of the base table that it was trained on.
    """

    segment_id: str
    fragments: frozenset[int]
    rows: int
    version: int


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index, all of its segments together.

    Attributes:
        name: of the index.
        type: as Lance calls it, such as BTree, Inverted or IVF_PQ.
        segments: in Lance's order: the newest last.
        uncovered: fragments that no segment covers, ascending.
        unindexed_rows: of these fragments, deleted ones left out.
        behind: region id -> newest generation that the index covers, where merges are farther.
    """

    name: str
    type: str
    segments: tuple[Segment, ...]
    uncovered: tuple[int, ...]
    unindexed_rows: int
    behind: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def is_vector(self) -> bool:
        """Whether it is trained on a sample of its rows."""
        return self.type.upper().startswith(_VECTOR_TYPES)

    @property
    def trained_at(self) -> int:
        """Version of the base table that its oldest segment was trained on."""
        return min((one.version for one in self.segments), default=0)

    @property
    def is_current(self) -> bool:
        """Whether it covers every fragment, and is known to be as far as merges are."""
        return not self.uncovered and not self.behind


@dataclass(frozen=True, eq=False, slots=True)
class TableIndexes:
    """The indexes of a base table at one version.

    Attributes:
        table: which one.
        dataset: the `lance.LanceDataset` at that version.
        fragments: in the table's order.
        indexes: by name; the MemWAL index is none of them.
        details: the MemWAL index; None where the table has none.
    """

    table: LakeTable
    dataset: Any
    fragments: tuple[Fragment, ...]
    indexes: tuple[IndexState, ...]
    details: MemWalIndexDetails | None

    @staticmethod
    def read(table: LakeTable) -> TableIndexes:
        """Look at the newest version of a table.

        Raises:
            NotFoundError: there is no such table.
            LanceGatewayError: a file can't be read.
        """
        dataset = table.dataset()
        details = read_index_details(table.storage, dataset.version)
        fragments = tuple(_fragments(dataset))
        described = sorted(dataset.describe_indices(), key=lambda one: one.name)
        indexes = tuple(_state(one, fragments, details) for one in described if one.name != MEM_WAL_INDEX)
        return TableIndexes(table, dataset, fragments, indexes, details)

    @property
    def version(self) -> int:
        """Of the base table."""
        return int(self.dataset.version)

    @property
    def rows(self) -> int:
        """Of the base table, deleted ones left out."""
        return sum(one.rows for one in self.fragments)

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether a row keeps its id when it is updated or moved."""
        return bool(self.dataset.has_stable_row_ids)

    @property
    def merged(self) -> Mapping[str, int]:
        """Region id -> newest generation that this version contains."""
        return merged_generations(self.details)

    def index(self, name: str) -> IndexState | None:
        """The index of a name; None where there is none."""
        return next((one for one in self.indexes if one.name == name), None)


def _fragments(dataset: Any) -> list[Fragment]:  # noqa: ANN401 (lance types)
    return [
        Fragment(one.fragment_id, one.physical_rows, one.num_deletions) for one in dataset.get_fragments()
    ]


def _state(
    index: Any,  # noqa: ANN401 (lance types)
    fragments: tuple[Fragment, ...],
    details: MemWalIndexDetails | None,
) -> IndexState:
    rows = {one.fragment_id: one.rows for one in fragments}
    segments = []
    for one in index.segments:
        # Segments of some types go on naming fragments that are gone.
        covered = frozenset(one.fragment_ids) & rows.keys()
        version = one.dataset_version_at_last_update
        segments.append(Segment(one.uuid, covered, sum(map(rows.__getitem__, covered)), version))
    covered_ids = frozenset[int]().union(*(one.fragments for one in segments))
    uncovered = tuple(sorted(rows.keys() - covered_ids))
    behind = {}
    # A table without rows lacks nothing in its indexes, and Lance has nothing to record then.
    if details is not None and fragments:
        # What is not recorded is not covered: compaction, for one, makes Lance forget.
        for region, merged in details.merged_generations.items():
            reached = details.newest_covered(index.name, region)
            if reached < merged:
                behind[region] = reached
    unindexed = sum(map(rows.__getitem__, uncovered))
    return IndexState(index.name, index.index_type, tuple(segments), uncovered, unindexed, behind)
