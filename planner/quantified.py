"""Comparisons with ANY and ALL rows of a subquery, and membership, in words that DataFusion gets right.

    SELECT id FROM orders WHERE n = ANY (SELECT n FROM orders)
->  SELECT id FROM orders WHERE n IN (SELECT n FROM orders)
    SELECT id FROM orders WHERE n NOT IN (SELECT n FROM items) AND n > 1
->  SELECT id FROM orders WHERE nullif(n, NULL) NOT IN (SELECT n FROM items) AND n > 1
    SELECT id FROM orders WHERE n NOT IN (SELECT n FROM items) OR id = 1
->  SELECT id FROM orders WHERE n <> ALL (SELECT n FROM items) OR id = 1
    SELECT id FROM orders WHERE n >= ALL (SELECT n FROM orders)
->  SELECT id FROM orders WHERE n >= ALL (SELECT * FROM (SELECT n FROM orders) AS "quantified#1")

DataFusion 54 plans membership as a join that gives true or false, never NULL: enough where only true matters.
NOT IN as a conjunct is an anti join that knows of NULLs, but takes conditions on the column `n` to the
subquery, where they drop NULL, and forgets NULL where `n` has none. An expression in place of the column, of
which DataFusion can't tell that it is never NULL, prevents both. Elsewhere a comparison with ALL or ANY is
right: slower, since it looks at every pair of rows.

Those are joins as well, which keep the names: where the subquery reads a relation that is called like one
around it, `orders.n >= orders.n` would compare a column with itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum

from planner.statement import Piece, Slot
from planner.tokens import QUOTED, STRING, SqlText
from planner.truth_position import TruthPosition, subject_start, truth_position

__all__ = ["quantified_comparisons"]

_SUBQUERIES = frozenset({"SELECT", "WITH"})
_ANY = frozenset({"ANY", "SOME"})
_UNEQUAL = frozenset({"<>", "!="})
_COMPARISONS = _UNEQUAL | {"=", "<", ">", "<=", ">="}
_COMPUTING = frozenset({"+", "-", "*", "/", "%", "||", "(", ")", ",", ".", "0", STRING, QUOTED})
_NO_COLUMNS = frozenset({"NULL", "TRUE", "FALSE", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP"})
_KEYWORDS = frozenset({"AS", "FROM", "IN", "CASE", "DATE", "TIME", "TIMESTAMP", "INTERVAL", "AT", "FOR"})
"""Words of operands in which a name may be no column."""
_BEFORE_RELATIONS = frozenset({"FROM", "JOIN", ","})
_AFTER_RELATIONS = frozenset(
    {"WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "FETCH", "UNION", "EXCEPT"}
    | {
        "INTERSECT",
        "MINUS",
        "LEFT",
        "RIGHT",
        "FULL",
        "INNER",
        "CROSS",
        "NATURAL",
        "JOIN",
        "ON",
        "USING",
        "FOR",
    }
)
_CONJUNCTS = frozenset({TruthPosition.CONJUNCT, TruthPosition.DENIED_CONJUNCT})

Edit = tuple[int, int, list[Piece | Slot]]


class _Plan(Enum):
    """How a membership is written."""

    JOIN = "with IN"
    NULL_AWARE_JOIN = "with IN, of an operand that is no column"
    COMPARISON = "with ANY or ALL"


@dataclass(frozen=True, slots=True)
class _Membership:
    """Tokens `first` to `last` say IN, NOT IN, = ANY or <> ALL; a subquery in brackets follows."""

    first: int
    last: int
    is_denied: bool

    @property
    def opening(self) -> int:
        return self.last + 1


def quantified_comparisons(text: SqlText, relations: Collection[str]) -> Iterator[Edit]:
    """Yields what stands in place of such comparisons, or around their operands.

    Args:
        text: the statement.
        relations: tables and aliases of it.
    """
    words = text.words
    number = 0
    for i, word in enumerate(words[:-2]):
        if words[i + 1] != "(" or words[i + 2] not in _SUBQUERIES:
            continue
        membership = _membership(words, i)
        if membership is not None:
            subject = subject_start(text, membership.first - 1)
            plan = _plan(text, membership, subject)
            yield from _written(text, membership, subject, plan)
            if plan is not _Plan.COMPARISON:
                continue
        elif (word not in _ANY and word != "ALL") or words[i - 1] not in _COMPARISONS:
            continue
        opening, closing = i + 1, text.closing(i + 1)
        inside = range(opening, closing)
        if _named(text, relations, inside) & _named(text, relations, _around(text, inside)):
            number += 1
            begin, end = text.end(opening), text.start(closing)
            yield begin, begin, [Piece("SELECT * FROM (", begin, verbatim=False)]
            # The line break ends a comment that ends the subquery.
            yield end, end, [Piece(f'\n) AS "quantified#{number}"', end, verbatim=False)]


def _membership(words: tuple[str, ...], i: int) -> _Membership | None:
    """The membership that token `i` is the last word of."""
    if words[i] == "IN":
        is_denied = words[i - 1] == "NOT"
        return _Membership(i - is_denied, i, is_denied)
    if words[i] in _ANY and words[i - 1] == "=":
        return _Membership(i - 1, i, is_denied=False)
    if words[i] == "ALL" and words[i - 1] in _UNEQUAL:
        return _Membership(i - 1, i, is_denied=True)
    return None


def _plan(text: SqlText, membership: _Membership, subject: int) -> _Plan:
    closing = text.closing(membership.opening)
    position = truth_position(text, subject, closing)
    if position is TruthPosition.OUTPUT:
        return _Plan.JOIN
    if position is TruthPosition.VALUE:
        return _Plan.COMPARISON
    is_false_wanted = position in {TruthPosition.FALSE, TruthPosition.DENIED_CONJUNCT}
    if membership.is_denied == is_false_wanted:
        return _Plan.JOIN
    is_aware = (
        position in _CONJUNCTS
        and _reads_columns(text, range(subject, membership.first))
        and not _is_correlated(text, range(membership.opening, closing))
    )
    return _Plan.NULL_AWARE_JOIN if is_aware else _Plan.COMPARISON


def _written(text: SqlText, membership: _Membership, subject: int, plan: _Plan) -> Iterator[Edit]:
    """Yields the edits that make a membership one of a plan."""
    first, last = text.start(membership.first), text.end(membership.last)
    if plan is _Plan.COMPARISON:
        operator = "<> ALL" if membership.is_denied else "= ANY"
    else:
        operator = "NOT IN" if membership.is_denied else "IN"
    if plan is _Plan.NULL_AWARE_JOIN:
        begin, end = text.start(subject), text.end(membership.first - 1)
        yield begin, begin, [Piece("nullif(", begin, verbatim=False)]
        yield end, end, [Piece(", NULL)", end, verbatim=False)]
    if text.words[membership.first : membership.last + 1] != tuple(operator.split()):
        yield first, last, [Piece(f" {operator} ", first, verbatim=False)]


def _reads_columns(text: SqlText, tokens: range) -> bool:
    """Whether an operand certainly reads a column, and is no row of several values."""
    found = False
    for i in tokens:
        word = text.words[i]
        if word in _KEYWORDS or (word not in _COMPUTING and not text.is_name(i)):
            return False
        if word == "," and text.words[tokens.start] == "(":
            return False
        found |= text.is_name(i) and word not in _NO_COLUMNS and text.words[i + 1] != "("
    return found


def _is_correlated(text: SqlText, tokens: range) -> bool:
    """Whether a subquery names a relation that is not its own."""
    words = text.words
    names = [i for i in tokens if text.is_name(i)]
    own = {text.name(i) for i in names if words[i + 1] != "."}
    return any(
        words[i + 1] == "." and words[i - 1] not in _BEFORE_RELATIONS and text.name(i) not in own
        for i in names
        if words[i - 1] != "."
    )


def _around(text: SqlText, subquery: range) -> list[int]:
    """The tokens around a subquery, without other subqueries."""
    found: list[int] = []
    i = 0
    while i < len(text.tokens):
        closing = text.closing(i) if text.words[i] == "(" else i
        is_subquery = closing > i and text.words[i + 1] in _SUBQUERIES
        if i == subquery.start or (is_subquery and not i <= subquery.start <= closing):
            i = closing
        else:
            found.append(i)
        i += 1
    return found


def _named(text: SqlText, relations: Collection[str], tokens: Collection[int]) -> set[str]:
    """Which relations stand among the tokens, other than as the qualifier of a column or under an alias."""
    return {
        name
        for i in tokens
        if text.is_name(i)
        and text.words[i + 1] != "."
        and not _has_alias(text, i)
        and (name := text.name(i)) in relations
    }


def _has_alias(text: SqlText, i: int) -> bool:
    following = text.words[i + 1]
    if text.words[i - 1] not in _BEFORE_RELATIONS:
        return False
    return following in {"AS", QUOTED} or (text.is_name(i + 1) and following not in _AFTER_RELATIONS)
