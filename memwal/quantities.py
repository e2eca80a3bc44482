"""Parse durations and sizes such as `30s` and `512MiB`, truth values and numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_AMOUNT: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_SECONDS: Final = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES: Final = {
    prefix + binary + suffix: base**power
    for power, prefix in enumerate(("", "k", "m", "g", "t", "p"))
    for binary, base in (("", 1000), ("i", 1024))
    for suffix in ("", "b")
    if prefix or not binary
}


def parse_seconds(value: object) -> object:
    """Parse a duration; return values that are not text unchanged.

    >>> parse_seconds("1.5m"), parse_seconds("250ms"), parse_seconds(3)
    (90.0, 0.25, 3)

    Raises:
        ValueError: the text is not a duration.
    """
    return _parse_amount(value, _SECONDS, "duration") if isinstance(value, str) else value


def parse_size(value: object) -> object:
    """Parse a number of bytes; return values that are not text unchanged.

    >>> parse_size("64MiB"), parse_size("1.5 kB"), parse_size(3)
    (67108864, 1500, 3)

    Raises:
        ValueError: the text is not a size.
    """
    return int(_parse_amount(value.lower(), _BYTES, "size")) if isinstance(value, str) else value


def parse_truth(text: str) -> bool:
    """Parse true or false, or what else people write for them.

    Raises:
        ValueError: it is neither.
    """
    folded = text.strip().lower()
    if folded not in {"true", "on", "yes", "1", "false", "off", "no", "0"}:
        raise ValueError("true or false")
    return folded in {"true", "on", "yes", "1"}


def parse_count(text: str) -> int:
    """Parse a whole number from 1 on.

    Raises:
        ValueError: it is none.
    """
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise ValueError("a number from 1 on")
    return value


def _parse_amount(text: str, units: Mapping[str, float], quantity: str) -> float:
    match = _AMOUNT.fullmatch(text)
    if match is None or match[2] not in units:
        msg = f"it is not a {quantity}"
        raise ValueError(msg)
    return float(match[1]) * units[match[2]]
