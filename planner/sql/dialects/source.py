"""A statement in another dialect: its text, its parameters, and errors with their position."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sqlglot import ErrorLevel, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.planner.sql.text.limits import QUERY_STARTS
from lance_gateway.planner.sql.text.tokens import PlacedMessage

_MARK = "gateway_parameter_"
_MARKED = re.compile(rf"{_MARK}(\d+)_")
_LEADING_TOKENS = 8
_PREFIXES = frozenset(
    {"EXPLAIN", "ANALYZE", "VERBOSE", "FORMAT", "TREE", "INDENT", "JSON", "DESCRIBE", "DESC"}
)
_NAMED = {"spark": ":", "duckdb": "$", "snowflake": ":$", "bigquery": "@"}
"""Characters with which a parameter with a number or name begins."""
_NULL_SAFE = "<=>"
_AFTER_OPERAND = frozenset(
    {
        TokenType.R_PAREN,
        TokenType.R_BRACKET,
        TokenType.VAR,
        TokenType.IDENTIFIER,
        TokenType.STRING,
        TokenType.NUMBER,
    }
)


@dataclass(frozen=True, slots=True)
class DialectSource:
    """The text of one statement.

    Attributes:
        dialect: its name.
        sql: the text of the client.
        text: `sql` with a column name in place of each parameter, which parsers accept everywhere.
        shifts: (position in `text`, what must be added to get the position in `sql`), ascending.
        starts: first tokens of `text`, in upper case, with their positions.
        query: position in `text` at which the query begins.
    """

    dialect: str
    sql: str
    text: str
    shifts: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    starts: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    query: int = 0

    @staticmethod
    def of(sql: str, dialect: str) -> DialectSource:
        """Find the parameters: `?`, and `$1`, `:1`, `:name`, `@name` where the dialect has them.

        Raises:
            InvalidInputError: a string or comment does not end, or kinds of parameters are mixed.
        """
        try:
            tokens = _tokenize(sql, dialect)
        except TokenError as error:
            reason = str(error).splitlines()[0]
            raise InvalidInputError(f"Syntax error in {dialect} SQL: {reason}") from None
        found: list[tuple[int, int, str]] = []  # start, end, "" for ? and else the name
        for i, token in enumerate(tokens):
            if token.token_type is TokenType.PLACEHOLDER:
                found.append((token.start, token.end + 1, ""))
                continue
            following = tokens[i + 1] if i + 1 < len(tokens) else None
            if following is None or following.start != token.end + 1:
                continue
            named = token.text in _NAMED.get(dialect, "") and bool(re.fullmatch(r"\w+", following.text))
            if token.token_type is TokenType.COLON and i:
                named = named and tokens[i - 1].token_type not in _AFTER_OPERAND
            if named:
                found.append((token.start, following.end + 1, following.text))
        starts = tuple((token.text.upper(), token.start) for token in tokens[:_LEADING_TOKENS])
        return DialectSource(dialect, sql, *_mark_parameters(sql, dialect, found), starts)

    def locate_query(self) -> DialectSource | None:
        """Return the source with the position of its query; None if the statement has no query."""
        for word, start in self.starts:
            if word in QUERY_STARTS or word == "(":
                return replace(self, query=start)
            if word not in _PREFIXES:
                return None
        return None

    def position(self, offset: int) -> int:
        """Return the position in `sql` of the character at an offset of `text`."""
        shift = 0
        for start, by in self.shifts:
            if start > offset:
                break
            shift = by
        return min(max(offset + shift, 0), len(self.sql))

    def refuse(self, node: exp.Expr, why: str) -> NoReturn:
        """Refuse a construct.

        Raises:
            UnsupportedError: `why`, with dialect, line and excerpt.
        """
        starts = [child.meta["start"] for child in node.walk() if child.meta and "start" in child.meta]
        what = f"{self.dialect} SQL: {why}"
        if not starts:
            text = node.sql(dialect=self.dialect, comments=False, unsupported_level=ErrorLevel.IGNORE)
            raise UnsupportedError(f"{what}: {strip_marks(text)[:80]}")
        raise UnsupportedError(PlacedMessage(self.sql, self.position(self.query + min(starts)), what))


def _tokenize(sql: str, dialect: str) -> list[Token]:
    """Tokenize a statement without EXPLAIN, behind which most dialects read a single token."""
    before: list[Token] = []
    while True:
        tokens = Dialect.get_or_raise(dialect).tokenize(sql)
        if not tokens or tokens[0].text.upper() not in _PREFIXES:
            return [*before, *tokens]
        before.append(tokens[0])
        begin, end = tokens[0].start, tokens[0].end + 1
        sql = sql[:begin] + " " * (end - begin) + sql[end:]


def parse_statements(text: str, dialect: str) -> list[exp.Expr]:
    """Parse the statements of a text, and mark operators for `is_written_null_safe`.

    Raises:
        ParseError: a syntax error.
    """
    reader = Dialect.get_or_raise(dialect)
    tokens = reader.tokenize(text)
    written = 0
    for token in tokens:
        # sqlglot attaches the comments of an operator to its node or alias; all other comments are removed.
        is_null_safe = token.token_type is TokenType.NULLSAFE_EQ
        token.comments = [_NULL_SAFE] if is_null_safe else []
        written += is_null_safe
    trees = [tree for tree in reader.parser().parse(tokens, text) if tree is not None]
    for node in (one for tree in trees for one in tree.find_all(exp.NullSafeEQ)):
        holder = node.parent if isinstance(node.parent, exp.Alias) and not node.comments else node
        if holder.comments:
            node.meta[_NULL_SAFE] = True
            written -= 1
    if written:
        msg = f"{dialect} SQL: {_NULL_SAFE} can't be told from IS NOT DISTINCT FROM here; write the latter"
        raise UnsupportedError(msg)
    return trees


def is_written_null_safe(node: exp.Expr) -> bool:
    """Return whether a node that sqlglot reads as `a IS NOT DISTINCT FROM b` is written `a <=> b`."""
    return _NULL_SAFE in node.meta


def find_parameter(node: exp.Expr) -> exp.Parameter | None:
    """Return the parameter for which a column name stands, or None."""
    if not isinstance(node, exp.Column) or len(node.parts) != 1:
        return None
    match = _MARKED.fullmatch(node.name.lower())
    return None if match is None else exp.Parameter(this=exp.Literal.number(int(match[1])))


def refuse_misplaced_parameters(tree: exp.Expr, source: DialectSource) -> None:
    """Refuse parameters that are left in other places than those of expressions.

    Raises:
        UnsupportedError: there is one; the message has line and excerpt.
    """
    for name in tree.find_all(exp.Identifier, exp.Var):
        if _MARKED.fullmatch(name.name.lower()):
            source.refuse(name if name.meta else name.parent or name, "no parameter can stand here")


def strip_marks(text: str) -> str:
    """Return generated text with parameters as $1, $2, ..."""
    return re.sub(_MARKED.pattern, r"$\1", text, flags=re.IGNORECASE)


def _mark_parameters(
    sql: str, dialect: str, found: list[tuple[int, int, str]]
) -> tuple[str, tuple[tuple[int, int], ...]]:
    kinds = {"?" if not name else "number" if name.isdigit() else "name" for _, _, name in found}
    if len(kinds) > 1:
        raise InvalidInputError(
            PlacedMessage(
                sql, found[0][0], f"{dialect} SQL: parameters are of several kinds; use one, as here"
            )
        )
    names: dict[str, int] = {}
    text, last, shifts = "", 0, []
    for count, (start, end, name) in enumerate(found, start=1):
        number = (
            count if not name else int(name) if name.isdigit() else names.setdefault(name, len(names) + 1)
        )
        text += f"{sql[last:start]}{_MARK}{number}_"
        last = end
        shifts.append((len(text), end - len(text)))
    return text + sql[last:], tuple(shifts)
