"""The scan plan: base table once, each region's generations and tail, newest version of each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import heapq

from execnodes import (
    DeduplicateExec,
    ExecNode,
    LanceScanExec,
    LanceSource,
    MemTableScanExec,
    RowFilter,
    RowMask,
    UnionExec,
)
from planner.snapshot import TableSnapshot
from planner.visibility import Visibility

Groups = tuple[tuple[int, ...], ...]


def plan_scan(
    snapshot: TableSnapshot,
    scanned_regions: frozenset[str],
    columns: Sequence[str],
    row_filter: RowFilter | None,
    partitions: int,
    visibility: Visibility,
) -> ExecNode:
    """``DeduplicateExec(UnionExec(LanceScanExec...))``, or a plain union where the table has no primary key.

    Args:
        snapshot: of the table; may have more regions than are scanned: their rows only supersede.
        scanned_regions: regions that may have matching rows.
        columns: to produce.
        row_filter: applied exactly; may run below deduplication, because masks know superseded rows by address.
        partitions: how many.
        visibility: where masks come from.
    """
    base = snapshot.base
    deduplicated = bool(base.primary_key) and snapshot.has_fresh_rows
    projected = tuple(columns)
    sizes: list[Mapping[int, int]] = [{one.fragment_id: one.physical_rows for one in base.fragments}]
    sources: list[LanceSource] = [base.source]
    regions = [region for region in snapshot.regions.values() if region.region_id in scanned_regions]
    generations = [one for region in regions for one in region.generations]
    for generation in generations:
        sizes.append(generation.fragment_rows)
        sources.append(generation.source(base))
    scans: list[ExecNode] = [
        LanceScanExec(source, projected, groups, row_filter, with_row_address=deduplicated)
        for source, groups in zip(sources, _balanced(sizes, partitions), strict=True)
    ]
    tails = [region.tail for region in regions if region.tail is not None]
    scans += [MemTableScanExec(one.source, projected, row_filter, with_row_address=deduplicated) for one in tails]
    if not deduplicated:
        return scans[0] if len(scans) == 1 else UnionExec(tuple(scans))
    masks = visibility.masks(snapshot)
    found: list[RowMask] = [masks.base]
    found += [masks.generations[one.path] for one in generations]
    found += [masks.tails[one.region_id] for one in tails]
    return DeduplicateExec(UnionExec(tuple(scans)), tuple(found))


def _balanced(sources: Sequence[Mapping[int, int]], partitions: int) -> Iterator[Groups]:
    """Per source, its fragments in one group per partition; the largest fragments are placed first.

    Args:
        sources: fragment id -> rows, for each source.
        partitions: how many groups.
    """
    loads = [(0, partition) for partition in range(partitions)]
    heapq.heapify(loads)
    groups: list[list[list[int]]] = [[[] for _ in range(partitions)] for _ in sources]
    order = count()
    units = sorted(
        ((-rows, next(order), index, fragment_id) for index, one in enumerate(sources) for fragment_id, rows in one.items())
    )
    for negative_rows, _, index, fragment_id in units:
        load, partition = heapq.heappop(loads)
        groups[index][partition].append(fragment_id)
        heapq.heappush(loads, (load - negative_rows, partition))
    for per_source in groups:
        yield tuple(tuple(sorted(group)) for group in per_source)
