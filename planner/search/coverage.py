"""Which index serves a column, and which fragments of the base table it covers."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa

from execnodes.search.source import IndexDescription
from memwal.errors import InvalidInputError
from planner.base_table import BaseTable
from planner.dataset_indexes import DatasetIndex

DEFAULT_METRIC = "l2"
HAMMING = "hamming"
_VECTOR_TYPES = ("IVF", "HNSW", "VECTOR")
_TEXT_TYPES = ("INVERTED", "FTS")
_POSITIONS = "with_position"


class IndexKind(Enum):
    """What kind of index serves a search."""

    VECTOR = "vector"
    TEXT = "text"

    def serves(self, index: DatasetIndex) -> bool:
        """Whether an index is of this kind."""
        prefixes = _VECTOR_TYPES if self is IndexKind.VECTOR else _TEXT_TYPES
        return index.type.upper().startswith(prefixes)


@dataclass(frozen=True, eq=False, slots=True)
class Coverage:
    """How far an index helps a search of the base table.

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
        """The same column where no index finds its rows."""
        return replace(
            self, index=None, covered=(), uncovered=tuple(sorted((*self.covered, *self.uncovered)))
        )


def described(index: DatasetIndex) -> IndexDescription:
    """What a search node has to know of an index."""
    return IndexDescription(index.name, index.type, index.details)


@dataclass(frozen=True, slots=True)
class _Covered:
    """Names what indexes cover, among what is known of a base version. Equal for the same kind of index.

    Attributes:
        column: of the table.
        kind: of index.
        metric: of distances, for vectors.
    """

    column: str
    kind: IndexKind
    metric: str | None


def coverage(base: BaseTable, column: str, kind: IndexKind, metric: str | None = None) -> Coverage:
    """The index of a column and the fragments it covers; the same object for every query of a version.

    Of several indexes it is the one that covers most rows; of those the youngest. The index of a table with
    stable row ids says what is searched for (metric, tokenizer) but covers nothing.

    Args:
        base: table.
        column: of the table.
        kind: of index.
        metric: of distances, for vectors; None for the one of `index_metric`.
    """
    if kind is IndexKind.VECTOR and metric is None:
        metric = index_metric(base, column)
    key = _Covered(column, kind, metric)
    known: Coverage | None = base.searched_as.get(key)
    if known is None:
        known = base.searched_as[key] = _coverage(base, column, kind, metric)
    return known


def index_metric(base: BaseTable, column: str) -> str:
    """The metric of a vector search that names none: that of the column's index.

    Of several metrics it is l2, or else the first by name, so that building an index further changes nothing.
    Without an index it is l2, and hamming for vectors of uint8, as Lance has it.
    """
    metrics = {metric_of(index) for index in _indexes(base, column, IndexKind.VECTOR)}
    if not metrics:
        vectors = base.schema.field(column).type
        is_bits = pa.types.is_fixed_size_list(vectors) and vectors.value_type == pa.uint8()
        return HAMMING if is_bits else DEFAULT_METRIC
    return DEFAULT_METRIC if DEFAULT_METRIC in metrics else min(metrics)


def metric_of(index: DatasetIndex) -> str:
    """The metric of a vector index."""
    return str(index.details.get("metric_type", DEFAULT_METRIC)).lower()


def text_index(base: BaseTable, column: str, shown: Container[str]) -> DatasetIndex:
    """The text index of a column, whose tokenizer says what its words are.

    Args:
        base: the table.
        column: that is searched.
        shown: columns of which messages may speak.

    Raises:
        InvalidInputError: it has none.
    """
    found = coverage(base, column, IndexKind.TEXT).index
    if found is not None:
        return found
    columns = {index.columns[0] for index in base.indexes if IndexKind.TEXT.serves(index)}
    indexed = sorted(one for one in columns if one in shown)
    others = f"columns with one: {', '.join(map(repr, indexed))}" if indexed else "no column has one"
    msg = (
        f"column {column!r} of table {base.name!r} has no text index ({others}): build one with pylance, "
        f"dataset.create_scalar_index({column!r}, 'INVERTED')"
    )
    raise InvalidInputError(msg)


def says_the_same(one: DatasetIndex, other: DatasetIndex, kind: IndexKind) -> bool:
    """Whether what an index finds, and how well it matches, is what the other one would say of its rows.

    For texts, one must also know where words stand in a text if the other one does.
    """
    if kind is IndexKind.VECTOR:
        return metric_of(one) == metric_of(other)
    if other.details.get(_POSITIONS) and not one.details.get(_POSITIONS):
        return False
    names = (one.details.keys() | other.details.keys()) - {_POSITIONS}
    return all(one.details.get(name) == other.details.get(name) for name in names)


def _indexes(base: BaseTable, column: str, kind: IndexKind) -> Iterable[DatasetIndex]:
    return (index for index in base.indexes if index.columns == (column,) and kind.serves(index))


def _coverage(base: BaseTable, column: str, kind: IndexKind, metric: str | None) -> Coverage:
    found = [
        index
        for index in _indexes(base, column, kind)
        if kind is IndexKind.TEXT or metric_of(index) == metric
    ]
    fragments = tuple(sorted(base.fragment_rows))

    def worth(index: DatasetIndex) -> tuple[int, int, str]:
        rows = sum(base.fragment_rows.get(one, 0) for one in index.fragments)
        return rows, index.changed_at, index.name

    index = max(found, key=worth, default=None)
    # Indexes of tables with stable row ids go on finding rows that were deleted or that read otherwise now.
    is_trusted = index is not None and not base.dataset.has_stable_row_ids
    has = index.fragments if index is not None and is_trusted else frozenset[int]()
    covered = tuple(one for one in fragments if one in has)
    return Coverage(column, kind, index, covered, tuple(one for one in fragments if one not in has))
