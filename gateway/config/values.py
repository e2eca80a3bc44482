"""Kinds of values that people write in their own way: `30s`, `512MiB`, `a, b`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BeforeValidator, ByteSize, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import NoDecode

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)\s*")
_SIZE = TypeAdapter(ByteSize)
_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value is, in words: part of a type's annotation, for messages and the reference."""

    text: str


def parse_seconds(value: object) -> object:
    """Reads a duration; what is no text is left to the schema.

    >>> parse_seconds("1.5m"), parse_seconds("250ms"), parse_seconds(3)
    (90.0, 0.25, 3)

    Raises:
        ValueError: the text is no duration.
    """
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value)
    if found is None:
        msg = "it is no duration"
        raise ValueError(msg)
    return float(found[1]) * _UNITS[found[2]]


def parse_size(value: object) -> object:
    """Reads a number of bytes; what is no text is left to the schema.

    >>> parse_size("64MiB"), parse_size("1.5 kB"), parse_size(3)
    (67108864, 1500, 3)

    Raises:
        ValueError: the text is no size.
    """
    if not isinstance(value, str):
        return value
    try:
        return int(_SIZE.validate_python(value))
    except ValidationError:
        msg = "it is no size"
        raise ValueError(msg) from None


def _split(value: object) -> object:
    if not isinstance(value, str):
        return value
    return [part.strip() for part in value.split(",") if part.strip()]


def _port(value: object) -> object:
    text = str(value).strip().lower()
    return int(text) if text.isdecimal() else text


def _path(value: object) -> object:
    # An empty path means "none": compose files and charts set variables that may be empty.
    return None if value == "" else value


Seconds: TypeAlias = Annotated[
    float, BeforeValidator(parse_seconds), Field(ge=0), Kind("a duration such as 30s, 5m or 250ms")
]
Size: TypeAlias = Annotated[
    int, BeforeValidator(parse_size), Field(ge=0), Kind("a size such as 64MiB, or bytes")
]
Port: TypeAlias = Annotated[int, Field(ge=0, le=65535), Kind("a port up to 65535; 0 is any free one")]
HttpPort: TypeAlias = Annotated[
    Literal["auto", "off"] | Annotated[int, Field(ge=0, le=65535)],
    BeforeValidator(_port),
    Kind("a port up to 65535, auto or off"),
]
Names: TypeAlias = Annotated[
    tuple[str, ...], NoDecode, BeforeValidator(_split), Kind("a list; in a variable, separated by commas")
]
File: TypeAlias = Annotated[Path | None, BeforeValidator(_path), Kind("a path")]


def describe(field: FieldInfo) -> str:
    """Says what a key takes."""
    bounds: dict[type, Any] = {type(part): part for part in field.metadata}
    named: Kind | None = bounds.get(Kind)
    if named is not None:
        return named.text + (", not 0" if Gt in bounds else "")
    annotation = field.annotation
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(map(str, get_args(annotation)))
    if get_origin(annotation) is dict:
        return "a table of texts"
    if annotation is bool:
        return "true or false"
    if annotation is str:
        return "a text"
    least, most = bounds.get(Ge), bounds.get(Le)
    noun = "a whole number" if annotation is int else "a number"
    if least is not None and most is not None:
        return f"{noun} from {least.ge:g} to {most.le:g}"
    return noun if least is None else f"{noun}, at least {least.ge:g}"
