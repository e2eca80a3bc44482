"""Finds the types of values that are written as JSON, since functions in Python take values of one type.

    SELECT to_json(id), to_json(name) FROM t
->  SELECT to_json(id), to_json_2(name) FROM t, with a function for each type

To find them, the statement is planned with functions of any type, which are marked, in their place:

    SELECT arrow_typeof(named_struct('json_1', id)), arrow_typeof(named_struct('json_2', name)) FROM t

Calls in common tables that nothing reads keep their marks: such tables are in no plan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final

import pyarrow as pa
from datafusion import DataFrame, Expr, SessionContext
from datafusion.plan import LogicalPlan

from memwal.errors import UnsupportedError
from planner.binding.bound_statement import StatementKind
from planner.bridge.json.functions import WRITERS
from planner.bridge.plan_reading import Expression, every_node
from planner.bridge.types.placeholder_types import expressions_of
from planner.plans.forms.planned_frame import plan_unique
from planner.sql.edits import Edit, apply_edits
from planner.sql.references import find_references
from planner.sql.standard.query_bodies import find_bodies
from planner.sql.standard.spellings.calls import Call, find_calls
from planner.sql.tokens import STRING, SqlText, tokenize

_CALLED: Final = frozenset(map(str.upper, WRITERS))
_MARK: Final = "json_"
_LEAVES: Final = frozenset({"Column", "Literal", "OuterReferenceColumn", "Placeholder", "ScalarVariable"})
_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES", "("})


def mark_json(sql: str) -> str:
    """Return a statement with marked functions of any type, which hide no type of a parameter."""
    text = tokenize(sql)
    calls = list(find_calls(text, _CALLED))
    return apply_edits(sql, _mark(text, calls, range(len(calls))))


def optimize_typed(context: SessionContext, values: Mapping[str, pa.Scalar], sql: str) -> LogicalPlan:
    """Return the optimised plan of a query.

    Args:
        context: in which no expression is left out.
        values: of placeholders.
        sql: the query.
    """

    def plan(text: str, _: str) -> DataFrame:
        return context.sql(text, param_values=dict(values) or None)

    return plan_unique(StatementKind.QUERY, plan, sql, sql).optimized_logical_plan()


def type_json(
    sql: str,
    plan: Callable[[str], LogicalPlan],
    register: Callable[[str, str, pa.DataType], None],
) -> str:
    """Return a statement that calls functions of one type each.

    Args:
        sql: for DataFusion.
        plan: returns the optimised plan of a query in which no expression is left out.
        register: registers a function by its name, one of `WRITERS`, and the type of the values.

    Raises:
        UnsupportedError: the plan does not show a call.
        Exception: of the plan.
    """
    text = tokenize(sql)
    calls = list(find_calls(text, _CALLED))
    # Equal calls must be equal in the plan, as those of GROUP BY are, unless they have different types.
    kinds: Mapping[Hashable, pa.DataType] | None = None
    keys: list[Hashable] = []
    for identify in (_identify, _locate):
        keys = [identify(text, call) for call in calls]
        kinds = _find_types(text, calls, keys, plan)
        if kinds is not None:
            break
    names: dict[tuple[str, pa.DataType], str] = {}
    edits: list[Edit] = []
    is_whole = kinds is not None and all(key in kinds for key in keys)
    unread = () if is_whole else _find_unread(text)
    for call, key in zip(calls, keys, strict=True):
        kind = (kinds or {}).get(key)
        if kind is None and any(call.at in tokens for tokens in unread):
            edits += _mark(text, [call], [0])
            continue
        if kind is None:
            msg = (
                f"the type of the value of {call.name}() is not found where it stands, as in FILTER and in "
                "ORDER BY of an aggregate: compute it in a subquery"
            )
            raise UnsupportedError(msg)
        if (call.name, kind) not in names:
            name = names[call.name, kind] = f"{call.name}_{len(names) + 1}" if names else call.name
            register(name, call.name, kind)
        edits.append(Edit.replace(text.start(call.at), text.end(call.at), names[call.name, kind]))
    return apply_edits(sql, edits)


def _identify(text: SqlText, call: Call) -> Hashable:
    """Return what calls of equal arguments have in common, with qualifiers of columns or without."""
    if _is_hidden(text, call.at):
        return call.at
    words = text.words
    return tuple(
        text.name(i) if text.is_name(i) else text.tokens[i].text if words[i] in {STRING, "0"} else words[i]
        for i in range(call.at + 2, call.closing)
        if words[i] != "." and not (text.is_name(i) and words[i + 1] == ".")
    )


def _locate(_: SqlText, call: Call) -> Hashable:
    return call.at


def _is_hidden(text: SqlText, at: int) -> bool:
    """Return whether plans don't show a token: in FILTER, and in ORDER BY within a call."""
    words, depth, sorts = text.words, 0, False
    for i in range(at - 1, 0, -1):
        depth += (words[i] == ")") - (words[i] == "(")
        if depth == 0 and words[i] == "ORDER":
            sorts = True
        elif depth == 0 and words[i] == "SELECT":
            sorts = False
        elif depth < 0:
            is_call = text.is_name(i - 1) and words[i - 1] != "OVER"
            if words[i - 1] in {"FILTER", "GROUP"} or (sorts and is_call):
                return True
            depth, sorts = 0, False
    return False


