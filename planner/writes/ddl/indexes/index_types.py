"""Types of indexes, the columns that they take, and their options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from memwal.errors import InvalidInputError, UnsupportedError
from planner.writes.ddl.statement.options import check_names, number, truth

Parse = Callable[[str, str], Any]


def _fraction(name: str, value: str) -> float:
    try:
        parsed = float(value)
    except ValueError:
        parsed = -1.0
    if not 0 < parsed < 1:
        msg = f"option {name} is {value!r}, but must be between 0 and 1"
        raise InvalidInputError(msg)
    return parsed


def _word(*known: str) -> Parse:
    def parse(name: str, value: str) -> str:
        folded = value.strip().lower()
        if folded not in known:
            msg = f"option {name} is {value!r}, but must be one of {', '.join(known)}"
            raise InvalidInputError(msg)
        return folded

    return parse


def _language(_name: str, value: str) -> str:
    return value.strip().capitalize()


def _words(_name: str, value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


_TEXT: Final[Mapping[str, Parse]] = MappingProxyType(
    {
        "with_position": truth,
        "base_tokenizer": _word("simple", "whitespace", "raw", "ngram", "icu", "icu/split"),
        "language": _language,
        "max_token_length": number,
        "lower_case": truth,
        "stem": truth,
        "remove_stop_words": truth,
        "custom_stop_words": _words,
        "ascii_folding": truth,
        "ngram_min_length": number,
        "ngram_max_length": number,
        "prefix_only": truth,
    }
)
_IVF: Final[Mapping[str, Parse]] = MappingProxyType(
    {
        "metric": _word("l2", "cosine", "dot", "hamming"),
        "num_partitions": number,
        "target_partition_size": number,
        "sample_rate": number,
        "max_iters": number,
    }
)
_PQ: Final[Mapping[str, Parse]] = MappingProxyType({"num_sub_vectors": number, "num_bits": number})
_SQ: Final[Mapping[str, Parse]] = MappingProxyType({"num_bits": number})
_HNSW: Final[Mapping[str, Parse]] = MappingProxyType(
    {"m": number, "ef_construction": number, "max_level": number}
)
_BITS: Final = frozenset({4, 8})


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_texts(kind: pa.DataType) -> bool:
    return _is_text(kind) or bool(_is_list(kind) and _is_text(kind.value_type))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_vector(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind))


def _is_plain(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind)


@dataclass(frozen=True, slots=True)
class IndexType:
    """One type of index.

    Attributes:
        takes: whether a column of a type can have one.
        columns: which those are, for messages.
        options: what it can be told.
        lance_name: as Lance calls it.
    """

    takes: Callable[[pa.DataType], bool]
    columns: str
    lance_name: str
    options: Mapping[str, Parse] = field(default_factory=lambda: MappingProxyType({}))


def _scalar(name: str) -> IndexType:
    return IndexType(_is_plain, "plain values", name)


def _vector(name: str, *options: Mapping[str, Parse]) -> IndexType:
    merged = {key: parse for group in (_IVF, *options) for key, parse in group.items()}
    return IndexType(_is_vector, "vectors (lists of fixed size)", name, merged)


_INVERTED: Final = IndexType(_is_texts, "text", "INVERTED", _TEXT)
INDEX_TYPES: Final[Mapping[str, IndexType]] = MappingProxyType(
    {
        "BTREE": _scalar("BTREE"),
        "BITMAP": _scalar("BITMAP"),
        "ZONEMAP": _scalar("ZONEMAP"),
        "BLOOMFILTER": _scalar("BLOOMFILTER"),
        "LABEL_LIST": IndexType(_is_list, "lists", "LABEL_LIST"),
        "NGRAM": IndexType(_is_text, "text", "NGRAM"),
        "INVERTED": _INVERTED,
        "FTS": _INVERTED,
        "IVF_FLAT": _vector("IVF_FLAT"),
        "IVF_PQ": _vector("IVF_PQ", _PQ),
        "IVF_SQ": _vector("IVF_SQ", _SQ),
        "IVF_RQ": _vector("IVF_RQ", _SQ),
        "IVF_HNSW_FLAT": _vector("IVF_HNSW_FLAT", _HNSW),
        "IVF_HNSW_PQ": _vector("IVF_HNSW_PQ", _PQ, _HNSW),
        "IVF_HNSW_SQ": _vector("IVF_HNSW_SQ", _SQ, _HNSW),
    }
)


@dataclass(frozen=True, slots=True)
class IndexCall:
    """An index that can be built.

    Attributes:
        kind: of `INDEX_TYPES`.
        needs_rows: whether it is trained on rows.
        arguments: as Lance takes them.
    """

    kind: IndexType
    needs_rows: bool
    arguments: Mapping[str, Any]

    def build(self, dataset: Any, column: str, name: str, replace: bool) -> None:  # noqa: ANN401, FBT001 (lance types)
        """Build and commit it."""
        if self.needs_rows:
            dataset.create_index(column, self.kind.lance_name, name, replace=replace, **self.arguments)
        else:
            dataset.create_scalar_index(column, self.kind.lance_name, name, replace=replace, **self.arguments)


def index_options(name: str, column: pa.Field, given: Mapping[str, str]) -> IndexCall:
    """Read the options of an index, and whether the column can have it.

    Raises:
        UnsupportedError: not a column of that type.
        InvalidInputError: an unknown option, or a value that makes no sense.
    """
    kind = INDEX_TYPES[name]
    if not kind.takes(column.type):
        msg = f"an index of type {name} is of {kind.columns}, and column {column.name!r} is {column.type}"
        raise UnsupportedError(msg)
    if not kind.options and given:
        msg = f"an index of type {name} has no options, and {', '.join(given)} is given: leave it out"
        raise InvalidInputError(msg)
    check_names(given, tuple(kind.options), f"an index of type {name}")
    is_vector = kind.takes is _is_vector
    arguments = {option: kind.options[option](option, value) for option, value in given.items()}
    if is_vector:
        arguments.setdefault("metric", "l2")
        _check_vector(name, column, arguments)
    return IndexCall(kind, is_vector, arguments)


def _check_vector(name: str, column: pa.Field, arguments: dict[str, Any]) -> None:
    size = column.type.list_size
    parts = arguments.get("num_sub_vectors")
    if parts is not None and size % parts:
        msg = f"num_sub_vectors is {parts}, which does not divide the {size} dimensions of {column.name!r}"
        raise InvalidInputError(msg)
    if "PQ" in name and arguments.get("num_bits", 8) not in _BITS:
        msg = f"num_bits is {arguments['num_bits']}, but must be 4 or 8"
        raise InvalidInputError(msg)
    if {"num_partitions", "target_partition_size"} <= arguments.keys():
        msg = "num_partitions and target_partition_size say the same in two ways: give one of them"
        raise InvalidInputError(msg)
