"""Forms of SQL that DataFusion lacks or misreads, written in those that it has.

    SELECT sum(n) OVER (w ORDER BY id) FROM t WHERE (a, b) < ($1, 2) WINDOW w AS (PARTITION BY k)
->  SELECT sum(n) OVER (PARTITION BY k ORDER BY id) FROM t WHERE (a < $1 OR (a = $1 AND b < 2))
    WINDOW w AS (PARTITION BY k)

A form is a rule over the tree of a query, as those of `planner.sql.rules` are. Forms see the text of the
user, before names are resolved: no types are known. Each has its name, a docstring with a query before and
after, and titled pairs in `tests/planner/data/forms/`.
"""

from __future__ import annotations

from typing import Final

from planner.sql.forms.ranges import symmetric_ranges
from planner.sql.forms.refusals import misread_clauses, refuse_unread
from planner.sql.rules.dialect import find_query, parse_query, write_sql
from planner.sql.rules.tree import Rule, Tree, concerns
from planner.sql.tokens import SqlText, number_parameters, tokenize

FORMS: Final[tuple[Rule, ...]] = (misread_clauses, symmetric_ranges)


def write_forms(text: SqlText) -> SqlText:
    """Return a query, or EXPLAIN of one, without these forms.

    Returns:
        The statement; the same object if it has none of them, or if sqlglot does not read it.

    Raises:
        LanceGatewayError: a form can't be written for DataFusion; with the place in the text.
    """
    forms = [form for form in FORMS if concerns(form, text.sql.lower())]
    if not forms:
        return text
    numbered, added = number_marks(text)
    start = find_query(numbered)
    root = parse_query(numbered[start:])
    if root is None:
        refuse_unread(text.sql)
        return text

    def find_position(position: int) -> int:
        position += start
        return position - sum(width for place, width in added if place < position)

    tree = Tree(root, _find_no_schema, sql=text.sql, find_position=find_position)
    for form in forms:
        form(tree)
    return tokenize(numbered[:start] + write_sql(tree.root)) if tree.is_changed else text


def write_forms_of_expression(text: SqlText) -> SqlText:
    """Return an expression without these forms; see `write_forms`."""
    if not any(concerns(form, text.sql.lower()) for form in FORMS):
        return text
    query = tokenize(f"SELECT {text.sql}")
    written = write_forms(query)
    return text if written is query else tokenize(written.sql.removeprefix("SELECT "))


def number_marks(text: SqlText) -> tuple[str, list[tuple[int, int]]]:
    """Return a text with $n for each ?, since trees copy them, and where it became longer, by how much."""
    if "?" not in text.words:
        return text.sql, []
    slots, _ = number_parameters(text)
    sql, pieces, added, end, length = text.sql, [], [], 0, 0
    for at, ordinal in slots.items():
        name = f"${ordinal + 1}"
        pieces += [sql[end : text.start(at)], name]
        length += text.start(at) - end + len(name)
        added.append((length - len(name), len(name) - 1))
        end = text.end(at)
    return "".join([*pieces, sql[end:]]), added


def _find_no_schema(_: str) -> None:
    return None
