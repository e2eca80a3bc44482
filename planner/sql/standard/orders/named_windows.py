"""Writes out windows that begin with the name of another one, which DataFusion ignores.

    SELECT sum(n) OVER (w ORDER BY id) FROM t WINDOW w AS (PARTITION BY k)
->  SELECT sum(n) OVER (PARTITION BY k ORDER BY id) FROM t WINDOW w AS (PARTITION BY k)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.sql.edits import Copy, Edit
from planner.sql.tokens import SqlText

_PARTS = frozenset({"PARTITION", "ORDER", "ROWS", "RANGE", "GROUPS"})
_FRAMES = frozenset({"ROWS", "RANGE", "GROUPS"})
_SET_OPERATIONS = frozenset({"UNION", "INTERSECT", "EXCEPT", "MINUS"})


@dataclass(frozen=True, slots=True)
class _Window:
    """A window of a WINDOW clause.

    Attributes:
        name: of the window.
        opening: token of the bracket of its definition.
        scope: the tokens of its SELECT.
    """

    name: str
    opening: int
    scope: range


def expand_windows(text: SqlText) -> Iterator[Edit]:
    """Yield edits that put definitions in the places of names.

    Raises:
        InvalidInputError: a window of that name is not there, or has what must not be added to.
    """
    words = text.words
    openings = [i + 1 for i, word in enumerate(words) if word == "OVER" and words[i + 1] == "("]
    if not any(_begins_with_name(text, opening) for opening in openings) and "WINDOW" not in words:
        return
    windows = _find_windows(text)
    for opening in (*openings, *(window.opening for window in windows)):
        if _begins_with_name(text, opening):
            base = _find_base(text, opening, windows)
            _check_additions(text, opening, base, windows)
            first, last = base.opening + 1, text.closing(base.opening)
            body = [Copy(text.start(first), text.end(last - 1))] if last > first else []
            yield Edit(text.start(opening + 1), text.end(opening + 1), body)


def _begins_with_name(text: SqlText, opening: int) -> bool:
    return text.is_name(opening + 1) and text.words[opening + 1] not in _PARTS


def _find_windows(text: SqlText) -> Sequence[_Window]:
    """Return the windows of all WINDOW clauses, in the order of the text."""
    words = text.words
    found = []
    for i, word in enumerate(words):
        if word != "WINDOW" or words[i - 1] == ".":
            continue
        at, scope = i + 1, _find_scope(text, i)
        while text.is_name(at) and words[at + 1] == "AS" and words[at + 2] == "(":
            found.append(_Window(text.name(at), at + 2, scope))
            at = text.closing(at + 2) + 1
            if words[at] != ",":
                break
            at += 1
    return found


def _find_scope(text: SqlText, at: int) -> range:
    """Return the tokens of the SELECT that a clause belongs to."""
    words = text.words
    depth, first = 0, at
    while first > 0:
        word = words[first - 1]
        depth += (word == ")") - (word == "(")
        if depth < 0 or (depth == 0 and word in _SET_OPERATIONS):
            break
        first -= 1
    last = at
    for last in text.level(at):
        if words[last] in _SET_OPERATIONS:
            break
    return range(first, last + 1)


def _find_base(text: SqlText, opening: int, windows: Sequence[_Window]) -> _Window:
    name = text.name(opening + 1)
    bases = [
        window
        for window in windows
        if window.name == name and opening in window.scope and window.opening != opening
    ]
    own = next((window for window in windows if window.opening == opening), None)
    if own is not None:
        # A definition may use those before it.
        bases = [window for window in bases if window.opening < opening]
    if not bases:
        raise text.error(opening + 1, f"There is no window {name!r}; it is named")
    return min(bases, key=lambda window: len(window.scope))


def _check_additions(text: SqlText, opening: int, base: _Window, windows: Sequence[_Window]) -> None:
    own = {text.words[i] for i in text.level(opening + 2)}
    inherited: set[str] = set()
    window: _Window | None = base
    while window is not None:
        inherited |= {text.words[i] for i in text.level(window.opening + 1)}
        is_named = _begins_with_name(text, window.opening)
        window = _find_base(text, window.opening, windows) if is_named else None
    what = ""
    if "PARTITION" in own:
        what = "its own PARTITION BY"
    elif "ORDER" in own and "ORDER" in inherited:
        what = "a second ORDER BY"
    elif own and not inherited.isdisjoint(_FRAMES):
        what = "more than its name, since it has a frame"
    if what:
        raise text.error(opening + 1, f"A window that begins with {base.name!r} can't have {what}; it stands")
