"""Conditions on a search's rows that Arrow can't express, evaluated before ranking by DataFusion.

    SELECT * FROM lance_vector_search('items', 'vec', [0.1, 0.2], k => 10) WHERE title LIKE 'A%' AND n > 5

    Filter: items.title LIKE Utf8("A%")
      TableScan: items projection=[id, n, title, vec, _distance], full_filters=[items.n > 5]

The filter above the leaf would leave fewer than k rows. So DataFusion evaluates the same expression over the
rows of the table, and the search ranks only the rows that fulfil it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from datafusion import DataFrame, Expr, col
from datafusion.expr import Filter, Join, Projection, SubqueryAlias
from datafusion.plan import LogicalPlan

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError
from lance_gateway.memwal.rules.expressions import shorten_reason
from lance_gateway.memwal.transforms.determinism import is_deterministic, list_subexpressions
from lance_gateway.planner.bridge.distance_functions import DISTANCES
from lance_gateway.planner.bridge.plan_reading import (
    Chain,
    Expression,
    columns_of,
    every_node,
    find_chain,
    find_chains,
    find_chains_compared_with_subquery,
    find_chains_filtered_by_subquery,
    output_name,
    serialize_expression,
    split_conjuncts,
)
from lance_gateway.planner.bridge.row_expressions import policy_context, run_on_own_thread
from lance_gateway.planner.sql.text.tokens import quote

_SAFE_VARIANTS = frozenset(
    {"Alias", "Between", "Case", "Column", "InList", "Like", "Literal", "Not", "TryCast"}
    | {"IsFalse", "IsNotFalse", "IsNotNull", "IsNotTrue", "IsNotUnknown", "IsNull", "IsTrue", "IsUnknown"}
)
"""Variants of expressions that fail for no row for which their operands don't."""
_SAFE_OPERATORS = frozenset(
    {"=", "!=", "<", "<=", ">", ">=", "AND", "OR", "IS DISTINCT FROM", "IS NOT DISTINCT FROM", "||"}
)
_SAFE_FUNCTIONS = frozenset(
    {"lower", "upper", "btrim", "ltrim", "rtrim", "reverse", "concat", "coalesce", "nullif", "get_field"}
    | {"character_length", "octet_length", "bit_length", "starts_with", "ends_with", "contains", "strpos"}
)
_NUMBER = "#row"
_SELECTED_SIDES = {
    f"{side}{kind}": place
    for place, side in enumerate(("Left", "Right"))
    for kind in ("Semi", "Anti", "Mark")
}
"""Joins that keep some rows of one side -> that input of theirs."""
_HINT = "write prefilter => false to apply the conditions to the rows that were found"


