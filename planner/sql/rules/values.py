"""Text literals, parameters, NULLs, bytes, UUIDs and casts beside values of other types."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from itertools import chain
from typing import Final

import pyarrow as pa
from sqlglot import exp

from lance_gateway.planner.sql.rules.zoned_times import find_zoned
from lance_gateway.planner.sql.tree.dialect import parse_expression, write_sql
from lance_gateway.planner.sql.tree.groups import (
    Cast,
    Kinds,
    Use,
    cast_to,
    find_groups,
    find_unions,
    read_hex,
    recast,
    recast_outputs,
    replace_value,
    unify_types,
)
from lance_gateway.planner.sql.tree.tree import Family, Tree, find_family


def null_replacements(tree: Tree) -> None:
    """Write `nvl` and `ifnull` as `coalesce`, and `nvl2` as CASE.

    DataFusion makes doubles of decimals in `nvl`, and texts of dates, times, bytes and lists.

        SELECT nvl(price, 0), nvl2(day, 1, 2) FROM t
    ->  SELECT coalesce(price, 0), CASE WHEN NOT day IS NULL THEN 1 ELSE 2 END FROM t
    """
    for call in tree.find_calls("nvl", "ifnull", "nvl2")[::-1]:
        name, arguments = call.name.casefold(), [one.copy() for one in call.expressions]
        if name != "nvl2" and len(arguments) == 2:
            tree.replace(call, exp.Anonymous(this="coalesce", expressions=arguments))
        elif name == "nvl2" and len(arguments) == 3:
            tested, true, default = arguments
            is_known = tested.is_(exp.null()).not_()
            tree.replace(call, exp.Case(ifs=[exp.If(this=is_known, true=true)], default=default))


def hex_texts(tree: Tree) -> None:
    r"""Write a text of hexadecimal digits beside bytes as these bytes.

        SELECT id FROM t WHERE b = '\xDEADBEEF'
    ->  SELECT id FROM t WHERE b = X'deadbeef'

    Raises:
        InvalidInputError: something else than pairs of digits is behind `\x`.
    """
    united = (
        zip(*(branch.items or () for branch in branches), strict=False) for branches in find_unions(tree)
    )
    for members in chain((group.members for group in find_groups(tree)), chain.from_iterable(united)):
        others = [member for member in members if not _may_be_untyped(member)]
        if others and all(tree.guess_families(one) == _BYTES for one in others):
            for member in members:
                if (new := read_hex(member)) is not None:
                    tree.replace(member, new)


_BYTES: Final[frozenset[Family]] = frozenset({"bytes"})
_KEPT: Final[frozenset[Family]] = frozenset({"decimal", "floating", "integer", "text"})


def untyped_values(tree: Tree) -> None:
    """Cast a text literal, and a parameter of an unknown type, beside values that are no numbers or texts.

    DataFusion takes the literal for a text, for which its `coalesce` finds no common type, and infers no type
    of a parameter but in comparisons. Beside numbers, both keep their own type. A parameter of an unknown
    type has that of the values that a set operation unites with it, and is a boolean as a condition.

        SELECT coalesce(day, '2024-07-01') FROM t
    ->  SELECT coalesce(day, arrow_cast('2024-07-01', 'Date32')) FROM t
    """
    for group in find_groups(tree):
        # Of values that it compares, DataFusion makes dates, times and numbers of texts, and no booleans.
        is_compared = group.is_condition and not isinstance(group.node, exp.Case)
        if group.use is Use.COMPUTED or isinstance(group.node, exp.Values):
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
        if len(kinds) != 1 or find_family(kind := kinds.pop()) in _KEPT:
            continue
        if is_compared and not pa.types.is_boolean(kind):
            continue
        for member in filter(_may_be_untyped, group.members):
            # `zoned_times` reads texts beside times with a zone.
            is_left = pa.types.is_nested(kind) or find_zoned([kind]) is not None
            if isinstance(member, exp.Literal) and is_left:
                continue
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
                if is_untyped and not is_kept:
                    recast_outputs(tree, branch, {at: partial(cast_to, kind=kind)})


def _make_conditions(tree: Tree) -> None:
    """Make booleans of parameters of an unknown type that are conditions."""
    for parameter in tree.find_all(exp.Parameter):
        clause = parameter.parent
        while isinstance(clause, exp.Paren):
            clause = clause.parent
        if isinstance(clause, exp.Where | exp.Having | exp.Join) and tree.find_type(parameter) is None:
            tree.replace(parameter, exp.Cast(this=parameter.copy(), to=exp.DataType.build("BOOLEAN")))


def _may_be_untyped(member: exp.Expr) -> bool:
    return isinstance(member, exp.Parameter) or (isinstance(member, exp.Literal) and member.is_string)


_DIGESTS: Final = frozenset({"MD5", "SHA224", "SHA256", "SHA384", "SHA512", "DIGEST"})
_LENGTHS: Final = {"LENGTH": "/ 2", "OCTET_LENGTH": "/ 2", "BIT_LENGTH": "* 4"}
"""Name -> the length of bytes by that of their digits in hexadecimal."""


def mixed_bytes(tree: Tree) -> None:
    """Cast bytes of several types to one.

    DataFusion has no common type for large bytes, those of a fixed size, and `X'00'` in `coalesce`.

        SELECT coalesce(large, X'00') FROM t
    ->  SELECT coalesce(large, arrow_cast(X'00', 'LargeBinary')) FROM t

    It has no common type for bytes and NULL either, has digests of bytes without a fixed size alone, and
    lengths of texts alone: `length` counts the characters that bytes are in UTF-8, and fails for others.
    """
    unify_types(tree, ("bytes", "bytes"), _choose)
    for group in find_groups(tree):
        nulls = [member for member in group.members if isinstance(member, exp.Null)]
        others = [member for member in group.members if not isinstance(member, exp.Null)]
        if nulls and isinstance(group.node, exp.Anonymous) and tree.may_mix(others, "bytes"):
            for null in nulls:
                tree.replace(null, write_null(tree, others[0]))
    for call in tree.find_all(exp.Anonymous)[::-1]:
        _call_with_bytes(tree, call)


def hide_value(value: exp.Expr, kind: pa.DataType | None = None) -> exp.Expr:
    """Return an expression with the value of another one that DataFusion does not take for constant.

    Args:
        value: the expression.
        kind: its type, if it may be one of an extension, which CASE does not keep. The extension has no
            parameters, as UUIDs and JSON have none.
    """
    hidden = f"CASE WHEN random() < 2 THEN {write_sql(value)} END"
    if isinstance(kind, pa.BaseExtensionType):
        hidden = f"with_metadata({hidden}, 'ARROW:extension:name', '{kind.extension_name}')"
    return parse_expression(hidden)


def select_from(relation: exp.Expr, *outputs: exp.Expr) -> exp.Subquery:
    """Return a relation with the name of another one, and with outputs that are computed from it."""
    name = find_name(relation)
    alias = exp.TableAlias(this=name.copy()) if isinstance(name, exp.Identifier) else None
    return exp.Subquery(this=exp.select(*outputs).from_(relation.copy()), alias=alias)


def find_name(relation: exp.Expr) -> exp.Expr:
    """Return the name of a relation; something else than an identifier if it has none."""
    return (relation.args.get("alias") or relation).this  # type: ignore[no-any-return]


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
        length = parse_expression(f"(character_length(encode(x, 'hex')) {_LENGTHS[name]})")
        length.find(exp.Column).replace(argument)  # type: ignore[union-attr]
        replace_value(tree, call, length)
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
        if _are_uuids(group.members, names, columns):
            for member in group.members:
                if _is_written(member, names, columns):
                    recast(tree, member, _write_small)
    for branches in find_unions(tree):
        for at in range(len(branches[0].fields)):
            items = [branch.items[at] if branch.items else None for branch in branches]
            if _are_uuids([item for item in items if item is not None], names, columns):
                for branch, item in zip(branches, items, strict=True):
                    if item is not None and _is_written(item, names, columns):
                        recast_outputs(tree, branch, {at: _write_small})


_CHOOSING: Final = frozenset(
    {"any_value", "first_value", "lag", "last_value", "lead", "max", "min", "nth_value", "nullif"}
)
"""Functions that give values of their first argument."""


def _are_uuids(values: Sequence[exp.Expr], names: Collection[str], columns: Collection[str]) -> bool:
    """Return whether expressions give UUIDs of columns, and none gives texts of columns."""
    others = [value for value in values if not _is_uuid(value, names, columns)]
    are_texts = (one.find(exp.Column) is not None and not _is_written(one, names, columns) for one in others)
    return len(others) < len(values) and not any(are_texts)


def _is_uuid(node: exp.Expr, names: Collection[str], columns: Collection[str]) -> bool:
    """Return whether an expression gives UUIDs of columns."""
    match node:
        case exp.Column():
            return node.name.casefold() in names
        case exp.Paren() | exp.Alias() | exp.Subquery() | exp.Window() | exp.Filter() | exp.Order():
            return _is_uuid(node.this, names, columns)
        case exp.Select():
            return len(node.expressions) == 1 and _is_uuid(node.expressions[0], names, columns)
        case exp.Case():
            results = [*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default")]
            return _are_uuids([result for result in results if result is not None], names, columns)
        case exp.Anonymous() if node.name.casefold() in _CHOOSING and node.expressions:
            return _is_uuid(node.expressions[0], names, columns)
        case exp.Anonymous() if node.name.casefold() in {"coalesce", "greatest", "least"}:
            return _are_uuids(node.expressions, names, columns)
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
    columns = {one.name.casefold() for one in tree.columns}
    names = uuids - {one.name.casefold() for one in tree.columns if not one.type.equals(pa.uuid())}
    for alias in tree.find_all(exp.Alias)[::-1]:
        if _is_uuid(alias.this, names, columns):
            names.add(alias.alias.casefold())
    return names


_CALLS: Final = frozenset({"ARROW_CAST", "ARROW_TRY_CAST"})
_LOSING: Final[frozenset[Family]] = frozenset({"decimal", "instant", "zoned"})
_STEPS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_INTEGER_DIGITS: Final = {8: 2, 16: 4, 32: 9, 64: 18}


def lossy_casts(tree: Tree) -> None:
    """Hide a cast that loses something from DataFusion, which compares what was cast in its place.

    The greatest of one value is the value. What is only shown is not hidden.

        SELECT id FROM t WHERE CAST(d AS INT) = 1
    ->  SELECT id FROM t WHERE greatest(CAST(d AS INT)) = 1
    """
    for node in tree.find_all(exp.Cast, exp.Anonymous)[::-1]:
        if not _may_lose(tree, node) or _is_only_shown(tree, node):
            continue
        source = tree.find_type(_find_source(node))
        target = None if source is None else tree.find_type(node)
        if source is None or target is None or not _loses(source, target, is_tried=_is_tried(node)):
            continue
        replace_value(tree, node, exp.Anonymous(this="greatest", expressions=[node.copy()]))


def _find_source(node: exp.Expr) -> exp.Expr:
    source: exp.Expr = node.this if isinstance(node, exp.Cast) else node.expressions[0]
    return source


def _is_tried(node: exp.Expr) -> bool:
    """Return whether a cast gives NULL for values that it can't cast."""
    return isinstance(node, exp.TryCast) or node.name.upper() == "ARROW_TRY_CAST"


