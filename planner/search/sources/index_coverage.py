"""Find the index that serves a column, and the fragments of the base table that it covers."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pyarrow as pa

from lance_gateway.execnodes.storage.data_files import Place
from lance_gateway.memwal.creating.index_types import finds_past_rows
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.sql.text.tokens import quote
from lance_gateway.planner.tables.sources.base_table import BaseTable, DatasetIndex
from lance_gateway.planner.tables.sources.generations import GenerationDataset

DEFAULT_METRIC = "l2"
HAMMING = "hamming"
_VECTOR_TYPES = ("IVF", "HNSW", "VECTOR")
_TEXT_TYPES = ("INVERTED", "FTS")
_POSITIONS = "with_position"


class IndexKind(Enum):
    """Kind of index that serves a search."""

    VECTOR = "vector"
    TEXT = "text"

    def is_kind_of(self, index: DatasetIndex) -> bool:
        """Return whether an index is of this kind."""
        prefixes = _VECTOR_TYPES if self is IndexKind.VECTOR else _TEXT_TYPES
        return index.type.upper().startswith(prefixes)


@dataclass(frozen=True, eq=False, slots=True)
class Coverage:
    """Index of a searched column, and the fragments of the base table that it covers.

    Attributes:
        column: that is searched.
        kind: of index that serves the search.
        index: that does; None where there is none.
        covered: fragments whose rows it has, ascending.
        uncovered: the other fragments, ascending.
    """

    column: str
    kind: IndexKind
    index: DatasetIndex | None
    covered: tuple[int, ...]
    uncovered: tuple[int, ...]

    def without_index(self) -> Coverage:
        """Return the coverage of the same column without an index."""
        return replace(
            self, index=None, covered=(), uncovered=tuple(sorted((*self.covered, *self.uncovered)))
        )


@dataclass(frozen=True, slots=True)
class _CoverageName:
    """Cache key of a coverage within a base version.

    Attributes:
        column: of the table.
        kind: of index.
        metric: of distances, for vectors.
    """

    column: str
    kind: IndexKind
    metric: str | None


def find_coverage(base: BaseTable, column: str, kind: IndexKind, metric: str | None = None) -> Coverage:
    """Find the index of a column and the fragments it covers; the same object for all queries of a version.

    Of several indexes it is the one that covers most rows; of those the youngest. One that does not have
    `finds_present_rows` says what is searched for (tokenizer) but covers nothing.

    Args:
        base: table.
        column: of the table.
        kind: of index.
        metric: of distances, for vectors; None for the one of `choose_index_metric`.
    """
    if kind is IndexKind.VECTOR and metric is None:
        metric = choose_index_metric(base, column)
    key = _CoverageName(column, kind, metric)
    known: Coverage | None = base.search_state.get(key)
    if known is None:
        known = base.search_state[key] = _find_coverage(base, column, kind, metric)
    return known


def choose_index_metric(base: BaseTable, column: str) -> str:
    """Choose the metric of a vector search that names none: that of the column's index.

    Of several metrics it is l2, or else the first by name, so that building an index further changes nothing.
    Without an index it is l2, and hamming for vectors of uint8, as Lance has it.
    """
    metrics = {get_metric(index) for index in _list_indexes(base, column, IndexKind.VECTOR)}
    if not metrics:
        vectors = base.schema.field(column).type
        is_bits = pa.types.is_fixed_size_list(vectors) and vectors.value_type == pa.uint8()
        return HAMMING if is_bits else DEFAULT_METRIC
    return DEFAULT_METRIC if DEFAULT_METRIC in metrics else min(metrics)


def get_metric(index: DatasetIndex) -> str:
    """Return the metric of a vector index."""
    return str(index.details.get("metric_type", DEFAULT_METRIC)).lower()


def find_text_index(base: BaseTable, column: str, shown: Container[str]) -> DatasetIndex:
    """Find the text index of a column, whose tokenizer defines its words.

    Args:
        base: the table.
        column: that is searched.
        shown: columns of which messages may speak.

    Raises:
        InvalidInputError: it has none.
    """
    found = find_coverage(base, column, IndexKind.TEXT).index
    if found is not None:
        return found
    columns = {index.columns[0] for index in base.indexes if IndexKind.TEXT.is_kind_of(index)}
    indexed = sorted(column for column in columns if column in shown)
    others = f"columns with one: {', '.join(map(repr, indexed))}" if indexed else "no column has one"
    msg = (
        f"column {column!r} of table {base.name!r} has no text index ({others}): build one, "
        f"CREATE INDEX ON {base.name} USING FTS ({quote(column)})"
    )
    raise InvalidInputError(msg)


def is_equivalent(one: DatasetIndex, other: DatasetIndex, kind: IndexKind) -> bool:
    """Return whether two indexes give the same results and scores for the same rows.

    For texts, one must also know where words stand in a text if the other one does.
    """
    if kind is IndexKind.VECTOR:
        return get_metric(one) == get_metric(other)
    if other.details.get(_POSITIONS) and not one.details.get(_POSITIONS):
        return False
    names = (one.details.keys() | other.details.keys()) - {_POSITIONS}
    return all(one.details.get(name) == other.details.get(name) for name in names)


def _list_indexes(base: BaseTable, column: str, kind: IndexKind) -> Iterable[DatasetIndex]:
    return (index for index in base.indexes if index.columns == (column,) and kind.is_kind_of(index))


def _find_coverage(base: BaseTable, column: str, kind: IndexKind, metric: str | None) -> Coverage:
    found = [
        index
        for index in _list_indexes(base, column, kind)
        if kind is IndexKind.TEXT or get_metric(index) == metric
    ]
    fragments = tuple(sorted(base.fragment_rows))

    def worth(index: DatasetIndex) -> tuple[int, int, str]:
        rows = sum(base.fragment_rows.get(fragment, 0) for fragment in index.fragments)
        return rows, index.changed_at, index.name

    index = max(found, key=worth, default=None)
    is_trusted = index is not None and finds_present_rows(index, base.dataset)
    has = index.fragments if index is not None and is_trusted else frozenset[int]()
    covered = tuple(fragment for fragment in fragments if fragment in has)
    return Coverage(
        column, kind, index, covered, tuple(fragment for fragment in fragments if fragment not in has)
    )


def finds_present_rows(index: DatasetIndex, dataset: Any) -> bool:  # noqa: ANN401 - lance types
    """Return whether an index of a `lance.LanceDataset` finds rows by what they have now."""
    return not (dataset.has_stable_row_ids and finds_past_rows(index.type, len(index.segments)))


MIN_VECTOR_BYTES = 32 << 20
"""Vectors that take less are kept in memory, where looking at all of them is exact and quicker than asking a
generation's index, a graph over quantised vectors."""
MAX_TOKENIZED_BYTES = 8 << 20
"""Generations with smaller files are tokenized once and cached, in about six times the size. A new word costs
a call of Lance in an index, and next to nothing in memory."""
MAX_ALL_TOKENIZED_BYTES = 24 << 20
"""The same for all generations of a search."""


