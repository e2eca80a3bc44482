"""The documents of one column by row number, and their terms.

An inverted index stores its terms as a finite state transducer of the `fst` crate. The address of a node is
that of its first byte; it is read downwards, and its targets were written before it. The values of terms are
skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np

from lance_gateway.execnodes.rows.row_mask import OFFSET_BITS, OFFSET_MASK, RowMask
from lance_gateway.execnodes.text.bm25 import Postings
from lance_gateway.execnodes.text.query.query import PhraseQuery

_COMMON = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
"""Bytes for which a node with one transition needs no byte: its first one says which, counted from 1."""
_VERSIONS = frozenset({2, 3})
_CHECKSUM_BYTES = 4
_INDEXED_ABOVE = 32
"""Nodes with more transitions have a table of them, of 256 bytes."""

Node = tuple[bool, Sequence[tuple[int, int]]]
"""Whether a term ends there, and the transitions: byte and address, in the order of bytes."""
_END: Node = (True, ())


@dataclass(frozen=True, eq=False)
class TermDictionary:
    """A dictionary of terms (an FST) that is searched without reading all terms.

    Args:
        data: the transducer.

    Raises:
        ValueError: it is of another version.
    """

    data: bytes

    def __post_init__(self) -> None:
        if self.version not in _VERSIONS:
            raise ValueError(f"version {self.version} of a term dictionary is unknown: 2 and 3 are known")

    @property
    def version(self) -> int:
        """Version of the format."""
        return int.from_bytes(self.data[:8], "little")

    @property
    def _root(self) -> int:
        stop = len(self.data) - (_CHECKSUM_BYTES if self.version > 2 else 0)
        return int.from_bytes(self.data[stop - 8 : stop], "little")

    def near(self, word: str, edits: int, prefix_length: int) -> Iterator[str]:
        """Return the terms within an edit distance of a word, ordered by their bytes.

        Args:
            word: of a fuzzy match.
            edits: characters that may be inserted, deleted or replaced.
            prefix_length: so many first characters of the word take no edits.
        """
        fixed = word[:prefix_length]
        first = list(range(len(word) + 1))
        # Address, bytes so far, those of them that make whole characters, and for these the edits that lie
        # between them and each beginning of the word.
        waiting: list[tuple[int, bytes, str, list[int]]] = [(self._root, b"", "", first)]
        while waiting:
            address, path, text, row = waiting.pop()
            is_term, transitions = self._read_node(address)
            whole = len(text.encode()) == len(path)
            if is_term and whole and row[-1] <= edits and text.startswith(fixed):
                yield text
            for byte, target in reversed(transitions):
                further = path + bytes((byte,))
                try:
                    longer = further.decode()
                except UnicodeDecodeError:
                    waiting.append((target, further, text, row))
                    continue
                if not (longer.startswith(fixed) or fixed.startswith(longer)):
                    continue
                after = _compute_next_row(row, word, longer[-1])
                if min(after) <= edits:
                    waiting.append((target, further, longer, after))

    def _read_node(self, address: int) -> Node:
        if not address:
            return _END
        data, state = self.data, self.data[address]
        if state >> 6 == 3:
            byte, end = self._read_input(address, state)
            return False, ((byte, end - 1),)
        if state >> 6 == 2:
            byte, sizes_at = self._read_input(address, state)
            sizes_at -= 1
            target_size, output_size = data[sizes_at] >> 4, data[sizes_at] & 15
            start = sizes_at - target_size
            return False, ((byte, self._read_target(start, target_size, start - output_size)),)
        return self._read_any_node(address, state)

    def _read_any_node(self, address: int, state: int) -> Node:
        data = self.data
        is_term, count = bool(state & 0x40), state & 63
        at = address - 1
        if not count:
            count, at = data[at], at - 1
            if count == 1:
                count = 256
        target_size, output_size = data[at] >> 4, data[at] & 15
        if count > _INDEXED_ABOVE:
            at -= 256
        targets = at - count
        end = targets - count * (target_size + output_size) - (output_size if is_term else 0)
        return is_term, [
            (data[at - place - 1], self._read_target(targets - (place + 1) * target_size, target_size, end))
            for place in range(count)
        ]

    def _read_input(self, address: int, state: int) -> tuple[int, int]:
        """Return the byte of a node's only transition, and the address of the last byte that encodes it."""
        code = state & 63
        return (_COMMON[code - 1], address) if code else (self.data[address - 1], address - 1)

    def _read_target(self, start: int, size: int, end: int) -> int:
        distance = int.from_bytes(self.data[start : start + size], "little")
        return end - distance if distance else 0


