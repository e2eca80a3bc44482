"""Types of indexes that Lance builds: the columns that can have one, and its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from lance_gateway.memwal.columns.kinds import is_text
from lance_gateway.memwal.quantities import parse_count, parse_truth

Parse = Callable[[str], Any]
"""Reads a parameter from its text; the message of a `ValueError` says what it must be."""


@dataclass(frozen=True, slots=True)
class IndexType:
    """One type of index.

    Attributes:
        name: as Lance calls it.
        takes: whether a column of a type can have one.
        columns: which those are, for people.
        parameters: name -> how its text is read.
        is_vector: whether it is trained on a sample of its rows.
        is_maintained: whether writers of a table with MemWAL can give one to what they flush.
        has_present_rows: whether several segments find rows by what they have now; see `finds_past_rows`.
    """

    name: str
    takes: Callable[[pa.DataType], bool]
    columns: str
    parameters: Mapping[str, Parse] = field(default_factory=lambda: MappingProxyType({}))
    is_vector: bool = False
    is_maintained: bool = False
    has_present_rows: bool = True

    @property
    def has_codebook(self) -> bool:
        """Whether vectors are quantised by products."""
        return self.name.endswith("_PQ")


def _parse_words(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _parse_language(text: str) -> str:
    return text.strip().capitalize()


def _choose_from(*choices: str) -> Parse:
    def parse(text: str) -> str:
        folded = text.strip().lower()
        if folded not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return folded

    return parse


_TEXT: Final[Mapping[str, Parse]] = {
    "with_position": parse_truth,
    "base_tokenizer": _choose_from("simple", "whitespace", "raw", "ngram", "icu", "icu/split"),
    "language": _parse_language,
    "max_token_length": parse_count,
    "lower_case": parse_truth,
    "stem": parse_truth,
    "remove_stop_words": parse_truth,
    "custom_stop_words": _parse_words,
    "ascii_folding": parse_truth,
    "min_ngram_length": parse_count,
    "max_ngram_length": parse_count,
    "prefix_only": parse_truth,
}
_IVF: Final[Mapping[str, Parse]] = {
    "metric": _choose_from("l2", "cosine", "dot", "hamming"),
    "num_partitions": parse_count,
    "target_partition_size": parse_count,
    "sample_rate": parse_count,
    "max_iters": parse_count,
}
_BITS: Final[Mapping[str, Parse]] = {"num_bits": parse_count}
_PQ: Final[Mapping[str, Parse]] = {"num_sub_vectors": parse_count, **_BITS}
_HNSW: Final[Mapping[str, Parse]] = {
    "m": parse_count,
    "ef_construction": parse_count,
    "max_level": parse_count,
}


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_texts(kind: pa.DataType) -> bool:
    return is_text(kind) or bool(_is_list(kind) and is_text(kind.value_type))


def _is_vector(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind))


def _is_plain(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind)


def _vector(name: str, *more: Mapping[str, Parse]) -> IndexType:
    parameters = {key: parse for group in (_IVF, *more) for key, parse in group.items()}
    return IndexType(
        name, _is_vector, "vectors (lists of fixed size)", parameters, is_vector=True, is_maintained=True
    )


_KNOWN: Final = (
    IndexType("BTREE", _is_plain, "plain values", is_maintained=True),
    IndexType("BITMAP", _is_plain, "plain values", has_present_rows=False),
    IndexType("ZONEMAP", _is_plain, "plain values"),
    IndexType("BLOOMFILTER", _is_plain, "plain values"),
    IndexType("LABEL_LIST", _is_list, "lists", has_present_rows=False),
    IndexType("NGRAM", is_text, "text"),
    IndexType("INVERTED", _is_texts, "text", _TEXT, is_maintained=True, has_present_rows=False),
    _vector("IVF_FLAT"),
    _vector("IVF_PQ", _PQ),
    _vector("IVF_SQ", _BITS),
    _vector("IVF_RQ", _BITS),
    _vector("IVF_HNSW_FLAT", _HNSW),
    _vector("IVF_HNSW_PQ", _PQ, _HNSW),
    _vector("IVF_HNSW_SQ", _BITS, _HNSW),
)
INDEX_TYPES: Final[Mapping[str, IndexType]] = MappingProxyType({kind.name: kind for kind in _KNOWN})
"""By Lance's name."""
FULL_TEXT: Final = "FTS"
"""Another name of INVERTED."""
_BY_DESCRIPTION: Final = {kind.name.replace("_", ""): kind for kind in _KNOWN}


def finds_past_rows(described_type: str, segments: int) -> bool:
    """Return whether an index of a table with stable row ids finds rows by what they had before.

    A row that is changed keeps its id, which older segments of its indexes go on having. Lance (14.0.2)
    leaves it out while no segment covers the row's new fragment. Once one does, bitmaps, label lists and
    full-text indexes answer for the row by both segments; the other types by the newer one alone. An index
    of one segment has no older entries if it is extended by `optimize_indices` that folds this segment. Those
    of several are dropped where bitmaps and label lists are folded, and stay in full-text indexes.

    Args:
        described_type: of the index, as `describe_indices` calls it.
        segments: how many it has.
    """
    kind = _BY_DESCRIPTION.get(described_type.upper().replace("_", ""))
    return segments > 1 and not (kind is not None and kind.has_present_rows)
