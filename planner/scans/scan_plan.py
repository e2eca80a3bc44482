"""Plan how the rows of a snapshot are read.

A scan reads the base table once, and each region's generations and tail, and shows the newest version of each
row. A lookup of keys asks the newest source first, a key filter before any I/O, and the first hit wins.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.execnodes import (
    BloomFilterGuardExec,
    CoalesceFirstExec,
    DeduplicateExec,
    ExecNode,
    KeySet,
    LanceScanExec,
    LanceSource,
    MemTableScanExec,
    RowFilter,
    RowMask,
    RowRange,
    TakeLastExec,
    UnionExec,
)
from lance_gateway.execnodes.rows.row_mask import CHUNK_ROWS
from lance_gateway.execnodes.storage.data_files import Columns, Place, StoredFragment
from lance_gateway.execnodes.storage.source import ColumnCache
from lance_gateway.memwal.bloom import KeyFilter, build_key_filter, load_key_filter
from lance_gateway.memwal.errors import CorruptDataError
from lance_gateway.planner.access.table_policy import TablePolicy
from lance_gateway.planner.bridge.machine import count_cores
from lance_gateway.planner.predicates.arrow_expressions import Call, Node, Other, read_expression
from lance_gateway.planner.predicates.predicate import TRUE, And, Predicate, conjunction, decode
from lance_gateway.planner.predicates.row_filter import PredicateFilter, find_columns, is_understood
from lance_gateway.planner.tables.sources.base_table import BaseTable, BaseVersion
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.sources.generations import GenerationDataset
from lance_gateway.planner.tables.sources.key_columns import choose_sought_columns
from lance_gateway.planner.tables.sources.keys import BaseKeyLocator, KeyPlaces
from lance_gateway.planner.tables.sources.snapshot import RegionSnapshot, SnapshotRows, TableSnapshot
from lance_gateway.planner.tables.visibility.visibility import Visibility

_NARROW_BYTES: Final = 128
"""Rows of up to so many bytes are decoded in less time than it takes Lance to select them."""
NODE_BYTES = 4_096
"""Bytes of a planned lookup in one source, for the cache."""


@dataclass(frozen=True, slots=True)
class _LookupNodesName:
    """Cache key of the nodes of a lookup, which do not depend on the keys; the value tells of which snapshot.

    Attributes:
        base: version of the base table.
        regions: that are read.
        columns: that they produce.
        kept: where columns are kept.
        places: where keys are known.
    """

    base: BaseVersion
    regions: frozenset[str]
    columns: tuple[str, ...]
    kept: ColumnCache
    places: KeyPlaces


@dataclass(frozen=True, slots=True)
class _KeyFilterName:
    """Cache key of the filter over the keys of a generation with these key columns."""

    key: Columns
    generation: Place


@dataclass(frozen=True, slots=True)
class Conditions:
    """The filters of a scan.

    Attributes:
        below: applied to stored rows; None keeps all.
        above: applied to rows after the policy; None keeps all.
    """

    below: PredicateFilter | None
    above: PredicateFilter | None = None


def divide_conditions(
    expression: pc.Expression | None, policy: TablePolicy | None, schema: pa.Schema
) -> Conditions:
    """Divide the conjuncts of a statement, and add those of the policy to the ones below it.

    DataFusion pushes comparisons of columns with literals, which can't fail: on columns without a mask they
    may be applied to hidden rows. Others would reveal the values behind a mask.

    Args:
        expression: conjuncts of the statement on one table reference, or None.
        policy: of the table, or None.
        schema: all columns of the table.
    """
    statement = None if expression is None else PredicateFilter(decode(expression, schema), expression)
    if policy is None:
        return Conditions(statement)
    if statement is None:
        return Conditions(_make_filter(policy.predicate, policy.pushed))
    if not _may_depend_on(statement, policy.masks.keys()):
        whole = statement.expression if policy.pushed is None else policy.pushed & statement.expression
        return Conditions(PredicateFilter(decode(whole, schema), whole))
    conjuncts = (
        statement.predicate.operands if isinstance(statement.predicate, And) else (statement.predicate,)
    )
    safe = [
        conjunct
        for conjunct in conjuncts
        if is_understood(conjunct) and not find_columns(conjunct) & policy.masks.keys()
    ]
    below = conjunction([policy.predicate, *safe])
    return Conditions(_make_filter(below, policy.pushed), statement)


def _make_filter(predicate: Predicate, expression: pc.Expression | None) -> PredicateFilter | None:
    """Make the filter below a policy; conjuncts of the statement may be lost, since they also apply above."""
    if predicate == TRUE:
        return None
    return PredicateFilter(predicate, pc.scalar(value=True) if expression is None else expression)


def _may_depend_on(statement: PredicateFilter, columns: AbstractSet[str]) -> bool:
    """Return whether a filter reads any of the columns, or can't be analysed."""
    node = read_expression(statement.expression)
    return bool(columns) and (node is None or is_opaque(node) or not columns.isdisjoint(statement.columns))


