"""Rewrites comparisons with ANY and ALL rows of a subquery, and memberships, that DataFusion gets wrong.

    SELECT id FROM orders WHERE n = ANY (SELECT n FROM orders)
->  SELECT id FROM orders WHERE n IN (SELECT n FROM orders)
    SELECT id FROM orders WHERE n NOT IN (SELECT n FROM items) AND n > 1
->  SELECT id FROM orders WHERE nullif(nullif(n, NULL), NULL) NOT IN (SELECT n FROM items) AND n > 1
    SELECT id FROM orders WHERE n NOT IN (SELECT n FROM items) OR id = 1
->  SELECT id FROM orders WHERE CASE WHEN n IN (SELECT n FROM items) THEN FALSE ELSE CASE (
        SELECT CASE WHEN count(*) = 0 THEN 0 WHEN count(*) = count(n) THEN 1 ELSE 2 END FROM items
    ) WHEN 0 THEN TRUE WHEN 1 THEN CASE WHEN n IS NOT NULL THEN TRUE END END END OR id = 1
    SELECT id FROM orders WHERE n IN (SELECT count(*) FROM items WHERE items.id = orders.id)
->  SELECT id FROM orders WHERE n = (SELECT count(*) FROM items WHERE items.id = orders.id)
    SELECT id FROM orders WHERE n >= ALL (SELECT n FROM orders)
->  SELECT id FROM orders WHERE n >= ALL (SELECT * FROM (SELECT n FROM orders) AS "quantified#1")
    SELECT id FROM orders WHERE 7 IN (SELECT id FROM items WHERE id = 7)
->  SELECT id FROM orders WHERE CASE WHEN random() < 2 THEN 7 END IN (SELECT id FROM items WHERE id = 7)

DataFusion 55 plans membership as a join that gives true or false, never NULL, which is correct if only true
matters. NOT IN as a conjunct is a null-aware anti join, but conditions on the column `n` are pushed into the
subquery, where they drop NULL, and NULLs of the subquery are ignored if `n` is not nullable. A nullable
expression in place of the column prevents both. In other positions, the join finds the members, and the value
for other rows follows from whether the subquery has rows and NULLs. This reads the subquery twice, so it must
be repeatable and not correlated. Otherwise, a comparison with ALL or ANY is correct, but slower, since it
compares every pair of rows. A constant as a member becomes a condition of the subquery, which DataFusion
combines wrongly with others there (see `planner.sql.rules.constant_sides`), unless its value may change. What
totals have for no rows would be lost in a join: they are values.

These comparisons are joins that keep names: if the subquery reads a relation with the name of an outer one,
`orders.n >= orders.n` would compare a column with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import Enum

from memwal.errors import UnsupportedError
from memwal.transforms.determinism import has_unstable_call
from planner.sql.edits import Copy, Edit, Piece
from planner.sql.rewrites.scalar_subqueries import (
    find_condition_of_one_row,
    is_in_value_list,
    is_quantified,
)
from planner.sql.rewrites.truth_position import TruthPosition, find_subject_start, find_truth_position
from planner.sql.tokens import QUOTED, STRING, PlacedMessage, SqlText

_SUBQUERIES = frozenset({"SELECT", "WITH"})
_ANY = frozenset({"ANY", "SOME"})
_UNEQUAL = frozenset({"<>", "!="})
_COMPARISONS = _UNEQUAL | {"=", "<", ">", "<=", ">="}
_COMPUTING = frozenset({"+", "-", "*", "/", "%", "||", "(", ")", ",", ".", "0", STRING, QUOTED})
_NO_COLUMNS = frozenset({"NULL", "TRUE", "FALSE", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP"})
_KEYWORDS = frozenset({"AS", "FROM", "IN", "CASE", "DATE", "TIME", "TIMESTAMP", "INTERVAL", "AT", "FOR"})
"""Words of operands in which some names are not columns."""
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
_REPEATABLE = frozenset(
    {
        "SELECT",
        "DISTINCT",
        "FROM",
        "WHERE",
        "AND",
        "OR",
        "NOT",
        "IS",
        "NULL",
        "TRUE",
        "FALSE",
        "IN",
        "BETWEEN",
    }
    | {"LIKE", "ILIKE", "AS", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "ON", "GROUP", "BY"}
    | {"HAVING", "CASE", "WHEN", "THEN", "ELSE", "END", "DATE", "TIMESTAMP", "INTERVAL", "BIGINT", "INT"}
    | {"DOUBLE", "VARCHAR"}
)
"""Words other than names that a repeatable subquery may have."""
_COUNTS = "CASE WHEN count(*) = 0 THEN 0 WHEN count(*) = count(member) THEN 1 ELSE 2 END"
_MEMBERS = ' AS "membership"(member)'
_CONJUNCTS = frozenset({TruthPosition.CONJUNCT, TruthPosition.DENIED_CONJUNCT})


_CONSTANT_WORDS = frozenset(
    {"NULL", "TRUE", "FALSE", "DATE", "TIME", "TIMESTAMP", "INTERVAL", "CASE", "WHEN", "THEN", "ELSE", "END"}
    | {"AND", "OR", "NOT", "IS", "AT", "ZONE", "WITH", "WITHOUT", "CURRENT_DATE", "CURRENT_TIME"}
    | {"CURRENT_TIMESTAMP", "DOUBLE", "PRECISION", "AS"}
)


class _Plan(Enum):
    """How a membership is written."""

    JOIN = "with IN"
    NULL_AWARE_JOIN = "with IN, of an operand that is no column"
    COUNTED = "with IN, and with counts of the subquery's rows and NULLs"
    COMPARISON = "with ANY or ALL"


@dataclass(frozen=True, slots=True)
class _Membership:
    """Tokens `first` to `last` are IN, NOT IN, = ANY or <> ALL; a subquery in brackets follows."""

    first: int
    last: int
    is_denied: bool

    @property
    def opening(self) -> int:
        return self.last + 1


def rewrite_quantified_comparisons(
    text: SqlText, relations: Collection[str], columns: Callable[[range], Collection[str]]
) -> Iterator[Edit]:
    """Yield edits of quantified comparisons and memberships.

    Args:
        text: the statement.
        relations: its tables and aliases.
        columns: returns the names of the tables that are read among some tokens, and their columns.
    """
    words = text.words
    number = 0
    for i, word in enumerate(words[:-2]):
        if words[i + 1] != "(" or words[i + 2] not in _SUBQUERIES:
            continue
        membership = _find_membership(words, i)
        condition = find_condition_of_one_row(text, i + 1) if is_quantified(words, i + 1) else None
        if condition:
            msg = "HAVING without GROUP BY below IN, ANY and ALL is not offered: write x = (SELECT ..)"
            raise UnsupportedError(PlacedMessage(text.sql, text.start(i), msg))
        if condition is not None:
            yield from _compare_with_value(text, membership, i)
            continue
        if membership is not None:
            subject = find_subject_start(text, membership.first - 1)
            plan = _choose_plan(text, membership, subject, columns)
            yield from _rewrite_membership(text, membership, subject, plan)
            if plan is not _Plan.COMPARISON:
                continue
        elif (word not in _ANY and word != "ALL") or words[i - 1] not in _COMPARISONS:
            continue
        opening, closing = i + 1, text.closing(i + 1)
        inside = range(opening, closing)
        if _find_relations(text, relations, inside) & _find_relations(
            text, relations, _tokens_around(text, inside)
        ):
            number += 1
            begin, end = text.end(opening), text.start(closing)
            yield Edit.insert(begin, "SELECT * FROM (")
            # The line break ends a comment at the end of the subquery.
            yield Edit.insert(end, f'\n) AS "quantified#{number}"')


def _compare_with_value(text: SqlText, membership: _Membership | None, i: int) -> Iterator[Edit]:
    """Yield what makes a comparison with one row, whose last word is token `i`, one with its value."""
    if membership is None:
        yield Edit.replace(text.start(i), text.end(i), " ")
    else:
        operator = " <> " if membership.is_denied else " = "
        yield Edit.replace(text.start(membership.first), text.end(membership.last), operator)


def _find_membership(words: tuple[str, ...], i: int) -> _Membership | None:
    """Return the membership whose last word is token `i`, or None."""
    if words[i] == "IN":
        is_denied = words[i - 1] == "NOT"
        return _Membership(i - is_denied, i, is_denied)
    if words[i] in _ANY and words[i - 1] == "=":
        return _Membership(i - 1, i, is_denied=False)
    if words[i] == "ALL" and words[i - 1] in _UNEQUAL:
        return _Membership(i - 1, i, is_denied=True)
    return None


def _choose_plan(
    text: SqlText, membership: _Membership, subject: int, columns: Callable[[range], Collection[str]]
) -> _Plan:
    closing = text.closing(membership.opening)
    position = find_truth_position(text, subject, closing)
    if position is TruthPosition.OUTPUT:
        return _Plan.JOIN
    is_false_wanted = position in {TruthPosition.FALSE, TruthPosition.DENIED_CONJUNCT}
    if position is not TruthPosition.VALUE and membership.is_denied == is_false_wanted:
        return _Plan.JOIN
    subquery = range(membership.opening, closing)
    if not _reads_columns(text, range(subject, membership.first)) or _is_correlated(text, subquery):
        return _Plan.COMPARISON
    if position in _CONJUNCTS:
        return _Plan.NULL_AWARE_JOIN
    return _Plan.COUNTED if _is_repeatable(text, subquery, columns(subquery)) else _Plan.COMPARISON


def _rewrite_membership(text: SqlText, membership: _Membership, subject: int, plan: _Plan) -> Iterator[Edit]:
    """Yield the edits that write a membership by a plan."""
    first, last = text.start(membership.first), text.end(membership.last)
    if plan is _Plan.COMPARISON:
        operator = "<> ALL" if membership.is_denied else "= ANY"
    else:
        operator = "NOT IN" if membership.is_denied else "IN"
    begin, end = text.start(subject), text.end(membership.first - 1)
    if plan is _Plan.COUNTED:
        hit, miss = ("FALSE", "TRUE") if membership.is_denied else ("TRUE", "FALSE")
        opening, closing = text.start(membership.opening), text.end(text.closing(membership.opening))
        yield Edit.insert(begin, "CASE WHEN ")
        # The column gets a name, since DataFusion confuses computed columns without one.
        yield Edit.replace(first, last, " IN (SELECT member FROM ")
        after: list[str | Copy] = [
            f"{_MEMBERS}) THEN {hit} ELSE CASE (SELECT {_COUNTS} FROM ",  # noqa: S608 - no values
            Copy(opening, closing),
            f"{_MEMBERS}) WHEN 0 THEN {miss} WHEN 1 THEN CASE WHEN (",
            Copy(begin, end),
            f") IS NOT NULL THEN {miss} END END END",
        ]
        pieces = [Piece(part, closing, verbatim=False) if isinstance(part, str) else part for part in after]
        yield Edit(closing, closing, pieces)
        return
    if plan is _Plan.NULL_AWARE_JOIN:
        yield from Edit.wrap(begin, end, "nullif(nullif(", ", NULL), NULL)")
    elif plan is _Plan.JOIN and _reads_no_columns(text, range(subject, membership.first)):
        yield from Edit.wrap(begin, end, "CASE WHEN random() < 2 THEN ", " END")
    if text.words[membership.first : membership.last + 1] != tuple(operator.split()):
        yield Edit.replace(first, last, f" {operator} ")


def _reads_columns(text: SqlText, tokens: range) -> bool:
    """Return whether an operand certainly reads a column, and is no row of several values."""
    has_column = False
    for i in tokens:
        word = text.words[i]
        if word in _KEYWORDS or (word not in _COMPUTING and not text.is_name(i)):
            return False
        if word == "," and text.words[tokens.start] == "(":
            return False
        has_column |= text.is_name(i) and word not in _NO_COLUMNS and text.words[i + 1] != "("
    return has_column


def _is_correlated(text: SqlText, tokens: range) -> bool:
    """Return whether a subquery names a relation of an outer query."""
    words = text.words
    names = [i for i in tokens if text.is_name(i)]
    own = {text.name(i) for i in names if words[i + 1] != "."}
    return any(
        text.name(i) not in own and _is_qualified_column(text, i + 2)
        for i in names
        if words[i + 1] == "." and words[i - 1] != "."
    )


def _is_repeatable(text: SqlText, tokens: range, known: Collection[str]) -> bool:
    """Return whether a subquery is one SELECT that certainly gives the same rows whenever it is read.

    Args:
        text: the statement.
        tokens: the subquery.
        known: names of the tables and columns that it reads.
    """
    words = text.words
    if sum(words[i] in _SUBQUERIES for i in tokens) != 1 or has_unstable_call(words[i] for i in tokens):
        return False
    return all(
        words[i] in _REPEATABLE
        or text.name(i) in known
        or words[i - 1] in {".", "AS"}
        or words[i + 1] in {"(", "."}
        for i in tokens
        if text.is_name(i)
    )


def _tokens_around(text: SqlText, subquery: range) -> list[int]:
    """Return the tokens around a subquery, without other subqueries."""
    tokens: list[int] = []
    i = 0
    while i < len(text.tokens):
        closing = text.closing(i) if text.words[i] == "(" else i
        is_subquery = closing > i and text.words[i + 1] in _SUBQUERIES
        if i == subquery.start or (is_subquery and not i <= subquery.start <= closing):
            i = closing
        else:
            tokens.append(i)
        i += 1
    return tokens


def _find_relations(text: SqlText, relations: Collection[str], tokens: Collection[int]) -> set[str]:
    """Return the relations among the tokens, except qualifiers of columns and relations with an alias."""
    return {
        name
        for i in tokens
        if text.is_name(i)
        and text.words[i + 1] != "."
        and not _is_qualified_column(text, i)
        and not _has_alias(text, i)
        and (name := text.name(i)) in relations
    }


def _is_qualified_column(text: SqlText, i: int) -> bool:
    """Return whether a name is certainly that of a column, as in `t.n`, and not of `schema.table`."""
    words, first = text.words, i
    while words[first - 1] == "." and first > 1:
        first -= 2
    before = words[first - 1]
    if before == ",":
        is_column = is_in_value_list(text, first - 1)
    else:
        is_column = before not in _BEFORE_RELATIONS or words[first - 2] == "DISTINCT"
    return first < i and is_column


def _has_alias(text: SqlText, i: int) -> bool:
    following = text.words[i + 1]
    if text.words[i - 1] not in _BEFORE_RELATIONS:
        return False
    return following in {"AS", QUOTED} or (text.is_name(i + 1) and following not in _AFTER_RELATIONS)


def _reads_no_columns(text: SqlText, tokens: range) -> bool:
    """Return whether an operand is made of constants alone, as far as its words tell."""
    words = text.words
    if any(words[i] in {"SELECT", "WITH", "OVER"} and words[i - 1] == "(" for i in tokens):
        return False
    return all(not text.is_name(i) or _is_no_column(text, i) for i in tokens)


def _is_no_column(text: SqlText, i: int) -> bool:
    """Return whether a name is certainly that of a function or of a type, or a word of an expression."""
    words = text.words
    if words[i - 1] == "." or words[i + 1] == ".":
        return False
    is_type = words[i - 1] in {"AS", "::"}
    return words[i + 1] == "(" or is_type or (words[i] in _CONSTANT_WORDS and words[i] != QUOTED)
