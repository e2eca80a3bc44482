"""Statements are read clause by clause; brackets, CASE and qualified names hide words that would end one."""

import pytest

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.planner.sql.text.statement_reader import NO_PART, Part, StatementReader
from lance_gateway.planner.sql.text.tokens import tokenize


def shown(reader: StatementReader, part: Part) -> str:
    """The part as it stands in the text."""
    return " ".join(reader.text.tokens[at].text for at in part)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("a = 1 WHERE b", "a = 1"),
        ("f((x) WHERE) WHERE b", "f ( ( x ) WHERE )"),
        ("CASE WHEN where THEN 1 END WHERE b", "CASE WHEN where THEN 1 END"),
        ("t.where = 1 WHERE b", "t . where = 1"),
        ("WHERE b", ""),
        ("a)", "a"),
    ],
)
def test_a_part_ends_at_the_first_of_some_words(sql: str, found: str) -> None:
    reader = StatementReader(tokenize(sql))
    assert shown(reader, reader.until(("WHERE",), ("FROM",))) == found


def test_brackets_are_closed() -> None:
    with pytest.raises(InvalidInputError, match="The bracket is not closed"):
        StatementReader(tokenize("(a, [b)")).closing()


def test_common_table_expressions_are_stepped_over() -> None:
    reader = StatementReader(tokenize("WITH a(x) AS (SELECT 1), b AS NOT MATERIALIZED (SELECT 2) DELETE"))
    assert len(reader.common_tables()) == len(reader.text.tokens) - 1
    assert reader.word == "DELETE"
    assert reader.common_tables() == NO_PART


def test_names_are_folded_and_listed() -> None:
    reader = StatementReader(tokenize('Main."T" (a, "B")'))
    assert reader.read_qualified_name("A table") == ("main", "T")
    assert [name for name, _ in reader.read_name_list("A column")] == ["a", "B"]
    reader.expect_end()


def test_what_stands_instead_is_shown() -> None:
    reader = StatementReader(tokenize("SELECT 1"))
    with pytest.raises(InvalidInputError, match=r"UPDATE is expected, found 'SELECT' \(line 1, column 1"):
        reader.expect("UPDATE")
    with pytest.raises(InvalidInputError, match=r"Unexpected 'SELECT' \(line 1, column 1"):
        reader.expect_end()
    with pytest.raises(UnsupportedError, match=r"Not supported \(line 1, column 1"):
        raise reader.unsupported_error("Not supported")
