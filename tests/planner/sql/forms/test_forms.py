"""Forms: each has titled pairs of a statement and what it becomes."""

import pytest

from lance_gateway.planner.sql.forms import FORMS, write_forms
from lance_gateway.planner.sql.text.tokens import tokenize
from lance_gateway.planner.sql.tree import dialect
from lance_gateway.planner.sql.tree.tree import Tree
from tests.planner.titled import DATA, Case, read_titled_file

FIXTURES = DATA / "forms"


def _cases() -> list[tuple[str, Case]]:
    return [(path.stem, case) for path in sorted(FIXTURES.glob("*.sql")) for case in read_titled_file(path)]


@pytest.mark.parametrize(("form", "case"), _cases(), ids=str)
def test_a_statement_is_written_otherwise(form: str, case: Case) -> None:
    before, after = case.parts
    root = dialect.parse_query(before)
    assert root is not None
    tree = Tree(root, lambda _: None, sql=before)
    (apply,) = (one for one in FORMS if one.__name__ == form)
    apply(tree)
    assert dialect.write_sql(tree.root) == after
    assert write_forms(tokenize(before)).sql == after


def test_each_form_has_fixtures() -> None:
    assert {form.__name__ for form in FORMS} == {path.stem for path in FIXTURES.glob("*.sql")}


def test_errors_show_the_text_of_the_user() -> None:
    sql = "SELECT a FROM t WHERE b = ? AND random() BETWEEN SYMMETRIC ? AND 2"
    with pytest.raises(Exception, match="line 1, column 33") as caught:
        write_forms(tokenize(sql))
    assert sql in str(caught.value)
