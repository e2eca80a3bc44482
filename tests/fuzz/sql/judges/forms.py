"""Other forms of a statement, which the gateway must answer alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_gateway.planner.engine import PreparedWrite
from tests.fuzz.sql.grammar.blocks import Common, Derived, Query, Relation, Select, SetOperation, With
from tests.fuzz.sql.grammar.kinds import CANONICAL, MOMENT_NS, Family
from tests.fuzz.sql.grammar.statement import Statement
from tests.fuzz.sql.grammar.tree import (
    AbstainError,
    Expression,
    Literal,
    Node,
    Parameter,
    Reader,
    Spelled,
    mapped,
    render,
)
from tests.fuzz.sql.judges.engines import GatewayEngine, Refused

_NAME = "whole"
_ALL = Spelled("*")
_PAGE, _MOST_PAGES = 4, 6
_PARTS = 3
_KINDS = {**CANONICAL, Family.MOMENT: MOMENT_NS}
"""Of literals: a TIMESTAMP has nanoseconds."""


@dataclass(frozen=True)
class Form:
    """An engine that asks the gateway in another form.

    Attributes:
        form: asks in it, and raises `AbstainError` where the statement has none.
        keeps_order: whether rows come in the order of the statement.
    """

    name: str
    gateway: GatewayEngine
    form: Callable[[GatewayEngine, Node], pa.Table]
    keeps_order: bool

    def answer(self, node: Node) -> pa.Table:
        return self.form(self.gateway, node)


def draw_form(rng: random.Random, gateway: GatewayEngine, *, may_define: bool) -> Form:
    """Any of the forms; `may_define` says whether tables and views may be made."""
    name, form, keeps_order, _ = rng.choice([one for one in FORMS if may_define or not one[3]])
    return Form(name, gateway, form, keeps_order)


def _ask_common(gateway: GatewayEngine, node: Node) -> pa.Table:
    _check_names(node)
    whole = Select(star=_ALL, source=Relation(_NAME, _NAME))
    return gateway.answer(With((Common(_NAME, node),), whole))


def _ask_derived(gateway: GatewayEngine, node: Node) -> pa.Table:
    _check_names(node)
    return gateway.answer(Select(star=_ALL, source=Derived(node, _NAME)))


def _ask_both_halves(gateway: GatewayEngine, node: Node) -> pa.Table:
    """Twice, without one of them: what is shared must not be mixed up."""
    _check_names(node)
    whole = Select(star=_ALL, source=Relation(_NAME, _NAME))
    none = replace(whole, where=Expression(Family.TRUTH, ("(random() < 0)",)))
    both = SetOperation(operator="UNION ALL", left=whole, right=none)
    return gateway.answer(With((Common(_NAME, node),), both))


def _ask_view(gateway: GatewayEngine, node: Node) -> pa.Table:
    return _ask_relation(gateway, node, "VIEW")


def _ask_new_table(gateway: GatewayEngine, node: Node) -> pa.Table:
    return _ask_relation(gateway, node, "TABLE")


def _ask_relation(gateway: GatewayEngine, node: Node, kind: str) -> pa.Table:
    _check_names(node)
    _define(gateway, f"CREATE {kind} {_NAME} AS {_write_constants(node)}")
    try:
        return gateway.answer_text(f"SELECT * FROM {_NAME}")
    finally:
        _define(gateway, f"DROP {kind} {_NAME}")


def _ask_explained(gateway: GatewayEngine, node: Node) -> pa.Table:
    """Once more after EXPLAIN ANALYZE, which runs it as well."""
    text, parameters = render(node, gateway.reader)
    gateway.answer_text(f"EXPLAIN ANALYZE {text}", parameters)
    return gateway.answer_text(text, parameters)


def _ask_constants(gateway: GatewayEngine, node: Node) -> pa.Table:
    """With constants in the place of parameters."""
    if not any(isinstance(one, Parameter) for one in node.walk()):
        raise AbstainError(_NAME)
    return gateway.answer_text(_write_constants(node))


def _ask_cast_parameters(gateway: GatewayEngine, node: Node) -> pa.Table:
    return gateway.answer(_bind(node, is_cast=True))


def _ask_typed_parameters(gateway: GatewayEngine, node: Node) -> pa.Table:
    """With bare parameters, whose types are those of the values."""
    text, parameters = render(_bind(node, is_cast=False), gateway.reader)
    try:
        return gateway.answer_text(text, parameters, [one.type for one in parameters])
    except Refused as refused:
        # Without their types, some mean nothing.
        raise AbstainError(str(refused)) from refused


def _ask_pages(gateway: GatewayEngine, node: Node) -> pa.Table:
    """By pages of an order that leaves no choice, which are put together."""
    if not (Statement(node).is_ordered and isinstance(node, Query)) or node.limit or node.offset:
        raise AbstainError(_NAME)
    pages = []
    for number in range(_MOST_PAGES):
        limit = Literal(Family.INTEGER, _PAGE) if number < _MOST_PAGES - 1 else None
        offset = Literal(Family.INTEGER, number * _PAGE)
        pages.append(gateway.answer(replace(node, limit=limit, offset=offset)))
        if limit is not None and pages[-1].num_rows < _PAGE:
            break
    return pa.concat_tables(pages)


def _ask_parts(gateway: GatewayEngine, node: Node) -> pa.Table:
    """By parts, as several endpoints give them."""
    text, parameters = render(node, gateway.reader)
    try:
        prepared = gateway.engine.prepare(text, gateway.settings, gateway.access)
        offered = prepared.parts(_PARTS, parameters)
        parts = [
            prepared.execute_part(part, parameters, snapshot=offered.snapshot if part.number else None)
            for part in ([] if offered is None else offered.parts)
        ]
        tables = [one.read_all() for one in parts]
    except Exception as error:
        raise Refused(f"{type(error).__name__}: {error}") from error
    if not tables:
        raise AbstainError(_NAME)
    return pa.concat_tables(tables)


FORMS: Sequence[tuple[str, Callable[[GatewayEngine, Node], pa.Table], bool, bool]] = (
    ("as a common table expression", _ask_common, False, False),
    ("as a subquery", _ask_derived, False, False),
    ("in a union with nothing", _ask_both_halves, False, False),
    ("as a view", _ask_view, False, True),
    ("through a new table", _ask_new_table, False, True),
    ("after EXPLAIN ANALYZE", _ask_explained, True, False),
    ("with constants", _ask_constants, True, False),
    ("with parameters that are cast", _ask_cast_parameters, True, False),
    ("with parameters that have types", _ask_typed_parameters, True, False),
    ("in pages", _ask_pages, True, False),
    ("in parts", _ask_parts, False, False),
)
"""Names, how to ask, whether the order is kept, and whether something is defined."""


def _check_names(node: Node) -> None:
    """A relation can't have two columns of one name."""
    block = Statement(node).query
    while isinstance(block, SetOperation) and isinstance(block.left, Query):
        block = block.left
    if isinstance(block, Select) and len({one.name for one in block.items}) < len(block.items):
        raise AbstainError(_NAME)


