"""Functions that read JSON in texts.

    SELECT json_extract_string(payload, '$.user.name'), json_array_length(payload, 'tags') FROM events

They answer as DuckDB does: what a path doesn't find is NULL, and a text that is not valid JSON is an
error. A path is `$.a.b[0]`, `/a/b/0`, or else the name of one field.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from typing import Any, Final

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.bridge.json.writing import dump

_SHOWN: Final = 60
_STEP: Final = re.compile(
    r'\.(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<name>[^.\["*]+))|\[(?P<last>#-)?(?P<at>\d+)\]'
)
_MISSING: Final = object()
Step = str | int
"""The name of a field, or the place of an element; negative ones count from the end."""


@lru_cache(maxsize=1024)
def read_path(path: str) -> tuple[Step, ...]:
    """Read a path of names of fields and places of elements.

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
                f"{path!r} is not a path of JSON from its character {at + 1} on: write $.name, "
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
    """Return what a path finds; `_MISSING` if there is nothing."""
    for step in read_path(path):
        if isinstance(value, dict):
            value = value.get(str(step), _MISSING) if isinstance(step, str) else _MISSING
        elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return _MISSING
        if value is _MISSING:
            return value
    return value


def extract(value: Any, path: str) -> str | None:  # noqa: ANN401 - JSON
    """Return what a path finds, as JSON; None if there is nothing."""
    found = _find(value, path)
    return None if found is _MISSING else dump(found)


def extract_string(value: Any, path: str) -> str | None:  # noqa: ANN401 - JSON
    """Return what a path finds, texts without quotes; None for null, and if there is nothing."""
    found = _find(value, path)
    if found is _MISSING or found is None:
        return None
    return found if isinstance(found, str) else dump(found)


def find_type(value: Any) -> str:  # noqa: ANN401 - JSON
    """Return the name of a type as DuckDB has it."""
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "UBIGINT" if value >= 0 else "BIGINT"
    names = {type(None): "NULL", float: "DOUBLE", str: "VARCHAR", list: "ARRAY", dict: "OBJECT"}
    return names[type(value)]


def name_type(value: Any) -> str:  # noqa: ANN401 - JSON
    """Return the name of a type as PostgreSQL has it."""
    found = find_type(value).lower()
    return {"varchar": "string", "ubigint": "number", "bigint": "number", "double": "number"}.get(
        found, found
    )


def parse(name: str, text: str) -> Any:  # noqa: ANN401 - JSON
    """Parse JSON.

    Args:
        name: of the function that is called.
        text: to parse.

    Raises:
        InvalidInputError: it is none.
    """
    try:
        return _load(text)
    except (ValueError, RecursionError) as error:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        msg = f"{name}: {shown!r} is not valid JSON ({error}); json_valid() tells which texts are"
        raise InvalidInputError(msg) from error


def is_valid(text: str) -> bool:
    """Return whether a text is JSON."""
    try:
        _load(text)
    except (ValueError, RecursionError):
        return False
    return True


def _load(text: str) -> Any:  # noqa: ANN401 - JSON
    return json.loads(text, parse_constant=_refuse_constant, parse_float=_read_float)


def _refuse_constant(name: str) -> None:
    msg = f"{name} is not a number there"
    raise ValueError(msg)


def _read_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        msg = f"{digits} is not a number of 64 bits"
        raise ValueError(msg)
    return number
