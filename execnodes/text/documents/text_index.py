"""Documents of an inverted index of Lance."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from lance import query as lance_queries
from lance.file import LanceFileSession

from lance_gateway.execnodes.node import ROW_ADDRESS
from lance_gateway.execnodes.search.source import SCORE
from lance_gateway.execnodes.storage.source import LanceSource, convert_columns
from lance_gateway.execnodes.text.bm25 import K1, ColumnStatistics, Postings
from lance_gateway.execnodes.text.documents.column_documents import (
    Cache,
    CountedDocuments,
    RowNumbers,
    TermDictionary,
)
from lance_gateway.execnodes.text.documents.source_text import NO_POSTINGS, TokenPostings
from lance_gateway.execnodes.text.query.query import PhraseQuery, convert_to_lance_query
from lance_gateway.execnodes.text.query.tokenizer import Tokenizer

ROW_ID = "_rowid"
SAMPLES = 4
"""Documents of a term that are read, to see that Lance found that very term, and what its scores mean."""
CERTAIN_FREQUENCY = 500
"""Up to so many occurrences, a score tells how many there are."""
TOLERANCE = 0.02
ENTRY_BYTES = 512
_ALL_AT_ONCE = 1 << 30


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class IndexName:
    """The identity of an index's documents, made by `intern`.

    The same for the same rows, covered by the index of the same name, which is read in the same way.

    Attributes:
        rows: see `SearchSource.identity`, which names the segments of the index as well.
        column: of the table.
        index: name.
        tokenizer: of the index.
        quantizes: whether it scores with rounded lengths.
    """

    rows: Hashable
    column: str
    index: str
    tokenizer: Tokenizer
    quantizes: bool


@dataclass(frozen=True, slots=True)
class _PostingsName:
    """The cache key of a term's postings."""

    index: IndexName
    term: str


@dataclass(frozen=True, slots=True)
class _PhraseName:
    """The cache key of the documents with a phrase."""

    index: IndexName
    query: PhraseQuery


@dataclass(frozen=True, slots=True)
class _NearName:
    """The cache key of the terms near a word; equal for the same word, edits and prefix."""

    index: IndexName
    word: str
    edits: int
    prefix_length: int


@dataclass(frozen=True, slots=True)
class _DictionariesName:
    """The cache key of an index's terms."""

    index: IndexName


@dataclass(frozen=True, slots=True)
class _TextsName:
    """The cache key of the postings of all documents, made from their texts."""

    index: IndexName


