"""Bytes of several types beside each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import Cast, Kinds, cast_to, find_groups, replace_value, unify_types
from planner.sql.rules.tree import Tree, find_family, for_texts

_DIGESTS: Final = frozenset({"MD5", "SHA224", "SHA256", "SHA384", "SHA512", "DIGEST"})
_LENGTHS: Final = {"OCTET_LENGTH": 1, "BIT_LENGTH": 8}


@for_texts(
    r"large_?binary|fixed_?size_?binary|binary.*(?:(?:octet|bit)_length|\bnull\b)|(?:octet|bit)_length.*x'"
)
def mixed_bytes(tree: Tree) -> None:
    """Cast bytes of several types to one.

    DataFusion has no common type for large bytes, those of a fixed size, and `X'00'` in `coalesce`.

        SELECT coalesce(large, X'00') FROM t
    ->  SELECT coalesce(large, arrow_cast(X'00', 'LargeBinary')) FROM t

    It has no common type for bytes and NULL either, has digests of bytes without a fixed size alone, and
    lengths of texts alone, for which `length` counts bytes.
    """
    for call in list(tree.root.find_all(exp.Anonymous))[::-1]:
        _call_with_bytes(tree, call)
    unify_types(tree, ("bytes", "bytes"), _choose)
    for group in find_groups(tree):
        nulls = [member for member in group.members if isinstance(member, exp.Null)]
        others = [member for member in group.members if not isinstance(member, exp.Null)]
        if nulls and isinstance(group.node, exp.Anonymous) and tree.may_mix(others, "bytes"):
            for null in nulls:
                tree.replace(null, write_null(tree, others[0]))


def write_null(tree: Tree, beside: exp.Expr) -> exp.Expr:
    """Return NULL, with the type of the expression beside it if that gives bytes."""
    kind = tree.find_type(beside)
    is_bytes = kind is not None and find_family(kind) == "bytes"
    return cast_to(exp.Null(), kind) if is_bytes else exp.Null()


def _call_with_bytes(tree: Tree, call: exp.Anonymous) -> None:
    name, arguments = call.name.upper(), call.expressions
    if name not in {*_DIGESTS, *_LENGTHS} or not arguments or not tree.may_mix(arguments[:1], "bytes"):
        return
    kind = tree.find_type(arguments[0])
    if kind is None or find_family(kind) != "bytes":
        return
    is_fixed = pa.types.is_fixed_size_binary(kind)
    argument = cast_to(arguments[0].copy(), pa.binary()) if is_fixed else arguments[0].copy()
    if name in _LENGTHS:
        length: exp.Expr = exp.Anonymous(this="length", expressions=[argument])
        times = exp.Literal.number(_LENGTHS[name])
        replace_value(tree, call, exp.Mul(this=length, expression=times) if name == "BIT_LENGTH" else length)
    elif is_fixed:
        tree.replace(arguments[0], argument)


def find_common_bytes(kinds: Collection[pa.DataType]) -> pa.DataType:
    """Return the type of bytes to which several of them are brought."""
    return pa.large_binary() if pa.large_binary() in kinds else pa.binary()


def _choose(kinds: Kinds) -> Sequence[Cast | None]:
    found = {kind for kind in kinds if kind is not None and find_family(kind) == "bytes"}
    target = find_common_bytes(found)
    cast = partial(cast_to, kind=target)
    return [cast if len(found) > 1 and kind in found and kind != target else None for kind in kinds]
