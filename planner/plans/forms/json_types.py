"""Finds the types of values that are written as JSON, since functions in Python take values of one type.

    SELECT to_json(id), to_json(name) FROM t
->  SELECT to_json(id), to_json_2(name) FROM t, with a function for each type
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.bridge.json.functions import WRITERS
from lance_gateway.planner.sql.tree.dialect import find_query, parse_expression, parse_query, write_sql
from lance_gateway.planner.sql.tree.tree import Tree

_OF_ANY_TYPE: Final = "arrow_typeof(named_struct('json', x))"
"""A text, like what the functions give, in which a parameter may have any type."""


def mark_json(sql: str) -> str:
    """Return a statement with functions of any type, which hide no type of a parameter."""
    start, tree = _read(sql, lambda _: None)
    _mark(tree)
    return sql[:start] + write_sql(tree.root)


def type_json(
    text: str,
    written: str,
    find_schema: Callable[[str], pa.Schema],
    register: Callable[[str, str, pa.DataType], None],
) -> tuple[str, str]:
    """Return two texts of a statement that call functions of one type each.

    Args:
        text: for DataFusion.
        written: the same without corrections, which gives the outputs their names.
        find_schema: plans a query over the same tables and parameters, and returns the schema of its result.
        register: registers a function by its name, one of `WRITERS`, and the type of the values.

    Raises:
        UnsupportedError: the type of a value is not found.
        Exception: of the plan.
    """
    names: dict[tuple[str, pa.DataType], str] = {}

    def write(sql: str) -> str:
        start, tree = _read(sql, find_schema)
        for writer, marked in _mark(tree):
            _, value = marked.expressions[0].expressions
            field = tree.find_field(value)
            if field is None:
                msg = (
                    f"the type of the value of {writer}() is not found where it is: compute it in a subquery"
                )
                raise UnsupportedError(msg)
            if (writer, field.type) not in names:
                name = names[writer, field.type] = f"{writer}_{len(names) + 1}" if names else writer
                register(name, writer, field.type)
            call = exp.Anonymous(this=names[writer, field.type], expressions=[value.copy()])
            tree.replace(marked, call)
        return sql[:start] + write_sql(tree.root)

    typed = write(text)
    try:
        return typed, write(written)
    except UnsupportedError:
        return typed, typed  # what DataFusion does not read without corrections


def _read(sql: str, find_schema: Callable[[str], pa.Schema | None]) -> tuple[int, Tree]:
    start = find_query(sql)
    root = parse_query(sql[start:])
    if root is None:
        msg = "values can't be written as JSON in this statement: write them in a view, or in a subquery"
        raise UnsupportedError(msg)
    return start, Tree(root, find_schema)


def _mark(tree: Tree) -> list[tuple[str, exp.Expr]]:
    """Put functions of any type in the place of the writers; return both, from the inside out."""
    found: list[tuple[str, exp.Expr]] = []
    for call in list(tree.root.find_all(exp.Anonymous))[::-1]:
        if call.name.lower() in WRITERS and len(call.expressions) == 1:
            marked = parse_expression(_OF_ANY_TYPE)
            found.append((call.name.lower(), marked))
            (slot,) = marked.find_all(exp.Column)
            slot.replace(call.expressions[0].pop())
            tree.replace(call, marked)
    return found
