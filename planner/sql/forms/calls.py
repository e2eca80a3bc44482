"""Finds calls of functions, and writes them as templates."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from typing import Final

from sqlglot import exp

from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.planner.sql.tree.dialect import parse_expression
from lance_gateway.planner.sql.tree.tree import Tree

_ENCLOSING: Final = (exp.Anonymous, exp.Array, exp.Case, exp.Cast, exp.If, exp.Paren)
"""Where an operand needs no brackets of its own."""


def list_calls(tree: Tree, names: Collection[str]) -> Iterator[exp.Anonymous]:
    """Yield the calls of functions from the inside out, without those that are quoted or in a schema.

    Args:
        tree: to search.
        names: of the functions, in upper case.
    """
    for node in tree.find_all(exp.Anonymous)[::-1]:
        is_plain = isinstance(node.this, str) and not isinstance(node.parent, exp.Dot)
        if is_plain and node.name.upper() in names:
            yield node


def list_plain_calls(tree: Tree, schema: str = "pg_catalog") -> Iterator[tuple[exp.Expr, exp.Anonymous]]:
    """Yield calls from the inside out that are in no schema, or in one that counts as none.

    Args:
        tree: to search.
        schema: that counts as none.

    Returns:
        Each call with its schema, and without.
    """
    for call in tree.find_all(exp.Anonymous)[::-1]:
        if not isinstance(call.parent, exp.Dot):
            yield call, call
        elif isinstance(call.parent.this, exp.Identifier) and call.parent.this.name == schema:
            yield call.parent, call


def fill(template: str, *arguments: exp.Expr) -> exp.Expr:
    """Return an expression with arguments in the places of $1, $2, .."""
    whole = exp.Paren(this=_parse(template).copy())
    for slot in list(whole.find_all(exp.Parameter)):
        value = arguments[int(slot.name) - 1].copy()
        is_bare = isinstance(value, exp.Binary | exp.Unary | exp.Predicate) and not isinstance(
            value, exp.Paren | exp.Dot
        )
        is_wrapped = is_bare and not isinstance(slot.parent, _ENCLOSING)
        slot.replace(exp.Paren(this=value) if is_wrapped else value)
    filled: exp.Expr = whole.this.pop()
    return filled


@cache
def _parse(template: str) -> exp.Expr:
    root = parse_expression(template)
    for node in root.walk():
        node.meta.clear()  # Places in the template are none in the statement.
    return root


def put(tree: Tree, node: exp.Expr, replacement: exp.Expr, name: str = "") -> None:
    """Put an expression in the place of another one, under its name if it is an output.

    Args:
        tree: of both.
        node: what is replaced.
        replacement: of it.
        name: of the output; that of the function without it.
    """
    if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
        replacement = exp.alias_(replacement, name or node.name.lower(), quoted=True, copy=False)
    tree.replace(node, replacement)


def wrong_count(tree: Tree, call: exp.Expr, right: str) -> LanceGatewayError:
    """Return an error about the number of arguments of a call.

    Args:
        tree: of the call.
        call: of a function.
        right: what it takes.
    """
    count = len(call.expressions)
    what = f"{call.name.lower()}() has {count} arguments here, and takes {right}"
    return tree.error(call, what)
