"""NULL matches no regular expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from planner.sql.rules.dialect import parse_expression
from planner.sql.rules.groups import replace_value
from planner.sql.rules.tree import Tree, for_texts

_ANY_TEXT: Final = ".*"


_FLAGGED: Final = frozenset({"regexp_like", "regexp_match"})


@for_texts(r"~|\bregexp_(?:like|match)\b")
def matched_texts(tree: Tree) -> None:
    """Write `.*`, which every text matches, as a group.

    DataFusion replaces a match with `.*` by TRUE or FALSE, also where the text is NULL. It computes constants
    before, so that parameters and concatenated texts may become this expression, too.

        SELECT s ~ '.*', s ~ $1 FROM t
    ->  SELECT s ~ '(.*)', s ~ ('(' || $1 || ')') FROM t

    It takes flags that are NULL for none, too.

        SELECT regexp_like(s, 'a', flags) FROM t
    ->  SELECT CASE WHEN NOT flags IS NULL THEN regexp_like(s, 'a', flags) END FROM t
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
    for call in list(tree.root.find_all(exp.Anonymous))[::-1]:
        flags = call.expressions[2:3]
        if call.name.casefold() in _FLAGGED and flags and not isinstance(flags[0], exp.Literal):
            is_known = flags[0].copy().is_(exp.null()).not_()
            replace_value(tree, call, exp.Case(ifs=[exp.If(this=is_known, true=call.copy())]))


def _find_patterns(root: exp.Expr) -> Iterator[exp.Expr]:
    for node in root.walk():
        if isinstance(node, exp.RegexpLike | exp.RegexpILike):
            yield node.expression
        elif isinstance(node, exp.Anonymous) and node.name.casefold() == "regexp_like":
            yield from node.expressions[1:2]
