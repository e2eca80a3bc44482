"""Functions over JSON in texts, which DataFusion calls for whole batches.

    SELECT json_extract_string(payload, '$.user.name'), json_array_length(payload, 'tags') FROM events

They answer as DuckDB does: what a path doesn't find is NULL, and a text that is not valid JSON is an
error. A path is `$.a.b[0]`, `/a/b/0`, or else the name of one field. The functions that write values take
those of one type; each type that a statement writes has functions of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from datafusion import ScalarUDF, SessionContext, udf

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError
from lance_gateway.planner.bridge.distance_functions import Failing
from lance_gateway.planner.bridge.json.changing import Change, change, merge_patch, set_at_keys
from lance_gateway.planner.bridge.json.reading import (
    extract,
    extract_string,
    find_type,
    is_valid,
    name_type,
    parse,
)
from lance_gateway.planner.bridge.json.writing import dump, refuse_unwritten, write_json
from lance_gateway.planner.bridge.types.plain_types import plain_type

_TEXT: Final = pa.string()


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of one row; NULL if an argument is.

    Attributes:
        compute: returns its value.
        result: type of the value.
        arguments: types of the arguments.
    """

    compute: Callable[..., Any]
    result: pa.DataType
    arguments: tuple[pa.DataType, ...]


def _read(name: str, result: pa.DataType, compute: Callable[..., Any], arguments: int = 1) -> _Function:
    """Return a function that parses its first argument."""
    return _Function(lambda text, *others: compute(parse(name, text), *others), result, (_TEXT,) * arguments)


def _is_kind(text: str, kind: str) -> bool:
    if not is_valid(text):
        return False
    found = name_type(parse("json_is", text))
    return kind in {"value", found} or (kind == "scalar" and found not in {"array", "object"})


_FUNCTIONS: Final[Mapping[str, _Function]] = MappingProxyType(
    {
        "json_extract": _read("json_extract", _TEXT, extract, 2),
        "json_extract_string": _read("json_extract_string", _TEXT, extract_string, 2),
        "json_array_length": _read(
            "json_array_length", pa.int64(), lambda value: len(value) if isinstance(value, list) else 0
        ),
        "json_type": _read("json_type", _TEXT, find_type),
        "json_typeof": _read("json_typeof", _TEXT, name_type),
        "json_keys": _read(
            "json_keys", pa.list_(_TEXT), lambda value: list(value) if isinstance(value, dict) else []
        ),
        "json_valid": _Function(is_valid, pa.bool_(), (_TEXT,)),
        "json_is": _Function(_is_kind, pa.bool_(), (_TEXT, _TEXT)),
        "json_merge_patch": _Function(merge_patch, _TEXT, (_TEXT, _TEXT)),
        "jsonb_set": _Function(set_at_keys, _TEXT, (_TEXT, _TEXT, _TEXT, pa.bool_())),
        **{
            kind.value: _Function(change(kind), _TEXT, (_TEXT,) * (2 if kind is Change.REMOVE else 3))
            for kind in Change
        },
    }
)
_KEY: Final = "json_key"
WRITERS: Final = frozenset({"to_json", "json_cast", "json_try_cast"})
"""Functions of values of any type."""
JSON_FUNCTIONS: Final = frozenset({*_FUNCTIONS, _KEY, *WRITERS})
"""Names of the functions."""
LISTED_FUNCTIONS: Final = frozenset(_FUNCTIONS)
"""Those that lists of functions name."""


def register_json(context: SessionContext, names: Iterable[str], run: Failing) -> None:
    """Register functions in a context.

    Args:
        context: of one statement.
        names: of the functions that it calls; those of `WRITERS` are left out.
        run: its execution, which keeps the error of a failed call.
    """
    for name in names:
        if name == _KEY:
            _register(context, name, _write_keys, (_TEXT,), _TEXT, run)
        elif name not in WRITERS:
            function = _FUNCTIONS[name]
            compute = partial(_compute_rows, function)
            _register(context, name, compute, function.arguments, function.result, run)


def register_writer(context: SessionContext, run: Failing, name: str, writer: str, kind: pa.DataType) -> None:
    """Register a function that writes values of one type.

    Args:
        context: of one statement.
        run: its execution, which keeps the error of a failed call.
        name: of the function.
        writer: one of `WRITERS`.
        kind: of the values.

    Raises:
        UnsupportedError: such values are not written.
    """
    refuse_unwritten(kind)
    stored = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    is_text = plain_type(stored) in {_TEXT, pa.large_string()}
    if writer == "to_json" or not is_text or isinstance(kind, pa.JsonType):
        _register(context, name, lambda values: write_json(values, kind), (stored,), _TEXT, run)
    else:
        function = _Function(_check if writer == "json_cast" else _keep_valid, _TEXT, (_TEXT,))
        _register(context, name, partial(_compute_rows, function), (_TEXT,), _TEXT, run)


def _register(
    context: SessionContext,
    name: str,
    compute: Callable[..., pa.Array],
    arguments: tuple[pa.DataType, ...],
    result: pa.DataType,
    run: Failing,
) -> None:
    def call(*values: pa.Array) -> pa.Array:
        try:
            return compute(*values)
        except LanceGatewayError as error:
            run.failure = run.failure or error
            raise

    function: ScalarUDF = udf(call, list(arguments), result, "immutable", name)
    context.register_udf(function)


def _compute_rows(function: _Function, *values: pa.Array) -> pa.Array:
    rows = zip(*(one.to_pylist() for one in values), strict=True)
    computed = (None if any(one is None for one in row) else function.compute(*row) for row in rows)
    return pa.array(computed, function.result)


def _check(text: str) -> str:
    parse("CAST to JSON", text)
    return text


def _keep_valid(text: str) -> str | None:
    return text if is_valid(text) else None


def _write_keys(keys: pa.StringArray) -> pa.StringArray:
    if keys.null_count:
        msg = "a key of an object of JSON is NULL: leave such rows out, or write coalesce(k, '')"
        raise InvalidInputError(msg)
    return pa.array([dump(key) for key in keys.to_pylist()], _TEXT)
