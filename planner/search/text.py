"""Plan full-text search: one ranking over all sources."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from execnodes import ExecNode, RowFilter, UnionExec
from execnodes.search.empty import EmptyExec
from execnodes.search.limit import LimitExec
from execnodes.search.sort import SortExec
from execnodes.search.source import SCORE, TEXT_CANDIDATES, IndexDescription, SearchSource
from execnodes.source import ColumnCache
from execnodes.text.admission import AdmittedRows
from execnodes.text.analysis import analyze
from execnodes.text.corpus import Corpus
from execnodes.text.fts import FtsExec
from execnodes.text.global_bm25 import GlobalBM25Exec
from execnodes.text.query import TextQuery
from execnodes.text.tokenizer import Tokenizer
from memwal.errors import PreconditionError
from planner.base_table import BaseTable
from planner.byte_cache import ByteCache
from planner.search.coverage import described, text_index
from planner.search.source_texts import SourceTexts


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
    opened = SourceTexts(indexes, cache, deletions)
    texts = {one.number: opened.open(one) for one in visible}
    corpus = Corpus(query, opened.tokenizers, tuple(texts.values()), opened.quantized)
    searches = tuple(
        FtsExec(texts[one.number], corpus, k, AdmittedRows(one.live, row_filter)) for one in admitted
    )
    if not searches:
        return LimitExec(SortExec(EmptyExec(TEXT_CANDIDATES), SCORE, descending=True), k)
    found = GlobalBM25Exec(UnionExec(searches), corpus, k)
    return LimitExec(SortExec(found, SCORE, descending=True), k)
