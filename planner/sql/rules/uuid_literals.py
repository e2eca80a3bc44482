"""UUIDs are equal in capitals and in small letters."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import find_groups
from planner.sql.rules.tree import Tree, for_texts


@for_texts(r"arrow\.uuid.*(?:'[0-9a-f]{8}-|\$\d|\?)")
def uuid_literals(tree: Tree) -> None:
    """Write what is compared with a UUID in small letters, as columns of UUIDs have it.

        SELECT id FROM u WHERE id IN ('550E8400-E29B-41D4-A716-446655440000', $1)
    ->  SELECT id FROM u WHERE id IN ('550e8400-e29b-41d4-a716-446655440000', lower($1))
    """
    names = _find_names(tree)
    for group in find_groups(tree):
        if not any(isinstance(one, exp.Column) and one.name.casefold() in names for one in group.members):
            continue
        for member in group.members:
            if isinstance(member, exp.Parameter | exp.Placeholder):
                tree.replace(member, exp.Anonymous(this="lower", expressions=[member.copy()]))
            elif isinstance(member, exp.Literal) and member.name != member.name.lower():
                tree.replace(member, exp.Literal.string(member.name.lower()))


def _find_names(tree: Tree) -> frozenset[str]:
    """Return the names of columns that have UUIDs and nothing else, also under other names."""
    uuids = {one.name.casefold() for one in tree.columns if one.type.equals(pa.uuid())}
    names = uuids - {one.name.casefold() for one in tree.columns if not one.type.equals(pa.uuid())}
    for alias in reversed(list(tree.root.find_all(exp.Alias))):
        if isinstance(alias.this, exp.Column) and alias.this.name.casefold() in names:
            names.add(alias.alias.casefold())
    return frozenset(names)
