"""Specifications of indexes to build."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from memwal.errors import InvalidInputError, NotFoundError, UnsupportedError
from pipeline.jobs.lake import LakeTable

Parse = Callable[[str], Any]


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
    """

    name: str
    takes: Callable[[pa.DataType], bool]
    columns: str
    parameters: Mapping[str, Parse] = field(default_factory=lambda: MappingProxyType({}))
    is_vector: bool = False
    is_maintained: bool = False

    @property
    def has_codebook(self) -> bool:
        """Whether vectors are quantised by products."""
        return self.name.endswith("_PQ")


def _truth(text: str) -> bool:
    known = {"true": True, "false": False}
    if text.lower() not in known:
        raise ValueError("true or false")
    return known[text.lower()]


def _number(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise ValueError("a number from 1")
    return value


def _words(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _one_of(*known: str) -> Parse:
    def parse(text: str) -> str:
        if text.lower() not in known:
            raise ValueError(f"one of {', '.join(known)}")
        return text.lower()

    return parse


_TEXT: Final[Mapping[str, Parse]] = {
    "with_position": _truth,
    "base_tokenizer": _one_of("simple", "whitespace", "raw", "ngram", "icu", "icu/split"),
    "language": str.capitalize,
    "max_token_length": _number,
    "lower_case": _truth,
    "stem": _truth,
    "remove_stop_words": _truth,
    "custom_stop_words": _words,
    "ascii_folding": _truth,
    "ngram_min_length": _number,
    "ngram_max_length": _number,
    "prefix_only": _truth,
}
_IVF: Final[Mapping[str, Parse]] = {
    "metric": _one_of("l2", "cosine", "dot", "hamming"),
    "num_partitions": _number,
    "sample_rate": _number,
    "max_iters": _number,
}
_PQ: Final[Mapping[str, Parse]] = {"num_sub_vectors": _number, "num_bits": _number}
_BITS: Final[Mapping[str, Parse]] = {"num_bits": _number}
_HNSW: Final[Mapping[str, Parse]] = {"m": _number, "ef_construction": _number, "max_level": _number}


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_texts(kind: pa.DataType) -> bool:
    return _is_text(kind) or bool(_is_list(kind) and _is_text(kind.value_type))


def _is_plain(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind)


def _is_vector(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind))


def _vector(name: str, *more: Mapping[str, Parse]) -> IndexType:
    parameters = {key: parse for group in (_IVF, *more) for key, parse in group.items()}
    return IndexType(
        name, _is_vector, "vectors (lists of fixed size)", parameters, is_vector=True, is_maintained=True
    )


_KNOWN: Final = (
    IndexType("BTREE", _is_plain, "plain values", is_maintained=True),
    IndexType("BITMAP", _is_plain, "plain values"),
    IndexType("ZONEMAP", _is_plain, "plain values"),
    IndexType("BLOOMFILTER", _is_plain, "plain values"),
    IndexType("LABEL_LIST", _is_list, "lists"),
    IndexType("NGRAM", _is_text, "text"),
    IndexType("INVERTED", _is_texts, "text", _TEXT, is_maintained=True),
    _vector("IVF_FLAT"),
    _vector("IVF_PQ", _PQ),
    _vector("IVF_SQ", _BITS),
    _vector("IVF_RQ", _BITS),
    _vector("IVF_HNSW_FLAT", _HNSW),
    _vector("IVF_HNSW_PQ", _PQ, _HNSW),
    _vector("IVF_HNSW_SQ", _BITS, _HNSW),
)
INDEX_TYPES: Final[Mapping[str, IndexType]] = MappingProxyType({one.name: one for one in _KNOWN})


def index_type(name: str) -> IndexType:
    """The type of a name, in any case; FTS is INVERTED.

    Raises:
        InvalidInputError: there is none.
    """
    folded = name.upper()
    found = INDEX_TYPES.get("INVERTED" if folded == "FTS" else folded)
    if found is None:
        raise InvalidInputError(f"there is no index of type {name!r}: the types are {', '.join(INDEX_TYPES)}")
    return found


def parameter(kind: IndexType, name: str, text: str) -> Any:  # noqa: ANN401 - parameters differ
    """Read a parameter from its text.

    Raises:
        InvalidInputError: the type has no such parameter, or the value makes no sense.
    """
    parse = kind.parameters.get(name)
    if parse is None:
        known = ", ".join(kind.parameters) or "none"
        raise InvalidInputError(
            f"an index of type {kind.name} has no parameter {name!r}: its parameters are {known}"
        )
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidInputError(
            f"parameter {name} of an index of type {kind.name} is {text!r}, but must be {error}"
        ) from None


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """A new index.

    Attributes:
        column: that it is of.
        type: of `types.INDEX_TYPES`, in any case.
        name: of the index; the column's with `_idx` where none is given.
        parameters: name -> value, as `types` reads them.
        replaces: whether an index of that name may be there, and goes.
        segment_rows: a table of more rows is divided into segments of about so many, which are built side by
            side.
    """

    column: str
    type: str = "BTREE"
    name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    replaces: bool = False
    segment_rows: int = 1_000_000

    def __post_init__(self) -> None:
        kind = index_type(self.type)
        object.__setattr__(self, "type", kind.name)
        object.__setattr__(self, "name", self.name or f"{self.column}_idx")
        if not self.column:
            raise InvalidInputError(f"an index of type {self.type} is of a column: name one")
        if self.segment_rows < 1:
            raise InvalidInputError(f"segment_rows is {self.segment_rows}, but must be 1 or more")
        for name, value in self.parameters.items():
            text = ",".join(value) if isinstance(value, list) else str(value)
            parameter(kind, name, text)

    @staticmethod
    def parse(
        text: str,
        parameters: Mapping[str, str] | None = None,
        *,
        replaces: bool = False,
        segment_rows: int = 1_000_000,
    ) -> IndexSpec:
        """Read ``COLUMN:TYPE[:NAME]`` and parameters of that type.

        Raises:
            InvalidInputError: it can't be read; says what can.
        """
        column, *more = text.split(":")
        if not column or not 1 <= len(more) <= 2 or not all(more):
            raise InvalidInputError(
                f"{text!r} is no index: write it as COLUMN:TYPE or COLUMN:TYPE:NAME, such as id:BTREE"
            )
        kind = index_type(more[0])
        values = {name: parameter(kind, name, value) for name, value in (parameters or {}).items()}
        name = more[1] if len(more) > 1 else ""
        return IndexSpec(column, more[0], name, values, replaces, segment_rows)

    @property
    def kind(self) -> IndexType:
        """Its type."""
        return index_type(self.type)

    def check(self, table: LakeTable, schema: pa.Schema) -> None:
        """Whether a table has such a column.

        Raises:
            NotFoundError: it has none; names those that come close.
            UnsupportedError: the column can't have such an index.
            InvalidInputError: a parameter does not fit the column.
        """
        if self.column not in schema.names:
            close = difflib.get_close_matches(self.column, schema.names, n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else f"it has {', '.join(schema.names)}"
            raise NotFoundError(f"table {table.name!r} has no column {self.column!r}: {hint}")
        kind = schema.field(self.column).type
        if not self.kind.takes(kind):
            raise UnsupportedError(
                f"an index of type {self.type} is of {self.kind.columns}, and column {self.column!r} of "
                f"table {table.name!r} is {kind}"
            )
        parts = self.parameters.get("num_sub_vectors")
        if parts is not None and kind.list_size % parts:
            size = kind.list_size
            raise InvalidInputError(
                f"num_sub_vectors is {parts}, which does not divide the {size} dimensions of {self.column!r}"
            )
