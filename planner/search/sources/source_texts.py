"""Texts of a search's sources: from indexes, or read and tokenized once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lance_gateway.execnodes import RowMask
from lance_gateway.execnodes.rows.row_mask import ShownRows
from lance_gateway.execnodes.search.source import IndexDescription, SearchSource
from lance_gateway.execnodes.storage.data_files import Place, intern
from lance_gateway.execnodes.storage.source import ColumnCache, LanceSource, MemTableSource
from lance_gateway.execnodes.text.documents.column_documents import ColumnDocuments, RowNumbers
from lance_gateway.execnodes.text.documents.joined_text import JoinedSources
from lance_gateway.execnodes.text.documents.source_text import (
    GrowingPostings,
    LiveText,
    SourceText,
    TokenPostings,
)
from lance_gateway.execnodes.text.documents.text_index import IndexedDocuments, IndexName, read_documents
from lance_gateway.execnodes.text.query.tokenizer import Tokenizer
from lance_gateway.planner.search.sources.index_coverage import IndexKind, finds_present_rows
from lance_gateway.planner.tables.sources.base_table import has_moved_rows, list_dataset_indexes
from lance_gateway.planner.tables.sources.caches import ByteCache

_QUANTIZED_BLOCK = 256
_FEW_ROWS = 8_192
"""Sources with so many rows are joined: to score all that match takes less time than to look for the best."""


@dataclass(frozen=True, slots=True)
class _TermsName:
    """Cache key of the terms and scores of a column.

    Attributes:
        column: of the table.
        tokenizer: makes terms of texts.
        quantizes: whether scores come from rounded lengths.
        has_positions: whether an index that answers like it must know where words stand.
    """

    column: str
    tokenizer: Tokenizer
    quantizes: bool
    has_positions: bool


@dataclass(frozen=True, slots=True)
class _LiveTextName:
    """Cache key of a `LiveText`.

    Attributes:
        source: see `SearchSource.identity`.
        is_read: whether the texts are read, rather than an index of the source asked.
        shown: rows that are visible.
        made_by: of each searched column; the first one decided which index the source has.
    """

    source: Hashable
    is_read: bool
    shown: ShownRows
    made_by: tuple[_TermsName, ...]


@dataclass(frozen=True, slots=True)
class _TailTextName:
    """Cache key of the last `LiveText` of a log; the value tells its rows."""

    stem: Hashable
    made_by: tuple[_TermsName, ...]


@dataclass(frozen=True, slots=True)
class _DocumentsName:
    """Cache key of the terms of a column of a source."""

    source: Hashable
    column: str
    tokenizer: Tokenizer


@dataclass(frozen=True, slots=True)
class _TailDocumentsName:
    """Cache key of the terms of a column of a log; the value tells its rows."""

    stem: Hashable
    column: str
    tokenizer: Tokenizer


@dataclass(frozen=True, slots=True)
class _OpenTextsName:
    """Cache key of the texts of the sources that a table was last divided into; the value tells these."""

    place: Place
    made_by: tuple[_TermsName, ...]


@dataclass(frozen=True, eq=False)
class OpenTexts:
    """Texts of all sources of a search.

    Attributes:
        sources: whose texts they are.
        texts: of each, by its number.
        joined: those of small sources, joined: of generations and of the base table, and of logs.
    """

    sources: Sequence[SearchSource]
    texts: Mapping[int, LiveText]
    joined: tuple[JoinedSources, ...]

    @staticmethod
    def of(
        sources: Sequence[SearchSource], texts: Mapping[int, LiveText], before: OpenTexts | None
    ) -> OpenTexts:
        """Join the texts of small sources.

        Args:
            sources: whose texts they are.
            texts: of each, by its number.
            before: others of the same table, whose joined documents are taken over where they are the same.
        """
        small = [one for one in sources if one.index is None and texts[one.number].numbers.count <= _FEW_ROWS]
        # Logs grow with each write, which leaves the documents of the others as they are.
        groups = ([one for one in small if one.stem is None], [one for one in small if one.stem is not None])
        known = () if before is None else before.joined
        return OpenTexts(
            sources,
            texts,
            tuple(
                JoinedSources.of({one.number: texts[one.number] for one in group}, known)
                for group in groups
                if len(group) > 1
            ),
        )

    @cached_property
    def group_of(self) -> Mapping[int, JoinedSources]:
        """Number of a source -> the joined ones that it is among; others are absent."""
        return {number: joined for joined in self.joined for number in joined.numbers}

    @cached_property
    def corpus(self) -> tuple[LiveText, ...]:
        """The texts of all sources, joined where they can be."""
        apart = (text for number, text in self.texts.items() if number not in self.group_of)
        return (*(one.text for one in self.joined), *apart)

    def find(self, place: int, source: SearchSource) -> LiveText | None:
        """Return the text of a source if one with the same rows, live and dead, has the same place here."""
        if place >= len(self.sources):
            return None
        known = self.sources[place]
        is_same = (
            known.live is source.live
            and (known.index is None) == (source.index is None)
            and known.identity == source.identity
        )
        return self.texts[known.number] if is_same else None

    @property
    def nbytes(self) -> int:
        """Bytes of all that is held, which the cache may have evicted otherwise."""
        texts = {*self.texts.values(), *self.corpus}
        documents = {one for text in texts for one in text.columns.values()}
        rows = (one.rows.rows for one in self.sources if isinstance(one.rows, MemTableSource))
        return (
            sum(text.nbytes for text in texts)
            + sum(one.nbytes for one in documents)
            + sum(int(one.nbytes) for one in rows)
        )


@dataclass(frozen=True, eq=False)
class SourceTexts:
    """Open the texts of sources with the terms of the base table's indexes.

    Args:
        indexes: column -> the base table's index; sources were divided by the index on the first column.
        cache: keeps documents and postings.
        deletions: knows which rows Lance has deleted.
        place: of the table; None where nothing is kept of all its texts together.
    """

    indexes: Mapping[str, IndexDescription]
    cache: ByteCache
    deletions: ColumnCache
    place: Place | None = None

    @cached_property
    def tokenizers(self) -> Mapping[str, Tokenizer]:
        """Tokenizer of each column."""
        return {column: Tokenizer.of(index.details) for column, index in self.indexes.items()}

    @cached_property
    def quantized(self) -> frozenset[str]:
        """Columns whose index scores with rounded lengths."""
        return frozenset(column for column, index in self.indexes.items() if _has_quantized_lengths(index))

    def open(self, sources: Sequence[SearchSource], *, keeps: bool = False) -> OpenTexts:
        """Open the texts of sources.

        Args:
            sources: of one search.
            keeps: whether others will search the same sequence of sources.

        Raises:
            LanceGatewayError: one can't be read.
        """
        if self.place is None or not keeps:
            return self._open(sources, None)
        name = _OpenTextsName(self.place, self._term_names)
        known: OpenTexts | None = self.cache.get(name)
        if known is None or known.sources is not sources:
            known = self._open(sources, known)
            self.cache.put(name, known, known.nbytes)
        return known

    def _open(self, sources: Sequence[SearchSource], before: OpenTexts | None) -> OpenTexts:
        texts = {}
        for place, source in enumerate(sources):
            text = None if before is None else before.find(place, source)
            texts[source.number] = text or self._build_live_text(source)
        return OpenTexts.of(sources, texts, before)

    def select(self, opened: OpenTexts, source: SearchSource) -> SourceText:
        """Return the texts of a source for one query."""
        return SourceText(source, opened.texts[source.number], self.tokenizers, self.cache)

    def _build_live_text(self, source: SearchSource) -> LiveText:
        """Return the texts of a source with its live rows; the same object until they change."""

        def find() -> LiveText:
            numbers, live = self._list_rows(source)
            columns = {column: self._open_documents(source, column, numbers) for column in self.indexes}
            return LiveText(columns, numbers, live)

        digests = source.live.digests(source.fragments)
        state = _LiveTextName(source.identity, source.index is None, digests, self._term_names)
        if source.stem is None:
            return self.cache.compute(state, find)
        # Of a growing tail only the last state is kept: every other would hold on to texts of its own.
        key = _TailTextName(source.stem, self._term_names)
        known: tuple[_LiveTextName, LiveText] | None = self.cache.get(key)
        if known is None or known[0] != state:
            known = state, find()
            self.cache.put(key, known, known[1].nbytes)
        return known[1]

    @cached_property
    def _term_names(self) -> tuple[_TermsName, ...]:
        return tuple(
            _TermsName(
                column,
                self.tokenizers[column],
                quantizes=column in self.quantized,
                has_positions=bool(index.details.get("with_position")),
            )
            for column, index in self.indexes.items()
        )

    def _list_rows(self, source: SearchSource) -> tuple[RowNumbers, np.ndarray]:
        rows = source.rows
        if isinstance(rows, MemTableSource):
            numbers = RowNumbers({0: rows.rows.num_rows})
            return numbers, numbers.flags(source.live)
        fragments = rows.fragments.get_each(source.fragments)
        numbers = RowNumbers({fragment.fragment_id: fragment.physical_rows for fragment in fragments})
        visible = zip(
            source.fragments, self.deletions.visible(rows, source.fragments, source.live), strict=True
        )
        return numbers, numbers.flags(RowMask({one: mask for one, mask in visible if mask is not None}))

    def _open_documents(self, source: SearchSource, column: str, numbers: RowNumbers) -> ColumnDocuments:
        index = self._find_own_index(source, column)
        if index is None or not self._has_same_terms(column, index):
            return self._tokenize(source, column, numbers)
        quantizes = column in self.quantized
        name = intern(IndexName, source.identity, column, index.name, self.tokenizers[column], quantizes)

        def open_index() -> ColumnDocuments:
            rows = source.rows
            assert isinstance(rows, LanceSource)  # noqa: S101 - it has an index
            indexed = IndexedDocuments(rows, name, numbers, self.cache)
            # Segments of a table with stable row ids that were folded too late: see `finds_past_rows`.
            return self._tokenize(source, column, numbers) if indexed.has_repeated_rows else indexed

        return self.cache.compute(name, open_index)

    def _tokenize(self, source: SearchSource, column: str, numbers: RowNumbers) -> ColumnDocuments:
        tokenizer = self.tokenizers[column]
        if source.stem is not None and isinstance(source.rows, MemTableSource):
            grown_as = _TailDocumentsName(source.stem, column, tokenizer)
            known: GrowingPostings = self.cache.get(grown_as) or GrowingPostings()
            if known.row_count == numbers.count:
                return known
            if known.row_count < numbers.count:
                grown = known.extend(tokenizer, source.rows.rows.column(column))
                self.cache.put(grown_as, grown, grown.nbytes)
                return grown

        def read() -> TokenPostings:
            rows = source.rows
            if isinstance(rows, LanceSource):
                return read_documents(rows, column, tokenizer, numbers)
            texts = rows.rows.column(column)
            return TokenPostings.of(tokenizer, texts, np.arange(numbers.count), numbers.count)

        key = _DocumentsName(source.identity, column, tokenizer)
        return self.cache.compute(key, read)

    def _find_own_index(self, source: SearchSource, column: str) -> IndexDescription | None:
        """Return the index of the source's dataset on a column, if it covers the source."""
        rows = source.rows
        if source.index is None or not isinstance(rows, LanceSource) or column not in rows.stored_names:
            return None
        indexes = list_dataset_indexes(rows.dataset)
        if has_moved_rows(rows.dataset):
            return None
        if column == next(iter(self.indexes)):
            return source.index
        found = [
            index
            for index in indexes
            if index.columns == (rows.stored_names[column],)
            and IndexKind.TEXT.is_kind_of(index)
            and index.fragments.issuperset(source.fragments)
            and finds_present_rows(index, rows.dataset)
        ]
        return found[0] if found else None

    def _has_same_terms(self, column: str, index: IndexDescription) -> bool:
        """Return whether an index has the terms and scores of the base table's index."""
        base = self.indexes[column]
        if index.details is base.details:
            return True
        return (
            Tokenizer.of(index.details) == self.tokenizers[column]
            and _has_quantized_lengths(index) == (column in self.quantized)
            and (bool(index.details.get("with_position")) or not base.details.get("with_position"))
        )


def _has_quantized_lengths(index: IndexDescription) -> bool:
    return index.details.get("block_size") == _QUANTIZED_BLOCK
