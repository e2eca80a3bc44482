"""Decides by a policy what a table's indexes and files need.

Rows that an index lacks become a new segment, and segments are folded as in a binary counter: a segment is
included if it is not larger than the rows it is folded with. So a row is rewritten only when its segment
doubles, and an index of n rows has about log n segments.

    rows of segments   1000 400 100 | 60 new      -> 1000 400 100 60
                       1000 400 100 | 150 new     -> 1000 400 250
                       1000 400 100 | 350 new     -> 1850

With stable row ids, an updated row keeps its id, and older segments answer with its old value until Lance
rewrites the whole index: bitmaps, label lists and full-text indexes are always folded whole
(`memwal.creating.index_types.finds_past_rows`). A full-text index that has several segments is not mended by
that, which would only hide that there were several. Other scalar indexes answer rightly, but Lance (14.0.2)
folds all of their segments wherever it folds one: they get segments until there are `_MOST_SEGMENTS`, or the
later ones have as many rows as the first.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lance_gateway.pipeline.indexing.indexes import (
    Fragment,
    IndexPolicy,
    IndexState,
    TableIndexes,
    Training,
    read_training,
)
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.jobs.runners import format_count

_MOST_SEGMENTS = 8


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The work that an index needs.

    Attributes:
        name: name of the index.
        reason: reason, for people.
        fold: number of its newest segments that are folded with the rows that it lacks.
        retrain: whether it is trained and built again instead.
    """

    name: str
    reason: str
    fold: int = 0
    retrain: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Needs:
    """The work that a table needs.

    Attributes:
        indexes: state of the indexes.
        trainings: name -> recorded training, of vector indexes.
        upkeep: work on indexes.
        key_columns: columns of the primary key that get an index.
        compaction: reasons for a compaction; empty if there are none.
    """

    indexes: TableIndexes
    trainings: Mapping[str, Training | None]
    upkeep: tuple[Upkeep, ...]
    key_columns: tuple[str, ...]
    compaction: tuple[str, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons for the work, for people; empty if there is nothing to do."""
        return (
            *(f"index {upkeep.name!r}: {upkeep.reason}" for upkeep in self.upkeep),
            *(f"column {name!r} of the primary key has no index" for name in self.key_columns),
            *self.compaction,
        )


def needs(table: LakeTable, policy: IndexPolicy | None = None) -> tuple[str, ...]:
    """Return why a table needs maintenance; empty if it does not. Reads manifests only.

    Raises:
        NotFoundError: the table does not exist.
    """
    return find_needs(TableIndexes.read(table), policy or IndexPolicy()).reasons


def find_needs(indexes: TableIndexes, policy: IndexPolicy) -> Needs:
    """Return the work that a table needs."""
    storage = indexes.table.storage
    trainings = {index.name: read_training(storage, index) for index in indexes.indexes if index.is_vector}
    planned = (_plan_upkeep(index, indexes, policy, trainings.get(index.name)) for index in indexes.indexes)
    upkeep = tuple(work for work in planned if work is not None)
    key_columns = indexes.unindexed_key_columns if policy.key_index else ()
    compaction = _find_compaction_reasons(indexes.fragments, policy)
    return Needs(indexes, trainings, upkeep, key_columns, compaction)


def plan_catch_up(indexes: TableIndexes) -> tuple[Upkeep, ...]:
    """Return the work that brings every index up to date, regardless of a policy."""
    return tuple(
        Upkeep(index.name, _describe_lag(index), count_folded_segments(index, indexes))
        for index in indexes.indexes
        if not index.is_current
    )


def count_folded_segments(index: IndexState, indexes: TableIndexes) -> int:
    """Return how many of an index's newest segments are folded with the rows that it lacks."""
    if indexes.finds_past_rows(index, added=int(bool(index.uncovered))):
        return 0 if _is_beyond_folding(index) else len(index.segments)
    if not index.uncovered:
        return 0
    rows = index.unindexed_rows
    if indexes.has_stable_row_ids and not index.is_vector:
        later = rows + sum(segment.rows for segment in index.segments[1:])
        is_due = len(index.segments) >= _MOST_SEGMENTS or any(one.rows <= later for one in index.segments[:1])
        return len(index.segments) if is_due else 0
    count = 0
    for segment in reversed(index.segments):
        if segment.rows > rows:
            break
        rows += segment.rows
        count += 1
    return count


def plan_gathering(indexes: TableIndexes, target_rows: int) -> tuple[Upkeep, ...]:
    """Return the folds that bring all small fragments into one segment of each index.

    Lance compacts only fragments together that the same segments of all indexes cover.
    """
    small = {fragment.fragment_id for fragment in indexes.fragments if fragment.physical_rows < target_rows}
    found = []
    for index in indexes.indexes:
        has_small = [bool(segment.fragments & small) for segment in index.segments]
        if sum(has_small) > 1:
            fold = len(has_small) - has_small.index(True)
            found.append(Upkeep(index.name, f"small fragments lie in {sum(has_small)} segments", fold))
    return tuple(found)


def count_spare_fragments(fragments: Iterable[Fragment], target_rows: int) -> int:
    """Return by how many fragments a compaction of small neighbours would reduce the table."""
    spared = count = rows = 0
    for one in (*fragments, None):
        if one is not None and one.physical_rows < target_rows:
            count, rows = count + 1, rows + one.rows
        else:
            spared += count - math.ceil(rows / target_rows) if count > 1 else 0
            count = rows = 0
    return spared


def _plan_upkeep(
    index: IndexState, indexes: TableIndexes, policy: IndexPolicy, training: Training | None
) -> Upkeep | None:
    rows = indexes.rows
    worn = None if training is None else training.find_retrain_reason(rows, policy)
    # An index that is not retrained is brought up to date like any other (ADR 62).
    if worn is not None and (policy.retrain_codebooks or not indexes.shares_codebook(index)):
        return Upkeep(index.name, worn, retrain=True)
    if indexes.finds_past_rows(index) and not _is_beyond_folding(index):
        reason = f"its {len(index.segments)} segments find rows by what they had before"
        return Upkeep(index.name, reason, len(index.segments))
    if index.is_current:
        return None
    bound = min(policy.max_unindexed_rows, policy.max_unindexed_fraction * rows)
    # Recording the progress of an index costs a commit, and lets merged generations be removed.
    if index.unindexed_rows <= bound and index.unindexed_rows:
        return None
    return Upkeep(index.name, _describe_lag(index), count_folded_segments(index, indexes))


def _is_beyond_folding(index: IndexState) -> bool:
    return index.type.upper() == "INVERTED" and len(index.segments) > 1


def _describe_lag(index: IndexState) -> str:
    found = []
    if index.uncovered:
        are = "is" if index.unindexed_rows == 1 else "are"
        fragments = format_count(len(index.uncovered), "fragment")
        found.append(f"{format_count(index.unindexed_rows, 'row')} in {fragments} {are} not in it")
    if index.behind:
        found.append(f"it is behind the merges of {format_count(len(index.behind), 'region')}")
    return " and ".join(found)


def _find_compaction_reasons(fragments: tuple[Fragment, ...], policy: IndexPolicy) -> tuple[str, ...]:
    if not policy.compact:
        return ()
    found = []
    spared = count_spare_fragments(fragments, policy.target_rows)
    if spared > policy.max_spare_fragments:
        found.append(f"{format_count(len(fragments), 'fragment')} could be {len(fragments) - spared}")
    share = policy.deleted_fraction
    worn = sum(fragment.deleted > share * fragment.physical_rows for fragment in fragments)
    if worn:
        found.append(f"more than {share:.0%} of the rows of {format_count(worn, 'fragment')} are deleted")
    return tuple(found)
