"""Excludes the regions in which no row satisfies what a statement asks of a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.base.index_details import RegionSpec
from lance_gateway.planner.bridge.row_expressions import evaluate_texts
from lance_gateway.planner.predicates.pruning import Outcome, Pruning, RegionAssignment, RegionAssignments
from lance_gateway.planner.predicates.region_fields import SpecField
from lance_gateway.planner.scans.pruning.possible import PossibleRows
from lance_gateway.planner.scans.pruning.region_values import list_sources, read_region_values, restricts_rows
from lance_gateway.planner.sql.tree.dialect import write_sql
from lance_gateway.planner.sql.tree.predicates import Predicates

_MAX_TEXT: Final = 160
_SLACK: Final = 10**9
"""Nanoseconds by which a clock may be set back while a statement is planned."""


@dataclass(frozen=True, eq=False)
class ScannedTable:
    """The table of a scan.

    Attributes:
        reference: its private name in the statement.
        schema: its columns.
        specs: its region specs.
        fields: Lance field id -> column.
    """

    reference: str
    schema: pa.Schema
    specs: tuple[RegionSpec, ...]
    fields: Mapping[int, pa.Field]


@dataclass(frozen=True, eq=False, slots=True)
class _Decided:
    """What was decided of a table: id of a region -> a predicate that none of its rows satisfies."""

    regions: RegionAssignments
    table: ScannedTable
    excluded: Mapping[str, exp.Expr]

    def is_of(self, regions: RegionAssignments, table: ScannedTable) -> bool:
        """Return whether the same would be decided again."""
        ours = self.table
        return (
            self.regions is regions
            and ours.specs == table.specs
            and ours.schema.equals(table.schema)
            and ours.fields == table.fields
        )


@dataclass(frozen=True, eq=False)
class StatementPredicates:
    """The predicates of the tables of a statement, with the values of one execution.

    Attributes:
        places: private name of a table -> predicates of each place where it is read; see `find_predicates`.
        values: of the parameters.
        began: when the execution began, before it was planned; nanoseconds since 1970.
        format_place: returns the place in the statement of a character of the query, if that is asked for.
    """

    places: Mapping[str, Sequence[Predicates]]
    values: Mapping[str, pa.Scalar] = field(default_factory=dict)
    began: int = 0
    format_place: Callable[[int], str] | None = None
    _decided: dict[str, _Decided] = field(default_factory=dict, init=False)

    def list_columns(self, reference: str) -> frozenset[str]:
        """Return the columns of a table that its predicates read."""
        predicates = (one for place in self.places.get(reference, ()) for one in place)
        return frozenset(column.name for one in predicates for column in one.find_all(exp.Column))

    def prune(self, pruning: Pruning, table: ScannedTable) -> Pruning:
        """Exclude regions without rows that satisfy the predicates of any place.

        Args:
            pruning: what is left of the regions.
            table: of the scan.
        """
        places = self.places.get(table.reference, ())
        if not places or len(pruning.regions.regions) < 2:
            return pruning
        found = self._decided.get(table.reference)
        if found is None or not found.is_of(pruning.regions, table):
            values = {**self.values, "began": _make_instant(self.began - _SLACK)}
            excluded = dict(_find_excluded(pruning.regions, places, table, values))
            found = self._decided[table.reference] = _Decided(pruning.regions, table, excluded)
        reasons = found.excluded
        if not reasons:
            return pruning

        def explain(region: RegionAssignment) -> tuple[Outcome, str]:
            predicate = reasons.get(region.region_id)
            if predicate is None:
                return pruning.explain(region)
            start = predicate.meta.get("start")
            place = "" if self.format_place is None or start is None else f" {self.format_place(start)}"
            return Outcome.ROWS_CANNOT_MATCH, _explain(region, predicate, table) + place

        kept = tuple(one for one in pruning.kept if one not in reasons)
        return Pruning(pruning.regions, kept, explain)


def _make_instant(nanoseconds: int) -> pa.Scalar:
    return pa.scalar(nanoseconds, pa.timestamp("ns", "+00:00"))


NO_PREDICATES: Final = StatementPredicates({})


def _find_excluded(
    regions: RegionAssignments,
    places: Sequence[Predicates],
    table: ScannedTable,
    values: Mapping[str, pa.Scalar],
) -> Iterator[tuple[str, exp.Expr]]:
    """Yield the regions that the predicates of every place exclude, each with one of the predicates."""
    values = {**values, "ended": _make_instant(time.time_ns() + _SLACK)}
    for spec in table.specs:
        positions = regions.by_spec.get(spec.spec_id, ())
        if not positions or not restricts_rows(spec):
            continue
        known = read_region_values(regions, spec, tuple(list_sources(spec, table.fields)))
        possible = PossibleRows(known)
        written = [
            (place, predicate, text)
            for place, predicates in enumerate(places)
            for predicate in predicates
            if not known.sources.isdisjoint(column.name for column in predicate.find_all(exp.Column))
            and (text := possible.write(predicate)) is not None
        ]
        texts = [text for *_, text in written]
        answers = evaluate_texts(possible.rows, texts, values, possible.steps) if texts else []
        excluding: list[dict[int, exp.Expr]] = [{} for _ in positions]
        for (place, predicate, _), answer in zip(written, answers, strict=True):
            if answer is not None and pa.types.is_boolean(answer.type) and len(answer) == len(positions):
                impossible = ~answer.fill_null(True).to_numpy(zero_copy_only=False)  # noqa: FBT003 - a value
                for at in np.flatnonzero(impossible).tolist():
                    excluding[at].setdefault(place, predicate)
        for at, found in zip(positions, excluding, strict=True):
            if len(found) == len(places):
                yield regions.region_ids[at], found[0]


def _explain(region: RegionAssignment, predicate: exp.Expr, table: ScannedTable) -> str:
    (spec,) = (one for one in table.specs if one.spec_id == region.spec_id)
    fields = [SpecField(one, table.fields) for one in spec.fields]
    recorded = ", ".join(field.decode(region.values.get(field.name))[1] for field in fields)
    text = write_sql(predicate)
    shown = text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."
    return f"{recorded} excludes {shown}"
