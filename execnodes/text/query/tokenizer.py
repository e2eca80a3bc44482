"""Tokenize texts as the index does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import lance
import numpy as np
import pyarrow as pa

from lance_gateway.memwal.columns.kinds import is_text
from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError

Options = tuple[tuple[str, object], ...]

_OPTIONS = (
    "base_tokenizer",
    "language",
    "max_token_length",
    "lower_case",
    "stem",
    "remove_stop_words",
    "custom_stop_words",
    "ascii_folding",
    "min_ngram_length",
    "max_ngram_length",
    "prefix_only",
    "split_identifiers",
    "split_on_numerics",
    "preserve_original",
    "index_operators",
)
"""What of an index's details says how texts become terms; `lance.tokenize` has the same names."""

_AS_WRITTEN: Options = (
    ("base_tokenizer", "simple"),
    ("max_token_length", None),
    ("lower_case", False),
    ("stem", False),
    ("remove_stop_words", False),
    ("ascii_folding", False),
)
"""How the words of a fuzzy match are told apart, whatever the index does."""

# Bytes at which these tokenizers always split: pieces between them can be tokenized on their own.
_SPLITS_AT = {
    "simple": frozenset(byte for byte in range(128) if not chr(byte).isalnum()),
    "whitespace": frozenset(b" \t\n\r\x0c"),
}
_SPLIT_BY_LINES = frozenset({"simple", "whitespace", "icu", "icu/split", "code"})
"""A line that holds one plain word is one token to these tokenizers, whatever stands on other lines."""
_MARKS = ("qzxvjk", "jqxzwv", "x7q9z3", "zq4wx6vk2", "qjz", "x0")
"""Words that texts hardly have. They are looked for, so a text that has them costs time, not truth."""
_PIECES_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class Token:
    """One term of a query's text.

    Attributes:
        text: the term, as the index has it.
        position: its place among the words of the text, words that were removed included.
        surface: a text of which this term alone is made; None where there is no such text.
    """

    text: str
    position: int
    surface: str | None


