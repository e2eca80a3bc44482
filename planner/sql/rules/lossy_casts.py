"""Casts that lose something are made before values are compared."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import replace_value
from planner.sql.rules.tree import Family, Tree, find_family, for_texts

_CALLS: Final = frozenset({"ARROW_CAST", "ARROW_TRY_CAST"})
_LOSING: Final[frozenset[Family]] = frozenset({"decimal", "instant", "zoned"})
_STEPS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_INTEGER_DIGITS: Final = {8: 2, 16: 4, 32: 9, 64: 18}


@for_texts(r"cast\b|::")
def lossy_casts(tree: Tree) -> None:
    """Hide a cast that loses something from DataFusion, which compares what was cast in its place.

    The greatest of one value is the value. What is only shown is not hidden.

        SELECT id FROM t WHERE CAST(d AS INT) = 1
    ->  SELECT id FROM t WHERE greatest(CAST(d AS INT)) = 1
    """
    for node in list(tree.root.find_all(exp.Cast, exp.Anonymous))[::-1]:
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
    return before[1] > after[1] or (is_tried and before[0] > after[0])


def _count_digits(kind: pa.DataType) -> tuple[int, int] | None:
    """Return how many digits all values may have before and behind the point; None of other types."""
    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    return (_INTEGER_DIGITS[kind.bit_width], 0) if find_family(kind) == "integer" else None
