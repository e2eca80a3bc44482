"""Finds the types of a statement's parameters, and plans it with them."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Protocol, TypeAlias

import pyarrow as pa

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.access.visible_catalog import VisibleCatalog
from lance_gateway.planner.binding.bound_statement import BoundStatement
from lance_gateway.planner.binding.value_types import build_parameter_schema
from lance_gateway.planner.bridge.types.parameter_types import find_told_types
from lance_gateway.planner.plans.errors import translate_error
from lance_gateway.planner.plans.forms.planned_frame import PlannedFrame
from lance_gateway.planner.scans.query_run import QueryRun

NO_PARAMETERS: Final = pa.schema([])


class Planner(Protocol):
    """Plans statements."""

    def plan(
        self,
        bound: BoundStatement,
        run: QueryRun,
        parameters: Sequence[pa.Scalar] | None,
        catalog: VisibleCatalog,
        *,
        typing: bool = False,
    ) -> PlannedFrame:
        """See `planner.plans.dataframes.Frames.plan`."""


_Planned: TypeAlias = tuple[PlannedFrame, pa.Schema, BoundStatement]
_GUESSES: Final = (
    pa.string(),
    pa.float64(),
    pa.int64(),
    pa.date32(),
    pa.list_(pa.int64()),
    pa.list_(pa.float64()),
    pa.list_(pa.string()),
    pa.duration("us"),
)
"""The first of these types that fits is taken for all parameters whose type does not follow from the text.

Nested types of columns of the tables follow, and then different types for different parameters.
"""
_MOST_MIXED: Final = 3
"""Parameters that are given different types: each choice is planned."""


def plan_with_types(
    frames: Planner, bound: BoundStatement, run: QueryRun, catalog: VisibleCatalog
) -> tuple[PlannedFrame, pa.Schema, BoundStatement]:
    """Plan a statement that has parameters for the types of its result.

    Returns:
        The plan, which can't be run, the parameter schema, and the statement as it must be planned.

    Raises:
        LanceGatewayError: DataFusion refuses the statement.
    """
    planner = _TypedPlanner(frames, run, catalog)
    if bound.value_types:
        return planner.plan_either(bound, dict(enumerate(bound.value_types)), bound.value_types)
    told: Mapping[int, pa.DataType] = bound.operand_types
    refusal: Exception | None = None
    try:
        told = _find_told_types(frames, bound, run, catalog)
    except InvalidInputError as error:
        refusal = error
    lists = _find_lists(frames, bound, run, catalog)
    planned: _Planned | None = None
    # What is refused before any types are given fails with all of them.
    most = 1 if refusal is not None else _MOST_MIXED
    count = bound.parameter_count - len({*told, *lists})
    for guesses in _guess_types(count, _list_nested_types(bound, catalog), most):
        rest = iter(guesses)
        types = tuple(
            told[ordinal] if ordinal in told else lists[ordinal] if ordinal in lists else next(rest)
            for ordinal in range(bound.parameter_count)
        )
        try:
            found = planner.plan_either(bound, told, types)
            planned = planned or found
            if len(told) < len(types):
                found[0].optimized_logical_plan()  # raises if types don't fit
        except Exception as error:  # noqa: BLE001 - the bindings have no types of errors
            refusal = refusal or error
            if len(told) + len(lists) >= len(types):
                break
        else:
            return found
    if planned is not None:
        return planned  # what NULL is refused for, values may be taken for
    assert refusal is not None  # noqa: S101 - no guess has fitted
    raise translate_error(refusal, bound, run.failure) from refusal


def _guess_types(count: int, nested: Iterable[pa.DataType], most: int) -> Iterator[Sequence[pa.DataType]]:
    """Yield types for parameters whose type does not follow from the text, likely ones first.

    Args:
        count: number of the parameters.
        nested: types to try, besides the usual ones.
        most: number of parameters that are given different types.
    """
    yield from ([guess] * count for guess in (*_GUESSES, *nested))
    if 1 < count <= most:
        yield from (guess for guess in product(_GUESSES[:3], repeat=count) if len(set(guess)) > 1)


def _list_nested_types(bound: BoundStatement, catalog: VisibleCatalog) -> Collection[pa.DataType]:
    """Return the structs, lists and maps that are types of columns, once each."""
    columns = [
        field.type
        for one in bound.references
        for field in catalog.table(one.table, one.as_of).base.schema
        if pa.types.is_nested(field.type)
    ]
    return dict.fromkeys(kind for kind in columns if kind not in _GUESSES)


@dataclass(frozen=True)
class _TypedPlanner:
    """Plans a statement with values that only represent their types."""

    frames: Planner
    run: QueryRun
    catalog: VisibleCatalog

    def plan_either(
        self, bound: BoundStatement, told: Mapping[int, pa.DataType], types: tuple[pa.DataType, ...]
    ) -> _Planned:
        """Plan a statement as it is, or with casts: `sum($1)` has no type before $1 has one."""
        parameters = build_parameter_schema(told, types, bound.computed)
        try:
            return self._plan(bound, types), parameters, bound
        except InvalidInputError:
            cast = bound.cast_parameters(types)
            try:
                return self._plan(cast, types), parameters, cast
            except InvalidInputError:
                pass
            raise  # the first one, which speaks of the text as it was written

    def _plan(self, bound: BoundStatement, types: Sequence[pa.DataType]) -> PlannedFrame:
        return self.frames.plan(bound, self.run, bound.represent_values(types), self.catalog, typing=True)


def _find_lists(
    frames: Planner, bound: BoundStatement, run: QueryRun, catalog: VisibleCatalog
) -> Mapping[int, pa.DataType]:
    """Return ordinal -> type of the parameters of ANY and ALL, by what their elements are compared with."""
    single, ordinals = bound.compare_elements()
    if not ordinals:
        return {}
    with contextlib.suppress(InvalidInputError):
        told = _find_told_types(frames, single, run, catalog)
        return {ordinal: pa.list_(told[ordinal]) for ordinal in ordinals & told.keys()}
    return {}


def _find_told_types(
    frames: Planner, bound: BoundStatement, run: QueryRun, catalog: VisibleCatalog
) -> Mapping[int, pa.DataType]:
    """Return ordinal -> type of the parameters whose type the text tells."""
    frame = frames.plan(bound, run, None, catalog, typing=bound.has_vector_subqueries)
    told = find_told_types(frame.logical_plan(), bound.parameter_count, frame.optimized_logical_plan)
    told |= bound.argument_types
    told |= bound.operand_types
    for vectors in (reference.vectors for reference in bound.references):
        if vectors is not None and vectors.ordinals:
            inner = _find_told_types(frames, vectors.statement, run, catalog)
            told |= {
                ordinal: inner.get(number, pa.string()) for number, ordinal in enumerate(vectors.ordinals)
            }
    return told