@dataclass(frozen=True, eq=False, slots=True)
class TokenizedDocuments:
    """The terms of many documents, in their order.

    Attributes:
        vocabulary: string array of distinct terms.
        terms: int32, one per token: index into the vocabulary.
        positions: int32, one per token: place among the words of its document, removed words included.
        offsets: int64, one more than documents: where the tokens of each begin.
    """

    vocabulary: pa.StringArray
    terms: np.ndarray
    positions: np.ndarray
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each document (int32); those without tokens don't count as documents."""
        return np.diff(self.offsets).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A text index's tokenizer with all its options; equal tokenizers produce equal terms.

    Args:
        options: of `lance.tokenize`, by name.
    """

    options: Options = ()

    @staticmethod
    def of(details: Mapping[str, object] | None) -> Tokenizer:
        """Build the tokenizer of an index.

        Args:
            details: of an inverted index, as `describe_indices` tells them; None for Lance's defaults.

        Raises:
            UnsupportedError: the index makes terms in a way that can't be repeated outside of it.
        """
        if not details:
            return Tokenizer()
        if details.get("lance_tokenizer") not in {None, "text"}:
            raise UnsupportedError(
                f"lance_tokenizer {details['lance_tokenizer']!r} of a text index: only 'text' can be searched"
            )
        if details.get("document_granularity", "row") != "row":
            raise UnsupportedError(
                "document_granularity 'list_element' of a text index: only 'row' can be searched"
            )
        options = {name: details[name] for name in _OPTIONS if name in details}
        words = options.get("custom_stop_words")
        if isinstance(words, list):
            options["custom_stop_words"] = tuple(words)
        tokenizer = Tokenizer(tuple(options.items()))
        tokenizer.terms("")
        return tokenizer

    @property
    def base(self) -> str:
        """Name of the base tokenizer."""
        return str(dict(self.options).get("base_tokenizer") or "simple")

    def terms(self, text: str) -> tuple[Token, ...]:
        """Return the terms of a query's text, in order, repeated ones repeated.

        Raises:
            UnsupportedError: Lance can't make the tokenizer here, for want of its dictionary, say.
        """
        return _list_terms(self, text)

    def list_unmodified_words(self, text: str) -> tuple[Token, ...]:
        """Return the words of a fuzzy match: neither folded nor stemmed, none removed."""
        return _list_terms(Tokenizer(_AS_WRITTEN), text)

    def find_surfaces(self, texts: Iterable[str]) -> dict[str, str]:
        """Return, by term, the first text that consists of this term alone, for terms that have one."""
        distinct = list(dict.fromkeys(texts))
        made = self.tokenize(pa.array(distinct, pa.string()))
        alone = np.flatnonzero(made.lengths == 1)
        terms = made.vocabulary.take(pa.array(made.terms[made.offsets[alone]])).to_pylist()
        found: dict[str, str] = {}
        for term, place in zip(terms, alone.tolist(), strict=True):
            found.setdefault(term, distinct[place])
        return found

    def tokenize(self, documents: pa.Array | pa.ChunkedArray) -> TokenizedDocuments:
        """Tokenize documents.

        Args:
            documents: strings of any layout, or lists of strings (a row's elements are one document). NULL
                is a document without terms.

        Raises:
            InvalidInputError: the documents aren't text.
        """
        texts = list_document_texts(documents)
        if self.base in _SPLITS_AT:
            chunks, bounds = _split_at_bytes(texts.fill_null(""), _SPLITS_AT[self.base])
            distinct = chunks.dictionary_encode()
            if (pieces := self._tokenize_joined(distinct.dictionary.to_pylist())) is not None:
                return pieces.build_documents(distinct.indices.to_numpy(), bounds)
        distinct = texts.dictionary_encode()
        alone = distinct.dictionary.to_pylist()
        pieces = self._tokenize_joined(alone) if self.base in _SPLIT_BY_LINES else None
        if pieces is None:
            pieces = _Pieces.of([self._tokenize_text(text) for text in alone])
        # Some tokenizers make a term of the empty text, none makes one of NULL.
        bounds = compute_starts(texts.is_valid().to_numpy(zero_copy_only=False))
        return pieces.build_documents(distinct.indices.drop_null().to_numpy(), bounds)

    def _tokenize_joined(self, texts: Sequence[str]) -> _Pieces | None:
        """Tokenize all texts in few calls, joined by marks; None if no mark is absent from the texts."""
        for mark in _MARKS:
            made = self._tokenize_text(mark)
            if len(made) == 1:
                parts = [
                    self._tokenize_marked(mark, made[0][0], texts[start : start + _PIECES_AT_ONCE])
                    for start in range(0, len(texts), _PIECES_AT_ONCE)
                ]
                if None not in parts:
                    return _Pieces.concat([part for part in parts if part is not None])
        return None

    def _tokenize_marked(self, mark: str, name: str, texts: Sequence[str]) -> _Pieces | None:
        line = f"\n{mark}\n"
        tokens = self._tokenize_text(line + line.join(texts) + line)
        at = np.array([index for index, (text, _) in enumerate(tokens) if text == name])
        if len(at) != len(texts) + 1:
            return None
        positions = np.fromiter((position for _, position in tokens), np.int64, len(tokens))
        counts = np.diff(at) - 1
        relative = positions - np.repeat(positions[at], np.append(counts + 1, 1)) - 1
        return _Pieces(
            pa.array([text for text, _ in tokens if text != name], pa.string()).dictionary_encode(),
            np.delete(relative, at),
            counts,
            np.diff(positions[at]) - 1,
        )

    def _tokenize_text(self, text: str) -> list[tuple[str, int]]:
        """Return Lance's terms of a text and their positions, counted from the first that remains."""
        options = {name: list(value) if isinstance(value, tuple) else value for name, value in self.options}
        try:
            return [(token.text, token.position) for token in lance.tokenize(text, **options)]
        except ValueError as error:
            raise UnsupportedError(f"the text index's tokenizer can't be made here: {error}") from error


@dataclass(frozen=True, eq=False, slots=True)
class _Pieces:
    """Texts that were tokenized separately.

    Attributes:
        terms: dictionary array, one per token.
        positions: int64, one per token, counted within its piece.
        counts: int64, tokens of each piece.
        widths: int64, words of each piece, removed ones included.
    """

    terms: pa.DictionaryArray
    positions: np.ndarray
    counts: np.ndarray
    widths: np.ndarray

    @staticmethod
    def of(pieces: Sequence[Sequence[tuple[str, int]]]) -> _Pieces:
        """Build pieces from the terms and positions of each."""
        counts = np.fromiter(map(len, pieces), np.int64, len(pieces))
        positions = [position for piece in pieces for _, position in piece]
        return _Pieces(
            pa.array([text for piece in pieces for text, _ in piece], pa.string()).dictionary_encode(),
            np.array(positions, np.int64),
            counts,
            counts,
        )

    @staticmethod
    def concat(parts: Sequence[_Pieces]) -> _Pieces:
        """Concatenate pieces, with one dictionary."""
        if not parts:
            return _Pieces.of([])
        chunked = pa.chunked_array([part.terms for part in parts]).unify_dictionaries()
        return _Pieces(
            chunked.combine_chunks(),
            np.concatenate([part.positions for part in parts]),
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.widths for part in parts]),
        )

    def build_documents(self, pieces: np.ndarray, bounds: np.ndarray) -> TokenizedDocuments:
        """Build documents from pieces.

        Args:
            pieces: which piece comes next, through all documents.
            bounds: one more than documents: where the pieces of each begin.
        """
        counts = self.counts[pieces]
        token_starts = compute_starts(counts)
        word_starts = compute_starts(self.widths[pieces])
        within_document = word_starts[:-1] - np.repeat(word_starts[bounds[:-1]], np.diff(bounds))
        tokens = np.repeat(compute_starts(self.counts)[pieces] - token_starts[:-1], counts)
        tokens += np.arange(token_starts[-1])
        positions = self.positions[tokens] + np.repeat(within_document, counts)
        return TokenizedDocuments(
            self.terms.dictionary,
            self.terms.indices.to_numpy()[tokens],
            positions.astype(np.int32),
            token_starts[bounds],
        )


