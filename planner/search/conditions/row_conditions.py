"""Conditions of a search: those that Arrow can express, and those evaluated here, batch by batch.

    title LIKE 'A%'                      DataFusion evaluates it: residual.PlannedCondition
    tenant = 'a' AND lower(s) = 'x'      the row filter of a policy: build_policy_condition
    email = 'u***'                       a statement's condition on a masked column: PolicedCondition

All of these are `RowFilter`s that can't be said in Lance's language, and apply before anything is ranked.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.execnodes import RowFilter
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError
from lance_gateway.planner.access.table_policy import PolicedRows, TablePolicy, policy_mismatch_error
from lance_gateway.planner.bridge.row_expressions import match_rows
from lance_gateway.planner.predicates.predicate import And, conjunction, decode
from lance_gateway.planner.predicates.row_filter import PredicateFilter, find_columns, is_understood


@dataclass(frozen=True, slots=True)
class SearchConditions:
    """Conjuncts of one search.

    Attributes:
        before: on columns of the table, to be met by every row that is ranked; None admits all.
        after: on the rows that were found; None keeps all.
    """

    before: PredicateFilter | None
    after: PredicateFilter | None


def divide_conditions(
    expression: pc.Expression | None, schema: pa.Schema, added: AbstractSet[str], *, prefilter: bool
) -> SearchConditions:
    """Divide conjuncts into those that apply before ranking and those that apply after.

    Args:
        expression: all of them; None where there are none.
        schema: of the rows.
        added: columns that the search adds: what they must be can't be known before ranking.
        prefilter: whether conjuncts on other columns apply before ranking.

    Raises:
        UnsupportedError: a conjunct on both kinds of columns that can't be taken apart.
    """
    if expression is None:
        return SearchConditions(None, None)
    whole = PredicateFilter(decode(expression, schema), expression)
    if not prefilter:
        return SearchConditions(None, whole)
    if whole.columns.isdisjoint(added):
        return SearchConditions(whole, None)
    operands = whole.predicate.operands if isinstance(whole.predicate, And) else (whole.predicate,)
    if not all(map(is_understood, operands)):
        msg = (
            f"a condition on {', '.join(sorted(whole.columns & added))} stands beside one that can't apply "
            "before ranking: put the search into a subquery and the former outside, or use prefilter => false"
        )
        raise UnsupportedError(msg)
    early = [operand for operand in operands if added.isdisjoint(find_columns(operand))]
    late = [operand for operand in operands if not added.isdisjoint(find_columns(operand))]
    always = pc.scalar(value=True)
    before = PredicateFilter(conjunction(early), always) if early else None
    return SearchConditions(before, PredicateFilter(conjunction(late), always))


logger = logging.getLogger(__name__)


class Condition(RowFilter, Protocol):
    """Row filter that is evaluated here, with an identity for caches."""

    @property
    def identity(self) -> Hashable | None:
        """Equal for conditions that pass the same rows; None if unknown."""

    @property
    def needs_visible_rows(self) -> bool:
        """Whether only visible rows may be evaluated, not superseded or hidden ones."""

    def build_error(self, error: Exception) -> LanceGatewayError:
        """Build the error for a row for which `matches` raised `error`."""


@dataclass(frozen=True, slots=True)
class StoredCondition:
    """Predicate of comparisons, which fails for no row.

    Args:
        row_filter: the predicate.
    """

    row_filter: PredicateFilter

    @property
    def columns(self) -> frozenset[str]:
        """See `RowFilter.columns`."""
        return self.row_filter.columns

    @property
    def identity(self) -> Hashable | None:
        """The predicate, if it is fully understood."""
        return self.row_filter.predicate if is_understood(self.row_filter.predicate) else None

    @property
    def needs_visible_rows(self) -> bool:
        """False: it can't fail, so it reveals nothing."""
        return False

    def sql(self, names: Mapping[str, str]) -> str | None:
        """See `RowFilter.sql`."""
        return self.row_filter.sql(names)

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """See `RowFilter.matches`."""
        return self.row_filter.matches(batch)

    def build_error(self, error: Exception) -> LanceGatewayError:
        """Build the error; never needed, since comparisons don't fail."""
        return InvalidInputError(f"the condition {self.row_filter} can't be evaluated: {error}")


