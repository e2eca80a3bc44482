"""The tree inside a `pyarrow.compute.Expression`.

pyarrow shows an expression only as text. It does serialise it (that is how expressions are pickled): as an
Arrow IPC file of one row whose schema metadata lists the tree in order (`call`, `field_ref`, `literal`,
`options`, `end`) and whose columns hold the literals and options. The layout belongs to the pinned pyarrow
release; a test pins it, and anything unexpected reads as "not understood".
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Field:
    """A top-level column by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Value:
    """A literal."""

    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class Call:
    """A compute function over arguments; `options` is a struct scalar, None where the function has none."""

    function: str
    arguments: tuple[Node, ...]
    options: pa.StructScalar | None


@dataclass(frozen=True, slots=True)
class Other:
    """Part of an expression that is none of the above, such as a nested field."""


_ASSOCIATIVE = frozenset({"and_kleene", "or_kleene", "and", "or"})

Node: TypeAlias = Field | Value | Call | Other


def read_expression(expression: pc.Expression) -> Node | None:
    """Return the expression's tree with typed literals; None if it cannot be read."""
    try:
        _, (buffer,) = expression.__reduce__()
        reader = pa.ipc.open_file(buffer)
        if reader.num_record_batches != 1:
            return None
        return _build_tree(_read_entries(reader.schema), reader.get_batch(0))
    except (pa.ArrowException, NotImplementedError, LookupError, TypeError, ValueError):
        return None


class _CSchema(ctypes.Structure):
    """The head of `struct ArrowSchema` of Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


def _read_entries(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the schema's metadata in order.

    `schema.metadata` is a dict, in which only the last of several `call` entries would be left; the C data
    interface gives them all: a count, then length-prefixed keys and values.
    """
    capsule = schema.__arrow_c_schema__()
    metadata = _CSchema.from_address(_capsule_pointer(capsule, b"arrow_schema")).metadata
    if not metadata:
        return []
    (count,) = struct.unpack("=i", ctypes.string_at(metadata, 4))
    at = metadata + 4
    texts: list[str] = []
    for _ in range(2 * count):
        (length,) = struct.unpack("=i", ctypes.string_at(at, 4))
        texts.append(ctypes.string_at(at + 4, length).decode())
        at += 4 + length
    return list(zip(texts[::2], texts[1::2], strict=True))


@dataclass(slots=True)
class _OpenCall:
    """A call whose `end` has not been read; `merged` counts the calls inside it that were made part of it."""

    function: str
    arguments: list[Node] = field(default_factory=list)
    options: pa.StructScalar | None = None
    merged: int = 0


def _build_tree(entries: list[tuple[str, str]], batch: pa.RecordBatch) -> Node:
    """Build the tree from its entries: a call's arguments stand between `call` and its options or `end`.

    `(a or b) or c` becomes one call of three arguments, so a chain of a thousand alternatives stays flat.
    """
    root = _OpenCall("")
    open_calls = [root]
    position = 0
    while position < len(entries):
        kind, text = entries[position]
        position += 1
        call = open_calls[-1]
        if kind == "field_ref":
            call.arguments.append(Field(text))
        elif kind == "literal":
            call.arguments.append(Value(batch.column(int(text))[0]))
        elif kind == "nested_field_ref":
            call.arguments.append(Other())
            position += int(text)
        elif kind == "options":
            call.options = batch.column(int(text))[0]
        elif kind == "call" and text == call.function and text in _ASSOCIATIVE:
            call.merged += 1
        elif kind == "call":
            open_calls.append(_OpenCall(text))
        elif kind != "end" or text != call.function:
            raise ValueError(kind)
        elif call.merged:
            call.merged -= 1
        else:
            open_calls.pop()
            open_calls[-1].arguments.append(Call(call.function, tuple(call.arguments), call.options))
    if open_calls != [root] or len(root.arguments) != 1:
        raise ValueError("end")
    return root.arguments[0]
