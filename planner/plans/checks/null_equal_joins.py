"""Joins by `IS NOT DISTINCT FROM` that DataFusion 55 mixes up with joins by `=`.

    SELECT * FROM t JOIN u ON t.n IS NOT DISTINCT FROM u.n WHERE t.s = u.s

A condition above the join moves into it, and is made a key by a rule that does not look how the join compares
its keys: NULL then equals NULL for `=`. Without the rule, both are conditions on pairs of rows.

    SELECT * FROM t JOIN u ON t.n IS NOT DISTINCT FROM u.n JOIN v ON u.id = v.id

Another rule puts inner joins in another order, and lets all of them compare as the last one does: rows of
NULL are lost, or found where they are not equal. Without it, joins keep the order in which they are written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from datafusion.expr import Join
from datafusion.plan import LogicalPlan

from lance_gateway.planner.bridge.plan_reading import Expression, every_node, split_conjuncts, subquery_plans

NULL_SAFE: Final = re.compile(r"\bdistinct\s+from\b", re.IGNORECASE)
"""Texts that may have such joins."""
_KEY_RULE: Final = "extract_equijoin_predicate"
"""The rule that makes keys of conditions."""
_ORDER_RULE: Final = "eliminate_cross_join"
"""The rule that puts inner joins in another order."""
_Pair: TypeAlias = "frozenset[str]"


def find_mixing_rules(plan: LogicalPlan, without: Callable[..., LogicalPlan]) -> tuple[str, ...]:
    """Return the rules of the optimizer without which a statement has to be planned to be answered rightly.

    Args:
        plan: made with all of them.
        without: plans the statement without rules of these names.
    """
    if not _may_be_mixed(plan):
        return ()
    both = (_KEY_RULE, _ORDER_RULE)
    safe, equal = _find_pairs(without(*both))

    def compares_as_written(planned: LogicalPlan) -> bool:
        found, _ = _find_pairs(planned)
        return found == safe and found.keys().isdisjoint(equal)

    if compares_as_written(plan):
        return ()
    # What makes no keys at all is slow: it is the last resort.
    return next(
        (rules for rules in ((_ORDER_RULE,), (_KEY_RULE,)) if compares_as_written(without(*rules))), both
    )


def _may_be_mixed(plan: LogicalPlan) -> bool:
    """Return whether NULL equals NULL in a join, or several inner joins may have been put in order."""
    joins = list(_joins(plan))
    return sum(str(join.join_type()) == "Inner" for join in joins) > 1 or any(
        join.null_equals_null() for join in joins
    )


def _joins(plan: LogicalPlan) -> Iterator[Join]:
    nodes = (node.to_variant() for one in (plan, *subquery_plans(plan)) for node in every_node(one))
    return (node for node in nodes if isinstance(node, Join))


def _find_pairs(plan: LogicalPlan) -> tuple[Counter[_Pair], Counter[_Pair]]:
    """Return what joins compare so that NULL equals NULL, and what they compare with `=`."""
    safe: Counter[_Pair] = Counter()
    equal: Counter[_Pair] = Counter()
    for join in _joins(plan):
        (safe if join.null_equals_null() else equal).update(_pair(*key) for key in join.on())
        condition = join.filter()
        for conjunct in [] if condition is None else split_conjuncts(condition):
            comparison = conjunct.to_variant() if conjunct.variant_name() == "BinaryExpr" else None
            if comparison is not None and comparison.op() in {"=", "IS NOT DISTINCT FROM"}:
                found = equal if comparison.op() == "=" else safe
                found[_pair(comparison.left(), comparison.right())] += 1
    return safe, equal


def _pair(left: Expression, right: Expression) -> _Pair:
    return frozenset({left.canonical_name(), right.canonical_name()})