@dataclass(frozen=True, eq=False)
class IndexedDocuments(CountedDocuments):
    """The indexed documents of a dataset; implements `ColumnDocuments`.

    A term's postings are asked of Lance once: all rows that match it, with scores. As a score says how often
    the term occurs in a document of known length, no text need be read for them.

    Args:
        rows: the dataset.
        name: of the inverted index, which covers all fragments of `numbers`, and how it is read.
        numbers: of the rows.
        cache: keeps postings.
    """

    rows: LanceSource
    name: IndexName
    numbers: RowNumbers
    cache: Cache

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each row."""
        return self._corpus.lengths

    @property
    def has_repeated_rows(self) -> bool:
        """Whether a row has several documents: one may be what it had before it was changed."""
        return self._ids is not None and self._corpus.has_repeated_rows

    def postings(self, term: str, surface: str | None = None) -> Postings:
        """Return the postings of a term, without positions."""
        return self.cache.compute(_PostingsName(self.name, term), lambda: self._find(term, surface), _measure)

    def has(self, term: str) -> bool:
        """Return whether the postings of a term are cached."""
        return _PostingsName(self.name, term) in self.cache

    def phrase(self, query: PhraseQuery) -> np.ndarray | None:
        """Return the rows with a phrase."""

        def find() -> np.ndarray:
            stored = PhraseQuery(query.text, self._stored, query.slop)
            return np.sort(self._find_matches(convert_to_lance_query(stored))[0])

        return self.cache.compute(
            _PhraseName(self.name, query), find, lambda found: found.nbytes + ENTRY_BYTES
        )

    def near(self, word: str, edits: int, prefix_length: int) -> Sequence[str]:
        """Return the terms within an edit distance of a word."""

        def find() -> list[str]:
            found = {
                term
                for dictionary in self._dictionaries()
                for term in dictionary.near(word, edits, prefix_length)
            }
            return sorted(found, key=str.encode)

        try:
            return self.cache.compute(
                _NearName(self.name, word, edits, prefix_length),
                find,
                lambda found: sum(map(len, found)) + ENTRY_BYTES,
            )
        except (KeyError, IndexError, ValueError):
            # Terms that are stored in another way than we know: those of the texts themselves are the same.
            return self._read_all().near(word, edits, prefix_length)

    def _dictionaries(self) -> tuple[TermDictionary, ...]:

        def read() -> tuple[TermDictionary, ...]:
            return tuple(
                TermDictionary(file("tokens").column("_token_fst_bytes")[0].as_py())
                for file in self._list_partitions()
            )

        return self.cache.compute(
            _DictionariesName(self.name),
            read,
            lambda found: sum(len(one.data) for one in found) + ENTRY_BYTES,
        )

    @property
    def _dataset(self) -> Any:  # noqa: ANN401 - lance types
        return self.rows.dataset

    @property
    def _stored(self) -> str:
        return self.rows.stored_names[self.name.column]

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without the cache."""
        return (24 if self._dataset.has_stable_row_ids else 4) * self.numbers.count + ENTRY_BYTES

    @cached_property
    def _corpus(self) -> _Corpus:
        """Documents of all segments, as Lance stores them beside their terms."""
        lengths = np.zeros(self.numbers.count, dtype=np.int32)
        tokens = documents = 0
        row_ids: list[np.ndarray] = []
        for file in self._list_partitions():
            found = file("docs")
            counts = found.column("_num_tokens").to_numpy()
            row_ids.append(found.column(ROW_ID).to_numpy())
            numbers = self._number_rows(row_ids[-1])
            tokens += int(counts.sum())
            documents += len(counts)
            lengths[numbers[numbers >= 0]] = counts[numbers >= 0]
        statistics = ColumnStatistics(documents, tokens, {}, self.name.quantizes)
        is_repeated = documents > 0 and len(np.unique(np.concatenate(row_ids))) < documents
        return _Corpus(lengths, statistics, is_repeated)

    def _number_rows(self, row_ids: np.ndarray) -> np.ndarray:
        """Return the numbers of row ids; -1 for rows that are elsewhere."""
        return self.numbers.numbers(row_ids) if self._ids is None else self._ids.numbers(row_ids)

    @cached_property
    def _ids(self) -> _StableIds | None:
        """Stable row ids; None where ids are addresses."""
        if not self._dataset.has_stable_row_ids:
            return None
        fragments = [self._dataset.get_fragment(one) for one in self.numbers.physical_rows]
        found = self._dataset.scanner(
            columns=[], fragments=fragments, with_row_id=True, with_row_address=True
        ).to_table()
        numbers = self.numbers.numbers(found.column(ROW_ADDRESS).to_numpy())
        return _StableIds.of(found.column(ROW_ID).to_numpy(), numbers, self.numbers.count)

    def _list_partitions(self) -> Iterator[Callable[[str], pa.Table]]:
        """Return, for each partition of each segment, a reader of its files by kind."""
        for segment in self._list_segments():
            session = self._open_files(segment.base_id)
            place = f"_indices/{segment.uuid}"
            about = session.open_reader(f"{place}/metadata.lance").metadata().schema.metadata
            for partition in json.loads(about[b"partitions"]):

                def read(
                    kind: str,
                    start: str = f"{place}/part_{partition}_",
                    session: LanceFileSession = session,
                ) -> pa.Table:
                    reader = session.open_reader(f"{start}{kind}.lance")
                    return reader.read_all(batch_size=_ALL_AT_ONCE).to_table()

                yield read

    def _open_files(self, base_id: int | None) -> LanceFileSession:
        """Open files of the dataset, or of a base: the indexes of a shallow clone stay in one."""
        if base_id is None:
            own: LanceFileSession = self._dataset.new_file_session()
            return own
        base = self._dataset.base_paths()[base_id]
        return LanceFileSession(base.path, self._dataset.latest_storage_options())

    def _list_segments(self) -> Iterable[Any]:
        for index in self._dataset.describe_indices():
            if index.name == self.name.index:
                yield from index.segments

    def _find(self, term: str, surface: str | None) -> Postings:
        if term.isalnum():
            query = self._find_exactly(term)
        elif surface is not None:
            query = lance_queries.MatchQuery(surface, self._stored)
        else:
            return self._read_all().postings(term)
        numbers, scores = self._find_matches(query)
        if not len(numbers):
            return NO_POSTINGS
        order = np.argsort(numbers)
        return self._count_occurrences(term, numbers[order], scores[order])

    def _find_exactly(self, term: str) -> lance_queries.FullTextQuery:
        """Return the documents with a term; if none has it, perhaps those of a term one character longer.

        A fuzzy query without edits and with one expansion finds the first term in order.
        """
        return lance_queries.MatchQuery(
            term, self._stored, fuzziness=1, prefix_length=len(term), max_expansions=1
        )

    def _find_matches(self, query: lance_queries.FullTextQuery) -> tuple[np.ndarray, np.ndarray]:
        found = self._dataset.scanner(
            columns=[ROW_ID, SCORE], full_text_query=query, fast_search=True
        ).to_table()
        numbers = self._number_rows(found.column(ROW_ID).to_numpy())
        known = numbers >= 0
        return numbers[known], found.column(SCORE).to_numpy()[known]

    def _count_occurrences(self, term: str, numbers: np.ndarray, scores: np.ndarray) -> Postings:
        """Compute term frequencies from scores: w = score / idf, tf = w * norm / (k1 + 1 - w)."""
        statistics, lengths = self._corpus.statistics, self.lengths[numbers]
        sampled = np.unique(np.linspace(0, len(numbers) - 1, SAMPLES).astype(np.int64))
        seen = self._count_frequencies(term, numbers[sampled])
        if not seen.any():
            return NO_POSTINGS  # the first expansion is a longer term: this one isn't there
        if not (seen.all() and lengths.all()):
            return self._read_all().postings(term)
        idf = float(np.median(scores[sampled] / statistics.weight(seen, lengths[sampled])))
        once = np.ones(len(numbers), dtype=np.int32)
        norms = (K1 + 1.0) / statistics.weight(once, lengths) - 1.0
        weights = np.minimum(scores / idf, (K1 + 1.0) * (1.0 - 1e-9))
        guesses = weights * norms / (K1 + 1.0 - weights)
        frequencies = np.maximum(np.rint(guesses), 1.0)
        unsure = np.abs(guesses - frequencies) > TOLERANCE * frequencies
        unsure |= frequencies > CERTAIN_FREQUENCY
        counts = np.where(unsure, 0, frequencies).astype(np.int32)
        if unsure.any():
            counts[unsure] = self._count_frequencies(term, numbers[unsure])
        return Postings(numbers, counts)

    def _count_frequencies(self, term: str, numbers: np.ndarray) -> np.ndarray:
        frequencies = np.zeros(len(numbers), dtype=np.int32)
        found = self._tokenize_rows(numbers).postings(term)
        frequencies[np.searchsorted(numbers, found.documents)] = found.frequencies
        return frequencies

    def _tokenize_rows(self, numbers: np.ndarray) -> TokenPostings:
        if not len(numbers):
            return TokenPostings.of(
                self.name.tokenizer, pa.array([], pa.string()), numbers, self.numbers.count
            )
        ids = self.numbers.addresses(numbers) if self._ids is None else self._ids.by_number[numbers]
        read = self._dataset._take_rows(pa.array(ids), columns=[self._stored]).combine_chunks()  # noqa: SLF001
        field = self.rows.schema.field(self.name.column)
        texts = convert_columns(read.to_batches()[0], [field], self.rows.stored)[0]
        return TokenPostings.of(self.name.tokenizer, texts, numbers, self.numbers.count)

    def _read_all(self) -> TokenPostings:
        """Tokenize all documents, if the index can't be queried for a single term."""
        return self.cache.compute(
            _TextsName(self.name),
            lambda: read_documents(self.rows, self.name.column, self.name.tokenizer, self.numbers),
        )


