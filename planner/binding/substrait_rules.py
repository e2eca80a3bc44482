"""Rules for Substrait plans, which keep DataFusion 55 from planning them wrongly.

They do by position what rules of SQL do by name; `planner/sql/rules` tells which mistakes they avoid. A plan
is changed in place, as the JSON that it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from lance_gateway.memwal.errors import UnsupportedError

Json: TypeAlias = dict[str, Any]
FindSchema: TypeAlias = Callable[[Json], pa.Schema | None]
"""Plans a relation over the tables of the plan; None if it is not planned by itself."""
_ALL_ROWS: Final = {"literal": {"i64": str(2**63 - 1)}}
_HIDDEN_SIDES: Final[Mapping[str, Sequence[str]]] = {
    "JOIN_TYPE_LEFT": ["right"],
    "JOIN_TYPE_OUTER": ["left", "right"],
}
"""Kind of a join -> sides without a row for each row of the other one."""
_EQUATIONS: Final = frozenset({"equal", "is_not_distinct_from"})
_DISTINCT: Final = "AGGREGATION_INVOCATION_DISTINCT"


def apply_rules(document: Json, find_schema: FindSchema) -> None:
    """Rewrite a plan by all rules."""
    plan = _Plan(document, find_schema)
    plan.keep_totals()
    plan.exchange_right_joins()
    plan.hide_keys()
    plan.hide_constants()


def find_relations(node: Any, kind: str) -> Iterator[Json]:  # noqa: ANN401 - JSON
    """Yield all relations {kind: ...} of a plan, the inner ones first, since the caller may rewrite them."""
    if isinstance(node, dict):
        for child in list(node.values()):
            yield from find_relations(child, kind)
        if isinstance(node.get(kind), dict):
            yield node
    elif isinstance(node, list):
        for child in node:
            yield from find_relations(child, kind)


def find_functions(document: Json, names: Collection[str]) -> frozenset[int]:
    """Return the anchors of the functions of a plan that have one of some names."""
    functions = [extension.get("extensionFunction", {}) for extension in document.get("extensions", ())]
    # A name may be followed by the types of its arguments.
    return frozenset(
        function.get("functionAnchor", 0)
        for function in functions
        if function.get("name", "").partition(":")[0] in names
    )


class _Plan:
    def __init__(self, document: Json, find_schema: FindSchema) -> None:
        self._document = document
        self._find_schema = find_schema
        self._ands = find_functions(document, {"and"})
        self._equations = find_functions(document, _EQUATIONS)

    def keep_totals(self) -> None:
        """Keep conditions above aggregates without groups; see `conditions_above_totals`."""
        for relation in find_relations(self._document, "aggregate"):
            if not all(map(_list_keys, _list_groupings(relation["aggregate"]))):
                aggregate = relation.pop("aggregate")
                relation["fetch"] = {"input": {"aggregate": aggregate}, "countExpr": _ALL_ROWS}

    def exchange_right_joins(self) -> None:
        """Exchange the sides of right joins; see the rule `right_joins`."""
        for relation in find_relations(self._document, "join"):
            join = relation["join"]
            if join.get("type") != "JOIN_TYPE_RIGHT":
                continue
            left, right = (self._find_schema(join[side]) for side in ("left", "right"))
            if left is None or right is None:
                continue
            places = [*range(len(right), len(right) + len(left)), *range(len(right))]
            for field in _find_fields(join.get("expression")):
                field["field"] = places[field.get("field", 0)]
            shown = join.get("common", {}).get("emit", {}).get("outputMapping", range(len(places)))
            emitted = {"emit": {"outputMapping": [places[place] for place in shown]}}
            sides = {"left": join["right"], "right": join["left"], "type": "JOIN_TYPE_LEFT"}
            relation["join"] = {**join, **sides, "common": emitted}

    def hide_keys(self) -> None:
        """Hide keys of totals, of groups of groups, and distinct values that are counted.

        See `keys_of_totals`, `groups_of_joins` and `counted_constants`.
        """
        for relation in find_relations(self._document, "aggregate"):
            aggregate = relation["aggregate"]
            groupings = _list_groupings(aggregate)
            below = aggregate["input"]
            regroups = any(any(find_relations(below, kind)) for kind in ("aggregate", "windowFunction"))
            if len(groupings) > 1 or regroups:
                extensions = self._find_extensions(below)
                for keys in (aggregate.get("groupingExpressions", []), *map(_list_keys, groupings)):
                    keys[:] = [key if _find_field(key) in extensions else self._hide(key) for key in keys]
            elif not any(map(_list_keys, groupings)):
                for measure in (one["measure"] for one in aggregate.get("measures", ())):
                    if measure.get("invocation") == _DISTINCT:
                        for argument in measure.get("arguments", ()):
                            argument["value"] = self._hide(argument["value"])

    def hide_constants(self) -> None:
        """Hide what may be constant in the sides of outer joins; see `constants_of_outer_joins`."""
        if not any(
            any(find_relations(self._document, one)) for one in ("sort", "aggregate", "windowFunction")
        ):
            return
        for relation in find_relations(self._document, "join"):
            join = relation["join"]
            for side in _HIDDEN_SIDES.get(join.get("type", ""), ()):
                if "expression" in join:
                    join["expression"] = self._hide_conjuncts(join["expression"])
                self._hide_columns(join[side])

    def _hide_conjuncts(self, condition: Json) -> Json:
        call = condition.get("scalarFunction", {})
        arguments: Sequence[Json] = call.get("arguments", ())
        anchor = call.get("functionReference", 0)
        if call and anchor in self._ands:
            for argument in arguments:
                argument["value"] = self._hide_conjuncts(argument["value"])
            return condition
        is_equation = bool(call) and anchor in self._equations
        compares_columns = is_equation and all(any(find_relations(one, "selection")) for one in arguments)
        return (
            condition
            if compares_columns or any(find_relations(condition, "subquery"))
            else self._hide(condition)
        )

    def _hide_columns(self, relation: Json) -> None:
        width = len(self._find_schema(relation) or ())
        kept = self._find_varying(relation) | self._find_extensions(relation)
        if len(kept) == width:
            return
        names = Counter(
            name for root in find_relations(self._document, "root") for name in root["root"]["names"]
        )
        if repeated := next((name for name, count in names.items() if count > 1), None):
            msg = (
                f"several columns are called {repeated}, which is not supported above outer joins with "
                "constants or conditions in a side: give the columns different names"
            )
            raise UnsupportedError(msg)
        fields = [_make_field(place) for place in range(width)]
        hidden = [one if place in kept else self._hide(one) for place, one in enumerate(fields)]
        emitted = {"emit": {"outputMapping": [width + place for place in range(width)]}}
        below = dict(relation)
        relation.clear()
        relation["project"] = {"common": emitted, "input": below, "expressions": hidden}

    def _find_varying(self, relation: Json) -> frozenset[int]:
        """Return the places of columns that are certainly not constant: of tables, without conditions."""
        ((kind, body),) = relation.items()
        below = self._find_varying(body["input"]) if "input" in body else frozenset[int]()
        width = len(self._find_schema(body["input"]) or ()) if "input" in body else 0
        found: Collection[int] = ()
        match kind:
            case "read" if "namedTable" in body and not body.keys() & {"filter", "bestEffortFilter"}:
                return frozenset(range(len(self._find_schema(relation) or ())))
            case "sort" | "fetch":
                found = below
            case "filter":
                found = below - {field.get("field", 0) for field in _find_fields(body["condition"])}
            case "project":
                expressions: Sequence[Json] = body.get("expressions", ())
                computed = (at for at, one in enumerate(expressions) if _find_field(one) in below)
                found = [*below, *(width + at for at in computed)]
            case "join" | "cross":
                left = len(self._find_schema(body["left"]) or ())
                right = (left + place for place in self._find_varying(body["right"]))
                found = {*self._find_varying(body["left"]), *right}
                condition = body.get("expression")
                if any(find_relations(condition, "literal")):
                    found -= {field.get("field", 0) for field in _find_fields(condition)}
        shown = body.get("common", {}).get("emit", {}).get("outputMapping")
        return frozenset(found if shown is None else (at for at, place in enumerate(shown) if place in found))

    def _find_extensions(self, relation: Json) -> frozenset[int]:
        """Return the places of columns whose extension of a type would be lost."""
        schema = self._find_schema(relation) or ()
        places = (at for at, one in enumerate(schema) if isinstance(one.type, pa.BaseExtensionType))
        return frozenset(places)

    def _hide(self, value: Json) -> Json:
        """Return an expression with the value of another one that DataFusion does not take for constant."""
        truth, double = (
            {"bool": {"nullability": "NULLABILITY_REQUIRED"}},
            {"fp64": {"nullability": "NULLABILITY_REQUIRED"}},
        )
        chance = {"scalarFunction": {"functionReference": self._name("random"), "outputType": double}}
        operands = [{"value": chance}, {"value": {"literal": {"fp64": 2.0}}}]
        condition = {"functionReference": self._name("lt"), "arguments": operands, "outputType": truth}
        return {"ifThen": {"ifs": [{"if": {"scalarFunction": condition}, "then": value}]}}

    def _name(self, function: str) -> int:
        """Return the anchor of a function, which is added where the plan does not have it."""
        for anchor in find_functions(self._document, {function}):
            return anchor
        extensions: list[Json] = self._document.setdefault("extensions", [])
        anchors = [one.get("extensionFunction", {}).get("functionAnchor", 0) for one in extensions]
        anchor = max(anchors, default=0) + 1
        extensions.append({"extensionFunction": {"functionAnchor": anchor, "name": function}})
        return anchor


def _list_groupings(aggregate: Json) -> list[Json]:
    return aggregate.get("groupings") or [{}]


def _list_keys(grouping: Json) -> list[Json]:
    return grouping.get("groupingExpressions", [])  # type: ignore[no-any-return]


def _find_fields(node: Any) -> Iterator[Json]:  # noqa: ANN401 - JSON
    """Yield the references of an expression to columns of its own relation."""
    if isinstance(node, dict):
        if (
            "rootReference" in node
            and (field := node.get("directReference", {}).get("structField")) is not None
        ):
            yield field
        for key, child in node.items():
            if key != "subquery":
                yield from _find_fields(child)
    elif isinstance(node, list):
        for child in node:
            yield from _find_fields(child)


def _make_field(place: int) -> Json:
    return {"selection": {"directReference": {"structField": {"field": place}}, "rootReference": {}}}


def _find_field(expression: Json) -> int | None:
    """Return the place of the column that an expression is; None for others."""
    reference = expression.get("selection", {}).get("directReference", {}).get("structField")
    return None if reference is None else reference.get("field", 0)
