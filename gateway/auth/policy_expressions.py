"""SQL expressions of a policy: checked when the policy is read, completed with the name of a principal."""

import re
from dataclasses import dataclass
from typing import Self

import sqlglot
from sqlglot import exp

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError
from lance_gateway.planner.sql.text.tokens import QUOTED, STRING, SqlText, tokenize

USER = "{user}"
_PLACEHOLDER = re.compile(r"\{\w*\}")
_PAIRS = {"(": ")", "[": "]", "{": "}"}
# What a row does not tell: other rows, other tables, the parameters of a statement.
_FOREIGN: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Query, "a query"),
    (exp.Window, "a window function"),
    (exp.AggFunc, "an aggregate"),
    (exp.Placeholder, "a parameter"),
    (exp.Parameter, "a parameter"),
    (exp.Star, "a star"),
)


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression over the columns of a row, with placeholders for the name of the principal.

    Args:
        parts: the text between these places.
    """

    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an expression; `{user}` stands for the name of the principal, as a text value.

        >>> Expression.parse("owner = {user}").render("O'Neil")
        "owner = 'O''Neil'"

        Raises:
            InvalidInputError: the text is not one expression over a row.
        """
        try:
            sql = tokenize(text)
        except LanceGatewayError as error:
            reason = "it is empty" if not text.strip() else " ".join(str(error).split())
            raise InvalidInputError(f"the expression {text!r} cannot be used: {reason}") from None
        expression = cls(_split_placeholders(sql))
        _check(sql, expression)
        return expression

    def render(self, user: str) -> str:
        """Return the expression for a principal, with the name as a quoted literal."""
        return quote_literal(user).join(self.parts)


def quote_literal(text: str) -> str:
    """Return the SQL literal of a text."""
    return "'" + text.replace("'", "''") + "'"


def _split_placeholders(sql: SqlText) -> tuple[str, ...]:
    parts: list[str] = []
    start = 0
    for index, token in enumerate(sql.tokens):
        if sql.words[index] in {STRING, QUOTED} and USER in token.text:
            raise _create_refusal(sql, "a placeholder is a value of its own: write it without quotes")
        if sql.words[index] != "{":
            continue
        placeholder = _PLACEHOLDER.match(sql.sql, token.start)
        if placeholder is None:
            continue
        if placeholder[0] != USER:
            raise _create_refusal(sql, f"the placeholder {placeholder[0]} does not exist: there is {USER}")
        parts.append(sql.sql[start : placeholder.start()])
        start = placeholder.end()
    return (*parts, sql.sql[start:])


def _check(sql: SqlText, expression: Expression) -> None:
    if any(token.comments for token in sql.tokens):
        raise _create_refusal(sql, "it holds a comment: write comments of the file with #")
    # It will stand between parentheses: nothing in it may close them.
    closing: list[str] = []
    for word in sql.words:
        if word in _PAIRS:
            closing.append(_PAIRS[word])
        elif word in _PAIRS.values() and (not closing or closing.pop() != word):
            raise _create_refusal(sql, f"{word!r} closes nothing")
    if closing:
        raise _create_refusal(sql, f"{closing[-1]!r} is missing")
    try:
        tree = sqlglot.parse_one(f"SELECT ({expression.render('user')})", dialect="postgres")
    except sqlglot.ParseError as error:
        description = error.errors[0].get("description") if error.errors else None
        raise _create_refusal(sql, f"it does not parse: {description or 'is it an expression?'}") from None
    (column,) = tree.expressions if len(tree.expressions) == 1 else (None,)
    if not isinstance(column, exp.Paren) or isinstance(column.this, exp.Tuple | exp.Alias):
        raise _create_refusal(sql, "it is not one expression")
    for kind, what in _FOREIGN:
        if column.find(kind):
            raise _create_refusal(sql, f"{what} is not a value of the row: use its columns only")


def _create_refusal(sql: SqlText, reason: str) -> InvalidInputError:
    return InvalidInputError(f"the expression {sql.sql!r} cannot be used: {reason}")