@dataclass(frozen=True, eq=False, slots=True)
class _Corpus:
    """The token counts of an index, by row and in total, including deleted rows.

    Attributes:
        lengths: number of tokens of each row.
        statistics: of all documents.
        has_repeated_rows: whether a row id has several documents.
    """

    lengths: np.ndarray
    statistics: ColumnStatistics
    has_repeated_rows: bool


@dataclass(frozen=True, eq=False, slots=True)
class _StableIds:
    """The stable row ids of rows that are not deleted.

    Attributes:
        by_number: id of each row; of deleted ones, any.
        ascending: all ids.
        owners: number of the row that has each of them.
    """

    by_number: np.ndarray
    ascending: np.ndarray
    owners: np.ndarray

    @staticmethod
    def of(ids: np.ndarray, numbers: np.ndarray, count: int) -> _StableIds:
        """Order rows by their ids.

        Args:
            ids: uint64.
            numbers: of the rows that have them.
            count: of all rows, deleted ones included.
        """
        by_number = np.zeros(count, dtype=np.uint64)
        by_number[numbers] = ids
        order = np.argsort(ids)
        return _StableIds(by_number, ids[order], numbers[order])

    def numbers(self, ids: np.ndarray) -> np.ndarray:
        """Return the numbers (int64) of the rows with these ids; -1 for ids of other rows."""
        found = np.full(len(ids), -1, dtype=np.int64)
        if len(self.ascending):
            places = np.minimum(np.searchsorted(self.ascending, ids), len(self.ascending) - 1)
            known = self.ascending[places] == ids
            found[known] = self.owners[places[known]]
        return found


