"""The index that a flushed generation has itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from execnodes.data_files import Place
from planner.base_table import BaseTable
from planner.dataset_indexes import DatasetIndex
from planner.fresh_rows import GenerationDataset
from planner.search.coverage import Coverage, IndexKind, says_the_same

MIN_VECTOR_BYTES = 32 << 20
"""Vectors that take less are kept in memory, where looking at all of them is exact and quicker than asking a
generation's index, a graph over quantised vectors."""
MAX_TOKENIZED_BYTES = 8 << 20
"""Texts of a generation whose files take no more are taken apart once and kept, some six times as large. A
new word costs a call of Lance for each index that is asked, and next to nothing in memory."""
MAX_ALL_TOKENIZED_BYTES = 24 << 20
"""The same for all generations of a search."""


@dataclass(frozen=True, slots=True)
class _OwnIndex:
    """Names a generation's index, among what is known of a base version. Equal for the same index of that.

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


def own_index(base: BaseTable, generation: GenerationDataset, of_base: Coverage) -> DatasetIndex | None:
    """The index of a generation that answers as the base table's index would; None where there is none.

    A generation has indexes of the same names as the base table had when its first row was written: since
    then they may have been built anew, with another tokenizer or metric.

    Args:
        base: table.
        generation: of the table; may know the column under another name.
        of_base: what the base table has for the column.
    """
    if of_base.index is None:
        return None
    key = _OwnIndex(generation.place, of_base.column, of_base.kind, of_base.index.name)
    if key not in base.searched_as:
        base.searched_as[key] = _own_index(base, generation, of_base, of_base.index)
    known: DatasetIndex | None = base.searched_as[key]
    return known


def _own_index(
    base: BaseTable, generation: GenerationDataset, of_base: Coverage, alike: DatasetIndex
) -> DatasetIndex | None:
    stored = generation.source(base).stored.get(of_base.column)
    if stored is None or not stored.type.equals(base.schema.field(of_base.column).type):
        return None
    for index in generation.indexes:
        if (
            index.columns == (stored.name,)
            and of_base.kind.serves(index)
            and says_the_same(index, alike, of_base.kind)
            and index.fragments.issuperset(generation.fragment_rows)
        ):
            return index
    return None


def asked_by_index(
    base: BaseTable, generations: Iterable[GenerationDataset], of_base: Coverage
) -> frozenset[str]:
    """Paths of the generations whose own indexes take less time to ask than their rows to look at.

    Args:
        base: table.
        generations: all that are searched: what is kept of small ones must fit into memory together.
        of_base: what the base table has for the column.
    """
    if of_base.kind is IndexKind.VECTOR:
        row_bytes = vector_bytes(base.schema.field(of_base.column).type)
        return frozenset(one.path for one in generations if one.rows * row_bytes >= MIN_VECTOR_BYTES)
    found, kept = [], 0
    for one in sorted(generations, key=lambda one: one.nbytes):
        kept += one.nbytes
        if one.nbytes > MAX_TOKENIZED_BYTES or kept > MAX_ALL_TOKENIZED_BYTES or not one.nbytes:
            found.append(one.path)
    return frozenset(found)


def vector_bytes(vectors: pa.DataType) -> int:
    """Bytes of one vector."""
    return int(vectors.list_size * vectors.value_type.bit_width // 8)
