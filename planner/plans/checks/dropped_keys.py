"""DISTINCT, and keys of GROUP BY, that DataFusion 54 leaves out although they make a difference.

    SELECT DISTINCT q.a FROM (SELECT a, count(*) FROM t GROUP BY a) q CROSS JOIN u

What is unique in one input of a join, the keys of a GROUP BY or a row_number(), is taken for unique in the
result.

    SELECT count(*) FROM (SELECT count(*) * 2 AS c, a FROM t GROUP BY a) GROUP BY c, a
    SELECT DISTINCT c FROM (SELECT count(*) * 2 AS c, a FROM t GROUP BY a)

Computed columns before such keys are left out when DataFusion counts which columns are unique, so that `c` is
taken for the key: the first groups by `c` alone, and the second gives duplicates.

Such statements are refused, with what to write in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Final

from datafusion import DataFrame, SessionContext
from datafusion.expr import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    Projection,
    Sort,
    SubqueryAlias,
    Union,
    WindowExpr,
)
from datafusion.plan import LogicalPlan

from memwal.errors import UnsupportedError
from planner.bridge.plan_reading import Expression, every_node, output_name, strip_aliases
from planner.sql.tokens import SqlText, tokenize

_ENDS: Final = frozenset(
    {"", ";", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "FETCH", "UNION", "EXCEPT"}
    | {"INTERSECT", "MINUS"}
)


# DataFusion decides about DISTINCT before it applies these, and in its first pass.
_LATER_RULES: Final = (
    "eliminate_join",
    "decorrelate_predicate_subquery",
    "scalar_subquery_to_join",
    "decorrelate_lateral_join",
    "extract_equijoin_predicate",
    "eliminate_duplicated_expr",
    "eliminate_filter",
    "eliminate_cross_join",
    "eliminate_limit",
    "propagate_empty_relation",
    "filter_null_join_keys",
    "eliminate_outer_join",
    "push_down_limit",
    "push_down_filter",
    "single_distinct_aggregation_to_group_by",
    "eliminate_group_by_constant",
    "common_sub_expression_eliminate",
    "extract_leaf_expressions",
    "push_down_leaf_projections",
    "optimize_projections",
    "unions_to_filter",
)
# What keeps rows unique that are unique below.
_KEEPS_UNIQUE: Final = (Filter, Limit, Projection, Sort, SubqueryAlias)


_MISTAKEN_KEYS: Final = (
    "GROUP BY of columns that are computed before keys of another GROUP BY is not offered, since DataFusion "
    "would leave keys out: select the keys before what is computed, as in "
    "(SELECT a, count(*) * 2 AS c FROM t GROUP BY a)"
)


class _Uniqueness(IntEnum):
    """What DataFusion believes of the rows of a plan."""

    UNKNOWN = 0
    KNOWN = 1
    SHIFTED = 2
    """Other columns than those that are unique count as unique."""


def refuse_dropped_keys(frame: DataFrame, sql: str | None, unpruned: Callable[[], LogicalPlan]) -> None:
    """Look whether a DISTINCT, or a key of GROUP BY, has become nothing.

    Args:
        frame: the statement's.
        sql: its text, which tells keys that DataFusion has added to those that stand there; None if there is
            none, and the plan has no others.
        unpruned: gives the same plan optimised without the rule that leaves keys out, together with columns
            that nobody reads.

    Raises:
        UnsupportedError: one has.
    """
    written = frame.logical_plan()
    nodes = [(node, node.to_variant()) for node in every_node(written)]
    if any(isinstance(node, Distinct) and _is_dropped_wrongly(one) for one, node in nodes):
        msg = (
            "SELECT DISTINCT of what is unique in one input of a join, or of columns that are computed "
            "before keys, is not offered, since DataFusion would leave DISTINCT out: write GROUP BY with the "
            "same columns in its place"
        )
        raise UnsupportedError(msg)
    grouped = [
        list(map(strip_aliases, node.group_by_exprs()))
        for one, node in nodes
        if isinstance(node, Aggregate) and _below(one) is _Uniqueness.SHIFTED
    ]
    counts = None if sql is None or not grouped else _key_counts(tokenize(sql))
    keys = [one[: _own_keys(len(one), counts)] for one in grouped]
    pairs = [
        (_column_names(own), _column_names(one[len(own) :])) for own, one in zip(keys, grouped, strict=True)
    ]
    if not any(len(own) > 1 for own in keys):
        return
    groups = _groups(frame.optimized_logical_plan())
    names = [set(map(output_name, group)) for group in groups]
    # Columns that others seem to tell are added to the keys, and may stay there.
    if any(own <= group and not added.isdisjoint(group) for own, added in pairs for group in names):
        raise UnsupportedError(_MISTAKEN_KEYS)
    if sum(map(len, groups)) >= sum(map(len, _groups(unpruned()))):
        return
    if any(
        len(key) > 1 and not any(own <= group for group in names)
        for key, (own, _) in zip(keys, pairs, strict=True)
    ):
        raise UnsupportedError(_MISTAKEN_KEYS)


def _column_names(keys: Sequence[Expression]) -> set[str]:
    return {output_name(key) for key in keys if key.variant_name() == "Column"}


def _is_dropped_wrongly(distinct: LogicalPlan) -> bool:
    (source,) = distinct.inputs()
    if isinstance(source.to_variant(), Union):
        return False  # the rows of a UNION never count as unique
    is_shifted = _below(distinct) is _Uniqueness.SHIFTED
    if not (is_shifted or any(isinstance(node.to_variant(), Join) for node in every_node(source))):
        return False
    return _aggregates(distinct) == _aggregates(source) and (is_shifted or not _is_unique(source, distinct))


def _is_unique(plan: LogicalPlan, distinct: LogicalPlan) -> bool:
    """Whether the rows have all keys of a GROUP BY, of which a dropped DISTINCT has no fewer columns."""
    node = plan.to_variant()
    if isinstance(node, _KEEPS_UNIQUE):
        return _is_unique(plan.inputs()[0], distinct)
    if not isinstance(node, Aggregate):
        return False
    keys = node.group_by_exprs()
    columns = _planner().create_dataframe_from_logical_plan(distinct).schema()
    return len(keys) == len(columns) and all(key.variant_name() != "GroupingSet" for key in keys)


def _aggregates(plan: LogicalPlan) -> int:
    """How many aggregates there are, as a DISTINCT becomes one that is not left out."""
    planned = _planner().create_dataframe_from_logical_plan(plan).optimized_logical_plan()
    return sum(isinstance(node.to_variant(), Aggregate) for node in every_node(planned))


@cache
def _planner() -> SessionContext:
    """Plans as far as to the decision about DISTINCT."""
    context = SessionContext()
    for rule in _LATER_RULES:
        context.remove_optimizer_rule(rule)
    return context


def _below(plan: LogicalPlan) -> _Uniqueness:
    """What is believed of the input of a node."""
    return max((_belief(child).uniqueness for child in plan.inputs()), default=_Uniqueness.UNKNOWN)


@dataclass(frozen=True, slots=True)
class _Belief:
    """What DataFusion believes of a plan's rows, and which of its columns projections compute.

    Optimising makes one projection of several: what one computes stands in another then.
    """

    uniqueness: _Uniqueness = _Uniqueness.UNKNOWN
    computed: frozenset[str] = frozenset()


def _belief(plan: LogicalPlan) -> _Belief:
    node = plan.to_variant()
    if len(plan.inputs()) > 1 and not isinstance(node, Join):
        return _Belief()
    below = [_belief(child) for child in plan.inputs()]
    uniqueness = max((one.uniqueness for one in below), default=_Uniqueness.UNKNOWN)
    computed = frozenset[str]().union(*(one.computed for one in below))
    match node:
        case Aggregate() | Distinct() | WindowExpr():
            return _Belief(max(uniqueness, _Uniqueness.KNOWN))
        case Projection():
            outputs = [
                (output_name(projection), _is_computed(projection, computed))
                for projection in node.projections()
            ]
            flags = [flag for _, flag in outputs]
            if (
                uniqueness is not _Uniqueness.UNKNOWN
                and True in flags
                and False in flags[flags.index(True) :]
            ):
                uniqueness = _Uniqueness.SHIFTED
            return _Belief(uniqueness, frozenset(name for name, flag in outputs if flag))
    return _Belief(uniqueness, computed)


def _is_computed(expression: Expression, computed: frozenset[str]) -> bool:
    # A column behind two aliases, as `count(*) AS n` is, counts as computed.
    inner = expression.to_variant().expr() if expression.variant_name() == "Alias" else expression
    return inner.variant_name() != "Column" or output_name(inner) in computed


def _groups(plan: LogicalPlan) -> list[list[Expression]]:
    """The keys of aggregates that have any, as a DISTINCT has that is not left out."""
    nodes = (node.to_variant() for node in every_node(plan))
    keys = [list(node.group_by_exprs()) for node in nodes if isinstance(node, Aggregate)]
    return [[strip_aliases(one) for one in each] for each in keys if each]


def _key_counts(text: SqlText) -> frozenset[int]:
    """How many keys the statement's GROUP BY clauses have."""
    return frozenset(
        _count_keys(text.words, i + 2)
        for i, word in enumerate(text.words[:-1])
        if word == "GROUP" and text.words[i + 1] == "BY"
    )


def _count_keys(words: Sequence[str], start: int) -> int:
    depth, count = 0, 1
    for word in words[start:]:
        depth += (word in {"(", "["}) - (word in {")", "]"})
        if depth < 0 or (depth == 0 and word in _ENDS):
            break
        count += depth == 0 and word == ","
    return count


def _own_keys(count: int, counts: frozenset[int] | None) -> int:
    """How many of an aggregate's keys may stand in the statement; DataFusion adds others behind them."""
    return count if counts is None else max((one for one in counts if one <= count), default=count)
