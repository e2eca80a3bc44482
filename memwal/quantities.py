"""Durations and sizes as people write them: `30s`, `512MiB`."""

from __future__ import annotations

import re
from typing import Final

_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)\s*")
_UNITS: Final = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?)b?\s*", re.IGNORECASE)
_POWERS: Final = {unit: power for power, unit in enumerate(("", "k", "m", "g", "t", "p"))}


def parse_seconds(value: object) -> object:
    """Reads a duration; what is no text is left as it is.

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
    """Reads a number of bytes; what is no text is left as it is.

    >>> parse_size("64MiB"), parse_size("1.5 kB"), parse_size(3)
    (67108864, 1500, 3)

    Raises:
        ValueError: the text is no size.
    """
    if not isinstance(value, str):
        return value
    found = _SIZE.fullmatch(value)
    if found is None or (found[3] and not found[2]):
        msg = "it is no size"
        raise ValueError(msg)
    return int(float(found[1]) * (1024 if found[3] else 1000) ** _POWERS[found[2].lower()])
