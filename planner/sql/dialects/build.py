"""Helpers for translation rules, which build DataFusion's SQL."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import ErrorLevel, exp

from lance_gateway.planner.sql.dialects.source import DialectSource

Rule = Callable[[exp.Expr, DialectSource], "exp.Expr | None"]
"""Returns the translation of a node whose children are translated; None leaves it unchanged."""


def native(node: exp.Expr | None) -> str:
    """Return a translated node as text; "" for None."""
    if node is None:
        return ""
    return node.sql(dialect="postgres", comments=False, unsupported_level=ErrorLevel.RAISE)


def operand(node: exp.Expr) -> str:
    """Return a translated node as an operand, in parentheses if it is an operation."""
    apart = isinstance(node, exp.Binary | exp.Unary | exp.Between | exp.In) and not isinstance(node, exp.Dot)
    return f"({native(node)})" if apart and not isinstance(node, exp.Paren) else native(node)


def raw(text: str) -> exp.Var:
    """Return text as a node."""
    return exp.Var(this=text)


def call(name: str, *arguments: exp.Expr | str | None) -> exp.Var:
    """Return a function call, without arguments that are None."""
    texts = [
        argument if isinstance(argument, str) else native(argument)
        for argument in arguments
        if argument is not None
    ]
    return raw(f"{name}({', '.join(texts)})")


def literal_text(node: exp.Expr | None) -> str | None:
    """Return the value of a text literal, or None."""
    return node.this if isinstance(node, exp.Literal) and node.is_string else None


def literal_number(node: exp.Expr | None) -> int | None:
    """Return the value of an integer literal with its sign, or None."""
    if isinstance(node, exp.Neg):
        value = literal_number(node.this)
        return None if value is None else -value
    if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit():
        return int(node.this)
    return None


def from_template(template: str) -> Rule:
    """Return a rule that fills in a template; {this} and {expression} are the operands of the node."""
    return lambda node, _: raw(
        template.format(this=native(node.this), expression=native(node.args.get("expression")))
    )