def is_opaque(node: Node) -> bool:
    """Return whether part of an expression can't be read."""
    return isinstance(node, Other) or (isinstance(node, Call) and any(map(is_opaque, node.arguments)))


def plan_lookup(
    snapshot: TableSnapshot,
    scanned_regions: frozenset[str],
    keys: KeySet,
    columns: Sequence[str],
    row_filter: RowFilter | None,
    cache: ByteCache,
    column_cache: ColumnCache,
    places: KeyPlaces,
) -> ExecNode:
    """Plan ``CoalesceFirstExec(BloomFilterGuardExec(TakeLastExec(LanceScanExec))...)``, base table last.

    Args:
        snapshot: of a table with a primary key.
        scanned_regions: regions that may hold one of the keys.
        keys: wanted.
        columns: to produce.
        row_filter: applied to the rows found.
        cache: keeps key filters, and the nodes, which are the same for all keys.
        column_cache: where columns of flushed generations are kept.
        places: may know where the base table has its keys.
    """
    base = snapshot.base
    wanted = {*base.primary_key, *columns, *(() if row_filter is None else row_filter.columns)}
    # In the table's order, which Lance reads fastest.
    needed = tuple([name for name in base.schema.names if name in wanted])
    name = _LookupNodesName(base.version_id, scanned_regions, needed, column_cache, places)
    known: tuple[SnapshotRows, tuple[ExecNode, ...]] | None = cache.get(name)
    if known is None or known[0] != snapshot.identity:
        nodes = tuple(_plan_lookups(snapshot, scanned_regions, needed, cache, column_cache, places))
        # Only those of the last snapshot are kept: every other would hold on to a log tail of its own.
        known = snapshot.identity, nodes
        cache.put(name, known, NODE_BYTES * len(nodes))
    return CoalesceFirstExec(known[1], keys, tuple(columns), row_filter)


def _plan_lookups(
    snapshot: TableSnapshot,
    scanned_regions: frozenset[str],
    needed: tuple[str, ...],
    cache: ByteCache,
    column_cache: ColumnCache,
    places: KeyPlaces,
) -> Iterator[ExecNode]:
    base = snapshot.base
    regions = [region for region in snapshot.regions.values() if region.region_id in scanned_regions]
    # Log tails, generations from the newest to the oldest, base table: this order must not change (ADR 2).
    for region in regions:
        if region.tail is not None:
            tail = MemTableScanExec(region.tail.source, needed, with_tombstone=True, by_key=True)
            yield TakeLastExec(tail, base.primary_key)
    generations = [generation for region in regions for generation in region.generations]
    filters = dict(zip(generations, find_key_filters(base, generations, cache), strict=True))
    for region in regions:
        for generation in reversed(region.generations):
            scan = LanceScanExec(
                generation.source(base),
                needed,
                (tuple(generation.fragment_rows),),
                column_cache,
                keep_columns=True,
                with_tombstone=generation.has_tombstones,
                by_key=True,
            )
            yield BloomFilterGuardExec(TakeLastExec(scan, base.primary_key), filters[generation])
    fragments = tuple(fragment.fragment_id for fragment in base.fragments)
    locator = BaseKeyLocator(places, base)
    scan = LanceScanExec(
        base.source,
        needed,
        (fragments,),
        column_cache,
        by_key=True,
        locator=locator,
        sought=choose_sought_columns(base, cache),
    )
    # Without MemWAL all rows of a key are shown.
    yield scan if base.details is None else TakeLastExec(scan, base.primary_key)


def find_key_filters(
    base: BaseTable, generations: Sequence[GenerationDataset], cache: ByteCache
) -> Sequence[KeyFilter]:
    """Return the key filter of each generation; those that are not known are made side by side."""
    found = cache.get_many([_KeyFilterName(base.key, generation.place) for generation in generations])
    if None not in found:
        return found
    with ThreadPoolExecutor(count_cores()) as threads:
        return list(threads.map(lambda generation: _find_key_filter(base, generation, cache), generations))