@dataclass(frozen=True, slots=True, eq=False)
class _PolicyCondition:
    """Row filter of an access policy."""

    table: str
    policy: TablePolicy

    @property
    def columns(self) -> frozenset[str]:
        pushed = self._pushed_filter
        return self.policy.condition_columns | (frozenset() if pushed is None else pushed.columns)

    @property
    def identity(self) -> Hashable | None:
        return self.policy

    @property
    def needs_visible_rows(self) -> bool:
        return False

    @property
    def _pushed_filter(self) -> PredicateFilter | None:
        policy = self.policy
        return None if policy.pushed is None else PredicateFilter(policy.predicate, policy.pushed)

    def sql(self, names: Mapping[str, str]) -> str | None:
        if self.policy.condition is not None or self._pushed_filter is None:
            return None
        return self._pushed_filter.sql(names)

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        pushed, condition = self._pushed_filter, self.policy.condition
        if pushed is None:
            assert condition is not None  # noqa: S101 - a policy has one of both
            return match_rows(batch, condition)
        shown = pushed.matches(batch)
        if condition is None:
            return shown
        flags = shown.to_numpy(zero_copy_only=False)
        flags[flags] = match_rows(batch.filter(shown), condition).to_numpy(zero_copy_only=False)
        return pa.array(flags)

    def build_error(self, error: Exception) -> LanceGatewayError:
        # The text of a policy is not for those whom it restricts, nor the value that it failed for.
        logger.error("the access policy of table %r can't be evaluated: %s", self.table, error)
        return policy_mismatch_error(self.table)


def build_policy_condition(table: str, policy: TablePolicy | None) -> Condition | None:
    """Build the condition that rows must fulfil to be visible; None if all are.

    Args:
        table: its name, for messages.
        policy: of the table; None where it has none.
    """
    if policy is None or (policy.pushed is None and policy.condition is None):
        return None
    return _PolicyCondition(table, policy)


@dataclass(frozen=True, slots=True, eq=False)
class PolicedCondition:
    """Condition of a statement, over visible rows with masked values.

    Args:
        table: its name, for messages.
        policy: of the table.
        condition: of the statement.
    """

    table: str
    policy: TablePolicy
    condition: Condition

    @property
    def columns(self) -> frozenset[str]:
        """Stored columns that are needed to compute the condition's columns."""
        return self.policy.columns_for(self.condition.columns)

    @property
    def identity(self) -> Hashable | None:
        """Policy and condition."""
        inner = self.condition.identity
        return None if inner is None else (self.policy, inner)

    @property
    def needs_visible_rows(self) -> bool:
        """True: an error must not reveal a hidden row."""
        return True

    def sql(self, names: Mapping[str, str]) -> str | None:  # noqa: ARG002 - whatever the names
        """Return None: stored values are not masked."""
        return None

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return one boolean per row, False for hidden rows.

        Raises:
            PreconditionError: the policy can't be evaluated for a row.
            Exception: what DataFusion has to say of the condition.
        """
        number = _choose_unused_name(batch.schema.names)
        numbered = batch.append_column(number, pa.array(np.arange(batch.num_rows)))
        rows = PolicedRows(self.table, self.policy, self.condition.columns | {number}).apply(numbered)
        found = np.zeros(batch.num_rows, dtype=np.bool_)
        if rows.num_rows:
            found[rows.filter(self.condition.matches(rows)).column(number).to_numpy()] = True
        return pa.array(found)

    def build_error(self, error: Exception) -> LanceGatewayError:
        """Build the condition's error, which only quotes visible values."""
        return error if isinstance(error, LanceGatewayError) else self.condition.build_error(error)


def _choose_unused_name(names: list[str]) -> str:
    name = "row"
    while name in names:
        name += "#"
    return name
