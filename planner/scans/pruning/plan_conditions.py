"""Conditions that DataFusion's optimiser has moved next to a scan, read from the optimised plan.

    Filter: __common_expr_1 >= 2026-03-05 AND __common_expr_1 <= 2026-03-07
      Projection: CAST(t.ts AS Date32) AS __common_expr_1, t.id
        TableScan: t, filters=[t.id > 3]

All of them hold for every row of the scan that counts: those that the scan applies by itself, and those of
filters above it, through a projection. Where they stand, outer joins and subqueries have been minded already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from datafusion.expr import Filter, Projection, TableScan
from datafusion.plan import LogicalPlan

from lance_gateway.planner.bridge.plan_reading import (
    Expression,
    columns_of,
    output_name,
    split_conjuncts,
    strip_aliases,
)

Definitions: TypeAlias = Mapping[str, Expression]
"""Name of a column that a projection computes -> its expression over the columns of the scan."""


@dataclass(frozen=True, eq=False, slots=True)
class Condition:
    """A condition on the rows of a scan.

    Attributes:
        expression: over the columns of the scan, and those that are defined.
        definitions: of the columns in it that a projection computes.
    """

    expression: Expression
    definitions: Definitions


@dataclass(frozen=True, eq=False)
class PlanConditions:
    """The conditions of the scans of a plan.

    Attributes:
        places: private name of a table reference -> the conditions of each place where the plan reads it.
        decided: what was found for a reference, by those who decide; the same as long as its regions are.
    """

    places: Mapping[str, tuple[tuple[Condition, ...], ...]]
    decided: dict[str, object] = field(default_factory=dict)


NO_CONDITIONS: Final = PlanConditions(MappingProxyType({}))


def read_plan_conditions(plan: LogicalPlan) -> PlanConditions:
    """Read the conditions of all scans of an optimised plan, without those inside of expressions."""
    places: dict[str, list[tuple[Condition, ...]]] = {}
    for name, conditions in _read(plan, ()):
        places.setdefault(name, []).append(conditions)
    return PlanConditions({name: tuple(each) for name, each in places.items() if all(each)})


def _read(
    plan: LogicalPlan, above: tuple[Filter | Projection, ...]
) -> Iterator[tuple[str, tuple[Condition, ...]]]:
    """Yield the scans of a plan that stands below filters and projections, the lowest of them last."""
    node = plan.to_variant()
    if isinstance(node, TableScan):
        # Of some rows, those that fail must be among them.
        chain = above if node.fetch() is None else ()
        conditions = [*_apply({}, node.filters()), *_read_chain(chain)]
        yield str(node.fqn()[-1]), tuple(conditions)
        return
    is_chained = isinstance(node, Filter | Projection)
    for child in plan.inputs():
        yield from _read(child, (*above, node) if is_chained else ())


def _read_chain(above: tuple[Filter | Projection, ...]) -> Iterator[Condition]:
    """Yield the conditions of filters, the lowest first, up to a second projection that computes columns."""
    definitions: Definitions = {}
    for node in reversed(above):
        if isinstance(node, Filter):
            yield from _apply(definitions, split_conjuncts(node.predicate()))
        elif definitions:
            return
        else:
            outputs = {output_name(one): strip_aliases(one) for one in node.projections()}
            if len(outputs) < len(node.projections()):
                return
            definitions = {name: one for name, one in outputs.items() if not _is_named(one, name)}


def _is_named(expression: Expression, name: str) -> bool:
    return bool(expression.variant_name() == "Column" and expression.to_variant().name() == name)


def _apply(definitions: Definitions, expressions: Iterable[Expression]) -> Iterator[Condition]:
    for expression in expressions:
        try:
            names = {name for _, name in columns_of(expression)}
            read = {name: one for name, one in definitions.items() if name in names}
            for one in read.values():
                list(columns_of(one))  # to the end
        except ValueError:
            continue  # somewhere in it is a subquery, or what the bindings don't show
        if names:
            yield Condition(expression, read)
