"""Plan full-text search: one ranking over all sources."""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from execnodes import ExecNode, RowFilter, RowMask, UnionExec
from execnodes.search.empty import EmptyExec
from execnodes.search.limit import LimitExec
from execnodes.search.sort import SortExec
from execnodes.search.source import SCORE, TEXT_CANDIDATES, IndexDescription, SearchSource
from execnodes.source import ColumnCache, LanceSource, MemTableSource
from execnodes.text.admission import AdmittedRows
from execnodes.text.analysis import analyze
from execnodes.text.corpus import Corpus
from execnodes.text.documents import ColumnDocuments
from execnodes.text.fts import FtsExec
from execnodes.text.global_bm25 import GlobalBM25Exec
from execnodes.text.postings import TokenPostings
from execnodes.text.query import TextQuery
from execnodes.text.rows import RowNumbers
from execnodes.text.source_text import LiveRows, SourceText
from execnodes.text.text_index import IndexedDocuments, read_documents
from execnodes.text.tokenizer import Tokenizer
from memwal.errors import PreconditionError
from planner.base_table import BaseTable
from planner.byte_cache import ByteCache
from planner.dataset_indexes import dataset_indexes
from planner.search.coverage import IndexKind, described, text_index

_QUANTIZED_BLOCK = 256
_ENTRY_BYTES = 512


def text_indexes(base: BaseTable, query: TextQuery, shown: Container[str]) -> dict[str, IndexDescription]:
    """The base table's text index on each column of a query: by its tokenizer all rows are searched.

    Args:
        base: the table.
        query: what is searched for.
        shown: columns of which messages may speak.

    Raises:
        InvalidInputError: a column has none.
        UnsupportedError: a column's index tokenizes in a way that can't be repeated.
        PreconditionError: an index that can't answer the query's phrases.
    """
    found = {column: described(text_index(base, column, shown)) for column in query.columns}
    tokenizers = {column: Tokenizer.of(index.details) for column, index in found.items()}
    for phrase in analyze(query, tokenizers).phrases:
        if not found[phrase.column].details.get("with_position"):
            msg = (
                f"the text index {found[phrase.column].name!r} on column {phrase.column!r} of table "
                f"{base.name!r} doesn't know where words stand, which a phrase needs: build it anew with "
                "with_position=True"
            )
            raise PreconditionError(msg)
    return found


def plan_text(
    visible: Sequence[SearchSource],
    admitted: Sequence[SearchSource],
    query: TextQuery,
    k: int,
    row_filter: RowFilter | None,
    indexes: Mapping[str, IndexDescription],
    cache: ByteCache,
    deletions: ColumnCache,
) -> ExecNode:
    """``LimitExec(SortExec(GlobalBM25Exec(UnionExec(FtsExec...))))``, giving `TEXT_CANDIDATES`.

    Args:
        visible: sources of all regions; their live rows are what statistics are about.
        admitted: those in which rows are to be found, by the same numbers, their masks perhaps narrower.
        query: what is searched for.
        k: rows wanted.
        row_filter: what rows must fulfil to be found.
        indexes: as `text_indexes` finds them for the columns of the query.
        cache: keeps postings and statistics.
        deletions: knows which rows Lance has deleted.
    """
    tokenizers = {column: Tokenizer.of(indexes[column].details) for column in query.columns}
    quantizes = frozenset(column for column in query.columns if _quantizes(indexes[column]))
    texts = {one.number: _text(one, tokenizers, quantizes, cache, deletions) for one in visible}
    corpus = Corpus(query, tokenizers, tuple(texts.values()), quantizes)
    searches = tuple(
        FtsExec(texts[one.number], corpus, k, AdmittedRows(one.live, row_filter)) for one in admitted
    )
    if not searches:
        return LimitExec(SortExec(EmptyExec(TEXT_CANDIDATES), SCORE, descending=True), k)
    found = GlobalBM25Exec(UnionExec(searches), corpus, k)
    return LimitExec(SortExec(found, SCORE, descending=True), k)


def _text(
    source: SearchSource,
    tokenizers: Mapping[str, Tokenizer],
    quantizes: frozenset[str],
    cache: ByteCache,
    deletions: ColumnCache,
) -> SourceText:
    rows = _live_rows(source, cache, deletions)
    columns = {
        column: _documents(source, column, tokenizer, column in quantizes, rows.numbers, cache)
        for column, tokenizer in tokenizers.items()
    }
    return SourceText(source, columns, rows, cache)


def _live_rows(source: SearchSource, cache: ByteCache, deletions: ColumnCache) -> LiveRows:
    """The rows of a source that are shown and not deleted; the same object while they are the same."""
    shown = source.live.fragments
    masks = ((one, shown.get(one)) for one in source.fragments)
    key = ("text rows", source.identity, tuple((one, mask and mask.digests) for one, mask in masks))

    def find() -> LiveRows:
        rows = source.rows
        if isinstance(rows, MemTableSource):
            numbers = RowNumbers({0: rows.rows.num_rows})
            return LiveRows(numbers, numbers.flags(source.live), key)
        dataset: Any = rows.dataset
        numbers = RowNumbers({one: dataset.get_fragment(one).physical_rows for one in source.fragments})
        found = {one: deletions.visible(rows, one, shown.get(one)) for one in source.fragments}
        mask = RowMask({one: visible for one, visible in found.items() if visible is not None})
        return LiveRows(numbers, numbers.flags(mask), key)

    return cache.compute(key, find, lambda found: found.flags.nbytes + _ENTRY_BYTES)


def _documents(
    source: SearchSource,
    column: str,
    tokenizer: Tokenizer,
    quantizes: bool,  # noqa: FBT001 (of the index that decides)
    numbers: RowNumbers,
    cache: ByteCache,
) -> ColumnDocuments:
    rows = source.rows
    index = _own_index(source, column, cache)
    if index is not None and isinstance(rows, LanceSource):
        same = Tokenizer.of(index.details) == tokenizer and _quantizes(index) == quantizes
        if same:
            return IndexedDocuments(
                rows, column, index.name, quantizes, tokenizer, numbers, source.identity, cache
            )
    return _tokenized(source, column, tokenizer, numbers, cache)


def _tokenized(
    source: SearchSource, column: str, tokenizer: Tokenizer, numbers: RowNumbers, cache: ByteCache
) -> TokenPostings:
    key: Hashable = ("text documents", source.identity, column, tokenizer)

    def read() -> TokenPostings:
        rows = source.rows
        if isinstance(rows, LanceSource):
            return read_documents(rows, column, tokenizer, numbers)
        texts = rows.rows.column(column)
        return TokenPostings.of(tokenizer, texts, np.arange(numbers.count), numbers.count)

    return cache.compute(key, read, lambda found: found.nbytes)


def _own_index(source: SearchSource, column: str, cache: ByteCache) -> IndexDescription | None:
    """The index of the source's dataset on a column, where it covers the source."""
    rows = source.rows
    if source.index is None or not isinstance(rows, LanceSource) or column not in rows.stored_names:
        return None

    def find() -> tuple[IndexDescription, ...]:
        return tuple(
            described(index)
            for index in dataset_indexes(rows.dataset)
            if index.columns == (rows.stored_names[column],)
            and IndexKind.TEXT.serves(index)
            and index.fragments.issuperset(source.fragments)
        )

    found = cache.compute(("text index", source.identity, column), find, lambda _: _ENTRY_BYTES)
    return next((one for one in found if one.name == source.index.name), found[0] if found else None)


def _quantizes(index: IndexDescription) -> bool:
    return index.details.get("block_size") == _QUANTIZED_BLOCK
