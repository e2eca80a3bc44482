"""The state of the indexes of a base table: what each covers, and how far it is behind merges.

Rows that are added to a vector index use centroids and a codebook that were trained on older rows, so its
recall decreases as the table changes. Lance does not count the additions, so a small file beside the table
does. If the file is lost, counting begins again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lance_gateway.memwal.base.index_details import (
    SYSTEM_INDEXES,
    MemWalIndexDetails,
    list_merged_generations,
    read_index_details,
)
from lance_gateway.memwal.creating.index_types import INDEX_TYPES, finds_past_rows
from lance_gateway.memwal.creating.key_index import list_unindexed_columns
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.jobs.runners import format_count


@dataclass(frozen=True, slots=True)
class IndexPolicy:
    """What a table may lack before something is done about it; by default, nothing.

    Attributes:
        max_unindexed_rows: an index that lacks more rows than that is brought up to date.
        max_unindexed_fraction: so is one that lacks a greater part of the table's rows; from 0 to 1.
        compact: whether files are put together, and deleted rows left out of them.
        target_rows: rows of a fragment that is large enough.
        max_spare_fragments: files are put together when that spares more fragments than this.
        deleted_fraction: a fragment is written again when more than this part of its rows is deleted; 1 for
            never.
        retrain_after: a vector index is retrained after rows were added to it so many times.
        retrain_growth: so is one whose table has so many times the rows that it was trained on.
        retrain_codebooks: whether that goes for indexes with a codebook that writers of a MemWAL maintain,
            too. Other readers may compare distances between base and generations with an older codebook.
        key_index: whether the columns of the primary key get the indexes that they lack, in a table that has
            rows and does not say otherwise.
    """

    max_unindexed_rows: int = 0
    max_unindexed_fraction: float = 1.0
    compact: bool = True
    target_rows: int = 1_048_576
    max_spare_fragments: int = 8
    deleted_fraction: float = 0.1
    retrain_after: int = 64
    retrain_growth: float = 4.0
    retrain_codebooks: bool = False
    key_index: bool = True

    def __post_init__(self) -> None:
        for name, least in (
            ("max_unindexed_rows", 0),
            ("target_rows", 1),
            ("max_spare_fragments", 0),
            ("retrain_after", 1),
        ):
            if getattr(self, name) < least:
                raise InvalidInputError(f"{name} is {getattr(self, name)}, but must be {least} or more")
        for name in ("max_unindexed_fraction", "deleted_fraction"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise InvalidInputError(f"{name} is {value}, but must be from 0 to 1")
        if not self.retrain_growth > 1:
            raise InvalidInputError(f"retrain_growth is {self.retrain_growth}, but must be more than 1")


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
    """The state of an index, over all its segments.

    Attributes:
        name: name of the index.
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
        return min((segment.version for segment in self.segments), default=0)

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
        """Read the indexes of the newest version of a table.

        Raises:
            NotFoundError: the table does not exist.
        """
        dataset = table.dataset()
        details = read_index_details(table.storage, dataset.version)
        fragments = tuple(
            Fragment(fragment.fragment_id, fragment.physical_rows, fragment.num_deletions)
            for fragment in dataset.get_fragments()
        )
        described = sorted(dataset.describe_indices(), key=lambda index: index.name)
        indexes = tuple(
            _read_state(one, fragments, details) for one in described if one.name not in SYSTEM_INDEXES
        )
        return TableIndexes(table, dataset, fragments, indexes, details)

    @property
    def version(self) -> int:
        """Of the base table."""
        return int(self.dataset.version)

    @property
    def rows(self) -> int:
        """Of the base table, deleted ones left out."""
        return sum(fragment.rows for fragment in self.fragments)

    @property
    def unindexed_key_columns(self) -> tuple[str, ...]:
        """Columns of the primary key that should have an index and have none; () without rows."""
        return list_unindexed_columns(self.dataset) if self.rows else ()

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether a row keeps its id when it is updated or moved."""
        return bool(self.dataset.has_stable_row_ids)

    def finds_past_rows(self, index: IndexState, *, added: int = 0) -> bool:
        """Whether an index would find rows by what they had before, with so many segments more."""
        return self.has_stable_row_ids and finds_past_rows(index.type, len(index.segments) + added)

    @property
    def merged(self) -> Mapping[str, int]:
        """Region id -> newest generation that this version contains."""
        return list_merged_generations(self.details)

    def shares_codebook(self, index: IndexState) -> bool:
        """Whether generations have indexes with the codebook that an index was trained with."""
        details = self.details
        kind = INDEX_TYPES.get(index.type.upper())
        if details is None or kind is None or not kind.has_codebook:
            return False
        return details.maintain_all_indexes or index.name in details.maintained_indexes

    def index(self, name: str) -> IndexState | None:
        """Return the index of a name; None if there is none."""
        return next((index for index in self.indexes if index.name == name), None)


def _read_state(
    index: Any,  # noqa: ANN401 - lance types
    fragments: tuple[Fragment, ...],
    details: MemWalIndexDetails | None,
) -> IndexState:
    rows = {fragment.fragment_id: fragment.rows for fragment in fragments}
    segments = []
    for segment in index.segments:
        # Segments of some types go on naming fragments that are gone.
        covered = frozenset(segment.fragment_ids) & rows.keys()
        version = segment.dataset_version_at_last_update
        segments.append(Segment(segment.uuid, covered, sum(map(rows.__getitem__, covered)), version))
    covered_ids = frozenset[int]().union(*(segment.fragments for segment in segments))
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


DIRECTORY: Final = "_gateway/indexing"


@dataclass(frozen=True, slots=True)
class Training:
    """The record of an index since it was trained.

    Attributes:
        version: version of the base table that it was trained on.
        rows: rows of the table when the record was created.
        additions: number of times that rows were added since.
    """

    version: int
    rows: int
    additions: int = 0

    def __post_init__(self) -> None:
        if min(self.version, self.rows, self.additions) < 0:
            raise InvalidInputError(
                f"an index trained at version {self.version} on {self.rows} rows, {self.additions} additions"
            )

    def find_retrain_reason(self, rows: int, policy: IndexPolicy) -> str | None:
        """Return why the index must be trained again; None if it need not."""
        if self.additions >= policy.retrain_after:
            return f"rows were added {format_count(self.additions, 'time')} since it was trained"
        if rows > self.rows * policy.retrain_growth:
            return f"it was trained on {format_count(self.rows, 'row')}, and there are {rows:,}"
        return None


def read_training(storage: Storage, index: IndexState) -> Training | None:
    """Read the record of an index; returns None if there is none, or the index was trained since."""
    try:
        found = Training(**json.loads(storage.read(_training_path(index.name))))
    except (FileNotFoundError, ValueError, TypeError, InvalidInputError):
        return None
    return found if found.version == index.trained_at else None


def record_training(
    storage: Storage, before: Training | None, index: IndexState, rows: int, *, added: bool
) -> None:
    """Write the record of an index.

    Args:
        storage: directory of the table.
        before: the record before rows were added.
        index: current state of the index.
        rows: rows of the table.
        added: whether rows were added to the index.
    """
    now = Training(index.trained_at, rows, int(added))
    if before is not None and before.version == now.version:
        now = replace(before, additions=before.additions + added)
    if now != before:
        storage.put(
            _training_path(index.name), json.dumps({name: getattr(now, name) for name in _FIELDS}).encode()
        )


_FIELDS: Final = ("version", "rows", "additions")


def _training_path(name: str) -> str:
    # Any text may name an index; file names may not be any text.
    return f"{DIRECTORY}/{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}.json"
