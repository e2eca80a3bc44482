"""UUIDs are equal in capitals and in small letters."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import find_groups, find_unions, recast, recast_outputs
from planner.sql.rules.tree import Tree, for_texts


@for_texts(r"arrow\.uuid.*(?:'[0-9a-f]{8}-|\$\d|\?)")
def uuid_literals(tree: Tree) -> None:
    """Write what is compared with a UUID in small letters, as columns of UUIDs have it.

        SELECT id FROM u WHERE id IN ('550E8400-E29B-41D4-A716-446655440000', $1)
    ->  SELECT id FROM u WHERE id IN ('550e8400-e29b-41d4-a716-446655440000', lower($1))
    """
    names = _find_names(tree)
    if not names:
        return
    columns = {one.name.casefold() for one in tree.columns}
    for group in find_groups(tree):
        if any(_is_uuid(member, names) for member in group.members):
            for member in group.members:
                if _is_written(member, names, columns):
                    recast(tree, member, _write_small)
    for branches in find_unions(tree):
        for at in range(len(branches[0].fields)):
            items = [branch.items[at] if branch.items else None for branch in branches]
            if any(item is not None and _is_uuid(item, names) for item in items):
                for branch, item in zip(branches, items, strict=True):
                    if item is not None and _is_written(item, names, columns):
                        recast_outputs(tree, branch, {at: _write_small})


def _is_uuid(node: exp.Expr, names: Collection[str]) -> bool:
    """Return whether an expression gives UUIDs of columns."""
    match node:
        case exp.Column():
            return node.name.casefold() in names
        case exp.Paren() | exp.Alias() | exp.Subquery():
            return _is_uuid(node.this, names)
        case exp.Select():
            return len(node.expressions) == 1 and _is_uuid(node.expressions[0], names)
        case exp.Case():
            results = [*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default")]
            return any(result is not None and _is_uuid(result, names) for result in results)
        case exp.Anonymous() if node.name.casefold() in {"coalesce", "greatest", "least", "nullif"}:
            return any(_is_uuid(argument, names) for argument in node.expressions)
    return False


def _is_written(node: exp.Expr, names: Collection[str], columns: Collection[str]) -> bool:
    """Return whether an expression gives texts of the statement, or of parameters."""
    match node:
        case exp.Literal():
            return node.is_string and node.name != node.name.lower()
        case exp.Parameter() | exp.Placeholder():
            return True
        case exp.Column():  # of VALUES
            return node.name.casefold() not in {*names, *columns}
        case exp.Paren() | exp.Alias() | exp.Subquery():
            return _is_written(node.this, names, columns)
        case exp.Select():
            return len(node.expressions) == 1 and _is_written(node.expressions[0], names, columns)
    return False


def _write_small(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Literal):
        return exp.Literal.string(node.name.lower())
    return exp.Anonymous(this="lower", expressions=[node])


def _find_names(tree: Tree) -> Collection[str]:
    """Return the names of columns that have UUIDs and nothing else, also under other names."""
    uuids = {one.name.casefold() for one in tree.columns if one.type.equals(pa.uuid())}
    names = uuids - {one.name.casefold() for one in tree.columns if not one.type.equals(pa.uuid())}
    for alias in reversed(list(tree.root.find_all(exp.Alias))):
        if _is_uuid(alias.this, names):
            names.add(alias.alias.casefold())
    return names
