"""Divide the rows of a snapshot among the sources of a search.

Every live row is in exactly one source, and the rows of a source are covered by one index or by none. Results
for base versions and generations, which are immutable, are cached with them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lance_gateway.execnodes.rows.row_mask import EVERYTHING_VISIBLE, RowMask
from lance_gateway.execnodes.search.source import SearchSource
from lance_gateway.execnodes.storage.data_files import Columns, Deletions, FragmentFiles, Place, intern
from lance_gateway.execnodes.storage.source import LanceSource
from lance_gateway.planner.search.sources.catch_up import CatchUp, MovedRows
from lance_gateway.planner.search.sources.index_coverage import (
    Coverage,
    IndexKind,
    choose_indexed_generations,
    find_coverage,
    find_own_index,
)
from lance_gateway.planner.tables.sources.base_table import BaseTable, DatasetIndex
from lance_gateway.planner.tables.sources.caches import ByteCache
from lance_gateway.planner.tables.sources.generations import GenerationDataset
from lance_gateway.planner.tables.sources.log_tail import Tail
from lance_gateway.planner.tables.sources.snapshot import TableSnapshot
from lance_gateway.planner.tables.visibility.visibility import SnapshotMasks

Value = TypeVar("Value")

_SOURCE_BYTES = 1_024


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class _FragmentRowsName:
    """Cache key of the rows of a fragment.

    `intern` for the same stored rows with the same addresses, of which the same ones are deleted, read as the
    same columns.

    Attributes:
        fragment_id: part of the rows' addresses.
        files: stored rows.
        deletions: deleted rows; None where there are none.
        columns: of the table.
    """

    fragment_id: int
    files: FragmentFiles
    deletions: Deletions | None
    columns: Columns


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class _BaseRowsName:
    """Cache key of the rows of several fragments.

    `intern` where the rows of each are, and the same index covers them.

    Attributes:
        fragments: by their ids.
        segments: ids of the segments of the index; none where no index covers them.
    """

    fragments: tuple[_FragmentRowsName, ...]
    segments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _GenerationRowsName:
    """Cache key of the rows of a generation, read as these columns."""

    place: Place
    columns: Columns


@dataclass(frozen=True, slots=True)
class _TailRowsName:
    """Cache key of a region's log, whatever its number of rows.

    Equal for the same one, read as the same columns.

    Attributes:
        number: `TailRows.number`.
        columns: of the table.
    """

    number: int
    columns: Columns


@dataclass(frozen=True, slots=True)
class _FirstEntriesName:
    """Cache key of the rows of the first entries of a log."""

    log: _TailRowsName
    entries: int


@dataclass(frozen=True, slots=True)
class _IdentitiesName:
    """Cache key of the result of `_name_base_rows` within a base version.

    Attributes:
        fragments: ids.
        index: name of the one that covers them; None where none does.
    """

    fragments: tuple[int, ...]
    index: str | None


@dataclass(frozen=True, slots=True)
class _DivisionName:
    """Cache key of the sources into which a table was divided last; the value tells of which snapshot.

    Attributes:
        place: of the table.
        regions: whose rows are searched.
        indexes: column, kind and name of index of each searched column.
        metric: see `list_sources`.
        uses_indexes: see `list_sources`.
    """

    place: Place
    regions: frozenset[str]
    indexes: tuple[tuple[str, IndexKind, str | None], ...]
    metric: str | None
    uses_indexes: bool


@dataclass(frozen=True, eq=False, slots=True)
class _Division:
    """Sources of a snapshot, which is the same object until something changes."""

    snapshot: TableSnapshot
    sources: tuple[SearchSource, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of masks and of rows in memory, which caches may have evicted otherwise."""
        tails = sum(int(one.rows.nbytes) for one in self.snapshot.tails)
        return tails + sum(one.live.nbytes + _SOURCE_BYTES for one in self.sources)


def divide(
    cache: ByteCache,
    snapshot: TableSnapshot,
    compute_masks: Callable[[], SnapshotMasks | None],
    regions: frozenset[str],
    covered: Coverage,
    *,
    metric: str | None,
    catch_up: CatchUp,
    together_with: Sequence[Coverage],
    uses_indexes: bool,
) -> tuple[SearchSource, ...]:
    """Return what `list_sources` does; the same object until the snapshot changes.

    Where merged generations may answer, which of them are still there is found out each time.

    Args:
        cache: keeps the sources.
        snapshot: of the table.
        compute_masks: of the snapshot; None where no row supersedes another.
        regions: whose rows are searched.
        covered: of the searched column.
        metric: see `list_sources`.
        catch_up: see `list_sources`.
        together_with: see `list_sources`.
        uses_indexes: see `list_sources`.

    Raises:
        LanceGatewayError: a source can't be read.
    """

    def find() -> tuple[SearchSource, ...]:
        return list_sources(
            snapshot,
            compute_masks(),
            regions,
            covered.column,
            covered.kind,
            metric=metric,
            catch_up=catch_up,
            together_with=together_with,
            uses_indexes=uses_indexes,
        )

    indexes = (covered, *together_with)
    if catch_up.find_lacking(snapshot.base, indexes):
        return find()
    named = tuple([(one.column, one.kind, None if one.index is None else one.index.name) for one in indexes])
    name = _DivisionName(snapshot.base.place, regions, named, metric, uses_indexes)
    known: _Division | None = cache.get(name)
    if known is None or known.snapshot is not snapshot:
        known = _Division(snapshot, find())
        cache.put(name, known, known.nbytes)
    return known.sources


