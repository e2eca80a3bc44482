"""How rows map to regions, as text: transforms of columns, separated by commas.

bucket(user_id, 16)
identity(country), year(placed_on)
multi_bucket(tenant, user_id, 64)
expression('col0 % 8', id)
unsharded
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from lance_gateway.memwal.base.index_details import RegionField, RegionSpec
from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    NotFoundError,
    UnsupportedError,
    copy_error,
)
from lance_gateway.memwal.transforms.expressions import evaluate_expression
from lance_gateway.memwal.transforms.raw_values import parse_result_type
from lance_gateway.memwal.transforms.transforms import build_transform

EXAMPLES: Final = "bucket(column, 16), identity(column), year(column), truncate(column, 4), unsharded"
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)|\"(?P<quoted>(?:[^\"]|\"\")+)\""
    r"|'(?P<text>(?:[^']|'')*)'|(?P<mark>[(),]))"
)
_QUOTES: Final[Mapping[str, str]] = {"quoted": '"', "text": "'"}
_DATE_PARTS: Final = ("year", "month", "day", "hour")
_NAMES: Final = {
    pa.string(): "utf8",
    pa.large_string(): "large_utf8",
    pa.float32(): "float32",
    pa.float64(): "float64",
}
UNSHARDED = "unsharded"


@dataclass(frozen=True, slots=True)
class MemWalOptions:
    """Options of a new MemWAL index.

    Attributes:
        region_by: how rows map to regions; see `region_by`.
        maintained_indexes: indexes that flushed generations carry too; None for all of the table, also those
            that come.
        keys_never_move: the promise that two rows of one key agree on the columns that regions are made of,
            where those are not part of the key.
        writer_defaults: options that writers start from.
    """

    region_by: str = UNSHARDED
    maintained_indexes: tuple[str, ...] | None = None
    keys_never_move: bool = False
    writer_defaults: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class _Call:
    """A parsed transform: its name, columns, number, and expression."""

    name: str
    columns: tuple[str, ...]
    number: int | None
    text: str | None


def parse_region_fields(text: str, ids: Mapping[str, int], schema: pa.Schema) -> tuple[RegionField, ...]:
    """Parse the fields of a region spec.

    Args:
        text: as above.
        ids: column -> Lance field id.
        schema: types of the columns.

    Raises:
        InvalidInputError: the text can't be read, or a transform lacks something.
        NotFoundError: an unknown transform or column.
        UnsupportedError: a transform of a column of that type.
    """
    calls = tuple(_parse_calls(text))
    if len(calls) > 1 and any(call.name == UNSHARDED for call in calls):
        msg = f"region_by {text!r}: unsharded stands alone, since all rows are in one region"
        raise InvalidInputError(msg)
    fields = [_build_field(call, text, ids, schema) for call in calls]
    if len(fields) == 1:
        return tuple(fields)
    named: list[RegionField] = []
    for call, one in zip(calls, fields, strict=True):
        name = "_".join((*call.columns, call.name)) or call.name
        others = sum(other.field_id == name or other.field_id.startswith(f"{name} ") for other in named)
        named.append(replace(one, field_id=f"{name} {others + 1}" if others else name))
    return tuple(named)


def list_region_columns(spec: RegionSpec | None) -> frozenset[int]:
    """Return the Lance field ids of the columns that determine the region."""
    return frozenset(source for field in (spec.fields if spec else ()) for source in field.source_ids)


def _parse_calls(text: str) -> Iterator[_Call]:
    tokens = list(_tokenize(text))
    at = 0
    while True:
        kind, name = tokens[at]
        if kind != "name":
            raise _syntax_error(text, f"a transform is missing where the text has {name!r}")
        at += 1
        arguments: list[tuple[str, str]] = []
        if tokens[at] == ("mark", "("):
            at += 1
            while tokens[at] != ("mark", ")"):
                if tokens[at][0] in ("end", "mark"):
                    raise _syntax_error(text, f"the arguments of {name} don't end")
                arguments.append(tokens[at])
                at += 1
                if tokens[at] == ("mark", ","):
                    at += 1
                elif tokens[at] != ("mark", ")"):
                    raise _syntax_error(text, f"a comma or parenthesis is missing in {name}")
            at += 1
        yield _parse_call(name.lower(), arguments, text)
        if tokens[at][0] == "end":
            return
        if tokens[at] != ("mark", ","):
            raise _syntax_error(text, f"a comma is missing after {name}")
        at += 1


def _tokenize(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            raise _syntax_error(text, f"{text[at:].strip()[:20]!r} means nothing there")
        kind = str(found.lastgroup)
        value = found[kind]
        if kind == "name":
            # As everywhere in SQL: names fold to lower case unless they are quoted.
            value = value.lower()
        elif kind in _QUOTES:
            value = value.replace(_QUOTES[kind] * 2, _QUOTES[kind])
        yield ("column" if kind == "quoted" else kind), value
        at = found.end()
    yield "end", ""


def _parse_call(name: str, arguments: Sequence[tuple[str, str]], text: str) -> _Call:
    columns = tuple(value for kind, value in arguments if kind in ("name", "column"))
    numbers = [int(value) for kind, value in arguments if kind == "number"]
    texts = [value for kind, value in arguments if kind == "text"]
    if len(numbers) > 1 or len(texts) > 1:
        raise _syntax_error(text, f"{name} has too many arguments")
    return _Call(name, columns, numbers[0] if numbers else None, texts[0] if texts else None)


_SHAPES: Final[Mapping[str, tuple[str, bool, str]]] = {
    # transform: how to write it, whether it takes a number, and as what parameter
    "bucket": ("bucket(column, number of buckets)", True, "num_buckets"),
    "multi_bucket": ("multi_bucket(column, column, .., number of buckets)", True, "num_buckets"),
    "truncate": ("truncate(column, width)", True, "width"),
    "identity": ("identity(column)", False, ""),
    "year": ("year(column)", False, ""),
    "month": ("month(column)", False, ""),
    "day": ("day(column)", False, ""),
    "hour": ("hour(column)", False, ""),
    "unsharded": ("unsharded", False, ""),
    "expression": ("expression('SQL over col0, col1, ..', column, column, ..)", False, ""),
}


def _build_field(call: _Call, text: str, ids: Mapping[str, int], schema: pa.Schema) -> RegionField:
    shape = _SHAPES.get(call.name)
    if shape is None:
        close = get_close_matches(call.name, _SHAPES, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(_SHAPES)}"
        msg = f"region_by {text!r}: there is no transform {call.name!r}; {hint}"
        raise NotFoundError(msg)
    written, takes_number, parameter = shape
    counts = {UNSHARDED: 0} | dict.fromkeys(("multi_bucket", "expression"), -1)
    wanted = counts.get(call.name, 1)
    fits = len(call.columns) == wanted if wanted >= 0 else len(call.columns) > 0
    if (
        not fits
        or (call.number is not None) != takes_number
        or (call.text is not None) != (call.name == "expression")
    ):
        msg = f"region_by {text!r}: write {written}"
        raise InvalidInputError(msg)
    for name in call.columns:
        if name not in schema.names:
            close = get_close_matches(name, schema.names, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(schema.names)}"
            msg = f"region_by {text!r}: there is no column {name!r}; {hint}"
            raise NotFoundError(msg)
    field = RegionField(
        field_id=call.name,
        source_ids=tuple(ids[name] for name in call.columns),
        transform=None if call.name == "expression" else call.name,
        expression=call.text,
        result_type="int32",
        parameters={parameter: str(call.number)} if takes_number else {},
    )
    return _infer_result_type(field, text, [schema.field(name).type for name in call.columns])


def _infer_result_type(field: RegionField, text: str, types: Sequence[pa.DataType]) -> RegionField:
    if field.transform in _DATE_PARTS and not all(map(pa.types.is_temporal, types)):
        msg = f"region_by {text!r}: {field.transform} takes a date or timestamp, not {types[0]}"
        raise UnsupportedError(msg)
    try:
        columns = [pa.nulls(1, kind) for kind in types]
        if field.expression is None:
            values = build_transform(field).apply(columns, rows=1)
        else:
            values = evaluate_expression(field.expression, columns, 1)
        result = _type_name(values.type)
        parse_result_type(result)
    except LanceGatewayError as error:
        msg = f"region_by {text!r}: {error}"
        raise copy_error(error, msg) from error
    except (pa.ArrowException, TypeError, ValueError) as error:
        described = ", ".join(map(str, types))
        msg = f"region_by {text!r}: {field.field_id} does not take {described}: {error}"
        raise UnsupportedError(msg) from error
    return replace(field, result_type=result)


def _type_name(kind: pa.DataType) -> str:
    return _NAMES.get(kind, str(kind))


def _syntax_error(text: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"region_by {text!r} can't be read: {reason}. Write for example {EXAMPLES}")