@dataclass(frozen=True, slots=True)
class _OwnIndexName:
    """Cache key of a generation's index within a base version.

    Attributes:
        generation: whose index it is.
        column: of the table.
        kind: of index.
        index: name of the base table's.
    """

    generation: Place
    column: str
    kind: IndexKind
    index: str


def find_own_index(base: BaseTable, generation: GenerationDataset, of_base: Coverage) -> DatasetIndex | None:
    """Find the index of a generation that gives the same results as the base table's; None if there is none.

    A generation has indexes of the same names as the base table had when its first row was written: since
    then they may have been rebuilt, with another tokenizer or metric.

    Args:
        base: table.
        generation: of the table; may know the column under another name.
        of_base: what the base table has for the column.
    """
    if of_base.index is None:
        return None
    key = _OwnIndexName(generation.place, of_base.column, of_base.kind, of_base.index.name)
    if key not in base.search_state:
        base.search_state[key] = _search_own_index(base, generation, of_base, of_base.index)
    known: DatasetIndex | None = base.search_state[key]
    return known


def _search_own_index(
    base: BaseTable, generation: GenerationDataset, of_base: Coverage, alike: DatasetIndex
) -> DatasetIndex | None:
    stored = generation.source(base).stored.get(of_base.column)
    if stored is None or not stored.type.equals(base.schema.field(of_base.column).type):
        return None
    for index in generation.indexes:
        if (
            index.columns == (stored.name,)
            and of_base.kind.is_kind_of(index)
            and is_equivalent(index, alike, of_base.kind)
            and index.fragments.issuperset(generation.fragment_rows)
        ):
            return index
    return None


def choose_indexed_generations(
    base: BaseTable, generations: Iterable[GenerationDataset], of_base: Coverage
) -> frozenset[str]:
    """Return paths of the generations for which their index is faster than a scan.

    Args:
        base: table.
        generations: all that are searched: the texts of small ones must fit into memory together.
        of_base: what the base table has for the column.
    """
    if of_base.kind is IndexKind.VECTOR:
        row_bytes = count_vector_bytes(base.schema.field(of_base.column).type)
        return frozenset(
            generation.path for generation in generations if generation.rows * row_bytes >= MIN_VECTOR_BYTES
        )
    found, kept = [], 0
    for one in sorted(generations, key=lambda one: one.nbytes):
        kept += one.nbytes
        if one.nbytes > MAX_TOKENIZED_BYTES or kept > MAX_ALL_TOKENIZED_BYTES or not one.nbytes:
            found.append(one.path)
    return frozenset(found)


def count_vector_bytes(vectors: pa.DataType) -> int:
    """Return the bytes of one vector."""
    return int(vectors.list_size * vectors.value_type.bit_width // 8)
