"""Gives outputs of one name names of their own, since DataFusion refuses them, and remembers those to show.

    SELECT id, id, count(*), count(*) FROM t GROUP BY id ORDER BY id
->  SELECT id, id AS "id#2", count(*) AS "?#15", count(*) AS "?#25" FROM t GROUP BY id ORDER BY id

The first output keeps its name, in subqueries as well, as in DuckDB and in DataFusion's own tables of joins.
Only statements that DataFusion has refused are written so: it takes joins whose columns share names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from memwal.errors import InvalidInputError
from planner.plans.forms.multisets import FindSchema
from planner.sql.edits import Edit, apply_edits
from planner.sql.standard.query_bodies import (
    QueryBody,
    find_bodies,
    find_column,
    find_outputs,
    find_sort_keys,
    split_alias,
)
from planner.sql.tokens import SqlText, quote, tokenize

_STAR_OPTIONS: Final = frozenset({"EXCLUDE", "EXCEPT", "REPLACE", "RENAME"})
_DIRECTIONS: Final = frozenset({"ASC", "DESC", "NULLS", "FIRST", "LAST"})


@dataclass(frozen=True, slots=True)
class UniqueNames:
    """A statement whose outputs have different names.

    Attributes:
        sql: the statement.
        named: name of an output -> the name that clients see.
        computed: name of an output -> finds the name that clients see.
    """

    sql: str
    named: Mapping[str, str]
    computed: Mapping[str, Callable[[], str]]

    def find_shown(self) -> Mapping[str, str]:
        """Return name of an output -> the name that clients see, which must be planned for computed ones."""
        return {**self.named, **{name: find() for name, find in self.computed.items()}}


@dataclass(frozen=True, slots=True)
class _Output:
    """An output of a SELECT.

    Attributes:
        tokens: of it.
        expression: without its alias.
        name: as the text tells it; None for a computed output without alias, or a cast.
        stars: the names of the columns that a star stands for; empty for others.
    """

    tokens: range
    expression: range
    name: str | None
    stars: Sequence[str] = ()


def make_names_unique(sql: str, find_schema: FindSchema) -> UniqueNames | None:
    """Return a statement whose outputs have different names; None if its text tells of none to change.

    Args:
        sql: for DataFusion.
        find_schema: of a query that is a part of it.

    Raises:
        InvalidInputError: rows are sorted by a name that different outputs have.
    """
    text = tokenize(sql)
    edits: list[Edit] = []
    named: dict[str, str] = {}
    computed: dict[str, Callable[[], str]] = {}
    for body in find_bodies(text):
        for operand in body.operands:
            _SelectList(text, body, operand, find_schema).rename(edits, named, computed)
    return UniqueNames(apply_edits(sql, edits), named, computed) if edits else None


class _SelectList:
    """The outputs of one SELECT."""

    def __init__(self, text: SqlText, body: QueryBody, operand: range, find_schema: FindSchema) -> None:
        self._text = text
        self._body = body
        self._operand = operand
        self._find_schema = find_schema
        self._tokens = find_outputs(text, operand)

    def rename(
        self, edits: list[Edit], named: dict[str, str], computed: dict[str, Callable[[], str]]
    ) -> None:
        """Add the edits that name outputs, and the names to show for them."""
        text = self._text
        if len(self._tokens) < 2 or not all(self._tokens):
            return
        outputs = [self._read(tokens) for tokens in self._tokens]
        taken: dict[str, _Output] = {}
        for number, output in enumerate(outputs, start=1):
            if output.stars:
                self._rename_star(output, number, taken, edits, named)
                continue
            name = output.name
            if name is None:
                unique = f"?#{text.start(output.tokens.start)}"
                computed[unique] = partial(self._name_alone, output)
            elif name in taken:
                self._check_order(name, taken[name], output)
                unique = f"{name}#{number}"
                named[unique] = name
            else:
                taken[name] = output
                continue
            end = text.end(output.expression.stop - 1)
            edits.append(Edit.replace(end, text.end(output.tokens.stop - 1), f" AS {quote(unique)}"))

    def _read(self, tokens: range) -> _Output:
        text = self._text
        if _find_star(text, tokens) is not None:
            return _Output(tokens, tokens, None, self._plan_alone(tokens))
        expression, alias = split_alias(text, tokens)
        return _Output(tokens, expression, alias or find_column(text, expression))

    def _rename_star(
        self,
        star: _Output,
        number: int,
        taken: dict[str, _Output],
        edits: list[Edit],
        named: dict[str, str],
    ) -> None:
        text = self._text
        first, last, at = star.tokens.start, star.tokens.stop - 1, _find_star(text, star.tokens)
        relation = text.sql[text.start(first) : text.start(first if at is None else at)]
        columns = []
        for name in star.stars:
            column = f"{relation}{quote(name)}"
            if name in taken:
                self._check_order(name, taken[name], star)
                named[f"{name}#{number}"] = name
                column += f" AS {quote(f'{name}#{number}')}"
            columns.append(column)
        is_plain = len(set(star.stars)) == len(star.stars) and "REPLACE" not in text.words[first : last + 1]
        if is_plain and not taken.keys().isdisjoint(star.stars):
            edits.append(Edit.replace(text.start(first), text.end(last), ", ".join(columns)))
        for name in star.stars:
            taken.setdefault(name, star)

    def _check_order(self, name: str, first: _Output, other: _Output) -> None:
        """Refuse to sort by a name that different outputs have."""
        text = self._text
        if _mean_the_same(text, first, other):
            return
        for key in find_sort_keys(text, self._body.tail):
            rest = set(text.words[key.start + 1 : key.stop]) - _DIRECTIONS
            if key and not rest and text.is_name(key.start) and text.name(key.start) == name:
                message = f"ORDER BY {name!r} is ambiguous, since several outputs have that name"
                raise InvalidInputError(f"{message}: give them different names")

    def _plan_alone(self, tokens: range) -> Sequence[str]:
        """Return the names that an output has where it stands alone; nothing if that can't be found out."""
        text, operand = self._text, self._operand
        definitions = [
            text.sql[text.start(one.start) : text.end(one.stop - 1)]
            for body in find_bodies(text)
            if body.tokens.start <= operand.start and operand.stop <= body.tokens.stop
            for one in body.common_tables
            if one.stop <= operand.start
        ]
        before = f"WITH RECURSIVE {', '.join(definitions)} " if definitions else ""
        output = text.sql[text.start(tokens.start) : text.end(tokens.stop - 1)]
        end = self._tokens[-1].stop
        rest = text.sql[text.end(end - 1) : text.end(operand.stop - 1)]
        try:
            names: Sequence[str] = self._find_schema(f"{before}SELECT {output} {rest}").names
        except Exception:  # noqa: BLE001 - it reads columns of the rows around it, or groups by a number
            return ()
        return names

    def _name_alone(self, output: _Output) -> str:
        text, tokens = self._text, output.expression
        cast = _find_cast_column(text, tokens)
        if cast is not None:
            return cast
        names = self._plan_alone(tokens)
        return names[0] if names else text.sql[text.start(tokens.start) : text.end(tokens.stop - 1)]


