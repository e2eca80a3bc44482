"""Conditions of a search: which of them Arrow can say, and those that are evaluated here, batch by batch.

    title LIKE 'A%'                      SqlCondition: DataFusion evaluates it
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

from execnodes import RowFilter
from memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError
from planner.access.policy_conditions import PolicedRows
from planner.access.table_policy import TablePolicy
from planner.access.visible_catalog import misfit
from planner.bridge.row_expressions import fulfilling
from planner.predicates.predicate import And, conjunction, decode
from planner.predicates.row_filter import PredicateFilter, find_columns, is_understood

__all__ = ["Condition", "PolicedCondition", "SqlCondition", "StoredCondition", "build_policy_condition"]


@dataclass(frozen=True, slots=True)
class SearchConditions:
    """The conjuncts of one search.

    Attributes:
        before: on columns of the table, to be met by every row that is ranked; None admits all.
        after: on the rows that were found; None keeps all.
    """

    before: PredicateFilter | None
    after: PredicateFilter | None


def divide_conditions(
    expression: pc.Expression | None, schema: pa.Schema, added: AbstractSet[str], *, prefilter: bool
) -> SearchConditions:
    """Divide the conjuncts on a search's rows.

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
            "before ranking: put the search into a subquery and the former outside, or say prefilter => false"
        )
        raise UnsupportedError(msg)
    early = [one for one in operands if added.isdisjoint(find_columns(one))]
    late = [one for one in operands if not added.isdisjoint(find_columns(one))]
    always = pc.scalar(value=True)
    before = PredicateFilter(conjunction(early), always) if early else None
    return SearchConditions(before, PredicateFilter(conjunction(late), always))


logger = logging.getLogger(__name__)


class Condition(RowFilter, Protocol):
    """A row filter that is evaluated here, and what may be remembered of it."""

    @property
    def identity(self) -> Hashable | None:
        """Equal for conditions that pass the same rows; None where that can't be told."""

    @property
    def needs_visible_rows(self) -> bool:
        """Whether rows that are superseded, or that the principal may not see, must not be evaluated."""

    def build_error(self, error: Exception) -> LanceGatewayError:
        """What is told of a row for which `matches` raised `error`."""


@dataclass(frozen=True, slots=True)
class StoredCondition:
    """A predicate of comparisons, which no row can make fail.

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
        """The predicate, where it says all."""
        return self.row_filter.predicate if is_understood(self.row_filter.predicate) else None

    @property
    def needs_visible_rows(self) -> bool:
        """No: what can't fail tells nothing."""
        return False

    def sql(self, names: Mapping[str, str]) -> str | None:
        """See `RowFilter.sql`."""
        return self.row_filter.sql(names)

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """See `RowFilter.matches`."""
        return self.row_filter.matches(batch)

    def build_error(self, error: Exception) -> LanceGatewayError:
        """Never needed, and said all the same."""
        return InvalidInputError(f"the condition {self.row_filter} can't be evaluated: {error}")


@dataclass(frozen=True, slots=True)
class SqlCondition:
    """A condition in SQL that follows from the row alone.

    Attributes:
        text: over the table's columns, under their plain names; without parameters.
        columns: that it reads.
        spares_other_rows: see `Condition`.
    """

    text: str
    columns: frozenset[str]
    needs_visible_rows: bool = False

    @property
    def identity(self) -> Hashable | None:
        """The text."""
        return self.text

    def sql(self, names: Mapping[str, str]) -> str | None:  # noqa: ARG002 - whatever the names
        """Lance has other functions, and other rules for types."""
        return None

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """One boolean per row.

        Raises:
            Exception: what DataFusion has to say.
        """
        return fulfilling(batch, self.text)

    def build_error(self, error: Exception) -> LanceGatewayError:
        """DataFusion's words: the rows are the principal's own."""
        reason = str(error).strip().partition("\n")[0]
        return InvalidInputError(f"the condition {self.text} can't be evaluated: {reason}")


@dataclass(frozen=True, slots=True, eq=False)
class _PolicyCondition:
    """The row filter of an access policy."""

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
            assert condition is not None  # noqa: S101 (a policy has one of both)
            return fulfilling(batch, condition)
        shown = pushed.matches(batch)
        if condition is None:
            return shown
        flags = shown.to_numpy(zero_copy_only=False)
        flags[flags] = fulfilling(batch.filter(shown), condition).to_numpy(zero_copy_only=False)
        return pa.array(flags)

    def build_error(self, error: Exception) -> LanceGatewayError:
        # The text of a policy is not for those whom it restricts, nor the value that it failed for.
        logger.error("the access policy of table %r can't be evaluated: %s", self.table, error)
        return misfit(self.table)


def build_policy_condition(table: str, policy: TablePolicy | None) -> Condition | None:
    """The condition that rows must fulfil to be shown; None where all are.

    Args:
        table: its name, for messages.
        policy: of the table; None where it has none.
    """
    if policy is None or (policy.pushed is None and policy.condition is None):
        return None
    return _PolicyCondition(table, policy)


@dataclass(frozen=True, slots=True, eq=False)
class PolicedCondition:
    """A statement's condition as it meets what a policy leaves: masked values, of rows that are shown.

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
        """Stored columns from which those that the condition reads are made."""
        return self.policy.columns_for(self.condition.columns)

    @property
    def identity(self) -> Hashable | None:
        """Of policy and condition together."""
        inner = self.condition.identity
        return None if inner is None else (self.policy, inner)

    @property
    def needs_visible_rows(self) -> bool:
        """Yes: an error must not tell of a row that is not shown."""
        return True

    def sql(self, names: Mapping[str, str]) -> str | None:  # noqa: ARG002 - whatever the names
        """Storage knows nothing of masks."""
        return None

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """One boolean per row; false for rows that are not shown.

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
        """As the condition has it: it was given nothing but what is shown."""
        return error if isinstance(error, LanceGatewayError) else self.condition.build_error(error)


def _choose_unused_name(names: list[str]) -> str:
    name = "row"
    while name in names:
        name += "#"
    return name
