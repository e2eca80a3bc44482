"""Reads a statement that writes as one tree, whose parts know their places in the text.

Queries of the statement are made of its text, see `planner.writes.dml.statement.text.Splice`; the tree has
its parts, and where they begin and end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Final, TypeVar

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.planner.sql.text.tokens import PlacedMessage, SqlText, fold
from lance_gateway.planner.sql.tree.dialect import DataFusion, read_tokens

S = TypeVar("S", exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.TruncateTable)
_PLACE: Final = "place"
_PLACED: Final = (
    "_parse_ddl_select",
    "_parse_equality",
    "_parse_placeholder",
    "_parse_table",
    "_parse_value",
    "_parse_with",
)
"""Methods that parse parts of which queries are made, besides `_parse_disjunction`."""
_COLUMN_PARTS: Final = ("this", "table", "db", "catalog")
_QUERY_STARTS: Final = DataFusion.Parser.SELECT_START_TOKENS | {TokenType.FROM, TokenType.TABLE}
_CONFLICTS: Final = {("CONFLICT", "("), ("CONFLICT", "DO"), ("CONFLICT", "ON"), ("DUPLICATE", "KEY")}
"""Words behind ON that is not a condition."""
_MAX_LEVELS: Final = 10
_CONSTANTS: Final = (TokenType.NUMBER, TokenType.STRING)
_ITEM_ENDS: Final = (TokenType.COMMA, TokenType.R_PAREN)


class _Parser(DataFusion.Parser):
    """Parses statements that write, and notes the places of their parts."""

    STRING_ALIASES = True
    STATEMENT_PARSERS: ClassVar[dict[TokenType, Any]] = DataFusion.Parser.STATEMENT_PARSERS | {
        TokenType.REPLACE: lambda self: self._parse_insert()
    }

    def raise_error(self, message: str, token: Token | None = None, expected: str = "") -> None:
        token = token or self._curr
        shown = repr(token.text) if token else "end of the statement"
        what = f"{expected} is expected, found {shown}" if expected else f"unexpected {shown}"
        error = ParseError(message)
        place = token.start if token else len(self.sql)
        error.args = (PlacedMessage(self.sql, place, f"Syntax error: {what}"),)
        raise error

    def _expect(self, *words: str) -> None:
        if not self._match_text_seq(*words):
            self.raise_error("", expected=" ".join(words))

    def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
        """Parse a list; something follows each comma, but for outputs, which DataFusion checks."""
        items: list[Any] = []
        while (item := parse_method()) is not None:
            items.append(item)
            if not self._match(sep):
                return items
        if self._curr.token_type == sep or (items and parse_method != self._parse_expression):
            self.raise_error("an item")
        return items

    def _parse_disjunction(self) -> exp.Expr | None:
        first, condition = self._curr, super()._parse_disjunction()
        if condition is not None:
            condition.meta[_PLACE] = range(first.start, self._prev.end + 1)
        elif self._prev.token_type in (TokenType.AND, TokenType.ON):
            self.raise_error("a condition")
        return condition

    def _parse_insert(self) -> exp.Insert:
        if self._match(TokenType.OVERWRITE):
            message = PlacedMessage(self.sql, self._prev.start, "INSERT OVERWRITE is not supported")
            raise UnsupportedError(message)
        is_ignored = self._match_text_seq("OR", "IGNORE") or self._match_text_seq("IGNORE")
        self._match_text_seq("OR", "REPLACE")
        self._expect("INTO")
        self._match(TokenType.TABLE)
        table: Any = self._parse_table_parts(schema=True)
        table.set("version", self._parse_version())
        if self._match(TokenType.ALIAS):
            table.set("alias", exp.TableAlias(this=self._parse_id_var()))
        is_list = self._next.token_type not in _QUERY_STARTS
        columns = self._parse_names() if is_list else []
        overriding = self._match_text_seq("OVERRIDING", "SYSTEM", "VALUE")
        by_name = self._match_text_seq("BY", "NAME")
        self._match_text_seq("BY", "POSITION")
        is_table = self._curr.token_type is TokenType.TABLE
        if self._match_text_seq("DEFAULT", "VALUES"):
            source: exp.Expr | None = exp.Values(expressions=[exp.Tuple()])
        elif not by_name and self._match(TokenType.VALUES):
            source = exp.Values(expressions=self._parse_csv(self._parse_value))
        elif (source := self._parse_ddl_select()) is None:
            self.raise_error("", expected="VALUES, DEFAULT VALUES or a query")
        conflict, returning = self._parse_on_conflict(), self._parse_returning()
        return exp.Insert(
            this=table,
            columns=columns,
            overriding=overriding,
            by_name=by_name,
            is_table=is_table,
            expression=source,
            conflict=exp.OnConflict() if is_ignored else conflict,
            returning=returning,
        )

    def _parse_value(self, values: bool = True) -> exp.Tuple:  # noqa: FBT001, FBT002, ARG002 - as in sqlglot
        """Parse [ROW] (values)."""
        self._match_text_seq("ROW")
        self._expect("(")
        is_empty = self._curr.token_type is TokenType.R_PAREN
        row = exp.Tuple(expressions=[] if is_empty else self._parse_csv(self._parse_row_item))
        self._expect(")")
        return row

    def _parse_row_item(self) -> exp.Expr | None:
        """Parse a value of a row; in long lists of rows, most are constants."""
        first, is_negative = self._curr, self._curr.token_type is TokenType.DASH
        at = self._index + is_negative
        kinds = [token.token_type for token in self._tokens[at : at + 2]]
        if len(kinds) < 2 or kinds[0] not in _CONSTANTS or kinds[1] not in _ITEM_ENDS:
            return self._parse_disjunction()
        token = self._tokens[at]
        self._advance(1 + is_negative)
        literal = exp.Literal(this=token.text, is_string=token.token_type is TokenType.STRING)
        item = exp.Neg(this=literal) if is_negative else literal
        item.meta[_PLACE] = range(first.start, token.end + 1)
        return item

    def _parse_delete(self) -> exp.Delete:
        self._match(TokenType.FROM)
        return exp.Delete(
            this=self._parse_table(),
            using=self._match(TokenType.USING) and self._parse_table(joins=True),
            where=self._parse_where(),
            returning=self._parse_returning(),
        )

    def _parse_update(self) -> exp.Update:
        table = self._parse_table(alias_tokens=self.UPDATE_ALIAS_TOKENS)
        self._expect("SET")
        return exp.Update(
            this=table,
            expressions=self._parse_csv(self._parse_update_assignment),
            from_=self._match(TokenType.FROM) and self._parse_table(joins=True),
            where=self._parse_where(),
            returning=self._parse_returning(),
        )

    def _parse_update_assignment(self) -> exp.EQ:
        """Parse column = value, or (column, ..) = (value, ..)."""
        if self._match(TokenType.L_PAREN):
            columns: exp.Expr = exp.Tuple(expressions=self._parse_csv(self._parse_set_column))
            self._expect(")")
        else:
            columns = self._parse_set_column()
        self._expect("=")
        return self.expression(exp.EQ(this=columns, expression=self._parse_disjunction()))

    def _parse_set_column(self) -> exp.Column:
        parts = [self._parse_id_var()]
        while self._match(TokenType.DOT):
            parts.append(self._parse_id_var())
        return self.expression(exp.Column(**dict(zip(_COLUMN_PARTS, reversed(parts), strict=False))))

    def _parse_names(self) -> list[exp.Expr]:
        """Parse names in brackets, if they are next."""
        return self._parse_wrapped_id_vars() if self._curr.token_type is TokenType.L_PAREN else []

    def _parse_on_conflict(self) -> exp.OnConflict | None:
        if self._match_text_seq("ON", "DUPLICATE", "KEY", "UPDATE"):
            self._match(TokenType.SET)
            return exp.OnConflict(expressions=self._parse_csv(self._parse_update_assignment))
        if not self._match_text_seq("ON", "CONFLICT"):
            return None
        if self._match_text_seq("ON", "CONSTRAINT"):
            message = "Constraints have no names here: give the key columns, ON CONFLICT (..)"
            raise UnsupportedError(PlacedMessage(self.sql, self._curr.start, message))
        keys = self._parse_names()
        self._expect("DO")
        if self._match_text_seq("NOTHING"):
            return exp.OnConflict(conflict_keys=keys)
        self._expect("UPDATE", "SET")
        assignments = self._parse_csv(self._parse_update_assignment)
        return exp.OnConflict(conflict_keys=keys, expressions=assignments, where=self._parse_where())

    def _parse_merge(self) -> exp.Merge:
        self._match(TokenType.INTO)
        table = self._parse_table()
        self._expect("USING")
        source = self._parse_table()
        self._expect("ON")
        return exp.Merge(
            this=table,
            using=source,
            on=self._parse_disjunction(),
            whens=self._parse_when_matched(),
            returning=self._parse_returning(),
        )

    def _parse_when_matched(self) -> exp.Whens:
        whens: list[exp.Expr] = []
        self._expect("WHEN")
        while not whens or self._match(TokenType.WHEN):
            is_matched = not self._match(TokenType.NOT)
            self._expect("MATCHED")
            by_source = not is_matched and self._match_text_seq("BY", "SOURCE")
            if not is_matched and not by_source:
                self._match_text_seq("BY", "TARGET")
            condition = self._parse_disjunction() if self._match(TokenType.AND) else None
            self._expect("THEN")
            then = self._parse_action(is_matched=is_matched, by_source=by_source)
            whens.append(exp.When(matched=is_matched, source=by_source, condition=condition, then=then))
        return exp.Whens(expressions=whens)

    def _parse_action(self, *, is_matched: bool, by_source: bool) -> exp.Expr:
        """Parse what a MERGE does; SET * and INSERT * are statements of a star."""
        if self._match_text_seq("DO", "NOTHING"):
            return exp.var("DO NOTHING")
        if is_matched or by_source:
            if self._match(TokenType.DELETE):
                return exp.var("DELETE")
            self._expect("UPDATE", "SET")
            if is_matched and self._match(TokenType.STAR):
                return exp.Update(this=exp.Star())
            return exp.Update(expressions=self._parse_csv(self._parse_update_assignment))
        self._expect("INSERT")
        if self._match(TokenType.STAR) or self._match_text_seq("ROW"):
            return exp.Insert(this=exp.Star())
        columns = self._parse_names()
        self._expect("VALUES")
        return exp.Insert(columns=columns, expression=self._parse_value())

    def _parse_truncate_table(self) -> exp.TruncateTable:
        self._match(TokenType.TABLE)
        return exp.TruncateTable(this=self._parse_table_parts())


def _note_place(parse: Callable[..., exp.Expr | None]) -> Callable[..., exp.Expr | None]:
    def parse_placed(self: _Parser, *args: Any, **kwargs: Any) -> exp.Expr | None:  # noqa: ANN401
        first = self._curr
        node = parse(self, *args, **kwargs)
        if node is not None:
            node.meta[_PLACE] = range(first.start, self._prev.end + 1)
        return node

    return parse_placed


for _name in _PLACED:
    setattr(_Parser, _name, _note_place(getattr(_Parser, _name)))


def parse_tree(text: SqlText, kind: type[S]) -> S:
    """Parse a statement.

    Args:
        text: one statement.
        kind: the statement that its first word promises.

    Raises:
        InvalidInputError: the text has a syntax error; with its place.
        UnsupportedError: a clause is not supported.
    """
    tokens = read_tokens(text)
    for token, *after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.token_type is TokenType.ON and tuple(one.text.upper() for one in after) in _CONFLICTS:
            token.token_type = TokenType.BREAK  # not the condition of a join
    parser = _Parser(dialect=DataFusion())
    try:
        try:
            trees = parser.parse(tokens, text.sql)
        except RecursionError:
            trees = parser.parse(list(_drop_depths(tokens)), text.sql)
    except ParseError as error:
        raise InvalidInputError(error.args[0]) from None
    except RecursionError:
        msg = "the statement is nested too deeply: compute parts of it in a common table expression"
        raise UnsupportedError(msg) from None
    tree = trees[0]
    if not isinstance(tree, kind):
        raise text.error(0, "A statement that writes is expected")
    return tree


def _drop_depths(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield tokens without those in many brackets: the parts of a statement are outside of them."""
    level = 0
    for token in tokens:
        level -= token.token_type is TokenType.R_PAREN
        if level < _MAX_LEVELS:
            yield token
        level += token.token_type is TokenType.L_PAREN


def locate(*nodes: exp.Expr | None) -> range:
    """Return the characters from the first of some nodes to the last; none without nodes."""
    places = [place for node in nodes if node is not None for place in _list_places(node)]
    starts, stops = [place.start for place in places], [place.stop for place in places]
    return range(min(starts, default=0), max(stops, default=0))


def _list_places(node: exp.Expr) -> Iterator[range]:
    """Yield the places of a node, or of its parts if its own is not known."""
    for part in node.walk(prune=lambda one: _PLACE in one.meta):
        if _PLACE in part.meta:
            yield part.meta[_PLACE]
        elif "start" in part.meta:
            yield range(part.meta["start"], part.meta["end"] + 1)


def fold_name(name: exp.Expr) -> str:
    """Return a name as DataFusion reads it."""
    return name.name if name.args.get("quoted") else fold(name.name)
