"""DataFusion's dialect of SQL, for sqlglot.

A statement that is read and written again has the same plan; tests compare the plans of many.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Final

import sqlglot
from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.generators.postgres import PostgresGenerator
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.planner.sql.text.tokens import SqlText, tokenize

_TYPES: Final = {
    exp.DType.TINYINT: "TINYINT",
    exp.DType.UTINYINT: "TINYINT UNSIGNED",
    exp.DType.USMALLINT: "SMALLINT UNSIGNED",
    exp.DType.UINT: "INT UNSIGNED",
    exp.DType.UBIGINT: "BIGINT UNSIGNED",
    exp.DType.FLOAT: "REAL",
    exp.DType.DOUBLE: "DOUBLE",
    exp.DType.BINARY: "BYTEA",
    exp.DType.VARBINARY: "BYTEA",
    exp.DType.DATETIME: "TIMESTAMP",
}
_CALLS_WITH_SYNTAX: Final = frozenset(
    {"CAST", "TRY_CAST", "EXTRACT", "SUBSTRING", "POSITION", "TRIM", "OVERLAY"}
)
_JSON_CALLS: Final = (
    *("JSON_OBJECT", "JSON_BUILD_OBJECT", "JSONB_BUILD_OBJECT", "JSON_OBJECTAGG", "JSON_OBJECT_AGG"),
    *("JSONB_OBJECT_AGG", "JSON_GROUP_OBJECT", "JSON_ARRAY", "JSON_BUILD_ARRAY", "JSONB_BUILD_ARRAY"),
    *("JSON_ARRAYAGG", "JSON_AGG", "JSONB_AGG", "JSON_GROUP_ARRAY", "TO_JSON", "TO_JSONB", "ARRAY_TO_JSON"),
    *("JSON_SET", "JSON_INSERT", "JSON_REPLACE"),
)
"""Functions whose arguments may be keys with values, and which may have the clauses of SQL/JSON."""
_CONSTANTS: Final = frozenset({TokenType.NUMBER, TokenType.STRING})
_AFTER_CONSTANTS: Final = frozenset({TokenType.COMMA, TokenType.R_PAREN})
_AFTER_VALUES: Final = frozenset(
    {TokenType.COLON, TokenType.COMMA, TokenType.R_PAREN, TokenType.DOT, TokenType.DPIPE, TokenType.DCOLON}
    | {TokenType.ARROW, TokenType.DARROW, TokenType.PLUS, TokenType.DASH, TokenType.L_PAREN}
)
"""Tokens before which KEY is a name."""
_JSON_CLAUSES: Final = {
    ("NULL", "ON", "NULL"): ("leaves_out_null", False),
    ("ABSENT", "ON", "NULL"): ("leaves_out_null", True),
    ("WITH", "UNIQUE", "KEYS"): ("compares_keys", True),
    ("WITH", "UNIQUE"): ("compares_keys", True),
    ("WITHOUT", "UNIQUE", "KEYS"): ("compares_keys", False),
    ("WITHOUT", "UNIQUE"): ("compares_keys", False),
}
_QUERY: Final = re.compile(r"[\s(]*(?:SELECT|WITH|FROM|TABLE|VALUES|--|/\*)", re.IGNORECASE)
"""The start of a query; sqlglot logs other statements that it does not read."""
_BEFORE_QUERIES: Final = re.compile(
    r"\s*(?:EXPLAIN|DESCRIBE|DESC)\b(?:\s+(?:ANALYZE|VERBOSE|FORMAT\s+\w+))*\s+(?=SELECT|WITH|\(|VALUES)",
    re.IGNORECASE,
)
PIPE: Final = "|>"
"""Syntax that sqlglot reads as another one: pipes lose the names of relations."""
_LOST: Final = ("pivots", "hints", "sort", "cluster", "distribute")
"""Parts of a query that are read, and not written."""
_MAY_BE_LOST: Final = re.compile(r"pivot|\bwith\s*\(|\b(?:sort|cluster|distribute)\b", re.IGNORECASE)
_NEGATED: Final = (exp.In, exp.Between, exp.Like, exp.ILike, exp.SimilarTo, exp.Is)


def _write_negation(writer: PostgresGenerator, negation: exp.Not) -> str:
    """Write `x NOT IN (..)` and `x IS NOT NULL`, which DataFusion plans otherwise than `NOT x IN (..)`."""
    if isinstance(negation.parent, exp.Binary | exp.In | exp.Between) and not isinstance(
        negation.parent, exp.Connector
    ):
        return f"({_write_bare_negation(writer, negation)})"
    return _write_bare_negation(writer, negation)


def _write_bare_negation(writer: PostgresGenerator, negation: exp.Not) -> str:
    operand = negation.this
    if not isinstance(operand, (*_NEGATED, exp.RegexpLike, exp.RegexpILike)):
        return writer.not_sql(negation)
    left = writer.sql(operand, "this")
    if isinstance(operand, exp.RegexpLike | exp.RegexpILike):
        return f"{left} !{writer.sql(operand).removeprefix(left).lstrip()}"
    rest = writer.sql(operand).removeprefix(left)
    if isinstance(operand, exp.Is):
        return f"{left} IS NOT{rest.removeprefix(' IS')}"
    return f"{left} NOT{rest}"


def _write_distinction(writer: PostgresGenerator, comparison: exp.NullSafeEQ | exp.NullSafeNEQ) -> str:
    """Write `(a IS DISTINCT FROM b)`: DataFusion takes AND and what follows for a part of b."""
    kind = "IS DISTINCT FROM" if isinstance(comparison, exp.NullSafeNEQ) else "IS NOT DISTINCT FROM"
    written = writer.binary(comparison, kind)
    is_operand = isinstance(comparison.parent, exp.Binary | exp.Unary) and not isinstance(
        comparison.parent, exp.Paren
    )
    return f"({written})" if is_operand else written


def _write_unnest(writer: PostgresGenerator, unnest: exp.Unnest) -> str:
    """Write `UNNEST(..) WITH ORDINALITY AS u(x, o)`, and leave the tree as it is."""
    alias, offset = unnest.args.get("alias"), unnest.args.get("offset")
    written = writer.unnest_sql(unnest)
    if alias is not None and isinstance(offset, exp.Expr):
        alias.set("columns", alias.columns[:-1])
        unnest.set("offset", offset)
    return written


def _parse_position(parser: Any) -> exp.Expr:  # noqa: ANN401 - sqlglot has no types here
    """Parse `position(x IN s)`, and `position(s, x)`, whose arguments have another order."""
    arguments: list[exp.Expr] = parser._parse_csv(parser._parse_bitwise)  # noqa: SLF001
    if parser._match(TokenType.IN):  # noqa: SLF001
        return exp.StrPosition(this=parser._parse_bitwise(), substr=arguments[0])  # noqa: SLF001
    return exp.Anonymous(this="position", expressions=arguments)


def _parse_number(parser: Any, token: Any) -> exp.Expr:  # noqa: ANN401 - sqlglot has no types here
    """Parse 0x1F and 0b101, which are integers; X'1F' is bytes."""
    written = parser.sql[token.start : token.end + 1]
    if written[:1] != "0":
        return parser.expression(exp.HexString(this=token.text), token)  # type: ignore[no-any-return]
    number = parser.expression(exp.Literal.number(int(written, 0)), token)
    number.meta["written"] = written
    return number  # type: ignore[no-any-return]


class NegativeProduct(exp.Distance):
    """`a <#> b`."""


class L1Distance(exp.Distance):
    """`a <+> b`."""


class HammingDistance(exp.Distance):
    """`a <~> b`."""


class Spaceship(exp.NullSafeEQ):
    """`a <=> b`: the cosine distance of vectors, or IS NOT DISTINCT FROM."""


_PASTS: Final = (
    *(("FOR", word) for word in ("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME")),
    *(("VERSION",), ("TIMESTAMP",)),
)
NO_SLOTS: Final[Mapping[int, int]] = MappingProxyType({})
_SPLIT_OPERATORS: Final = {
    "#": TokenType.LLRR_ARROW,
    "+": TokenType.QMARK_AMP,
    "~": TokenType.QMARK_PIPE,
}
"""The middle of an operator of three tokens -> the kind of token that the parser reads for it."""
_DISTANCES: Final = {
    TokenType.LR_ARROW: exp.Distance,
    TokenType.LLRR_ARROW: NegativeProduct,
    TokenType.QMARK_AMP: L1Distance,
    TokenType.QMARK_PIPE: HammingDistance,
    TokenType.NULLSAFE_EQ: Spaceship,
}
# Each level of brackets takes the parser about 20 calls, and 100 levels are allowed.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 5000))


class DataFusion(Postgres):
    """DataFusion's dialect: PostgreSQL's, in which every function keeps its name and its arguments."""

    SUPPORTS_FIXED_SIZE_ARRAYS = True
    # Indexes are left as they are: sqlglot adds to those that it takes for integers where it writes them.
    INDEX_OFFSET = 0

    class Tokenizer(Postgres.Tokenizer):
        """Reads the words of DataFusion."""

        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **Postgres.Tokenizer.KEYWORDS,
            "FLOAT": TokenType.FLOAT,
            "MINUS": TokenType.EXCEPT,
            "TINYINT": TokenType.TINYINT,
        }

    class Parser(PostgresParser):
        """Reads a function as its name and its arguments."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        ID_VAR_TOKENS: ClassVar[set[TokenType]] = PostgresParser.ID_VAR_TOKENS | {TokenType.FETCH}
        FUNC_TOKENS: ClassVar[set[TokenType]] = {
            *PostgresParser.FUNC_TOKENS,
            *(TokenType.DATABASE, TokenType.SCHEMA),
        }
        FACTOR: ClassVar[dict[TokenType, Any]] = {
            kind: node for kind, node in PostgresParser.FACTOR.items() if kind not in _DISTANCES
        }
        EQUALITY: ClassVar[dict[TokenType, Any]] = {
            kind: node for kind, node in PostgresParser.EQUALITY.items() if kind not in _DISTANCES
        }
        # As in PostgreSQL, `a + 1 <-> b < c` is `((a + 1) <-> b) < c`.
        BITWISE: ClassVar[dict[TokenType, Any]] = {**PostgresParser.BITWISE, **_DISTANCES}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parser
            for name, parser in PostgresParser.FUNCTION_PARSERS.items()
            if name in _CALLS_WITH_SYNTAX
        } | {
            "POSITION": _parse_position,
            **dict.fromkeys(_JSON_CALLS, lambda parser: parser._parse_json_call()),  # noqa: SLF001
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parser for name, parser in PostgresParser.NO_PAREN_FUNCTION_PARSERS.items() if name != "IF"
        }
        JSON_OPERATORS: ClassVar[dict[Any, Any]] = {
            **PostgresParser.JSON_OPERATORS,
            **{
                token: lambda parser, this, path, kind=kind: parser.expression(
                    kind(this=this, expression=path)
                )
                for token, kind in (
                    (TokenType.ARROW, exp.JSONExtract),
                    (TokenType.DARROW, exp.JSONExtractScalar),
                )
            },
        }
        LAMBDAS: ClassVar[dict[Any, Any]] = {
            kind: parser for kind, parser in PostgresParser.LAMBDAS.items() if kind != TokenType.ARROW
        }
        PRIMARY_PARSERS: ClassVar[dict[Any, Any]] = {
            **PostgresParser.PRIMARY_PARSERS,
            TokenType.BIT_STRING: _parse_number,
            TokenType.HEX_STRING: _parse_number,
        }

        def _parse_position(self, haystack_first: bool = False) -> exp.Expr:  # type: ignore[override]  # noqa: ARG002, FBT001, FBT002
            """Parse `position(x IN s)`; `position(s, x)` is a function, with the text first."""
            arguments = self._parse_csv(self._parse_bitwise)
            if self._match(TokenType.IN):
                return exp.StrPosition(this=self._parse_bitwise(), substr=arguments[0])
            return exp.Anonymous(this="position", expressions=arguments)

        def _parse_disjunction(self) -> exp.Expr | None:
            """Parse an expression; a number or a text that is an element of a list has no operators."""
            if (
                self._curr
                and self._next
                and self._curr.token_type in _CONSTANTS
                and self._next.token_type in _AFTER_CONSTANTS
            ):
                return self._parse_primary()
            return super()._parse_disjunction()

        def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
            """Parse a list, which does not end with a comma."""

            def parse() -> Any:  # noqa: ANN401 - sqlglot has no types here
                found = parse_method()
                if found is None and self._prev and self._prev.token_type is sep:
                    self.raise_error("Expected an element of the list")
                return found

            return super()._parse_csv(parse, sep)

        def _parse_types(self, check_func: bool = False, **options: Any) -> exp.Expr | None:  # type: ignore[override]  # noqa: ANN401, FBT001, FBT002
            """Parse a type, or none of a function with the name of a type, as `struct(f(x), 1)`."""
            parse = super()._parse_types
            if not check_func:
                return parse(**options)
            return self._try_parse(lambda: parse(check_func=True, **options))

        def _parse_limit(
            self,
            this: exp.Expr | None = None,
            top: bool = False,  # noqa: FBT001, FBT002
            skip_limit_token: bool = False,  # noqa: FBT001, FBT002
        ) -> exp.Expr | None:
            """Parse LIMIT, and FETCH FIRST or NEXT behind the outputs; FETCH is otherwise a name."""
            is_name = top or self._next is None or self._next.text.upper() not in {"FIRST", "NEXT"}
            if self._curr and self._curr.token_type is TokenType.FETCH and is_name:
                return this
            return super()._parse_limit(this, top, skip_limit_token)

        def _parse_version(self) -> exp.Version | None:
            """Parse `[FOR] VERSION AS OF 3`; VERSION without AS OF is a name."""
            for phrase in _PASTS:
                if self._match_text_seq(*phrase, "AS", "OF"):
                    return self.expression(
                        exp.Version(this=phrase[-1], kind="AS OF", expression=self._parse_bitwise())
                    )
            return None

        def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
            """Parse `MAP {key: value}`, which is a function of two lists; and what sqlglot reads."""
            if self._prev.text.upper() != "MAP" or not self._match(TokenType.L_BRACE):
                return super()._parse_bracket(this)
            entries = self._parse_csv(self._parse_entry)
            if not self._match(TokenType.R_BRACE):
                self.raise_error("Expected }")
            lists = [exp.Array(expressions=[entry[at] for entry in entries]) for at in (0, 1)]
            return self._parse_bracket(exp.Anonymous(this="map", expressions=lists))

        def _parse_entry(self) -> tuple[exp.Expr | None, exp.Expr | None] | None:
            key = self._parse_disjunction()
            return (key, self._parse_disjunction()) if self._match(TokenType.COLON) else None

        def _parse_json_call(self) -> exp.Expr:
            """Parse the arguments of a function that makes JSON, and its clauses, which become attributes."""
            name = self._tokens[self._index - 2]
            call = exp.Anonymous(this=name.text).update_positions(name)
            call.set("distinct", self._match(TokenType.DISTINCT))
            if not self._parse_json_clauses(call) and self._curr.token_type != TokenType.R_PAREN:
                call.set("expressions", self._parse_csv(self._parse_json_argument))
                call.set("order", self._parse_order())
                self._parse_json_clauses(call)
            return call

        def _parse_json_argument(self) -> exp.Expr | None:
            """Parse `v`, `v FORMAT JSON`, `k: v`, `k VALUE v` and `KEY k VALUE v`."""
            has_word = self._next.token_type not in _AFTER_VALUES and self._next.text.upper() != "VALUE"
            if has_word:
                self._match_text_seq("KEY")
            value = self._parse_disjunction()
            if self._match(TokenType.COLON) or self._match_text_seq("VALUE"):
                of_key = self._parse_disjunction()
                if self._match_text_seq("FORMAT", "JSON"):
                    of_key = exp.FormatJson(this=of_key)
                return exp.JSONKeyValue(this=value, expression=of_key)
            return exp.FormatJson(this=value) if self._match_text_seq("FORMAT", "JSON") else value

        def _parse_json_clauses(self, call: exp.Expr) -> bool:
            """Parse what may follow the arguments; return whether there is anything."""
            has_any = False
            while True:
                found = next((one for one in _JSON_CLAUSES if self._match_text_seq(*one)), None)
                if found is not None:
                    call.set(*_JSON_CLAUSES[found])
                elif self._match(TokenType.RETURNING):
                    call.set("returning", self._parse_types())
                else:
                    return has_any
                has_any = True

    class Generator(PostgresGenerator):
        """Writes what DataFusion reads."""

        MULTI_ARG_DISTINCT = True
        TYPE_MAPPING: ClassVar[dict[Any, str]] = {**PostgresGenerator.TYPE_MAPPING, **_TYPES}
        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            **PostgresGenerator.TRANSFORMS,
            exp.Array: lambda writer, array: f"[{writer.expressions(array, flat=True)}]",
            exp.Distance: lambda writer, distance: writer.binary(distance, "<->"),
            NegativeProduct: lambda writer, distance: writer.binary(distance, "<#>"),
            L1Distance: lambda writer, distance: writer.binary(distance, "<+>"),
            HammingDistance: lambda writer, distance: writer.binary(distance, "<~>"),
            Spaceship: lambda writer, comparison: writer.binary(comparison, "<=>"),
            exp.IgnoreNulls: lambda writer, call: f"{writer.sql(call, 'this')} IGNORE NULLS",
            exp.Not: _write_negation,
            exp.NullSafeEQ: _write_distinction,
            exp.NullSafeNEQ: _write_distinction,
            exp.Pow: lambda writer, power: writer.binary(power, "^"),
            exp.RespectNulls: lambda writer, call: f"{writer.sql(call, 'this')} RESPECT NULLS",
            exp.Select: lambda writer, select: writer.select_sql(select),
            exp.Star: lambda writer, star: writer.star_sql(star).replace(" EXCEPT (", " EXCLUDE ("),
            # The writer would change these.
            exp.Bracket: lambda writer, bracket: writer.bracket_sql(bracket.copy()),
            exp.Struct: lambda writer, struct: writer.struct_sql(struct.copy()),
            exp.Unnest: _write_unnest,
            exp.TryCast: lambda writer, cast: (
                f"TRY_CAST({writer.sql(cast, 'this')} AS {writer.sql(cast, 'to')})"
            ),
        }


