"""Hides from DataFusion 55 that two aggregates of one query have opposite orders.

    SELECT array_agg(DISTINCT a ORDER BY a), array_agg(DISTINCT a ORDER BY a DESC)
->  SELECT array_agg(DISTINCT a ORDER BY a), array_agg(DISTINCT nullif(a, NULL) ORDER BY nullif(a, NULL) DESC)

It sorts the rows once, and lets the second one read them backwards. Where only distinct ones count, both then
have the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from planner.sql.edits import Edit
from planner.sql.standard.query_bodies import split
from planner.sql.standard.spellings.calls import Call, find_calls
from planner.sql.standard.spellings.results import is_result
from planner.sql.tokens import SqlText, quote

_AGGREGATES: Final = frozenset({"ARRAY_AGG", "STRING_AGG", "LISTAGG"})


def hide_falling_keys(text: SqlText) -> Iterator[Edit]:
    """Yield edits that hide the keys by which aggregates order rows downwards, if several have an order."""
    ordered = [(call, keys) for call in find_calls(text, _AGGREGATES) if (keys := _find_keys(call))]
    if len(ordered) < 2 or not any(text.words[call.at + 2] == "DISTINCT" for call, _ in ordered):
        return
    for call, keys in ordered:
        hidden = [edit for values in _find_falling(call, keys) for edit in _hide(text, values)]
        yield from hidden
        if hidden and is_result(text, call.at, call.closing):
            yield Edit.insert(text.end(call.closing), f" AS {quote(call.name)}")


def _find_keys(call: Call) -> Sequence[range]:
    """Return the keys of an aggregate's order, in its brackets or in those of WITHIN GROUP; () for none."""
    text, words = call.text, call.text.words
    first, closing = call.at + 2, call.closing
    if words[closing + 1 : closing + 4] == ("WITHIN", "GROUP", "("):
        first, closing = closing + 4, text.closing(closing + 3)
    for at in text.level(first):
        if words[at : at + 2] == ("ORDER", "BY"):
            return tuple(split(text, range(at + 2, closing)))
    return ()


def _find_falling(call: Call, keys: Sequence[range]) -> Iterator[range]:
    """Yield the values of keys that order downwards, and the same value where its distinct ones count."""
    text, words = call.text, call.text.words
    falling = []
    for key in keys:
        ends = (at for at in text.level(key.start) if at in key and words[at] == "DESC")
        if end := next(ends, 0):
            falling.append(range(key.start, end))
    yield from falling
    if words[call.at + 2] == "DISTINCT":
        ends = (at for at in text.level(call.at + 3) if words[at] in {",", "ORDER"})
        value = range(call.at + 3, next(ends, call.closing))
        spelled = words[value.start : value.stop]
        if any(words[key.start : key.stop] == spelled for key in falling):
            yield value


def _hide(text: SqlText, value: range) -> tuple[Edit, Edit]:
    return Edit.wrap(text.start(value.start), text.end(value.stop - 1), "nullif(", ", NULL)", mend=True)
