"""NULL matches no regular expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from planner.sql.rules.dialect import parse_expression
from planner.sql.rules.tree import Tree, for_texts

_ANY_TEXT: Final = ".*"


@for_texts(r"~|\bregexp_like\b")
def matched_texts(tree: Tree) -> None:
    """Write `.*`, which every text matches, as a group.

    DataFusion replaces a match with `.*` by TRUE or FALSE, also where the text is NULL. It computes constants
    before, so that parameters and concatenated texts may become this expression, too.

        SELECT s ~ '.*', s ~ $1 FROM t
    ->  SELECT s ~ '(.*)', s ~ ('(' || $1 || ')') FROM t
    """
    for pattern in list(_find_patterns(tree.root)):
        if isinstance(pattern, exp.Literal):
            if pattern.name == _ANY_TEXT:
                tree.replace(pattern, exp.Literal.string(f"({_ANY_TEXT})"))
        elif pattern.find(exp.Column) is None:
            grouped = parse_expression("('(' || x || ')')")
            for column in list(grouped.find_all(exp.Column)):
                column.replace(exp.paren(pattern.copy()))
            tree.replace(pattern, grouped)


def _find_patterns(root: exp.Expr) -> Iterator[exp.Expr]:
    for node in root.walk():
        if isinstance(node, exp.RegexpLike | exp.RegexpILike):
            yield node.expression
        elif isinstance(node, exp.Anonymous) and node.name.casefold() == "regexp_like":
            yield from node.expressions[1:2]