def _find_unread(text: SqlText) -> Sequence[range]:
    """Return the tokens of common tables that no relation names, and which are in no plan."""
    begin = next(i for i, word in enumerate(text.words) if word in _QUERIES)
    sites = find_references(text, begin).tables
    unread: list[range] = []
    tables = (tokens for body in find_bodies(text) for tokens in body.common_tables)
    # Those that only later ones name, which are not read either, come after these.
    for tokens in sorted(tables, key=lambda one: one.start, reverse=True):
        passed = (tokens, *unread)
        named = (text.name(tokens.start),)
        if all(site.parts != named or any(site.first in one for one in passed) for site in sites):
            unread.append(tokens)
    return unread


def _find_types(
    text: SqlText, calls: Sequence[Call], keys: Sequence[Hashable], plan: Callable[[str], LogicalPlan]
) -> Mapping[Hashable, pa.DataType] | None:
    """Return the types of the values by key; None if a key has several."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    begin = next(text.start(i) for i, word in enumerate(text.words) if word in _QUERIES)
    edits = [Edit(0, begin, [])] if begin else []
    edits += _mark(text, calls, (numbers[key] for key in keys))
    found: dict[str, set[pa.DataType]] = {}
    for mark, kind in _read_marks(plan(apply_edits(text.sql, edits))):
        found.setdefault(mark, set()).add(kind)
    if any(len(kinds) > 1 for kinds in found.values()):
        return None
    return {
        key: next(iter(found[mark]))
        for key, number in numbers.items()
        if (mark := f"{_MARK}{number}") in found
    }


def _mark(text: SqlText, calls: Sequence[Call], numbers: Iterable[int]) -> Iterator[Edit]:
    for call, number in zip(calls, numbers, strict=True):
        opened = f"arrow_typeof(named_struct('{_MARK}{number}', "
        yield Edit.replace(text.start(call.at), text.end(call.at + 1), opened)
        yield Edit.insert(text.end(call.closing), ")")


def _read_marks(plan: LogicalPlan) -> Iterator[tuple[str, pa.DataType]]:
    for node in every_node(plan):
        for expression in expressions_of(node):
            for mark, value in _find_marks(expression):
                kind = _find_type(node, value)
                if kind is not None:
                    yield mark, kind


def _find_marks(expression: Expression) -> Iterator[tuple[str, Expression]]:
    if expression.variant_name() in _LEAVES:
        return
    try:
        operands = list(expression.rex_call_operands())
    except Exception:  # noqa: BLE001 - the bindings don't support all variants
        return
    if (
        expression.variant_name() == "ScalarFunction"
        and expression.rex_call_operator() == "named_struct"
        and operands[0].variant_name() == "Literal"
    ):
        name = operands[0].python_value()
        mark = str(name.as_py() if isinstance(name, pa.Scalar) else name)
        if mark.startswith(_MARK):
            yield mark, operands[1]
    for operand in operands:
        yield from _find_marks(operand)


def _find_type(node: LogicalPlan, value: Expression) -> pa.DataType | None:
    """Return the type of an expression of a node; None if what it reads is not in one place."""
    context = _context()
    inputs = node.inputs()
    frames = [context.create_dataframe_from_logical_plan(one) for one in (*inputs, node)]
    if not inputs:
        frames.insert(0, context.from_pydict({"one": [1]}))
    for frame in frames:
        try:
            field = frame.select(Expr(value).alias("value")).schema().field(0)
        except Exception:  # noqa: BLE001, S112 - it has columns of another input
            continue
        return field.type
    return None


@cache
def _context() -> SessionContext:
    """Return a context for plans that are never executed."""
    return SessionContext()
