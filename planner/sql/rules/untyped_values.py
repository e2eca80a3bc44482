"""A text literal, and a parameter, has the type of the values beside it."""

from __future__ import annotations

from functools import partial
from typing import Final

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import cast_to, find_groups, find_unions, recast_outputs
from planner.sql.rules.mixed_bytes import find_common_bytes
from planner.sql.rules.tree import Family, Tree, find_family, for_texts

_KEPT: Final[frozenset[Family]] = frozenset({"decimal", "floating", "integer", "text"})


@for_texts(
    r"\b(?:coalesce|nvl2?|ifnull|nullif|greatest|least|make_array|case|array|union|except|intersect)\b.*['$]"
    r"|\b(?:bool|boolean|true|false)\b.*\bbetween\b.*'|\$\d.*\b(?:union|except|intersect)\b|\b(?:where|having|on)[\s(]+\$\d"
)
def untyped_values(tree: Tree) -> None:
    """Cast a text literal, and a parameter of an unknown type, beside values that are no numbers or texts.

    DataFusion takes the literal for a text, for which its `coalesce` finds no common type, and infers no type
    of a parameter but in comparisons. Beside numbers, both keep their own type. A parameter of an unknown
    type has that of the values that a set operation unites with it, and is a boolean as a condition.

        SELECT coalesce(day, '2024-07-01') FROM t
    ->  SELECT coalesce(day, arrow_cast('2024-07-01', 'Date32')) FROM t
    """
    for group in find_groups(tree):
        if not isinstance(group.node, exp.Anonymous | exp.Array | exp.Case | exp.Between):
            continue
        others = [member for member in group.members if not _may_be_untyped(member)]
        guesses = [tree.guess_families(member) for member in others]
        if len(others) == len(group.members) or any(guess and guess <= _KEPT for guess in guesses):
            continue
        kinds = {kind for member in others if (kind := tree.find_type(member)) is not None}
        # DataFusion plans no coalesce of bytes and a parameter, also if that has a value.
        has_bytes = {find_family(kind) for kind in kinds} == {"bytes"}
        if has_bytes:
            kinds = {find_common_bytes(kinds)}
        if len(kinds) != 1 or pa.types.is_nested(kind := kinds.pop()) or find_family(kind) in _KEPT:
            continue
        if isinstance(group.node, exp.Between) and not pa.types.is_boolean(kind):
            continue
        for member in filter(_may_be_untyped, group.members):
            if has_bytes or isinstance(member, exp.Literal) or tree.find_type(member) is None:
                tree.replace(member, cast_to(member.copy(), kind))
    _give_united_types(tree)
    _make_conditions(tree)


def _give_united_types(tree: Tree) -> None:
    """Give parameters of an unknown type that of the values that a set operation unites with them."""
    for branches in find_unions(tree):
        for at in range(len(branches[0].fields)):
            kinds = {branch.fields[at].type for branch in branches} - {pa.null()}
            for branch in branches if len(kinds) == 1 else ():
                item = branch.items[at] if branch.items else None
                is_untyped = isinstance(item, exp.Parameter) and pa.types.is_null(branch.fields[at].type)
                kind = next(iter(kinds))
                is_kept = find_family(kind) in _KEPT - {"floating"}
                if is_untyped and not is_kept and not pa.types.is_nested(kind):
                    recast_outputs(tree, branch, {at: partial(cast_to, kind=kind)})


def _make_conditions(tree: Tree) -> None:
    """Make booleans of parameters of an unknown type that are conditions."""
    for parameter in list(tree.root.find_all(exp.Parameter)):
        clause = parameter.parent
        while isinstance(clause, exp.Paren):
            clause = clause.parent
        if isinstance(clause, exp.Where | exp.Having | exp.Join) and tree.find_type(parameter) is None:
            tree.replace(parameter, exp.Cast(this=parameter.copy(), to=exp.DataType.build("BOOLEAN")))


def _may_be_untyped(member: exp.Expr) -> bool:
    return isinstance(member, exp.Parameter) or (isinstance(member, exp.Literal) and member.is_string)
