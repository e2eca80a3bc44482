"""Plan full-text search: one ranking over all sources."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from execnodes import ExecNode, RowFilter, UnionExec
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
from execnodes.text.source_text import SourceText
from execnodes.text.text_index import IndexedDocuments, read_documents
from execnodes.text.tokenizer import Tokenizer
from memwal.errors import PreconditionError
from planner.base_table import BaseTable
from planner.byte_cache import ByteCache
from planner.dataset_indexes import dataset_indexes
from planner.search.coverage import IndexKind, described, text_index

_QUANTIZED_BLOCK = 256


def text_indexes(base: BaseTable, query: TextQuery) -> dict[str, IndexDescription]:
    """The base table's text index on each column of a query: by its tokenizer all rows are searched.

    Raises:
        InvalidInputError: a column has none.
        UnsupportedError: a column's index tokenizes in a way that can't be repeated.
        PreconditionError: an index that can't answer the query's phrases.
    """
    found = {column: described(text_index(base, column)) for column in query.columns}
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
    if isinstance(source.rows, MemTableSource):
        numbers = RowNumbers({0: source.rows.rows.num_rows})
        columns: dict[str, ColumnDocuments] = {
            column: _tokenized(source, column, tokenizer, numbers, cache)
            for column, tokenizer in tokenizers.items()
        }
        return SourceText(source, columns, numbers, cache, deletions)
    dataset: Any = source.rows.dataset
    wanted = set(source.fragments)
    numbers = RowNumbers(
        {one.fragment_id: one.physical_rows for one in dataset.get_fragments() if one.fragment_id in wanted}
    )
    columns = {}
    for column, tokenizer in tokenizers.items():
        index = _own_index(source, column)
        if index is not None and _serves(index, tokenizer, quantized=column in quantizes):
            columns[column] = IndexedDocuments(
                source.rows,
                column,
                index.name,
                column in quantizes,
                tokenizer,
                numbers,
                source.identity,
                cache,
            )
        else:
            columns[column] = _tokenized(source, column, tokenizer, numbers, cache)
    return SourceText(source, columns, numbers, cache, deletions)


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


def _own_index(source: SearchSource, column: str) -> IndexDescription | None:
    """The index of the source's dataset on a column, where it covers the source."""
    rows = source.rows
    if source.index is None or not isinstance(rows, LanceSource) or column not in rows.stored_names:
        return None
    for index in dataset_indexes(rows.dataset):
        if (
            index.columns == (rows.stored_names[column],)
            and IndexKind.TEXT.serves(index)
            and index.fragments.issuperset(source.fragments)
        ):
            return described(index)
    return None


def _serves(index: IndexDescription, tokenizer: Tokenizer, *, quantized: bool) -> bool:
    return Tokenizer.of(index.details) == tokenizer and _quantizes(index) == quantized


def _quantizes(index: IndexDescription) -> bool:
    return index.details.get("block_size") == _QUANTIZED_BLOCK
