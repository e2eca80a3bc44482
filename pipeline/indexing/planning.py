"""What a table's indexes and files need, by a policy.

Rows that an index lacks become a segment of their own, and segments are folded together as in a binary
counter: a segment is taken in when it is no larger than what is folded with it. So a row is written again
only as often as its segment doubles, and an index of n rows has about log n segments.

    rows of segments   1000 400 100 | 60 new      -> 1000 400 100 60
                       1000 400 100 | 150 new     -> 1000 400 250
                       1000 400 100 | 350 new     -> 1850

Where rows have stable ids it is all or nothing. A row that is updated keeps its id, so the value that an
older segment has for it goes on answering, unless Lance writes the whole of a scalar index anew: then it
leaves out what is no longer so. Vector indexes are spared that: Lance drops such rows when it searches.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipeline.indexing.indexes import Fragment, IndexPolicy, IndexState, TableIndexes, Training, read_training
from pipeline.jobs.lake import LakeTable
from pipeline.jobs.runners import format_count


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What is to be done about an index.

    Attributes:
        name: of the index.
        reason: why, for people.
        fold: how many of its newest segments become one with the rows that it lacks.
        retrain: whether it is trained and built anew instead.
    """

    name: str
    reason: str
    fold: int = 0
    retrain: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Needs:
    """What a table needs.

    Attributes:
        indexes: as they were looked at.
        trainings: what is known of vector indexes, by name.
        upkeep: indexes that something is to be done about.
        compaction: why files are to be put together; empty if they are not.
    """

    indexes: TableIndexes
    trainings: Mapping[str, Training | None]
    upkeep: tuple[Upkeep, ...]
    compaction: tuple[str, ...]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why something is to be done, for people; empty if nothing is."""
        return (*(f"index {one.name!r}: {one.reason}" for one in self.upkeep), *self.compaction)


def needs(table: LakeTable, policy: IndexPolicy | None = None) -> tuple[str, ...]:
    """Why a table wants to be maintained; empty if it does not. Manifests are all that is read.

    Raises:
        NotFoundError: there is no such table.
    """
    return find_needs(TableIndexes.read(table), policy or IndexPolicy()).reasons


def find_needs(indexes: TableIndexes, policy: IndexPolicy) -> Needs:
    """What a table needs."""
    storage = indexes.table.storage
    trainings = {one.name: read_training(storage, one) for one in indexes.indexes if one.is_vector}
    found = (_plan_upkeep(one, indexes, policy, trainings.get(one.name)) for one in indexes.indexes)
    upkeep = tuple(one for one in found if one is not None)
    return Needs(indexes, trainings, upkeep, _find_compaction_reasons(indexes.fragments, policy))


def plan_catch_up(indexes: TableIndexes) -> tuple[Upkeep, ...]:
    """What brings every index up to date, whatever a policy would put up with."""
    return tuple(
        Upkeep(one.name, _describe_lag(one), count_folded_segments(one, indexes))
        for one in indexes.indexes
        if not one.is_current
    )


def count_folded_segments(index: IndexState, indexes: TableIndexes) -> int:
    """How many of an index's newest segments are folded into the rows that it lacks."""
    if not index.uncovered:
        return 0
    if indexes.has_stable_row_ids and not index.is_vector:
        return len(index.segments)
    rows = index.unindexed_rows
    count = 0
    for segment in reversed(index.segments):
        if segment.rows > rows:
            break
        rows += segment.rows
        count += 1
    return count


def plan_gathering(indexes: TableIndexes, target_rows: int) -> tuple[Upkeep, ...]:
    """Folds that bring all small fragments into one segment of each index.

    Lance puts only fragments together that the same segments of all indexes cover.
    """
    small = {one.fragment_id for one in indexes.fragments if one.physical_rows < target_rows}
    found = []
    for index in indexes.indexes:
        has_small = [bool(one.fragments & small) for one in index.segments]
        if sum(has_small) > 1:
            fold = len(has_small) - has_small.index(True)
            found.append(Upkeep(index.name, f"small fragments lie in {sum(has_small)} segments", fold))
    return tuple(found)


def count_spare_fragments(fragments: Iterable[Fragment], target_rows: int) -> int:
    """How many fragments fewer there would be if small neighbours were put together."""
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
    if worn is not None:
        return Upkeep(index.name, worn, retrain=True)
    if index.is_current:
        return None
    bound = min(policy.max_unindexed_rows, policy.max_unindexed_fraction * rows)
    # Knowing how far an index is costs a commit, and lets merged generations go.
    if index.unindexed_rows <= bound and index.unindexed_rows:
        return None
    return Upkeep(index.name, _describe_lag(index), count_folded_segments(index, indexes))


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
    worn = sum(one.deleted > share * one.physical_rows for one in fragments)
    if worn:
        found.append(f"more than {share:.0%} of the rows of {format_count(worn, 'fragment')} are deleted")
    return tuple(found)