def list_sources(
    snapshot: TableSnapshot,
    masks: SnapshotMasks | None,
    regions: frozenset[str],
    column: str,
    kind: IndexKind,
    *,
    metric: str | None = None,
    catch_up: CatchUp | None = None,
    together_with: Sequence[Coverage] = (),
    uses_indexes: bool = True,
) -> tuple[SearchSource, ...]:
    """List the sources: base fragments with and without an index, merged generations, fresh rows.

    Args:
        snapshot: of the table; may have more regions than are searched: their rows only supersede.
        masks: of the snapshot; None where no row supersedes another.
        regions: whose rows are searched.
        column: that is searched.
        kind: of index that serves the search.
        metric: of distances, for vectors; None for the one of `choose_index_metric`.
        catch_up: finds merged generations that answer for rows which the base table's index lacks; without
            it, such rows are searched without an index.
        together_with: of the other columns of a hybrid search. Its searches find a row in the same source.
        uses_indexes: whether indexes may find rows; without them, all rows are compared.

    Raises:
        LanceGatewayError: a source can't be read.
    """
    base = snapshot.base
    covered = find_coverage(base, column, kind, metric)
    if not uses_indexes:
        covered = covered.without_index()
    live = EVERYTHING_VISIBLE if masks is None else masks.base
    moved = MovedRows(live)
    if catch_up is not None:
        moved = catch_up.divide_rows(snapshot, regions, live, (covered, *together_with))
    numbers = itertools.count()
    sources = [*_divide_base(numbers, base, covered, moved)]
    searched = [region for region in snapshot.regions.values() if region.region_id in regions]
    generations = [generation.generation for generation in moved.generations]
    generations += [generation for region in searched for generation in region.generations]
    by_index = (
        choose_indexed_generations(base, generations, covered)
        if generations and covered.index
        else frozenset()
    )
    for one in moved.generations:
        asked = moved.by_index or one.generation.path in by_index
        sources += _build_generation_source(
            numbers, base, one.generation, one.rows, covered, one.live, by_index=asked
        )
    opened = {
        generation.path: generation.source(base) for region in searched for generation in region.generations
    }
    for region in searched:
        for generation in region.generations:
            shown = EVERYTHING_VISIBLE if masks is None else masks.generations[generation.path]
            rows, asked = opened[generation.path], generation.path in by_index
            sources += _build_generation_source(
                numbers, base, generation, rows, covered, shown, by_index=asked
            )
        if region.tail is not None:
            shown = EVERYTHING_VISIBLE if masks is None else masks.tails[region.region_id]
            sources.append(_build_tail_source(next(numbers), base, region.tail, shown))
    return tuple(sources)


def _divide_base(
    numbers: Iterator[int], base: BaseTable, covered: Coverage, moved: MovedRows
) -> Iterator[SearchSource]:
    uncovered = tuple(one for one in covered.uncovered if one not in moved.emptied)
    # Texts are tokenized once per source, which takes too long to repeat whenever rows are appended.
    flat = _split_fragments(uncovered) if covered.kind is IndexKind.TEXT else (uncovered,)
    for fragments, index in ((covered.covered, covered.index), *((one, None) for one in flat)):
        if fragments:
            identity, of_fragments = _name_base_rows(base, fragments, index)
            yield SearchSource(
                next(numbers),
                base.source,
                identity,
                moved.live,
                fragments,
                index,
                fragment_identities=of_fragments,
            )


def _split_fragments(fragments: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Split fragments into runs of 2^n, longest first, so that appends only change the last runs."""
    count, start = len(fragments), 0
    for power in reversed(range(count.bit_length())):
        if count & (1 << power):
            yield fragments[start : start + (1 << power)]
            start += 1 << power


def _build_generation_source(
    numbers: Iterator[int],
    base: BaseTable,
    generation: GenerationDataset,
    rows: LanceSource,
    covered: Coverage,
    live: RowMask,
    *,
    by_index: bool,
) -> Iterator[SearchSource]:
    """Build the source of a generation, unless it was written before the table had the vector column.

    Args:
        numbers: of sources.
        base: table.
        generation: of the table.
        rows: the same as a source.
        covered: which index of the base table serves the search.
        live: rows of the generation that are searched.
        by_index: whether its own index is used, if it has one.
    """
    if covered.kind is IndexKind.VECTOR and rows.stored.lacks(covered.column):
        return
    yield SearchSource(
        next(numbers),
        rows,
        _GenerationRowsName(generation.place, base.columns),
        live,
        tuple(sorted(generation.fragment_rows)),
        find_own_index(base, generation, covered) if by_index else None,
        generation.region_id,
    )


def _build_tail_source(number: int, base: BaseTable, tail: Tail, live: RowMask) -> SearchSource:
    stem = _TailRowsName(tail.log.number, base.columns)
    return SearchSource(
        number, tail.source, _FirstEntriesName(stem, tail.entries), live, region_id=tail.region_id, stem=stem
    )


def _name_base_rows(
    base: BaseTable, fragments: Sequence[int], index: DatasetIndex | None
) -> tuple[Hashable, Mapping[int, Hashable]]:
    """Build the cache keys of fragments of the base table, together and each.

    They hold files and deletions, which most commits leave unchanged for most fragments.
    """

    def build() -> tuple[Hashable, Mapping[int, Hashable]]:
        each = {
            one.fragment_id: intern(
                _FragmentRowsName, one.fragment_id, one.files, one.deletions, base.columns
            )
            for one in base.source.fragments.get_each(sorted(fragments))
        }
        segments = () if index is None else index.segments
        return intern(_BaseRowsName, tuple(each.values()), segments), each

    name = None if index is None else index.name
    return _keep(base, _IdentitiesName(tuple(fragments), name), build)


def _keep(base: BaseTable, key: Hashable, make: Callable[[], Value]) -> Value:
    """Return a value that is kept with a base version, computed on first use."""
    if key not in base.search_state:
        base.search_state[key] = make()
    known: Value = base.search_state[key]
    return known
