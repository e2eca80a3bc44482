"""Which sources a search has."""

from __future__ import annotations

from enum import Enum
from typing import Any

from execnodes.row_mask import EVERYTHING_VISIBLE
from execnodes.search.source import IndexDescription, SearchSource
from planner.base_table import BaseTable
from planner.snapshot import TableSnapshot
from planner.visibility import SnapshotMasks


class IndexKind(Enum):
    """What kind of index serves a search."""

    VECTOR = "vector"
    TEXT = "text"


_TEXT_TYPES = frozenset({"Inverted", "INVERTED"})


def search_sources(
    snapshot: TableSnapshot,
    masks: SnapshotMasks | None,
    regions: frozenset[str],
    column: str,
    kind: IndexKind,
) -> tuple[SearchSource, ...]:
    """The sources of a search: the base table where an index covers it and where none does, fresh rows.

    Args:
        snapshot: of the table; may have more regions than are searched: their rows only supersede.
        masks: of the snapshot; None where no row supersedes another.
        regions: whose rows are searched.
        column: that is searched.
        kind: of index that serves the search.
    """
    base = snapshot.base
    live = EVERYTHING_VISIBLE if masks is None else masks.base
    sources: list[SearchSource] = []
    index, covered = _coverage(base, column, kind)
    fragments = tuple(fragment.fragment_id for fragment in base.fragments)
    indexed = tuple(one for one in fragments if one in covered)
    rest = tuple(one for one in fragments if one not in covered)
    for group, description in ((indexed, index), (rest, None)):
        if group:
            identity = ("base", base.place, base.version, group)
            sources.append(SearchSource(len(sources), base.source, identity, live, group, description))
    for region in snapshot.regions.values():
        if region.region_id not in regions:
            continue
        for one in region.generations:
            sources.append(
                SearchSource(
                    len(sources),
                    one.source(base),
                    ("generation", base.place, one.path),
                    EVERYTHING_VISIBLE if masks is None else masks.generations[one.path],
                    tuple(sorted(one.fragment_rows)),
                )
            )
        if region.tail is not None:
            sources.append(
                SearchSource(
                    len(sources),
                    region.tail.source,
                    ("tail", base.place, region.region_id, region.tail.first, region.tail.last),
                    EVERYTHING_VISIBLE if masks is None else masks.tails[region.region_id],
                )
            )
    return tuple(sources)


def _coverage(base: BaseTable, column: str, kind: IndexKind) -> tuple[IndexDescription | None, set[int]]:
    for index in base.dataset.describe_indices():
        is_text = index.index_type in _TEXT_TYPES
        is_vector = index.index_type.startswith("IVF")
        if index.field_names != [column] or not (is_text if kind is IndexKind.TEXT else is_vector):
            continue
        covered = {one for segment in index.segments for one in segment.fragment_ids}
        details: dict[str, Any] = index.details if isinstance(index.details, dict) else {}
        return IndexDescription(index.name, index.index_type, details), covered
    return None, set()