_NAMES: Final = "ALTER CREATE DROP GLOB GRANT REGEXP REVOKE RLIKE ROLLBACK VARIADIC"
"""Keywords of sqlglot that are names in DataFusion."""
_KEYWORDS: Final = {
    word: kind for word, kind in DataFusion.Tokenizer.KEYWORDS.items() if word not in _NAMES.split()
}
_AFTER_OUTER: Final = frozenset({"JOIN", "APPLY"})
_FIRST_WORDS: Final = frozenset(words.split()[0] for words in _KEYWORDS if " " in words)


def read_tokens(text: SqlText, first: int = 0, slots: Mapping[int, int] = NO_SLOTS) -> list[Token]:
    """Return the tokens of a text for the parser, in which keywords are known and parameters have numbers.

    Args:
        text: the statement.
        first: token with which the query begins.
        slots: first token of each parameter -> its ordinal, from 0.
    """
    found: list[Token] = []
    joined = first - 1
    for at, (token, word) in enumerate(zip(text.tokens, text.words, strict=False)):
        if at <= joined:
            continue
        if word == "?" and at in slots:
            place = token.line, token.col, token.start, token.end
            found.append(Token(TokenType.PARAMETER, "$", *place))
            found.append(Token(TokenType.NUMBER, str(slots[at] + 1), *place))
            continue
        if word == "<" and (middle := text.words[at + 1]) in _SPLIT_OPERATORS:
            last = text.tokens[min(at + 2, len(text.tokens) - 1)]
            if last.end == token.start + 2 and last.text == ">":
                operator = _SPLIT_OPERATORS[middle]
                found.append(Token(operator, f"<{middle}>", token.line, token.col, token.start, last.end))
                joined = at + 2
                continue
        kind, end = _KEYWORDS.get(word), token.end
        if word == "OUTER" and text.words[at + 1] not in _AFTER_OUTER:
            kind = None  # a column may have the name
        if word in _FIRST_WORDS and (pair := f"{word} {text.words[at + 1]}") in _KEYWORDS:
            kind, end, joined = _KEYWORDS[pair], text.tokens[at + 1].end, at + 1
        if kind is not None and token.token_type is TokenType.VAR:
            written = text.sql[token.start : end + 1]
            found.append(Token(kind, written, token.line, token.col, token.start, end, token.comments))
        else:
            found.append(token)
    return found


