"""Patterns that are searched in whole texts take time in their length, whatever is in them."""

import pytest

from lance_gateway.planner.sql.subqueries.rewriting import _BESIDE, _ENDS, _NESTED

PATTERNS = {"beside": _BESIDE, "ends": _ENDS, "nested": _NESTED}
# Repeated, they keep a pattern from ending where it has begun.
PARTS = (
    "/**/",
    "--\n",
    "/*",
    "a\n",
    "(",
    "( ",
    "in (",
    "select (",
    "select ",
    ") /**/ ",
    "as (",
    "order by ",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", PATTERNS)
def test_long_texts_are_searched_once(name: str) -> None:
    """A search that begins again at each repetition would take minutes."""
    for beginning in ("", "in ("):
        for part in PARTS:
            PATTERNS[name].search(beginning + part * 20_000)
