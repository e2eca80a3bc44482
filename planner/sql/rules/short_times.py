"""Times without seconds, as people write them."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from planner.sql.rules.groups import find_groups, find_unions
from planner.sql.rules.tree import Tree, find_family, for_texts

_SHORT: Final = re.compile(
    r"\s*(\d{4}-\d\d-\d\d[ T]\d\d:\d\d)(\s*(?:Z|[+-]\d\d(?::?\d\d)?)?)\s*", re.IGNORECASE
)


@for_texts(r"'\s*\d{4}-\d\d-\d\d[ t]\d\d:\d\d(?!:)")
def short_times(tree: Tree) -> None:
    """Add the seconds that DataFusion demands of times.

        SELECT id FROM t WHERE at > '2024-03-10 02:30'
    ->  SELECT id FROM t WHERE at > '2024-03-10 02:30:00'
    """
    for cast in tree.root.find_all(exp.Cast):
        families = tree.guess_families(cast)
        if families is not None and families <= {"instant", "zoned"}:
            _add_seconds(tree, cast.this)
    for zoned in tree.root.find_all(exp.AtTimeZone):
        _add_seconds(tree, zoned.this)
    for group in find_groups(tree):
        literals = [member for member in group.members if _is_short(member)]
        others = [member for member in group.members if not _is_short(member)]
        if literals and (tree.may_mix(others, "instant") or tree.may_mix(others, "zoned")):
            kinds = filter(None, map(tree.find_type, others))
            if not {"instant", "zoned"}.isdisjoint(map(find_family, kinds)):
                for literal in literals:
                    _add_seconds(tree, literal)
    for branches in find_unions(tree):
        for branch in branches:
            for at, item in enumerate(branch.items or ()):
                types = [other.fields[at].type for other in branches]
                if _is_short(item) and not {"instant", "zoned"}.isdisjoint(map(find_family, types)):
                    _add_seconds(tree, item)


def _is_short(member: exp.Expr) -> bool:
    return isinstance(member, exp.Literal) and member.is_string and bool(_SHORT.fullmatch(member.name))


def _add_seconds(tree: Tree, literal: exp.Expr) -> None:
    if _is_short(literal):
        tree.replace(literal, exp.Literal.string(_SHORT.sub(r"\1:00\2", literal.name)))
