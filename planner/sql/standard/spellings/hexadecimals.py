"""Writes hexadecimal and binary integers as decimal ones; DataFusion takes the first for bytes.

    SELECT id FROM t WHERE flags = 0x1F
->  SELECT id FROM t WHERE flags = 31

Bytes are written X'1F'.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.sql.edits import Edit
from planner.sql.standard.spellings.results import is_result
from planner.sql.tokens import STRING, SqlText, quote

_LARGEST: Final = 2**64
_BASES: Final = {"0x": 16, "0b": 2}


def write_decimals(text: SqlText) -> Iterator[Edit]:
    """Yield edits that write the numbers.

    Raises:
        InvalidInputError: one is larger than any integer.
    """
    for i, word in enumerate(text.words):
        if word != STRING:
            continue
        begin, end = text.start(i), text.end(i)
        written = text.sql[begin:end]
        base = _BASES.get(written[:2].lower())
        if base is None:
            continue
        value = int(written[2:], base)
        if value >= _LARGEST:
            raise text.error(
                i, f"{written} has more than 64 bits: write bytes as X'{written[2:]}'; it stands"
            )
        named = f" AS {quote(written)}" if is_result(text, i, i) else ""
        yield Edit.replace(begin, end, f"{value}{named}")
