"""min(), max() and count() in words that DataFusion gets right.

    SELECT k, max(f) FROM t GROUP BY k
->  SELECT k, coalesce(
        max(CASE WHEN isnan(f) THEN f END), max(CASE WHEN f > CAST('-inf' AS DOUBLE) THEN f END),
        min(CASE WHEN NOT isnan(f) THEN f END)
    ) FROM t GROUP BY k
    SELECT count(*) OVER (PARTITION BY k ORDER BY id ROWS 2 PRECEDING) AS n FROM t ORDER BY n
->  SELECT nullif(count(*) OVER (PARTITION BY k ORDER BY id ROWS 2 PRECEDING), NULL) AS n FROM t ORDER BY n

In DataFusion 55 NaN replaces every extreme of a group and is replaced by everything, so that they depend on
the order of the rows. It is the greatest number here, as in comparisons and in sorting. An extreme of a group
begins with the greatest or smallest finite number, which stays where nothing but infinity follows; the other
extreme is right there. What counts the rows of a frame that leaves rows behind is taken for what only grows,
and not sorted: of a call, nothing is known.

All are mends: the columns keep the names that the text gives them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise

from planner.sql.edits import Copy, Edit, Piece, apply_edits
from planner.sql.tokens import SqlText, tokenize

_EXTREMES = frozenset({"MIN", "MAX"})
_FRAMES = frozenset({"ROWS", "RANGE", "GROUPS"})
_MENDED = re.compile(r"isnan\(|inf' AS DOUBLE\)")
_ARITHMETIC = frozenset({"+", "-", "*", "/", "(", ")", ".", "0"})


def mended_extremes(
    text: SqlText, numbers: Callable[[], tuple[Collection[str], Collection[str]]]
) -> Iterator[Edit]:
    """Yields what stands in place of the ends of such calls.

    Args:
        text: the statement.
        numbers: tells the names of columns that are numbers in all tables, and those with NaN among them.
    """
    words = text.words
    for i, word in enumerate(words[:-1]):
        if word not in {*_EXTREMES, "COUNT"} or words[i + 1] != "(" or words[i - 1] == ".":
            continue
        last = text.closing(i + 1)
        if words[last + 1] == "FILTER" and words[last + 2] == "(":
            last = text.closing(last + 2)
        if words[last + 1] == "OVER":
            named = words[last + 2] != "("
            end = last + 2 if named else text.closing(last + 2)
            if word == "COUNT" and _moves(words if named else words[last + 2 : end]):
                yield from _unordered(text, i, end)
        elif (
            word in _EXTREMES
            and "GROUP" in words
            and _is_number(text, range(i + 2, text.closing(i + 1)), *numbers())
        ):
            yield from _of_groups(text, i, last)


def ordered_extremes(sql: str) -> str:
    """Return a statement in which sorting finds the extremes of groups, slowly, whatever their types.

        SELECT k, max(abs(f)) FROM t GROUP BY k
    ->  SELECT k, first_value(abs(f) ORDER BY abs(f) DESC NULLS LAST) FROM t GROUP BY k

    Args:
        sql: its text, with `mended_extremes` applied.
    """
    return apply_edits(sql, _ordered(tokenize(sql)))


def _ordered(text: SqlText) -> Iterator[Edit]:
    words = text.words
    for i, word in enumerate(words[:-1]):
        if word not in _EXTREMES or words[i + 1] != "(" or words[i - 1] == ".":
            continue
        closing = text.closing(i + 1)
        last = text.closing(closing + 2) if words[closing + 1] == "FILTER" else closing
        begin, end = text.end(i + 1), text.start(closing)
        if words[last + 1] == "OVER" or _MENDED.search(text.sql, begin, end):
            continue
        if not any(map(text.is_name, range(i + 2, closing))):
            continue  # a constant: as an order, it would be the number of a column
        first = i + 3 if words[i + 2] in {"DISTINCT", "ALL"} else i + 2
        yield Edit.replace(text.start(i), text.end(i), "first_value")
        direction = " DESC" if word == "MAX" else ""
        before = Piece(" ORDER BY ", end, verbatim=False)
        behind = Piece(f"{direction} NULLS LAST", end, verbatim=False)
        yield Edit(end, end, [before, Copy(text.start(first), end), behind])


def _moves(words: Collection[str]) -> bool:
    """Whether the beginning of a frame among some words leaves rows behind."""
    said = (word for word in words if word != "BETWEEN")
    return any(one in _FRAMES and then != "UNBOUNDED" for one, then in pairwise(said))


def _is_number(text: SqlText, tokens: range, numbers: Collection[str], with_nan: Collection[str]) -> bool:
    """Whether an argument is computed from columns that are certainly numbers, and may be NaN."""
    words = text.words
    names = [i for i in tokens if text.is_name(i)]
    columns = {text.name(i) for i in names if words[i + 1] != "."}
    return (
        all(words[i] in _ARITHMETIC or text.is_name(i) for i in tokens)
        and not any(words[i + 1] == "(" for i in names)
        and columns <= set(numbers)
        and not columns.isdisjoint(with_nan)
    )


def _of_groups(text: SqlText, function: int, last: int) -> Iterator[Edit]:
    opening, closing = function + 1, text.closing(function + 1)
    begin = text.start(function)
    argument = Copy(text.end(opening), text.start(closing), mend=True)
    is_filtered = last != closing
    ends: list[str | Copy] = (
        [" ", Copy(text.end(closing), text.start(last), mend=True), ")"] if is_filtered else []
    )
    called = Piece(text.sql[begin : text.end(function)], begin, verbatim=True)
    if text.words[function] == "MAX":
        before: list[str | Copy] = [
            "coalesce(max(CASE WHEN isnan(",
            argument,
            ") THEN ",
            argument,
            " END)",
            *ends,
            ", ",
        ]
        finite, after = (
            " > CAST('-inf' AS DOUBLE)",
            [", min(CASE WHEN NOT isnan(", argument, ") THEN ", argument, " END)", *ends, ")"],
        )
    else:
        before = ["coalesce("]
        finite = " < CAST('inf' AS DOUBLE)"
        after = [", max(CASE WHEN NOT isnan(", argument, ") THEN ", argument, " END)", *ends]
        after += [", min(CASE WHEN isnan(", argument, ") THEN ", argument, " END)", *ends, ")"]
    yield Edit(begin, text.end(function), [*_mends(before, begin), called])
    yield from _around(text, opening, [], ["CASE WHEN (", argument, f"){finite} THEN "])
    yield from _around(text, closing, [" END"], [] if is_filtered else after)
    if is_filtered:
        yield from _around(text, last, [], after)


def _around(text: SqlText, token: int, before: list[str | Copy], after: list[str | Copy]) -> Iterator[Edit]:
    """Yields an edit that leaves a token what it is."""
    begin, end = text.start(token), text.end(token)
    kept = Piece(text.sql[begin:end], begin, verbatim=True)
    yield Edit(begin, end, [*_mends(before, begin), kept, *_mends(after, begin)])


def _unordered(text: SqlText, function: int, last: int) -> Iterator[Edit]:
    begin, end = text.start(function), text.end(function)
    yield Edit(begin, end, [*_mends(["nullif("], begin), Piece(text.sql[begin:end], begin, verbatim=True)])
    begin, end = text.start(last), text.end(last)
    yield Edit(begin, end, [Piece(text.sql[begin:end], begin, verbatim=True), *_mends([", NULL)"], begin)])


def _mends(texts: list[str | Copy], origin: int) -> list[Piece | Copy]:
    return [
        Piece(text, origin, verbatim=False, mend=True) if isinstance(text, str) else text for text in texts
    ]
