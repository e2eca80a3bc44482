"""Which sources a search has.

The rows of a snapshot are divided among sources so that every live row is in exactly one of them, and so that
the rows of a source are covered by one index, or by none. What is found out belongs to immutable things, a
base version or a generation, and is kept with them: a query only puts it together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from execnodes.rows.row_mask import EVERYTHING_VISIBLE, RowMask
from execnodes.search.source import SearchSource
from execnodes.storage.data_files import Columns, Deletions, FragmentFiles, Place, intern
from execnodes.storage.source import LanceSource
from planner.search.sources.catch_up import CatchUp, MovedRows
from planner.search.sources.index_coverage import (
    Coverage,
    IndexKind,
    asked_by_index,
    coverage,
    own_index,
)
from planner.tables.sources.base_table import BaseTable, DatasetIndex
from planner.tables.sources.generations import GenerationDataset
from planner.tables.sources.log_tail import Tail
from planner.tables.sources.snapshot import TableSnapshot
from planner.tables.visibility.visibility import SnapshotMasks

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class _FragmentRows:
    """Names the rows of a fragment.

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
class _BaseRows:
    """Names the rows of several fragments.

    `intern` where the rows of each are, and the same index covers them.

    Attributes:
        fragments: by their ids.
        segments: ids of the segments of the index; none where no index covers them.
    """

    fragments: tuple[_FragmentRows, ...]
    segments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _GenerationRows:
    """Names the rows of a generation. Equal for the same one, read as the same columns."""

    place: Place
    columns: Columns


@dataclass(frozen=True, slots=True)
class _TailRowsName:
    """Names a region's log, of which there are more and more rows.

    Equal for the same one, read as the same columns.

    Attributes:
        number: `TailRows.number`.
        columns: of the table.
    """

    number: int
    columns: Columns


@dataclass(frozen=True, slots=True)
class _FirstEntries:
    """Names the rows of the first so many entries of a log."""

    log: _TailRowsName
    entries: int


@dataclass(frozen=True, slots=True)
class _Identities:
    """Names what `_base_identity` found out about a base version.

    Attributes:
        fragments: ids.
        index: name of the one that covers them; None where none does.
    """

    fragments: tuple[int, ...]
    index: str | None


def search_sources(
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
    """The base table where an index covers it and where none does, merged generations, fresh rows.

    Args:
        snapshot: of the table; may have more regions than are searched: their rows only supersede.
        masks: of the snapshot; None where no row supersedes another.
        regions: whose rows are searched.
        column: that is searched.
        kind: of index that serves the search.
        metric: of distances, for vectors; None for the one of `index_metric`.
        catch_up: finds merged generations that answer for rows which the base table's index lacks; without
            it, such rows are searched without an index.
        together_with: of the other columns of a hybrid search. Its searches find a row in the same source.
        uses_indexes: whether indexes may find rows; without them, all rows are compared.

    Raises:
        LanceGatewayError: a source can't be read.
    """
    base = snapshot.base
    covered = coverage(base, column, kind, metric)
    if not uses_indexes:
        covered = covered.without_index()
    live = EVERYTHING_VISIBLE if masks is None else masks.base
    moved = MovedRows(live)
    if catch_up is not None:
        moved = catch_up.moved(snapshot, regions, live, (covered, *together_with))
    numbers = itertools.count()
    sources = [*_of_base(numbers, base, covered, moved)]
    searched = [region for region in snapshot.regions.values() if region.region_id in regions]
    generations = [one.generation for one in moved.generations]
    generations += [one for region in searched for one in region.generations]
    by_index = asked_by_index(base, generations, covered) if generations and covered.index else frozenset()
    for one in moved.generations:
        asked = moved.by_index or one.generation.path in by_index
        sources += _of_generation(numbers, base, one.generation, one.rows, covered, one.live, by_index=asked)
    for region in searched:
        for generation in region.generations:
            shown = EVERYTHING_VISIBLE if masks is None else masks.generations[generation.path]
            rows, asked = generation.source(base), generation.path in by_index
            sources += _of_generation(numbers, base, generation, rows, covered, shown, by_index=asked)
        if region.tail is not None:
            shown = EVERYTHING_VISIBLE if masks is None else masks.tails[region.region_id]
            sources.append(_of_tail(next(numbers), base, region.tail, shown))
    return tuple(sources)


def _of_base(
    numbers: Iterator[int], base: BaseTable, covered: Coverage, moved: MovedRows
) -> Iterator[SearchSource]:
    uncovered = tuple(one for one in covered.uncovered if one not in moved.emptied)
    # Texts are taken apart once for each source: it takes too long to begin anew whenever rows are appended.
    flat = _stretches(uncovered) if covered.kind is IndexKind.TEXT else (uncovered,)
    for fragments, index in ((covered.covered, covered.index), *((one, None) for one in flat)):
        if fragments:
            identity, of_fragments = _base_identity(base, fragments, index)
            yield SearchSource(
                next(numbers),
                base.source,
                identity,
                moved.live,
                fragments,
                index,
                fragment_identities=of_fragments,
            )


def _stretches(fragments: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Fragments in stretches of 2^n, longest first, so that one more of them changes only the last ones."""
    count, start = len(fragments), 0
    for power in reversed(range(count.bit_length())):
        if count & (1 << power):
            yield fragments[start : start + (1 << power)]
            start += 1 << power


def _of_generation(
    numbers: Iterator[int],
    base: BaseTable,
    generation: GenerationDataset,
    rows: LanceSource,
    covered: Coverage,
    live: RowMask,
    *,
    by_index: bool,
) -> Iterator[SearchSource]:
    """A generation; but one that was written before the table had the column has no vectors.

    Args:
        numbers: of sources.
        base: table.
        generation: of the table.
        rows: the same as a source.
        covered: which index of the base table serves the search.
        live: rows of the generation that are searched.
        by_index: whether its own index is asked, if it has one.
    """
    if covered.kind is IndexKind.VECTOR and covered.column not in rows.stored:
        return
    yield SearchSource(
        next(numbers),
        rows,
        _GenerationRows(generation.place, base.columns),
        live,
        tuple(sorted(generation.fragment_rows)),
        own_index(base, generation, covered) if by_index else None,
        generation.region_id,
    )


def _of_tail(number: int, base: BaseTable, tail: Tail, live: RowMask) -> SearchSource:
    stem = _TailRowsName(tail.log.number, base.columns)
    return SearchSource(
        number, tail.source, _FirstEntries(stem, tail.entries), live, region_id=tail.region_id, stem=stem
    )


def _base_identity(
    base: BaseTable, fragments: Sequence[int], index: DatasetIndex | None
) -> tuple[Hashable, Mapping[int, Hashable]]:
    """Names some fragments of the base table, all together and each on its own.

    By their files and by the rows that are deleted: a commit leaves most of what is known as it was.
    """

    def found() -> tuple[Hashable, Mapping[int, Hashable]]:
        each = {
            one.fragment_id: intern(_FragmentRows, one.fragment_id, one.files, one.deletions, base.columns)
            for one in base.source.fragments.get_each(sorted(fragments))
        }
        segments = () if index is None else index.segments
        return intern(_BaseRows, tuple(each.values()), segments), each

    name = None if index is None else index.name
    return _kept(base, _Identities(tuple(fragments), name), found)


def _kept(base: BaseTable, key: Hashable, make: Callable[[], Value]) -> Value:
    """What was found out about a version before, or now."""
    if key not in base.searched_as:
        base.searched_as[key] = make()
    known: Value = base.searched_as[key]
    return known
