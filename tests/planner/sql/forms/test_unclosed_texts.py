"""Texts that end too early stay as they are; the error comes from DataFusion, which parses them."""

import pytest

from lance_gateway.planner.sql.forms import write_forms
from lance_gateway.planner.sql.text.tokens import tokenize


@pytest.mark.parametrize("end", ["", " JOIN u USING (id", ' AS s ("Id"', " EXCEPT ALL (SELECT 1"])
@pytest.mark.parametrize(
    "begin", ["WITH x AS (SELECT 1", "WITH x (a", "WITH x AS (SELECT (1) SELECT 2", "WITH x AS (", "WITH x"]
)
def test_unclosed_brackets_are_left_as_they_are(begin: str, end: str) -> None:
    text = begin + end
    assert write_forms(tokenize(text)).sql == text
