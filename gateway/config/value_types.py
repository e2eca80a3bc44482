"""Types of the values of keys, and how people write them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BeforeValidator, Field
from pydantic.fields import FieldInfo
from pydantic_settings import NoDecode

from lance_gateway.memwal.quantities import parse_seconds, parse_size


@dataclass(frozen=True, slots=True)
class Kind:
    """A description of a type's values, in its annotation, for messages and the reference."""

    text: str


def _split_list(value: object) -> object:
    if not isinstance(value, str):
        return value
    return [part.strip() for part in value.split(",") if part.strip()]


def _parse_number(value: object) -> object:
    text = str(value).strip().lower()
    return int(text) if text.isdecimal() else text


def _parse_path(value: object) -> object:
    # An empty path means "none": compose files and charts set variables that may be empty.
    return None if value == "" else value


Seconds: TypeAlias = Annotated[
    float,
    BeforeValidator(parse_seconds),
    Field(ge=0, allow_inf_nan=False),
    Kind("a duration such as 30s, 5m or 250ms"),
]
Size: TypeAlias = Annotated[
    int, BeforeValidator(parse_size), Field(ge=0), Kind("a size such as 64MiB, or bytes")
]
Port: TypeAlias = Annotated[int, Field(ge=0, le=65535), Kind("a port up to 65535; 0 is any free one")]
HttpPort: TypeAlias = Annotated[
    Literal["auto", "off"] | Annotated[int, Field(ge=0, le=65535)],
    BeforeValidator(_parse_number),
    Kind("a port up to 65535, auto or off"),
]
Names: TypeAlias = Annotated[
    tuple[str, ...],
    NoDecode,
    BeforeValidator(_split_list),
    Kind("a list; in a variable, separated by commas"),
]
Workers: TypeAlias = Annotated[
    Literal["auto"] | Annotated[int, Field(ge=0, le=64)],
    BeforeValidator(_parse_number),
    Kind("a number up to 64, or auto"),
]
File: TypeAlias = Annotated[Path | None, BeforeValidator(_parse_path), Kind("a path")]


def describe(field: FieldInfo) -> str:
    """Describe the values that a key takes."""
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