def _find_star(text: SqlText, output: range) -> int | None:
    """Return the token of the star that an output is, whatever is left out of it; None if it is none."""
    words = text.words
    at = next((i for i in output if words[i] == "*"), None)
    if at is None or (at > output.start and words[at - 1] != "."):
        return None
    return at if at + 1 == output.stop or words[at + 1] in _STAR_OPTIONS else None


def _find_cast_column(text: SqlText, expression: range) -> str | None:
    """Return the name of a column that is cast, which PostgreSQL gives the output; None for others."""
    words, first, stop = text.words, expression.start, expression.stop
    if (
        words[first] in {"CAST", "TRY_CAST"}
        and words[first + 1] == "("
        and text.closing(first + 1) == stop - 1
    ):
        end = next((i for i in range(first + 2, stop) if words[i] == "AS"), first + 2)
        return find_column(text, range(first + 2, end))
    end = next((i for i in expression if words[i] == "::"), first)
    return find_column(text, range(first, end))


def _mean_the_same(text: SqlText, one: _Output, other: _Output) -> bool:
    """Return whether two outputs are certainly the same column."""
    sides = (one, other)
    if any(side.stars for side in sides):
        return all(side.stars or len(side.tokens) == 1 for side in sides)
    words = [[text.name(i) for i in side.expression] for side in sides]
    if words[0] == words[1]:
        return True
    return all(".".join(each[1::2]) in {"", "."} for each in words) and words[0][-1] == words[1][-1]