def _find_key_filter(base: BaseTable, generation: GenerationDataset, cache: ByteCache) -> KeyFilter:
    """Load Lance's key filter, or build one from the key columns if there is none that is usable."""
    types = [base.schema.field(name).type for name in base.primary_key]

    def make() -> KeyFilter:
        try:
            stored = load_key_filter(base.storage, generation.path, types, generation.rows)
        except CorruptDataError:
            stored = None  # The rows are all there: a filter only saves reading them.
        return stored if stored is not None else build_key_filter(_read_keys(base, generation))

    return cache.compute(_KeyFilterName(base.key, generation.place), make)


def _read_keys(base: BaseTable, generation: GenerationDataset) -> pa.Table:
    stored = base.map_stored_columns(generation.fields)
    rows = generation.dataset.to_table(columns=[stored[name].name for name in base.primary_key])
    return rows.rename_columns(list(base.primary_key)).cast(
        pa.schema([base.schema.field(name) for name in base.primary_key])
    )


BASE = ""
"""Source of units of the base table."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows that one partition reads together.

    Attributes:
        source: `BASE`, the path of a generation, or the id of a region, for its tail.
        rows: how many are stored.
        fragments: ids of whole fragments.
        first: of a part of the one fragment: its first row; None where fragments are read as a whole.
    """

    source: str
    rows: int
    fragments: tuple[int, ...] = ()
    first: int | None = None


Partition = tuple[Unit, ...]


@dataclass(frozen=True, eq=False)
class Division:
    """Scan that several readers share, each on its own.

    Attributes:
        snapshot: what all of them see.
        scanned_regions: whose rows are read; those of other regions only supersede older ones.
        count: how many readers there are.
    """

    snapshot: TableSnapshot
    scanned_regions: frozenset[str]
    count: int

    def list_partitions(self) -> tuple[Partition, ...]:
        """Return the units that each reader reads."""
        regions = [
            region for region in self.snapshot.regions.values() if region.region_id in self.scanned_regions
        ]
        return balance_units(list_units(self.snapshot, regions, split_into=self.count), self.count)