@dataclass(frozen=True, eq=False, slots=True)
class PlannedCondition:
    """Conjunct of a filter in a plan, over the rows of the leaf below; see `row_conditions.Condition`.

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
        """Text of the condition for messages."""
        return str(self.conjunct.canonical_name()).replace(f"{self.chain.table}.", "")

    @property
    def identity(self) -> Hashable | None:
        """Serialized expressions of the condition; None if DataFusion can't serialize one.

        Two conditions are equal if they are the same expressions over columns of the same names.
        """
        evaluated = [self.conjunct, *self.guards]
        names: list[str] = []
        for _, node in self._list_nodes_below():
            if isinstance(node, SubqueryAlias):
                names.append(node.alias())
            else:
                evaluated += node.projections()
        texts = tuple(map(serialize_expression, evaluated))
        return None if None in texts else (self.chain.table, len(self.guards), tuple(names), texts)

    @property
    def needs_visible_rows(self) -> bool:
        """False: a row for which it fails is evaluated again if it is visible."""
        return False

    def sql(self, names: Mapping[str, str]) -> str | None:  # noqa: ARG002 - whatever the names
        """Return None: Lance has other functions, and other rules for types."""
        return None

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return one boolean per row.

        Raises:
            Exception: what DataFusion has to say.
        """
        found = np.zeros(batch.num_rows, dtype=np.bool_)
        if batch.num_rows:
            found[run_on_own_thread(lambda: self._find_rows(batch))] = True
        return pa.array(found)

    def build_error(self, error: Exception) -> LanceGatewayError:
        """Build the error with DataFusion's message: the rows are the principal's own."""
        return InvalidInputError(f"the condition {self.text} can't be evaluated: {shorten_reason(error)}")

    def _find_rows(self, batch: pa.RecordBatch) -> np.ndarray:
        numbered = batch.append_column(_NUMBER, pa.array(np.arange(batch.num_rows)))
        frame = self._create_frame([numbered])
        if self.guards:
            for guard in self.guards:
                frame = frame.filter(Expr(guard))
            # Not in one plan: DataFusion would evaluate both for every row.
            guarded = [one for one in frame.collect() if one.num_rows]
            if not guarded:
                return np.empty(0, np.int64)
            frame = self._create_frame(guarded)
        for needed, node in reversed(list(self._list_nodes_below())):
            if isinstance(node, SubqueryAlias):
                frame = frame.alias(quote(node.alias()))
            else:
                frame = frame.select(*map(Expr, needed), col(quote(_NUMBER)))
        rows = frame.filter(Expr(self.conjunct)).select(col(quote(_NUMBER))).to_arrow_table()
        numbers: np.ndarray = rows.column(0).to_numpy()
        return numbers

    def _create_frame(self, batches: list[pa.RecordBatch]) -> DataFrame:
        return policy_context().create_dataframe([batches], name=self.chain.table)

    def _list_nodes_below(self) -> Iterator[tuple[list[Expression], Projection | SubqueryAlias]]:
        """Yield projections and aliases below the filter, from the top, with the needed expressions."""
        needed = set(columns_of(self.conjunct))
        for node in self.chain.nodes[self.place + 1 :]:
            if isinstance(node, SubqueryAlias):
                needed = {(None, name) for _, name in needed}
                yield [], node
            elif isinstance(node, Projection):
                names = {name for _, name in needed}
                outputs = [
                    projection for projection in node.projections() if output_name(projection) in names
                ]
                needed = {column for output in outputs for column in columns_of(output)}
                yield outputs, node


def plan_condition(
    chain: Chain, place: int, conjunct: Expression, added: AbstractSet[str] = frozenset()
) -> PlannedCondition | None:
    """Plan a conjunct of a filter, to be evaluated over the rows of the leaf.

    Args:
        chain: down to the leaf.
        place: of the filter.
        conjunct: of its predicate.
        added: columns of the leaf that the table does not have.

    Returns:
        None where it does not follow from the row alone: it has a subquery in it, chance, or what is added.
    """
    columns = chain.stored_columns(place + 1, conjunct)
    if not columns or not columns.isdisjoint(added) or not _is_deterministic(chain, place + 1, conjunct):
        return None
    guards = []
    if _can_fail(chain, place + 1, conjunct):
        for one in chain.leaf.filters():
            read = chain.stored_columns(len(chain.nodes), one)
            if read is not None and read.isdisjoint(added):
                guards.append(one)
                columns |= read
    return PlannedCondition(chain, place, conjunct, tuple(guards), columns)


def find_residual_conditions(
    plan: LogicalPlan,
    subqueries: Sequence[LogicalPlan],
    searches: Mapping[str, AbstractSet[str]],
    *,
    handed: bool = True,
) -> Mapping[str, tuple[PlannedCondition, ...]]:
    """Find the conditions directly above searches, which must be evaluated before ranking.

    Args:
        plan: optimised.
        subqueries: that stand for values in it; see `subquery_plans`.
        searches: name of a leaf's table -> columns that the search adds. Conditions on these alone stay
            where they are.
        handed: whether the leaf is handed what the plan says of it; otherwise that is among the conditions.

    Returns:
        Name of the leaf's table -> its conditions.

    Raises:
        UnsupportedError: a condition that can't be met before ranking.
    """
    for one in (plan, *subqueries):
        _refuse_selecting_joins(one, searches)
    for subquery in subqueries:
        if any(chain.table in searches for chain in find_chains_filtered_by_subquery(subquery)):
            raise _build_subquery_error()
    found: dict[str, tuple[PlannedCondition, ...]] = {}
    for chain in (chain for one in (plan, *subqueries) for chain in find_chains(one)):
        added = searches.get(chain.table)
        if added is None:
            continue
        conditions = tuple(_collect_conditions(chain, added, handed=handed))
        known = found.setdefault(chain.table, conditions)
        if known is not conditions and not _has_same_identities(known, conditions):
            msg = (
                "a search is named once and read under different conditions, which can't apply before ranking"
            )
            raise UnsupportedError(f"{msg}: write its call in every place, or {_HINT}")
    return found