def _define(gateway: GatewayEngine, text: str) -> None:
    try:
        prepared = gateway.engine.prepare_statement(text)
        assert isinstance(prepared, PreparedWrite)
        prepared.execute()
    except Exception as error:
        raise Refused(f"{type(error).__name__}: {error}") from error


def _write_constants(node: Node) -> str:
    """The text with constants in the place of parameters."""

    def spelled(one: Node) -> Node | None:
        if isinstance(one, Parameter):
            return Expression(one.family, (render(one, Reader.DATAFUSION)[0],))
        return None

    return render(mapped(node, spelled), Reader.GATEWAY)[0]


def _bind(node: Node, *, is_cast: bool) -> Node:
    """With parameters in the place of constants: equal ones are one, as in GROUP BY and beside it."""
    numbers: dict[tuple[Family, str], int] = {}

    def bound(one: Node) -> Node | None:
        if not isinstance(one, Literal) or one.family not in _KINDS or one.value is None:
            return None
        kind = _KINDS[one.family]
        if is_cast and not kind.sql:
            return None
        number = numbers.setdefault((one.family, repr(one.value)), -1 - len(numbers))
        return Parameter(one.family, kind, one.value, number, is_cast=is_cast)

    found = mapped(node, bound)
    if not numbers:
        raise AbstainError(_NAME)
    return found
