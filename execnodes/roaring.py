"""Rows that Lance shall leave out of a search, in the form in which it reads them.

Lance takes a set of row addresses as a roaring treemap: fragments, and a roaring bitmap of offsets for each.
A visibility mask is turned into that without a list of numbers on the way.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

import numpy as np

_COOKIE = 12346
"""Roaring bitmap without runs."""
_CONTAINER_BITS = 16
_CONTAINER_ROWS = 1 << _CONTAINER_BITS
_ARRAY_ROWS = 4096
"""Up to so many values, a container lists them; it has one bit per possible value otherwise."""


def bitmap(values: np.ndarray) -> bytes:
    """A roaring bitmap.

    Args:
        values: uint32, ascending, without repetition.
    """
    keys = values >> _CONTAINER_BITS
    starts = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist()] if len(values) else []
    parts = np.split((values & (_CONTAINER_ROWS - 1)).astype("<u2"), starts[1:])
    header, bodies = [], []
    offset = 8 + 8 * len(starts)
    offsets = []
    for start, part in zip(starts, parts, strict=False):
        header.append(struct.pack("<HH", int(keys[start]), len(part) - 1))
        body = part.tobytes() if len(part) <= _ARRAY_ROWS else _bits(part)
        offsets.append(offset)
        offset += len(body)
        bodies.append(body)
    directory = np.array(offsets, dtype="<u4").tobytes()
    return b"".join((struct.pack("<II", _COOKIE, len(starts)), *header, directory, *bodies))


def treemap(bitmaps: Mapping[int, bytes], whole: Iterable[int] = ()) -> bytes:
    """A set of row addresses.

    Args:
        bitmaps: fragment id -> offsets, as `bitmap` makes them.
        whole: ids of further fragments, of which all rows are meant.
    """
    entries = dict.fromkeys(whole, b"") | dict(bitmaps)
    parts = [struct.pack("<I", len(entries))]
    # An empty bitmap has eight bytes; none at all stands for the whole fragment.
    for fragment_id, encoded in sorted(entries.items()):
        parts += (struct.pack("<II", fragment_id, len(encoded)), encoded)
    return b"".join(parts)


def _bits(values: np.ndarray) -> bytes:
    flags = np.zeros(_CONTAINER_ROWS, dtype=np.bool_)
    flags[values] = True
    return np.packbits(flags, bitorder="little").tobytes()
