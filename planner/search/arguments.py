"""Read and check the arguments of a search function for one table."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.search.source import MAX_K, MAX_ROWS, Staleness, VectorRequest
from lance_gateway.execnodes.text.query.query import TextQuery
from lance_gateway.execnodes.text.query.syntax import TEXT_OPTIONS, parse_text_query
from lance_gateway.memwal.errors import InvalidInputError, NotFoundError
from lance_gateway.planner.search.search_call import QueryVectors, Value

DEFAULT_K = 10
METRICS = ("l2", "cosine", "dot", "hamming")
_METRIC_ALIASES = {"euclidean": "l2", "inner_product": "dot", "ip": "dot"}
_LONGEST_VALUE = 80
_LONGEST_NUMBER = 10**30
_Choice = TypeVar("_Choice", bound=Enum)


def format_argument(value: object) -> str:
    """Format a value for messages."""
    if isinstance(value, int) and abs(value) >= _LONGEST_NUMBER:
        return "a number of many digits"
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_VALUE else f"{shown[:_LONGEST_VALUE]}..."


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of a call by name, with checks for each type.

    Args:
        function: that was called, for messages.
        table: its name, for messages.
        schema: columns of the table that the caller may see.
        values: of the arguments that were given.
        masked: columns whose true values the caller may not see.
    """

    function: str
    table: str
    schema: pa.Schema
    values: Mapping[str, Value]
    masked: AbstractSet[str] = frozenset()

    def build_error(self, message: str) -> InvalidInputError:
        """Build the error for a call with wrong arguments."""
        return InvalidInputError(f"{self.function}: {message}")

    def read_integer(self, name: str, *, least: int = 1, most: int = MAX_K) -> int | None:
        """Return a whole number within bounds; None if it is absent."""
        if name not in self.values:
            return None
        value = self.values[name]
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.build_error(f"{name} must be a whole number, not {format_argument(value)}")
        if not least <= value <= most:
            raise self.build_error(f"{name} must be between {least} and {most}, not {format_argument(value)}")
        return value

    def read_number(self, name: str, *, default: float, least: float, most: float) -> float:
        """Return a number within bounds."""
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.build_error(f"{name} must be a number, not {format_argument(value)}")
        if not least <= value <= most:
            raise self.build_error(
                f"{name} must be between {least:g} and {most:g}, not {format_argument(value)}"
            )
        return float(value)

    def read_boolean(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise self.build_error(f"{name} must be true or false, not {format_argument(value)}")
        return value

    def read_choice(self, name: str, default: _Choice) -> _Choice:
        """Return one of the members of an enumeration."""
        value = self.values.get(name, default.value)
        kind = type(default)
        for one in kind:
            if isinstance(value, str) and value.lower() == one.value:
                return one
        offered = ", ".join(repr(one.value) for one in kind)
        raise self.build_error(f"{name} must be one of {offered}, not {format_argument(value)}")

    def find_column(self, name: str) -> pa.Field:
        """Return the field of the column that an argument names."""
        return self.find_named_column(name, self.get_column_name(name))

    def get_column_name(self, name: str) -> Value:
        """Return the argument that names a column; it can't be a parameter, since planning needs it."""
        if name not in self.values:
            raise self.build_error(
                f"{name} must be the name of a column such as 'vec', and can't be a parameter"
            )
        return self.values[name]

    def find_named_column(self, name: str, value: Value) -> pa.Field:
        """Return the field of a column, if the caller may search it."""
        if not isinstance(value, str):
            raise self.build_error(f"{name} must be the name of a column, not {format_argument(value)}")
        if value not in self.schema.names:
            known = ", ".join(self.schema.names)
            msg = f"{self.function}: table {self.table!r} has no column {value!r}; it has {known}"
            raise NotFoundError(msg)
        if value in self.masked:
            msg = (
                f"column {value!r} of table {self.table!r} is masked by your access policy, and "
                "what is masked can't be searched: search another column, or ask an administrator"
            )
            raise self.build_error(msg)
        return self.schema.field(value)

    def read_k(self) -> int:
        """Return the number of rows to find."""
        return self.read_integer("k") or DEFAULT_K


def read_vector_request(
    arguments: Arguments, k: int, *, column: str = "column", query: str = "query", rows: str = "k"
) -> VectorRequest:
    """Read the vector search of a call.

    Args:
        arguments: of the call.
        k: rows wanted for each query.
        column: name of the argument that names the column.
        query: name of the argument that holds the vectors.
        rows: what k is called in messages.

    Raises:
        InvalidInputError: an argument that can't be, with its name and value.
        NotFoundError: no such column.
    """
    field = arguments.find_column(column)
    dimension, element = _read_vector_type(arguments, field)
    vectors = _read_vectors(arguments, query, field.name, dimension, element)
    if k * len(vectors) > MAX_ROWS:
        raise arguments.build_error(
            f"{k} rows for each of {len(vectors)} query vectors are more than {MAX_ROWS}: "
            "ask for fewer rows, or for fewer vectors at a time"
        )
    metric = _read_metric(arguments)
    if metric == "hamming" and element != pa.uint8():
        raise arguments.build_error(
            f"metric hamming is for vectors of uint8, and {field.name!r} holds {element}"
        )
    ef = arguments.read_integer("ef")
    if ef is not None and ef < k:
        raise arguments.build_error(f"ef must be at least {rows} ({k}), not {ef}")
    return VectorRequest(
        field.name,
        vectors,
        k,
        metric,
        nprobes=arguments.read_integer("nprobes"),
        ef=ef,
        refine_factor=arguments.read_integer("refine_factor"),
        use_index=arguments.read_boolean("use_index", default=True),
        staleness=arguments.read_choice("staleness", Staleness.EXACT),
    )


def has_many_vectors(value: Value) -> bool:
    """Return whether the argument has a list of query vectors rather than one vector."""
    if isinstance(value, QueryVectors):
        return True
    return isinstance(value, tuple | list) and bool(value) and isinstance(value[0], tuple | list)


def _read_metric(arguments: Arguments) -> str | None:
    if "metric" not in arguments.values:
        return None
    value = arguments.values["metric"]
    name = value.lower() if isinstance(value, str) else ""
    name = _METRIC_ALIASES.get(name, name)
    if name not in METRICS:
        raise arguments.build_error(
            f"metric must be one of {', '.join(METRICS)}, not {format_argument(value)}"
        )
    return name


def _read_vector_type(arguments: Arguments, field: pa.Field) -> tuple[int, pa.DataType]:
    kind = field.type
    if pa.types.is_fixed_size_list(kind):
        element = kind.value_type
        if pa.types.is_floating(element) or element in {pa.uint8(), pa.int8()}:
            return kind.list_size, element
    raise arguments.build_error(
        f"column {field.name!r} of table {arguments.table!r} is not a vector: it is {kind}, and vectors are "
        "fixed-size lists of float16, float32, float64, int8 or uint8"
    )


def _read_vectors(
    arguments: Arguments, name: str, column: str, dimension: int, element: pa.DataType
) -> np.ndarray:
    if name not in arguments.values:  # a parameter whose value is not known yet
        return np.zeros((1, dimension), np.uint8 if element == pa.uint8() else np.float32)
    value = arguments.values[name]
    if isinstance(value, str):
        # As pgvector writes vectors; a string of another kind is refused as what it is.
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(value, parse_constant=float)
    queries = value if has_many_vectors(value) else (value,)
    assert isinstance(queries, tuple | list)  # noqa: S101 - is_many said so
    rows = [_read_vector(arguments, name, query, column, dimension) for query in queries]
    vectors = np.array(rows, dtype=np.float64).reshape(len(rows), dimension)
    if element == pa.uint8():
        if np.any((vectors < 0) | (vectors > 255) | (vectors != np.floor(vectors))):
            raise arguments.build_error(
                f"{name} must hold whole numbers from 0 to 255: {column!r} holds {element}"
            )
        return vectors.astype(np.uint8)
    with np.errstate(over="ignore"):
        narrow = vectors.astype(np.float32)
    if not np.isfinite(narrow).all():
        raise arguments.build_error(f"{name} holds a number that float32 can't: {np.abs(vectors).max():g}")
    return narrow


def _read_vector(arguments: Arguments, name: str, value: object, column: str, dimension: int) -> list[float]:
    if not isinstance(value, tuple | list):
        msg = (
            f"{name} must be a list of {dimension} numbers such as [0.1, 0.2, ...], "
            f"not {format_argument(value)}"
        )
        raise arguments.build_error(msg)
    if len(value) != dimension:
        msg = f"the query has {len(value)} numbers, but column {column!r} holds vectors of {dimension}"
        raise arguments.build_error(msg)
    numbers = []
    for one in value:
        try:
            number = math.nan if isinstance(one, bool | str) else float(one)
        except (TypeError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise arguments.build_error(f"{name} must hold finite numbers, not {format_argument(one)}")
        numbers.append(number)
    return numbers


_ANY_WORD = "word"
"""Stands for a query that is a parameter whose value is not known yet."""


def read_text_query(arguments: Arguments, *, column: str = "column", query: str = "query") -> TextQuery:
    """Read the text query of a call.

    Args:
        arguments: of the call.
        column: name of the argument that names the column, or several.
        query: name of the argument that holds the query.

    Raises:
        InvalidInputError: an argument that can't be, with its name and value.
        NotFoundError: no such column.
    """
    named = arguments.get_column_name(column)
    names = named if isinstance(named, tuple | list) and named else (named,)
    columns = [_read_text_column(arguments, column, name) for name in names]
    text = arguments.values.get(query, _ANY_WORD)
    if not isinstance(text, str):
        raise arguments.build_error(f"{query} must be a text, not {format_argument(text)}")
    options = {name: arguments.values[name] for name in TEXT_OPTIONS if name in arguments.values}
    found = parse_text_query(columns, text, options)
    for name in found.columns:  # a structured query names columns of its own
        _read_text_column(arguments, column, name)
    return found


def _read_text_column(arguments: Arguments, argument: str, name: Value) -> str:
    field = arguments.find_named_column(argument, name)
    kind = field.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        msg = f"column {field.name!r} of table {arguments.table!r} is not text: it is {field.type}"
        raise arguments.build_error(msg)
    name_of_column: str = field.name
    return name_of_column
