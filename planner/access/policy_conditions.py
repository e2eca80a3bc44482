"""Decides which conditions apply to stored rows, and which only to rows after the access policy."""

from __future__ import annotations

import logging
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.access.table_policy import TablePolicy
from planner.access.visible_catalog import policy_mismatch_error
from planner.bridge.row_expressions import evaluate
from planner.predicates.arrow_expressions import Call, Node, Other, read_expression
from planner.predicates.predicate import TRUE, And, Predicate, conjunction, decode
from planner.predicates.row_filter import PredicateFilter, find_columns, is_understood

__all__ = ["Conditions", "PolicedRows", "divide_conditions"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Conditions:
    """The filters of a scan.

    Attributes:
        below: applied to stored rows; None keeps all.
        above: applied to rows after the policy; None keeps all.
    """

    below: PredicateFilter | None
    above: PredicateFilter | None = None


def divide_conditions(
    expression: pc.Expression | None, policy: TablePolicy | None, schema: pa.Schema
) -> Conditions:
    """Divide the conjuncts of a statement, and add those of the policy to the ones below it.

    DataFusion pushes comparisons of columns with literals, which can't fail: on columns without a mask they
    may be applied to hidden rows. Others would reveal the values behind a mask.

    Args:
        expression: conjuncts of the statement on one table reference, or None.
        policy: of the table, or None.
        schema: all columns of the table.
    """
    statement = None if expression is None else PredicateFilter(decode(expression, schema), expression)
    if policy is None:
        return Conditions(statement)
    if statement is None:
        return Conditions(_make_filter(policy.predicate, policy.pushed))
    if not _may_depend_on(statement, policy.masks.keys()):
        whole = statement.expression if policy.pushed is None else policy.pushed & statement.expression
        return Conditions(PredicateFilter(decode(whole, schema), whole))
    conjuncts = (
        statement.predicate.operands if isinstance(statement.predicate, And) else (statement.predicate,)
    )
    safe = [
        conjunct
        for conjunct in conjuncts
        if is_understood(conjunct) and not find_columns(conjunct) & policy.masks.keys()
    ]
    below = conjunction([policy.predicate, *safe])
    return Conditions(_make_filter(below, policy.pushed), statement)


def _make_filter(predicate: Predicate, expression: pc.Expression | None) -> PredicateFilter | None:
    """Make the filter below a policy; conjuncts of the statement may be lost, since they also apply above."""
    if predicate == TRUE:
        return None
    return PredicateFilter(predicate, pc.scalar(value=True) if expression is None else expression)


def _may_depend_on(statement: PredicateFilter, columns: AbstractSet[str]) -> bool:
    """Return whether a filter reads any of the columns, or can't be analysed."""
    node = read_expression(statement.expression)
    return bool(columns) and (node is None or _is_opaque(node) or not columns.isdisjoint(statement.columns))


def _is_opaque(node: Node) -> bool:
    return isinstance(node, Other) or (isinstance(node, Call) and any(map(_is_opaque, node.arguments)))


@dataclass(frozen=True, eq=False)
class PolicedRows:
    """The policy for the rows of one scan; the `RowPolicy` of a `SecurityBarrierExec`.

    Args:
        table: its name, for messages.
        policy: of the table.
        columns: that are needed above the policy.
    """

    table: str
    policy: TablePolicy
    columns: frozenset[str]

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Filter and mask rows, as `RowPolicy.apply` requires.

        Raises:
            PreconditionError: the policy can't be evaluated for a row.
        """
        masks = {name: mask for name, mask in self.policy.masks.items() if name in self.columns}
        computed = {
            name: (mask.expression, mask.type) for name, mask in masks.items() if mask.constant is None
        }
        values: dict[str, pa.Array] = {}
        if computed or self.policy.condition is not None:
            try:
                batch, values = evaluate(batch, self.policy.condition, computed)
            except Exception:
                logger.exception("the access policy of table %r can't be evaluated", self.table)
                # Without the cause, in which DataFusion quotes values.
                raise policy_mismatch_error(self.table) from None
        visible = batch.select([name for name in batch.schema.names if name in self.columns - masks.keys()])
        first = pa.array(np.zeros(batch.num_rows, dtype=np.int64))
        for name, mask in masks.items():
            column = values[name] if mask.constant is None else mask.constant.take(first)
            visible = visible.append_column(name, column)
        return visible
