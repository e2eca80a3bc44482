"""Shows the operands that DataFusion's bindings hide: of FILTER, of orders in aggregates, of frames.

    SELECT count(*) FILTER (WHERE at > '2024-02-29') FROM t
->  SELECT count(CASE WHEN (at > '2024-02-29') THEN 1 END) FILTER (WHERE at > '2024-02-29') FROM t
    SELECT array_agg(id ORDER BY at DESC) FROM t
->  SELECT array_agg(CASE WHEN (at) IS NOT NULL THEN id END ORDER BY at DESC) FROM t
    sum(n) OVER (ORDER BY at RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW)
->  sum(n) OVER (ORDER BY at + INTERVAL '1 day' RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW)

The statement has the same types then, and is planned to look at what it computes. It is not run.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.sql.edits import Copy, Edit, Piece, apply_edits
from planner.sql.tokens import SqlText, tokenize

_BEHIND_KEYS = frozenset({"ASC", "DESC", "NULLS", ",", ")", "RANGE", "ROWS", "GROUPS"})
_BEHIND_ARGUMENTS = frozenset({",", "ORDER", "IGNORE", "RESPECT"})
_NULLS = frozenset({"IGNORE", "RESPECT"})
_NO_CALLS = frozenset(
    {"OVER", "IN", "AS", "FILTER", "GROUP", "WHERE", "AND", "OR", "NOT", "ON", "BY", "FROM"}
)
"""Words before brackets that are no names of functions."""


def show_hidden_operands(sql: str) -> str:
    """Return a statement whose plan shows all that it computes; the same where nothing is hidden."""
    text = tokenize(sql)
    places = range(len(text.tokens))
    edits = [edit for i in places for edit in (*_show_operands(text, i), *_show_bounds(text, i))]
    return apply_edits(sql, edits) if edits else sql


def _show_operands(text: SqlText, i: int) -> Iterator[Edit]:
    """Yield what stands around the call of a function whose name is a token."""
    words = (*text.words, "", "", "", "")
    if (
        words[i + 1] != "("
        or not text.is_name(i)
        or words[i] in _NO_CALLS
        or words[i + 2] in {"SELECT", "WITH"}
    ):
        return
    last = text.closing(i + 1)
    conditions: list[str] = []
    keys = list(_find_keys(text, i + 1))
    argument = _find_argument(text, i + 1)
    while True:
        if words[last + 1] == "WITHIN" and words[last + 3] == "(":
            within = list(_find_keys(text, last + 3))
            keys += within
            argument = within[0] if within else argument
            last = text.closing(last + 3)
        elif words[last + 1] == "FILTER" and words[last + 2 : last + 4] == ("(", "WHERE"):
            closing = text.closing(last + 2)
            conditions.append(f"({text.sql[text.start(last + 4) : text.end(closing - 1)]})")
            last = closing
        elif words[last + 1] in _NULLS:
            last += 2
        else:
            break
    conditions += [
        f"({text.sql[text.start(key.start) : text.end(key.stop - 1)]}) IS NOT NULL" for key in keys
    ]
    if not conditions or not argument:
        return
    begin, end = text.start(argument.start), text.end(argument.stop - 1)
    before = f"CASE WHEN {' AND '.join(conditions)} THEN "
    if words[argument.start] == "*":
        yield Edit.replace(begin, end, f"{before}1 END")
    else:
        yield Edit.insert(begin, before)
        yield Edit.insert(end, " END")


def _find_argument(text: SqlText, opening: int) -> range:
    """Return the tokens of the first argument of a call; an empty range if it has none."""
    words = text.words
    first = opening + 1 + (words[opening + 1] in {"DISTINCT", "ALL"})
    end = next((k for k in text.level(first) if words[k] in _BEHIND_ARGUMENTS), text.closing(opening))
    return range(first, end)


def _show_bounds(text: SqlText, i: int) -> Iterator[Edit]:
    """Yield the intervals of a RANGE, added to the order of the window whose bracket is a token."""
    if text.words[i] != "(":
        return
    own = list(text.level(i + 1))
    frame = next((k for k in own if text.words[k] == "RANGE"), None)
    order = next((k for k in own if text.words[k] == "ORDER"), None)
    if frame is None or order is None or order > frame:
        return
    key = next(iter(_find_keys(text, i)), None)
    if key is None:
        return
    for k in own:
        if k > frame and text.words[k] == "INTERVAL":
            end = next(j for j in own if j > k and text.words[j] in {"PRECEDING", "FOLLOWING"})
            place = text.end(key.stop - 1)
            interval = Copy(text.start(k), text.end(end - 1))
            yield Edit(place, place, [Piece(" + ", place, verbatim=False), interval])


def _find_keys(text: SqlText, opening: int) -> Iterator[range]:
    """Yield the tokens of each key of an ORDER BY that stands in a bracket."""
    words, is_ordered, first = text.words, False, -1
    for i in (*text.level(opening + 1), text.closing(opening)):
        if words[i] == "ORDER" and words[i + 1] == "BY":
            is_ordered, first = True, i + 2
        elif 0 <= first < i and words[i] in _BEHIND_KEYS:
            yield range(first, i)
            first = -1
        if is_ordered and words[i] == ",":
            first = i + 1
