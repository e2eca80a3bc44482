"""What the rules of translation are written with: pieces of DataFusion's SQL."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import ErrorLevel, exp

from planner.sql.dialects.source import DialectSource

Rule = Callable[[exp.Expr, DialectSource], "exp.Expr | None"]
"""What stands for a node whose children are translated already; None leaves it as it is."""


def native(node: exp.Expr | None) -> str:
    """A translated node as text; "" for nothing."""
    if node is None:
        return ""
    return node.sql(dialect="postgres", comments=False, unsupported_level=ErrorLevel.RAISE)


def operand(node: exp.Expr) -> str:
    """The same, in brackets where an operator beside it could take it apart."""
    apart = isinstance(node, exp.Binary | exp.Unary | exp.Between | exp.In) and not isinstance(node, exp.Dot)
    return f"({native(node)})" if apart and not isinstance(node, exp.Paren) else native(node)


def raw(text: str) -> exp.Var:
    """Finished text as a node."""
    return exp.Var(this=text)


def call(name: str, *arguments: exp.Expr | str | None) -> exp.Var:
    """A function call; arguments that are None are left out."""
    texts = [one if isinstance(one, str) else native(one) for one in arguments if one is not None]
    return raw(f"{name}({', '.join(texts)})")


def literal_text(node: exp.Expr | None) -> str | None:
    """The value of a text literal."""
    return node.this if isinstance(node, exp.Literal) and node.is_string else None


def literal_number(node: exp.Expr | None) -> int | None:
    """The value of a whole number, with its sign."""
    if isinstance(node, exp.Neg):
        value = literal_number(node.this)
        return None if value is None else -value
    if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit():
        return int(node.this)
    return None


def from_template(template: str) -> Rule:
    """The rule that says a node in other words; {this} and {expression} stand for its operands."""
    return lambda node, _: raw(
        template.format(this=native(node.this), expression=native(node.args.get("expression")))
    )
