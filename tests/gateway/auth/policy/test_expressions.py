"""SQL expressions of a policy: what is refused, and how a name gets in."""

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_gateway.gateway.auth.policy_expressions import Expression, quote_literal
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.sql.text.tokens import tokenize


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("region = 'EU'", "region = 'EU'"),
        ("owner = {user}", "owner = 'o''neil'"),
        ("{user} IN (owner, deputy)", "'o''neil' IN (owner, deputy)"),
        ("a = {user} OR b = {user}", "a = 'o''neil' OR b = 'o''neil'"),
        ("code ~ '^a{2}$'", "code ~ '^a{2}$'"),
        ("CASE WHEN x > 1 THEN left(s, 2) || '...' END", "CASE WHEN x > 1 THEN left(s, 2) || '...' END"),
        ('"odd ""name"" )" = 1', '"odd ""name"" )" = 1'),
        ("s = ')' || '--' || '/*'", "s = ')' || '--' || '/*'"),
        ("x = 1;", "x = 1"),
    ],
)
def test_an_expression_is_completed_with_the_name_of_the_user(text: str, rendered: str) -> None:
    assert Expression.parse(text).render("o'neil") == rendered


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("owner = '{user}'", "without quotes"),
        ('"{user}" = 1', "without quotes"),
        ("owner = {group}", r"placeholder \{group\} does not exist: there is \{user\}"),
        ("x = 1 -- all", "comment"),
        ("x = 1 /* all */", "comment"),
        ("x = 1) OR (1 = 1", r"'\)' closes nothing"),
        ("(x = 1", r"'\)' is missing"),
        ("x = (1]", "closes nothing"),
        ("x = 'open", "does not end"),
        ("x = 1; DROP TABLE t", "Only one statement"),
        ("x =", "does not parse"),
        ("x = 1 AND", "does not parse"),
        ("x, y", "not one expression"),
        ("x AS y", "not one expression|does not parse"),
        ("EXISTS (SELECT 1 FROM other)", "a query is not a value of the row"),
        ("id IN (SELECT id FROM other)", "a query is not a value of the row"),
        ("sum(x) > 1", "an aggregate"),
        ("row_number() OVER () = 1", "a window function"),
        ("x = ?", "a parameter"),
        ("x = $1", "a parameter"),
    ],
)
def test_what_is_no_expression_over_a_row_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInputError, match=complaint):
        Expression.parse(text)


@pytest.mark.slow
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40))
def test_a_name_stays_a_value_whatever_it_contains(name: str) -> None:
    sql = "owner = " + quote_literal(name)
    words = tokenize(sql).words
    assert words == ("OWNER", "=", "'", "")
    assert duckdb.sql(f"SELECT {quote_literal(name)}").fetchall() == [(name,)]
