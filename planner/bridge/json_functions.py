"""Functions that read JSON in texts, which DataFusion calls for whole batches.

    SELECT json_extract_string(payload, '$.user.name'), json_array_length(payload, 'tags') FROM events

They answer as DuckDB does: what a path doesn't find is NULL, and a text that is no JSON is an error. A path
is `$.a.b[0]`, `/a/b/0`, or else the name of one field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from datafusion import ScalarUDF, SessionContext, udf

from memwal.errors import InvalidInputError, LanceGatewayError
from planner.bridge.distance_functions import Failing

_SHOWN: Final = 60
_STEP: Final = re.compile(
    r'\.(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<name>[^.\["*]+))|\[(?P<last>#-)?(?P<at>\d+)\]'
)
_MISSING: Final = object()
Step = str | int
"""The name of a field, or the place of an element; negative ones count from the end."""


@lru_cache(maxsize=1024)
def _read_path(path: str) -> tuple[Step, ...]:
    """Read a path.

    Raises:
        InvalidInputError: it is none.
    """
    if path.startswith("/"):
        parts = path[1:].split("/")
        return tuple(
            [int(one) if one.isdigit() else one.replace("~1", "/").replace("~0", "~") for one in parts]
        )
    if not path.startswith("$"):
        return (path,)
    steps: list[Step] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            msg = (
                f"{path!r} is no path of JSON from its character {at + 1} on: write $.name, "
                '$."a name", $[0] for the first element, $[#-1] for the last one'
            )
            raise InvalidInputError(msg)
        place = step["at"]
        if place is not None:
            steps.append(-int(place) if step["last"] else int(place))
        else:
            steps.append(step["name"] if step["quoted"] is None else json.loads(f'"{step["quoted"]}"'))
        at = step.end()
    return tuple(steps)


def _find(value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    for step in _read_path(path):
        if isinstance(value, dict):
            value = value.get(str(step), _MISSING) if isinstance(step, str) else _MISSING
        elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return _MISSING
        if value is _MISSING:
            return value
    return value


def _write(value: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _extract(value: Any, path: str) -> str | None:  # noqa: ANN401 - JSON
    found = _find(value, path)
    return None if found is _MISSING else _write(found)


def _extract_string(value: Any, path: str) -> str | None:  # noqa: ANN401 - JSON
    found = _find(value, path)
    if found is _MISSING or found is None:
        return None
    return found if isinstance(found, str) else _write(found)


def _find_type(value: Any) -> str:  # noqa: ANN401 - JSON
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "UBIGINT" if value >= 0 else "BIGINT"
    names = {type(None): "NULL", float: "DOUBLE", str: "VARCHAR", list: "ARRAY", dict: "OBJECT"}
    return names[type(value)]


def _name_type(value: Any) -> str:  # noqa: ANN401 - JSON
    found = _find_type(value).lower()
    return {"varchar": "string", "ubigint": "number", "bigint": "number", "double": "number"}.get(
        found, found
    )


_TEXT: Final = pa.string()
_WITH_PATH: Final[Mapping[str, Callable[[Any, str], str | None]]] = MappingProxyType(
    {"json_extract": _extract, "json_extract_string": _extract_string}
)
_OF_VALUE: Final[Mapping[str, tuple[Callable[[Any], Any], pa.DataType]]] = MappingProxyType(
    {
        "json_array_length": (lambda value: len(value) if isinstance(value, list) else 0, pa.int64()),
        "json_type": (_find_type, _TEXT),
        "json_typeof": (_name_type, _TEXT),
        "json_keys": (lambda value: list(value) if isinstance(value, dict) else [], pa.list_(_TEXT)),
    }
)
_IS_VALID: Final = "json_valid"
JSON_FUNCTIONS: Final = frozenset({*_WITH_PATH, *_OF_VALUE, _IS_VALID})
"""Names of the functions."""


def register_json(context: SessionContext, names: Iterable[str], run: Failing) -> None:
    """Register functions in a context.

    Args:
        context: of one statement.
        names: of the functions that it calls.
        run: its execution, which keeps the error of a failed call.
    """
    for name in names:
        context.register_udf(_make_function(name, run))


def _make_function(name: str, run: Failing) -> ScalarUDF:
    def keep_error(call: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
        def kept(*arguments: pa.Array) -> pa.Array:
            try:
                return call(*arguments)
            except LanceGatewayError as error:
                run.failure = run.failure or error
                raise

        return kept

    if name in _WITH_PATH:
        find = _WITH_PATH[name]

        def extract(texts: pa.Array, paths: pa.Array) -> pa.Array:
            pairs = zip(texts.to_pylist(), paths.to_pylist(), strict=True)
            return pa.array(
                [
                    None if text is None or path is None else find(_parse(name, text), path)
                    for text, path in pairs
                ],
                _TEXT,
            )

        return udf(keep_error(extract), [_TEXT, _TEXT], _TEXT, "immutable", name)
    if name == _IS_VALID:
        return udf(
            lambda texts: pa.array(
                [None if text is None else _is_valid(text) for text in texts.to_pylist()], pa.bool_()
            ),
            [_TEXT],
            pa.bool_(),
            "immutable",
            name,
        )
    compute, kind = _OF_VALUE[name]

    def call(texts: pa.Array) -> pa.Array:
        values = (None if text is None else compute(_parse(name, text)) for text in texts.to_pylist())
        return pa.array(values, kind)

    return udf(keep_error(call), [_TEXT], kind, "immutable", name)


def _parse(name: str, text: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        msg = f"{name}: {shown!r} is no JSON ({error}); json_valid() tells which texts are"
        raise InvalidInputError(msg) from error


def _refuse_constant(name: str) -> None:
    msg = f"{name} is no number there"
    raise ValueError(msg)


def _is_valid(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return True