def list_units(
    snapshot: TableSnapshot, scanned: Sequence[RegionSnapshot], *, split_into: int = 1
) -> tuple[Unit, ...]:
    """Return the units that a scan has to read, in the order of the snapshot.

    Args:
        snapshot: of the table.
        scanned: regions that are read.
        split_into: fragments of the base table that exceed an even share of so many partitions are divided;
            1 leaves them whole.
    """
    generations = [generation for region in scanned for generation in region.generations]
    tails = [region.tail for region in scanned if region.tail is not None]
    base = snapshot.base
    total = base.physical_rows + sum(generation.rows for generation in generations)
    share = max(CHUNK_ROWS, -(-total // split_into))
    units = [unit for fragment in base.fragments for unit in _split_fragment(fragment, share, split_into)]
    units += [
        Unit(generation.path, generation.rows, tuple(generation.fragment_rows)) for generation in generations
    ]
    units += [Unit(tail.region_id, tail.rows.num_rows) for tail in tails]
    return tuple(units)


def _split_fragment(fragment: StoredFragment, share: int, split_into: int) -> Iterator[Unit]:
    rows, identity = fragment.physical_rows, (fragment.fragment_id,)
    pieces = min(round(rows / share), split_into)
    if pieces < 2:
        yield Unit(BASE, rows, identity)
        return
    chunks = -(-rows // CHUNK_ROWS)  # by which columns are kept
    bounds = [*(piece * chunks // pieces * CHUNK_ROWS for piece in range(pieces)), rows]
    for first, stop in itertools.pairwise(bounds):
        yield Unit(BASE, stop - first, identity, first)


def balance_units(units: Sequence[Unit], partitions: int) -> tuple[Partition, ...]:
    """Assign units to partitions: the largest first, each to the partition with the fewest rows so far.

    Among equals the order of the units, and then that of the partitions, decides.
    """
    loads = [(0, partition) for partition in range(partitions)]
    placed: list[list[Unit]] = [[] for _ in range(partitions)]
    for unit in sorted(units, key=lambda unit: -unit.rows):
        load, partition = heapq.heappop(loads)
        placed[partition].append(unit)
        heapq.heappush(loads, (load + unit.rows, partition))
    return tuple(map(tuple, placed))


def plan_scan(
    snapshot: TableSnapshot,
    scanned_regions: frozenset[str],
    columns: Sequence[str],
    row_filter: RowFilter | None,
    partitions: int,
    visibility: Visibility,
    column_cache: ColumnCache,
    *,
    split_fragments: bool = False,
) -> ExecNode:
    """Plan ``DeduplicateExec(UnionExec(LanceScanExec...))``; without a primary key, only the union.

    Args:
        snapshot: of the table; may have more regions than are scanned: their rows only supersede.
        scanned_regions: regions that may have matching rows.
        columns: to produce.
        row_filter: applied exactly, below deduplication: masks know superseded rows by address.
        partitions: how many.
        visibility: where masks come from.
        column_cache: where columns of flushed generations are kept.
        split_fragments: whether partitions share a large fragment of the base table in any case.
    """
    base = snapshot.base
    deduplicated = visibility.hides_rows(snapshot)
    projected = tuple(columns)
    regions = [region for region in snapshot.regions.values() if region.region_id in scanned_regions]
    generations = [generation for region in regions for generation in region.generations]
    sources: list[tuple[str, LanceSource]] = [(BASE, base.source)]
    sources += [(generation.path, generation.source(base)) for generation in generations]
    read = {*projected, *(() if row_filter is None else row_filter.columns)}
    is_read_whole = row_filter is None or _is_faster_unfiltered(base, read, row_filter, column_cache)
    # Rows without columns are counted by fragments, and a few blobs are read at a time.
    splits = split_fragments or (is_read_whole and bool(read) and not base.source.blobs)
    units = list_units(snapshot, regions, split_into=partitions if splits else 1)
    placed = balance_units(units, partitions)
    keys_ahead = visibility.read_base_ahead(snapshot) if deduplicated else None
    column_cache.read_ahead(
        partial(visibility.read_along, snapshot) if deduplicated else base.together.read,
        [source for _, source in sources[1:]],
        [one for one in base.schema.names if one in read],
    )
    types = [base.schema.field(name).type for name in projected]
    keep_base = is_read_whole and column_cache.fits(types, base.physical_rows)
    whole, parts, homes = group_by_source(placed)
    scans: list[ExecNode] = [
        LanceScanExec(
            source,
            projected,
            tuple(map(tuple, whole[name])),
            column_cache,
            row_filter,
            keep_columns=keep_base or name != BASE,
            row_ranges=tuple(map(tuple, parts[name])) if name in parts else (),
        )
        for name, source in sources
    ]
    tails = [region.tail for region in regions if region.tail is not None]
    scans += [
        MemTableScanExec(tail.source, projected, row_filter, partition=homes[tail.region_id])
        for tail in tails
    ]
    if not deduplicated:
        return scans[0] if len(scans) == 1 else UnionExec(tuple(scans))
    masks = visibility.compute_masks(snapshot, keys_ahead)
    found: list[RowMask] = [masks.base]
    found += [masks.generations[generation.path] for generation in generations]
    found += [masks.tails[tail.region_id] for tail in tails]
    return DeduplicateExec(UnionExec(tuple(scans)), tuple(found))


def _is_faster_unfiltered(
    base: BaseTable, columns: AbstractSet[str], row_filter: RowFilter, column_cache: ColumnCache
) -> bool:
    """Return whether to read all rows of a base table takes less time than to let Lance filter them.

    Lance decodes the other columns for the rows that match. That pays if these columns are wide or come over
    a network, and if an index finds the rows. To open a scanner takes longer than to filter a small table.
    """
    return base.physical_rows <= CHUNK_ROWS or (
        base.storage.is_local
        and not base.source.blobs
        and not base.has_scalar_index(row_filter.columns)
        and column_cache.estimate_row_bytes(base.source, columns) <= _NARROW_BYTES
    )


def group_by_source(
    placed: Sequence[Partition],
) -> tuple[Mapping[str, list[list[int]]], Mapping[str, list[list[RowRange]]], Mapping[str, int]]:
    """Return whole fragments and row ranges by source and partition, and a partition per source."""
    whole: defaultdict[str, list[list[int]]] = defaultdict(lambda: [[] for _ in placed])
    parts: defaultdict[str, list[list[RowRange]]] = defaultdict(lambda: [[] for _ in placed])
    homes: dict[str, int] = {}
    for number, units in enumerate(placed):
        for unit in units:
            homes[unit.source] = number
            if unit.first is None:
                whole[unit.source][number] += unit.fragments
            else:
                parts[unit.source][number].append(RowRange(unit.fragments[0], unit.first, unit.rows))
    return whole, parts, homes