def read_documents(
    rows: LanceSource, column: str, tokenizer: Tokenizer, numbers: RowNumbers
) -> TokenPostings:
    """Tokenize a column of all rows that Lance has not deleted.

    Args:
        rows: the dataset.
        column: of the table.
        tokenizer: to use.
        numbers: of the rows to read.
    """
    field = rows.schema.field(column)
    stored = [rows.stored_names[column]] if column in rows.stored else []
    if rows.stored.lacks(column):
        nothing = np.empty(0, dtype=np.int64)
        return TokenPostings.of(tokenizer, pa.nulls(0, field.type), nothing, numbers.count)
    dataset: Any = rows.dataset
    fragments = [
        fragment for fragment in dataset.get_fragments() if fragment.fragment_id in numbers.physical_rows
    ]
    read = dataset.scanner(columns=stored, fragments=fragments, with_row_address=True).to_table()
    texts = [convert_columns(batch, [field], rows.stored)[0] for batch in read.to_batches()]
    order = numbers.numbers(read.column(ROW_ADDRESS).to_numpy())
    together = pa.chunked_array(texts, field.type)
    if len(order) > 1 and not (order[1:] > order[:-1]).all():
        sorting = np.argsort(order)
        together, order = together.take(pa.array(sorting)), order[sorting]
    return TokenPostings.of(tokenizer, together, order, numbers.count)


def _measure(postings: Postings) -> int:
    return int(postings.documents.nbytes + postings.frequencies.nbytes) + ENTRY_BYTES
