"""Statements of the fuzzer of types, with the expressions that they ask about."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_gateway.planner.access.rights import FULL_ACCESS, Access
from lance_gateway.planner.scans.settings import DEFAULT_SETTINGS
from tests.fuzz.typed.answers import values_of
from tests.fuzz.typed.expressions import Call, Node, Rendering, leaves_of
from tests.fuzz.typed.lake import Column
from tests.fuzz.typed.places import Place

_GROWING = re.compile(r"(?:exp|sin|cos|tan|cot|log\w*|ln)h?\(|\^")
"""Functions whose result differs more than what it is computed from, of large numbers or near 0."""


@dataclass
class Statement:
    """A statement, which is prepared when it is asked first, in the words of a dialect."""

    sql: str
    parameters: Sequence[pa.Scalar] = ()
    access: Access = FULL_ACCESS
    dialect: str = DEFAULT_SETTINGS.dialect
    prepared: Any = None


@dataclass(frozen=True)
class Placed:
    """An expression in a place.

    Attributes:
        statement: The place's.
        again: The one that gives the same rows, where the place has such.
        values: Of the expression.
        key: That is written in the statement.
    """

    node: Call
    place: Place
    statement: Statement
    again: Statement | None
    values: dict[int, Any]
    key: int


@dataclass(frozen=True)
class Asked:
    """An expression with its values.

    Attributes:
        arrow: The type of the values.
    """

    node: Call
    values: dict[int, Any]
    arrow: pa.DataType


def column_of(node: Node) -> str:
    """Return the first column that an expression reads."""
    return next((leaf.column for leaf in leaves_of(node) if leaf.column), "")


def is_computed(node: Node) -> bool:
    """Return whether arithmetic may have made a NaN with a sign."""
    return isinstance(node, Call) and (
        node.operator.gives == "number" or any(map(is_computed, node.operands))
    )


def digits_of(node: Node) -> float:
    """How exact other engines are: REAL is widened sooner or later, and quotients have some digits."""
    text = Rendering().text(node)
    is_short = "REAL" in text or any(
        leaf.type is not None and leaf.type.name in {"float", "vector"} for leaf in leaves_of(node)
    )
    if " / " in text or "pow" in text or (is_short and _GROWING.search(text)):
        return 1e-3
    return 1e-6 if is_short else 1e-13


def cells_of(rows: pa.Table, column: Column) -> list[Any]:
    """The cells as the values of a type are written."""
    cells = rows.column(column.name)
    if pa.types.is_timestamp(cells.type):
        return cells.cast(pa.int64()).to_pylist()
    return values_of(cells) if pa.types.is_nested(cells.type) else cells.to_pylist()