def _may_lose(tree: Tree, node: exp.Expr) -> bool:
    if not isinstance(node, exp.Cast) and (node.name.upper() not in _CALLS or not node.expressions):
        return False
    if _find_source(node).find(exp.Column, exp.Parameter, exp.Query, exp.Anonymous) is None:
        return False  # DataFusion computes constants before it compares them, but for arrow_cast()
    families = tree.guess_families(_find_source(node))
    losing = _LOSING | {"integer"} if _is_tried(node) else _LOSING
    targets = tree.guess_families(node)
    return (families is None or not losing.isdisjoint(families)) and (
        targets is None or not targets.isdisjoint(_LOSING | {"integer"})
    )


def _is_only_shown(tree: Tree, node: exp.Expr) -> bool:
    """Return whether a cast is part of an output of the whole query, and of no condition in it."""
    root = tree.root
    if not isinstance(root, exp.Select) or any(map(root.args.get, ("group", "having", "qualify"))):
        return False
    while node.parent is not None and node.parent is not root:
        node = node.parent
        if isinstance(node, exp.Predicate | exp.Case | exp.Query | exp.In | exp.Between):
            return False
    return node.arg_key in {"expressions", "order"}


def _loses(source: pa.DataType, target: pa.DataType, *, is_tried: bool) -> bool:
    """Return whether different values become equal, or NULL."""
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        return _STEPS[source.unit] > _STEPS[target.unit]
    before, after = _count_digits(source), _count_digits(target)
    if before is None or after is None:
        return False
    return before[1] > after[1] or (is_tried and (before[0] > after[0] or _loses_sign(source, target)))


def _loses_sign(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether some values have no place in a type, since one of the types has no sign."""
    if pa.types.is_unsigned_integer(target):
        return not pa.types.is_unsigned_integer(source)
    if pa.types.is_unsigned_integer(source) and pa.types.is_signed_integer(target):
        return bool(source.bit_width >= target.bit_width)
    return False


def _count_digits(kind: pa.DataType) -> tuple[int, int] | None:
    """Return how many digits all values may have before and behind the point; None of other types."""
    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    return (_INTEGER_DIGITS[kind.bit_width], 0) if find_family(kind) == "integer" else None
