"""Patterns that decide which texts are parsed take time in the length of a text, whatever is in it."""

import re

import pytest

from lance_gateway.planner.binding.tools.postgres_words import postgres_words
from lance_gateway.planner.sql.forms import FORMS
from lance_gateway.planner.sql.rules import RULES
from lance_gateway.planner.sql.tree.queries import QUANTIFIED, SUBQUERIES

PATTERNS = {
    (rule.__name__, number): pattern
    for rule in (*FORMS, *RULES, postgres_words)
    for number, pattern in enumerate(getattr(rule, "patterns", ()))
} | {("subqueries", 0): re.compile(SUBQUERIES), ("subqueries", 1): re.compile(QUANTIFIED)}
BEGINNINGS = ("", "in (")
# Repeated, they keep a pattern from ending where it has begun.
PARTS = (
    *("/**/", "--\n", "/*", "a\n", '"a" ', "(", "( ", "in (", "select (", "select ", "select distinct "),
    *("$1,", "x'", "'1',", "1.", ", ", "::", "|| ", ") /**/ ", "as (", "over (", "sum(x) ", "order by "),
    *("case ", "coalesce(", "between ", "and ", "decimal(", "count(distinct ", "interval '1' "),
    *("date ", "timestamp ", "timestamp[us] ", "binary ", "group by ", "lag(", "arrow.uuid ", "int + "),
)


@pytest.mark.slow
@pytest.mark.parametrize("key", PATTERNS, ids=str)
def test_long_texts_are_searched_once(key: tuple[str, int]) -> None:
    """A search that begins again at each repetition would take minutes."""
    for beginning in BEGINNINGS:
        for part in PARTS:
            PATTERNS[key].search(beginning + part * 20_000)
