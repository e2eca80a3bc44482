"""Conditions on a search's rows that Arrow can't say, to be met before ranking as well.

    SELECT * FROM lance_vector_search('items', 'vec', [0.1, 0.2], k => 10) WHERE title LIKE 'A%' AND n > 5

    Filter: items.title LIKE Utf8("A%")
      TableScan: items projection=[id, n, title, vec, _distance], full_filters=[items.n > 5]

The filter above the leaf would leave fewer than k rows. So DataFusion evaluates the very same expression over
the rows of the table, and what is found is what the search may rank.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from datafusion import DataFrame, Expr, col
from datafusion.expr import Join, Projection, SubqueryAlias
from datafusion.plan import LogicalPlan

from memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError
from planner.row_expressions import on_own_thread, policy_context
from planner.search.plan_reading import (
    Chain,
    Expression,
    chain_from,
    columns_of,
    conjuncts_of,
    every_node,
    output_name,
)
from planner.tokens import quote

__all__ = ["PlannedCondition", "planned_condition", "residual_conditions"]

_VOLATILE = re.compile(r"\b(?:random|rand|uuid)\(")
_MAY_FAIL = re.compile(r"[/%]|CAST\(")
_NUMBER = "#row"
_SELECTING = re.compile("(Left|Right)(?:Semi|Anti|Mark)")
_SCAN = re.compile(r"\s*TableScan: (?P<table>\S+)")
_SELECTED = re.compile(r"Filter:|(?:Left|Right)(?:Semi|Anti|Mark) Join")
_WAY_OUT = "write prefilter => false to apply the conditions to the rows that were found"


@dataclass(frozen=True, eq=False, slots=True)
class PlannedCondition:
    """A conjunct of a filter in a plan, over the rows of the leaf below; see `row_conditions.Condition`.

    Attributes:
        chain: in which the filter stands.
        place: of the filter.
        conjunct: of its predicate.
        guards: conjuncts that the leaf was handed: rows that don't fulfil them may make this one fail.
        columns: of the leaf that all of them read.
    """

    chain: Chain
    place: int
    conjunct: Expression
    guards: tuple[Expression, ...]
    columns: frozenset[str]

    @property
    def text(self) -> str:
        """For messages."""
        return str(self.conjunct.canonical_name()).replace(f"{self.chain.table}.", "")

    @property
    def identity(self) -> Hashable | None:
        """All that is evaluated, as text."""
        defined = [
            expression.canonical_name()
            for _, node in self._below()
            if isinstance(node, Projection)
            for expression in node.projections()
        ]
        guards = [guard.canonical_name() for guard in self.guards]
        return self.text, *(one.replace(f"{self.chain.table}.", "") for one in (*defined, *guards))

    @property
    def spares_other_rows(self) -> bool:
        """No: a row for which it fails is looked at again, if it is visible."""
        return False

    def sql(self, names: Mapping[str, str]) -> str | None:  # noqa: ARG002 - whatever the names
        """Lance has other functions, and other rules for types."""
        return None

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """One boolean per row.

        Raises:
            Exception: what DataFusion has to say.
        """
        found = np.zeros(batch.num_rows, dtype=np.bool_)
        if batch.num_rows:
            found[on_own_thread(lambda: self._fulfilling(batch))] = True
        return pa.array(found)

    def refusal(self, error: Exception) -> LanceGatewayError:
        """DataFusion's words: the rows are the principal's own."""
        reason = str(error).strip().partition("\n")[0]
        return InvalidInputError(f"the condition {self.text} can't be evaluated: {reason}")

    def _fulfilling(self, batch: pa.RecordBatch) -> np.ndarray:
        """Numbers of the rows."""
        numbered = batch.append_column(_NUMBER, pa.array(np.arange(batch.num_rows)))
        frame = self._frame([numbered])
        if self.guards:
            for guard in self.guards:
                frame = frame.filter(Expr(guard))
            # Not in one plan: DataFusion would evaluate both for every row.
            guarded = [one for one in frame.collect() if one.num_rows]
            if not guarded:
                return np.empty(0, np.int64)
            frame = self._frame(guarded)
        for needed, node in reversed(list(self._below())):
            if isinstance(node, SubqueryAlias):
                frame = frame.alias(quote(node.alias()))
            else:
                frame = frame.select(*map(Expr, needed), col(quote(_NUMBER)))
        rows = frame.filter(Expr(self.conjunct)).select(col(quote(_NUMBER))).to_arrow_table()
        numbers: np.ndarray = rows.column(0).to_numpy()
        return numbers

    def _frame(self, batches: list[pa.RecordBatch]) -> DataFrame:
        return policy_context().create_dataframe([batches], name=self.chain.table)

    def _below(self) -> Iterator[tuple[list[Expression], Projection | SubqueryAlias]]:
        """Projections and aliases below the filter, from the upper ones down, with what is needed of each."""
        needed = set(columns_of(self.conjunct))
        for node in self.chain.nodes[self.place + 1 :]:
            if isinstance(node, SubqueryAlias):
                needed = {(None, name) for _, name in needed}
                yield [], node
            elif isinstance(node, Projection):
                names = {name for _, name in needed}
                outputs = [one for one in node.projections() if output_name(one) in names]
                needed = {column for one in outputs for column in columns_of(one)}
                yield outputs, node


def planned_condition(
    chain: Chain, place: int, conjunct: Expression, added: AbstractSet[str] = frozenset()
) -> PlannedCondition | None:
    """A conjunct of the filter at a place of a chain, to be evaluated over the leaf's rows.

    Args:
        chain: down to the leaf.
        place: of the filter.
        conjunct: of its predicate.
        added: columns of the leaf that the table does not have.

    Returns:
        None where it does not follow from the row alone: it has a subquery in it, chance, or what is added.
    """
    columns = chain.stored_columns(place + 1, conjunct)
    if not columns or not columns.isdisjoint(added) or _VOLATILE.search(conjunct.canonical_name()):
        return None
    guards = []
    if _MAY_FAIL.search(conjunct.canonical_name()):
        for one in chain.leaf.filters():
            read = chain.stored_columns(len(chain.nodes), one)
            if read is not None and read.isdisjoint(added):
                guards.append(one)
                columns |= read
    return PlannedCondition(chain, place, conjunct, tuple(guards), columns)


def residual_conditions(
    plan: LogicalPlan, searches: Mapping[str, AbstractSet[str]], *, handed: bool = True
) -> Mapping[str, tuple[PlannedCondition, ...]]:
    """The conditions that stand directly above searches, each of which is to be met before ranking.

    Args:
        plan: optimised.
        searches: name of a leaf's table -> columns that the search adds. Conditions on these alone stay
            where they are.
        handed: whether the leaf is handed what the plan says of it; otherwise that is among the conditions.

    Returns:
        Name of the leaf's table -> its conditions.

    Raises:
        UnsupportedError: a condition that can't be met before ranking.
    """
    _refuse_subqueries(plan, searches)
    _refuse_scalar_subqueries(plan.display_indent(), searches)
    found: dict[str, tuple[PlannedCondition, ...]] = {}
    for chain in _chains(plan):
        added = searches.get(chain.table)
        if added is None:
            continue
        conditions = tuple(_conditions(chain, added, handed=handed))
        known = found.setdefault(chain.table, conditions)
        if [one.identity for one in known] != [one.identity for one in conditions]:
            msg = (
                "a search is named once and read under different conditions, which can't apply before ranking"
            )
            raise UnsupportedError(f"{msg}: write its call in every place, or {_WAY_OUT}")
    return found


def _chains(plan: LogicalPlan) -> Iterator[Chain]:
    """All chains of a plan, from their uppermost nodes."""
    chain = chain_from(plan)
    if chain is not None:
        yield chain
        return
    for child in plan.inputs():
        yield from _chains(child)


def _conditions(chain: Chain, added: AbstractSet[str], *, handed: bool) -> Iterator[PlannedCondition]:
    conjuncts = [
        (place, conjunct) for place, node in chain.filters for conjunct in conjuncts_of(node.predicate())
    ]
    if not handed:
        conjuncts += [(len(chain.nodes), one) for one in chain.leaf.filters()]
    for place, conjunct in conjuncts:
        columns = chain.stored_columns(place + 1, conjunct)
        if columns and columns <= added:
            continue
        condition = planned_condition(chain, place, conjunct, added)
        if condition is None:
            text = str(conjunct.canonical_name()).replace(f"{chain.table}.", "")
            msg = f"the condition {text} on the rows of a search can't apply before ranking"
            raise UnsupportedError(f"{msg}: {_WAY_OUT}")
        yield condition


def _refuse_subqueries(plan: LogicalPlan, searches: Mapping[str, AbstractSet[str]]) -> None:
    """IN (SELECT ...) and EXISTS have become joins, which keep some rows of one side."""
    for node in every_node(plan):
        join = node.to_variant()
        selecting = _SELECTING.fullmatch(str(join.join_type())) if isinstance(join, Join) else None
        if selecting is None:
            continue
        chain = chain_from(node.inputs()[0 if selecting[1] == "Left" else 1])
        if chain is not None and chain.table in searches:
            msg = (
                "a condition with a subquery (IN, EXISTS) on the rows of a search can't apply before ranking"
            )
            raise UnsupportedError(f"{msg}: {_WAY_OUT}")


def _refuse_scalar_subqueries(plan: str, searches: Mapping[str, AbstractSet[str]]) -> None:
    """Subqueries that stand for a value are expressions, which can be seen in print alone."""
    lines = plan.split("\n")
    for number, line in enumerate(lines):
        found = _SCAN.match(line)
        if found is None or found["table"] not in searches:
            continue
        selected, directly = False, True
        for above in _ancestors(lines, number):
            if directly:
                selected = selected or _SELECTED.match(above) is not None
                directly = selected or above.startswith(("Projection:", "SubqueryAlias:"))
            if selected and above.startswith("Subquery:"):
                msg = "a condition on the rows of a search in a subquery that stands for a value can't apply"
                raise UnsupportedError(f"{msg} before ranking: {_WAY_OUT}")


def _ancestors(lines: Sequence[str], number: int) -> Iterator[str]:
    """The lines of the nodes above the one on a line, from the nearest up, without their indentation."""
    depth = len(lines[number]) - len(lines[number].lstrip())
    for line in reversed(lines[:number]):
        text = line.lstrip()
        if len(line) - len(text) < depth:
            depth = len(line) - len(text)
            yield text
