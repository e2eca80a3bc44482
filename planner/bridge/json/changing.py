"""Functions that change JSON in texts.

    json_set('{"a": [1]}', '$.a[1]', '2')  ->  '{"a":[1,2]}'

Paths are those of `planner.bridge.json.reading`. Only the last step of a path may lead to what is not there
yet, and an element is added behind the last one, as in MySQL; a path that leads nowhere changes nothing.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.bridge.json.reading import Step, parse, read_path
from lance_gateway.planner.bridge.json.writing import dump


class Change(Enum):
    """What happens at a path.

    Attributes:
        SET: a value is replaced or added.
        INSERT: one is added where there is none.
        REPLACE: one is replaced where there is one.
        REMOVE: it is left out.
    """

    SET = "json_set"
    INSERT = "json_insert"
    REPLACE = "json_replace"
    REMOVE = "json_remove"


def change(kind: Change) -> Callable[..., str]:
    """Return the function of a text of JSON, a path, and a value as JSON but for REMOVE."""

    def run(text: str, path: str, value: str = "null") -> str:
        name = kind.value
        return dump(_change(parse(name, text), read_path(path), parse(name, value), kind))

    return run


def set_at_keys(text: str, path: str, value: str, creates: bool) -> str:  # noqa: FBT001 - as SQL calls it
    """Return JSON with a value at a path such as {a,0}.

    Raises:
        InvalidInputError: there is no such path, or a text is not valid JSON.
    """
    document = parse("jsonb_set", text)
    steps = _read_keys(path)
    kind = Change.SET if creates else Change.REPLACE
    return dump(_change(document, _fit(document, steps), parse("jsonb_set", value), kind))


def merge_patch(text: str, patch: str) -> str:
    """Return JSON with the changes of a merge patch, in which null leaves a field out (RFC 7396)."""
    return dump(_merge(parse("json_merge_patch", text), parse("json_merge_patch", patch)))


def _merge(target: Any, patch: Any) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value)
    return merged


def _change(document: Any, steps: Sequence[Step], value: Any, kind: Change) -> Any:  # noqa: ANN401 - JSON
    """Return a document with the change; its parts may be changed in place."""
    if not steps:
        if kind is Change.REMOVE:
            msg = "json_remove: the path '$' is the whole value, which can't be left out of itself"
            raise InvalidInputError(msg)
        return document if kind is Change.INSERT else value
    *before, last = steps
    holder = document
    for step in before:
        if not _has(holder, step):
            return document
        holder = holder[step]
    if _has(holder, last):
        if kind is Change.REMOVE:
            del holder[last]
        elif kind is not Change.INSERT:
            holder[last] = value
    elif kind in {Change.SET, Change.INSERT}:
        if isinstance(holder, dict) and isinstance(last, str):
            holder[last] = value
        elif isinstance(holder, list) and isinstance(last, int) and last >= 0:
            holder.append(value)
    return document


def _has(holder: Any, step: Step) -> bool:  # noqa: ANN401 - JSON
    if isinstance(holder, dict):
        return step in holder
    return isinstance(holder, list) and isinstance(step, int) and -len(holder) <= step < len(holder)


_WRITTEN: Final = "'{a,0}'"


def _read_keys(path: str) -> list[str]:
    if not (path.startswith("{") and path.endswith("}")):
        msg = (
            f"jsonb_set: {path!r} is not a path: write {_WRITTEN}, of names of fields and numbers of elements"
        )
        raise InvalidInputError(msg)
    (row,) = csv.reader([path[1:-1]], escapechar="\\", skipinitialspace=True) if path != "{}" else ([],)
    return list(row)


def _fit(document: Any, keys: Sequence[str]) -> list[Step]:  # noqa: ANN401 - JSON
    """Return the steps of a path: in arrays, keys are numbers."""
    steps: list[Step] = []
    for key in keys:
        step: Step = key
        if isinstance(document, list):
            if not key.removeprefix("-").isdecimal():
                msg = f"jsonb_set: {key!r} is not a number of an element; a path is written {_WRITTEN}"
                raise InvalidInputError(msg)
            step = int(key)
        steps.append(step)
        document = document[step] if _has(document, step) else None
    return steps