def compute_starts(counts: np.ndarray) -> np.ndarray:
    """Return the start of each run of these lengths, then the end of the last (int64)."""
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def list_document_texts(documents: pa.Array | pa.ChunkedArray) -> pa.LargeStringArray:
    """Return one text per document; NULL for NULL, but '' for a NULL list, as Lance does.

    Raises:
        InvalidInputError: the documents aren't text.
    """
    if isinstance(documents, pa.ChunkedArray):
        documents = documents.combine_chunks()
    kind = documents.type.value_type if pa.types.is_dictionary(documents.type) else documents.type
    if is_text(kind):
        return documents.cast(pa.large_string())
    if is_list_of_text(kind):
        rows = documents.to_pylist()
        texts = (" ".join(part for part in row or () if part is not None) for row in rows)
        return pa.array(texts, pa.large_string(), size=len(rows))
    raise InvalidInputError(f"a column of type {kind} has no text to search; one of strings is needed")


def is_list_of_text(kind: pa.DataType) -> bool:
    """Return whether values are lists of strings."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return is_list and is_text(kind.value_type)


def _split_at_bytes(texts: pa.LargeStringArray, at: frozenset[int]) -> tuple[pa.LargeStringArray, np.ndarray]:
    """Split a text at the bytes at which a tokenizer always splits.

    Returns:
        The pieces through all texts, and where those of each text begin (one more than texts).
    """
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    keeps = np.ones(256, np.bool_)
    keeps[list(at)] = False
    kept = keeps[data]
    begins = kept.copy()
    begins[1:] &= ~kept[:-1]
    firsts = offsets[:-1][offsets[:-1] < len(data)]
    begins[firsts] = kept[firsts]
    starts = np.flatnonzero(begins)
    lengths = np.add.reduceat(kept, starts, dtype=np.int64) if len(starts) else starts
    pieces = pa.LargeStringArray.from_buffers(
        len(starts), pa.py_buffer(compute_starts(lengths)), pa.py_buffer(data[kept])
    )
    return pieces, np.searchsorted(starts, offsets)


@lru_cache(maxsize=4096)
def _list_terms(tokenizer: Tokenizer, text: str) -> tuple[Token, ...]:
    made = tokenizer._tokenize_text(text)  # noqa: SLF001 - cached here since a class with slots has no place for it
    if not made:
        return ()
    words = (word for word, _ in Tokenizer(_AS_WRITTEN)._tokenize_text(text))  # noqa: SLF001 - as above
    surfaces = tokenizer.find_surfaces((text, *words, *(term for term, _ in made)))
    return tuple(Token(term, position, surfaces.get(term)) for term, position in made)