def _compute_next_row(row: list[int], word: str, letter: str) -> list[int]:
    after = [row[0] + 1]
    for place, one in enumerate(word):
        after.append(min(row[place] + (one != letter), row[place + 1] + 1, after[place] + 1))
    return after


@dataclass(frozen=True, eq=False)
class RowNumbers:
    """Numbers of a source's physical rows: fragment after fragment, deleted rows included.

    Args:
        physical_rows: fragment id -> rows stored, of the fragments that are searched.
    """

    physical_rows: Mapping[int, int]

    @cached_property
    def count(self) -> int:
        """Number of rows."""
        return sum(self.physical_rows.values())

    @cached_property
    def _fragments(self) -> np.ndarray:
        return np.array(sorted(self.physical_rows), dtype=np.int64)

    @cached_property
    def _starts(self) -> np.ndarray:
        """Number of each fragment's first row, in the order of ids, then of the row after the last."""
        sizes = [self.physical_rows[int(fragment)] for fragment in self._fragments]
        return np.concatenate(([0], np.cumsum(np.array(sizes, dtype=np.int64))))

    @cached_property
    def runs(self) -> tuple[np.ndarray, np.ndarray]:
        """Number of the first row of each fragment (int64), and its address (uint64)."""
        return self._starts[:-1], self._fragments.astype(np.uint64) << OFFSET_BITS

    def numbers(self, addresses: np.ndarray) -> np.ndarray:
        """Return the numbers (int64) of row addresses (uint64); -1 for rows of other fragments."""
        if not len(self._fragments):
            return np.full(len(addresses), -1, dtype=np.int64)
        fragment_ids = (addresses >> OFFSET_BITS).astype(np.int64)
        places = np.minimum(np.searchsorted(self._fragments, fragment_ids), len(self._fragments) - 1)
        numbers = self._starts[places] + (addresses & OFFSET_MASK).astype(np.int64)
        outside = (self._fragments[places] != fragment_ids) | (numbers >= self._starts[places + 1])
        numbers[outside] = -1
        return numbers

    def addresses(self, numbers: np.ndarray) -> np.ndarray:
        """Return the addresses (uint64) of row numbers."""
        places = np.searchsorted(self._starts, numbers, side="right") - 1
        offsets = (numbers - self._starts[places]).astype(np.uint64)
        found: np.ndarray = (self._fragments[places].astype(np.uint64) << OFFSET_BITS) | offsets
        return found

    def flags(self, mask: RowMask) -> np.ndarray:
        """Return one bool per row: whether the mask shows it."""
        shown = np.ones(self.count, dtype=np.bool_)
        for place, fragment_id in enumerate(self._fragments.tolist()):
            of_fragment = mask.fragments.get(fragment_id)
            if of_fragment is not None:
                start, stop = self._starts[place], self._starts[place + 1]
                shown[start:stop] = of_fragment.visible.to_numpy(zero_copy_only=False)
        return shown


Value = TypeVar("Value")


class Cache(Protocol):
    """A cache bounded in bytes; its keys identify immutable values."""

    def __contains__(self, key: Hashable) -> bool:
        """Return whether there is a value."""

    def compute(
        self, key: Hashable, make: Callable[[], Value], size: Callable[[Value], int] | None = None
    ) -> Value:
        """Return the cached value, or the result of `make`."""


class CountedDocuments:
    """What all documents of a column count to, in classes that are `ColumnDocuments`."""

    @property
    def lengths(self) -> np.ndarray:
        """See `ColumnDocuments`."""
        raise NotImplementedError

    @cached_property
    def totals(self) -> tuple[int, int]:
        """Number of rows that have tokens, and of all tokens."""
        return int(np.count_nonzero(self.lengths)), int(self.lengths.sum(dtype=np.int64))


class ColumnDocuments(Protocol):
    """The documents of one column of a source by row number; some may belong to deleted rows."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without what a cache holds."""

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each row (int32); a row without tokens is not a document."""

    @property
    def totals(self) -> tuple[int, int]:
        """Number of rows that have tokens, and of all tokens."""

    def postings(self, term: str, surface: str | None = None) -> Postings:
        """Return the rows that have a term, ascending, with frequencies.

        Args:
            term: as the tokenizer makes it.
            surface: a text of which this term alone is made, if there is one.
        """

    def has(self, term: str) -> bool:
        """Return whether the postings of a term need not be read."""

    def phrase(self, query: PhraseQuery) -> np.ndarray | None:
        """Return the rows with a phrase, ascending, if positions are not needed to find them."""

    def near(self, word: str, edits: int, prefix_length: int) -> Sequence[str]:
        """Return terms within an edit distance of a word, by their bytes; some may be of deleted rows only.

        Args:
            word: of a fuzzy match.
            edits: that may lie between.
            prefix_length: first characters that take no edits.
        """
