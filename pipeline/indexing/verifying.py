"""Whether indexes have what was to be brought into them, as the base table's manifest tells."""

from __future__ import annotations

from memwal.errors import PreconditionError
from pipeline.indexing.indexes import IndexState, TableIndexes
from pipeline.indexing.optimising import Optimised
from pipeline.jobs.lake import LakeTable
from pipeline.jobs.progress import counted


def lacking(before: TableIndexes, after: TableIndexes) -> tuple[str, ...]:
    """Indexes that lack something which the table had before, by name.

    Fragments that are gone since, and what was merged since, are left out of account.
    """
    return tuple(one.name for one in after.indexes if _lacks(one, before, after))


def lagging(indexes: TableIndexes) -> tuple[str, ...]:
    """What indexes lack now, for people; empty if they have all."""
    found = []
    for one in indexes.indexes:
        if one.uncovered:
            rows, fragments = counted(one.unindexed_rows, "row"), counted(len(one.uncovered), "fragment")
            found.append(f"{one.name} lacks {rows} of {fragments}")
        for region, reached in sorted(one.behind.items()):
            merged = indexes.merged[region]
            found.append(f"{one.name} is at generation {reached} of {merged} of region {region}")
    return tuple(found)


def refusal(table: LakeTable, failed: tuple[Optimised, ...], stuck: tuple[str, ...]) -> PreconditionError:
    """The error for indexes that can't be brought up to date."""
    names = tuple(one.upkeep.name for one in failed) or stuck
    reasons = "; ".join(dict.fromkeys(one.error or "" for one in failed))
    why = reasons or "Lance brought them up to date, and they still lack rows that the table has"
    msg = (
        f"table {table.name!r}: {'indexes' if len(names) > 1 else 'index'} "
        f"{', '.join(map(repr, names))} can't catch up with the table: {why}. Build what can't be repaired "
        f"anew: lance-gateway pipeline index {table.name} --build COLUMN:TYPE:{names[0]} --replace"
    )
    return PreconditionError(msg)


def _lacks(index: IndexState, before: TableIndexes, after: TableIndexes) -> bool:
    known = {one.fragment_id for one in before.fragments}
    if known.intersection(index.uncovered):
        return True
    reached = {region: index.behind.get(region, merged) for region, merged in after.merged.items()}
    return any(reached.get(region, 0) < merged for region, merged in before.merged.items())
