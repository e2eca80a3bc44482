"""Which conditions meet rows as they are stored, and which only what a policy leaves of them."""

from __future__ import annotations

import logging
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.access.table_policy import TablePolicy
from planner.access.visible_catalog import misfit
from planner.bridge.row_expressions import evaluate
from planner.predicates.arrow_expressions import Call, Node, Other, read_expression
from planner.predicates.predicate import TRUE, And, Predicate, conjunction, decode
from planner.predicates.row_filter import PredicateFilter, find_columns, is_understood

__all__ = ["Conditions", "PolicedRows", "divided"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Conditions:
    """The filters of a scan.

    Attributes:
        below: applied to stored rows; None keeps all.
        above: applied to what a policy leaves of them; None keeps all.
    """

    below: PredicateFilter | None
    above: PredicateFilter | None = None


def divided(expression: pc.Expression | None, policy: TablePolicy | None, schema: pa.Schema) -> Conditions:
    """Divide a statement's conjuncts, and put the policy's own beside those that go below.

    What DataFusion pushes are comparisons of columns with literals, which can't fail: on columns that are
    not masked they may meet hidden rows. The others must not tell true values from masked ones.

    Args:
        expression: the statement's conjuncts on one table reference; None where it has none.
        policy: of the table, None where it has none.
        schema: all columns of the table.
    """
    statement = None if expression is None else PredicateFilter(decode(expression, schema), expression)
    if policy is None:
        return Conditions(statement)
    if statement is None:
        return Conditions(_filter(policy.predicate, policy.pushed))
    if not _may_read(statement, policy.masks.keys()):
        asked = statement.expression
        whole = asked if policy.pushed is None else policy.pushed & asked
        return Conditions(PredicateFilter(decode(whole, schema), whole))
    operands = (
        statement.predicate.operands if isinstance(statement.predicate, And) else (statement.predicate,)
    )
    harmless = [one for one in operands if is_understood(one) and not find_columns(one) & policy.masks.keys()]
    below = conjunction([policy.predicate, *harmless])
    return Conditions(_filter(below, policy.pushed), statement)


def _filter(predicate: Predicate, expression: pc.Expression | None) -> PredicateFilter | None:
    """A filter of policy conjuncts and others; the others may be dropped, since they apply above as well."""
    if predicate == TRUE:
        return None
    return PredicateFilter(predicate, pc.scalar(value=True) if expression is None else expression)


def _may_read(statement: PredicateFilter, columns: AbstractSet[str]) -> bool:
    """Whether any of the columns is read; true as well where that can't be told."""
    node = read_expression(statement.expression)
    return bool(columns) and (node is None or _is_opaque(node) or not columns.isdisjoint(statement.columns))


def _is_opaque(node: Node) -> bool:
    return isinstance(node, Other) or (isinstance(node, Call) and any(map(_is_opaque, node.arguments)))


@dataclass(frozen=True, eq=False)
class PolicedRows:
    """What a policy leaves of the rows of one scan; the `RowPolicy` of a `SecurityBarrierExec`.

    Args:
        table: its name, for messages.
        policy: of the table.
        columns: that are needed above the policy.
    """

    table: str
    policy: TablePolicy
    columns: frozenset[str]

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """See `RowPolicy.apply`.

        Raises:
            PreconditionError: the policy can't be evaluated for a row.
        """
        masks = {name: mask for name, mask in self.policy.masks.items() if name in self.columns}
        computed = {name: (one.expression, one.type) for name, one in masks.items() if one.constant is None}
        values: dict[str, pa.Array] = {}
        if computed or self.policy.condition is not None:
            try:
                batch, values = evaluate(batch, self.policy.condition, computed)
            except Exception:
                logger.exception("the access policy of table %r can't be evaluated", self.table)
                # Without its cause: DataFusion quotes values.
                raise misfit(self.table) from None
        shown = batch.select([name for name in batch.schema.names if name in self.columns - masks.keys()])
        everywhere = np.zeros(batch.num_rows, dtype=np.int64)
        for name, mask in masks.items():
            column = values[name] if mask.constant is None else mask.constant.take(pa.array(everywhere))
            shown = shown.append_column(name, column)
        return shown