def find_query(sql: str) -> int:
    """Return where the query begins in EXPLAIN of one; 0 for others."""
    before = _BEFORE_QUERIES.match(sql)
    return before.end() if before else 0


_DIALECT: Final = DataFusion()


def parse_query(
    query: SqlText | str, first: int = 0, slots: Mapping[int, int] = NO_SLOTS
) -> exp.Query | None:
    """Parse one query; None for other statements and for syntax that sqlglot does not read.

    Args:
        query: the text, whose characters `meta` of the expressions counts.
        first: token with which the query begins.
        slots: first token of each parameter -> its ordinal, from 0; those written as ? get numbers by it.
    """
    sql = query if isinstance(query, str) else query.sql
    if not first and _QUERY.match(sql) is None:
        return None
    try:
        text = tokenize(query) if isinstance(query, str) else query
        if PIPE in text.words:
            return None
        trees = _DIALECT.parser().parse(read_tokens(text, first, slots), sql)
    except (LanceGatewayError, SqlglotError, ValueError, RecursionError):
        return None
    root = trees[0] if len(trees) == 1 else None
    if isinstance(root, exp.Values):
        root = _select_from(root)
    if not isinstance(root, exp.Query) or (_MAY_BE_LOST.search(sql) and _loses_parts(root)):
        return None
    return root