def _has_same_identities(some: tuple[PlannedCondition, ...], others: tuple[PlannedCondition, ...]) -> bool:
    identities = [one.identity for one in some]
    return None not in identities and identities == [other.identity for other in others]


def _is_deterministic(chain: Chain, place: int, expression: Expression) -> bool:
    """Return whether an expression over the output of node `place` depends only on the leaf's row."""
    registered = frozenset(DISTANCES)
    return all(
        is_deterministic(definition, registered) for definition in chain.definitions(place, expression)
    )


def _can_fail(chain: Chain, place: int, expression: Expression) -> bool:
    """Return whether an expression over the output of node `place` may fail for a row."""
    return any(
        _can_raise(part)
        for definition in chain.definitions(place, expression)
        for part in list_subexpressions(definition)
    )


def _can_raise(expression: Expression) -> bool:
    kind = expression.variant_name()
    if kind == "BinaryExpr":
        return expression.rex_call_operator() not in _SAFE_OPERATORS
    if kind == "ScalarFunction":
        return expression.rex_call_operator() not in _SAFE_FUNCTIONS
    return kind not in _SAFE_VARIANTS


def _collect_conditions(chain: Chain, added: AbstractSet[str], *, handed: bool) -> Iterator[PlannedCondition]:
    conjuncts = [
        (place, conjunct) for place, node in chain.filters for conjunct in split_conjuncts(node.predicate())
    ]
    if not handed:
        conjuncts += [(len(chain.nodes), one) for one in chain.leaf.filters()]
    for place, conjunct in conjuncts:
        columns = chain.stored_columns(place + 1, conjunct)
        if columns and columns <= added:
            continue
        condition = plan_condition(chain, place, conjunct, added)
        if condition is None:
            text = str(conjunct.canonical_name()).replace(f"{chain.table}.", "")
            msg = f"the condition {text} on the rows of a search can't apply before ranking"
            raise UnsupportedError(f"{msg}: {_HINT}")
        yield condition


def refuse_subqueries(plan: LogicalPlan, searches: AbstractSet[str]) -> None:
    """Refuse conditions with subqueries on the rows of searches.

    Args:
        plan: not optimised.
        searches: names of the leaves' tables.

    Raises:
        UnsupportedError: there is one.
    """
    if any(chain.table in searches for chain in find_chains_compared_with_subquery(plan)):
        raise _build_subquery_error()


def _build_subquery_error() -> UnsupportedError:
    msg = "a condition with a subquery on the rows of a search can't apply before ranking"
    return UnsupportedError(f"{msg}: {_HINT}")


def _refuse_selecting_joins(plan: LogicalPlan, searches: Mapping[str, AbstractSet[str]]) -> None:
    """Refuse semi joins of searches, which come from IN (SELECT ...) and EXISTS."""
    for node in every_node(plan):
        join = node.to_variant()
        # The bindings show the type of a join by its name alone.
        side = _SELECTED_SIDES.get(str(join.join_type())) if isinstance(join, Join) else None
        if side is None:
            continue
        below = node.inputs()[side]
        chain = find_chain(below)
        chains = (
            _find_joined_chains(below, _find_compared_relations(join, side)) if chain is None else [chain]
        )
        if any(chain.table in searches for chain in chains):
            raise _build_subquery_error()


def _find_compared_relations(join: Join, side: int) -> frozenset[str]:
    """Return the relations whose columns a join compares, on one side and in further conditions."""
    condition = join.filter()
    expressions = [pair[side] for pair in join.on()] + ([] if condition is None else [condition])
    found: set[str] = set()
    for expression in expressions:
        with suppress(ValueError):  # it has another subquery in it
            found.update(relation for relation, _ in columns_of(expression) if relation is not None)
    return frozenset(found)


def _find_joined_chains(plan: LogicalPlan, relations: AbstractSet[str]) -> Iterator[Chain]:
    """Yield the chains of some joined relations; columns keep their relation above a projection."""
    chain = find_chain(plan)
    if chain is not None:
        names = (node.alias() for node in chain.nodes if isinstance(node, SubqueryAlias))
        if next(names, chain.table) in relations:
            yield chain
    elif isinstance(plan.to_variant(), Join | Filter | Projection):
        for child in plan.inputs():
            yield from _find_joined_chains(child, relations)