def _select_from(values: exp.Values) -> exp.Select:
    """Return VALUES as the query that it is."""
    query = exp.select("*")
    for modifier in ("order", "limit", "offset"):
        query.set(modifier, values.args.pop(modifier, None))
    return query.from_(exp.Subquery(this=values, alias=exp.TableAlias(this=exp.to_identifier("_values"))))


def read_query(sql: str) -> exp.Query | None:
    """Parse a query, or the query of EXPLAIN; None for others and for syntax that sqlglot does not read."""
    return parse_query(sql[find_query(sql) :])


def find_unread(sql: str) -> int:
    """Return the character of a text behind which sqlglot does not read it."""
    try:
        _DIALECT.parser().parse(read_tokens(tokenize(sql)), sql)
    except SqlglotError as error:
        place = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        lines = sql.split("\n")[: (place.get("line") or 1) - 1]
        return sum(len(line) + 1 for line in lines) + max((place.get("col") or 1) - 1, 0)
    return 0


def _loses_parts(root: exp.Query) -> bool:
    return any(any(map(node.args.get, _LOST)) for node in root.find_all(exp.Query, exp.Table))


def parse_expression(sql: str) -> exp.Expr:
    """Parse an expression that is known to be right; it is kept, and should have no values of a statement."""
    return _parse_expression(sql).copy()


@lru_cache(maxsize=1024)
def _parse_expression(sql: str) -> exp.Expr:
    return sqlglot.parse_one(sql, dialect=_DIALECT)


def write_sql(tree: exp.Expr) -> str:
    """Write a tree as text for DataFusion."""
    return tree.sql(dialect=_DIALECT, normalize_functions=False, comments=False, copy=False)
