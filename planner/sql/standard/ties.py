"""Keeps the rows that tie with the last one of FETCH FIRST n ROWS WITH TIES, which DataFusion lacks.

    SELECT id, n FROM t ORDER BY n DESC OFFSET 2 ROWS FETCH FIRST 3 ROWS WITH TIES
->  SELECT id, n FROM t QUALIFY rank() OVER (ORDER BY n DESC) <= 3 + 2 ORDER BY n DESC OFFSET 2 ROWS
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memwal.errors import UnsupportedError
from planner.sql.tokens import QUOTED, STRING, Copy, Edit, Piece, SqlText, at_position

_SET_OPERATIONS = frozenset({"UNION", "INTERSECT", "EXCEPT", "MINUS"})
_DIRECTIONS = frozenset({"ASC", "DESC", "NULLS"})
_ROWS = frozenset({"ROW", "ROWS"})
_ENDS = frozenset({"OFFSET", "LIMIT", "FETCH"})
_OPENERS = frozenset({"(", "[", "{", "CASE"})
_CLOSERS = frozenset({")", "]", "}", "END"})


def keep_ties(text: SqlText) -> Iterator[Edit]:
    """Yield edits that keep rows by their rank.

    Raises:
        InvalidInputError: there is no ORDER BY.
        UnsupportedError: the ranks of the rows can't be written there.
    """
    words = text.words
    for i, word in enumerate(words):
        if word == "FETCH" and words[i + 1] in {"FIRST", "NEXT"}:
            last = _find_end(text, i)
            if words[last - 1 : last + 1] == ("WITH", "TIES"):
                yield from _rank(text, i, last)


def _find_end(text: SqlText, fetch: int) -> int:
    """Return the token TIES or ONLY of a FETCH clause."""
    for at in text.level(fetch):
        if text.words[at] in {"TIES", "ONLY"}:
            return at
    return fetch


def _rank(text: SqlText, fetch: int, last: int) -> Iterator[Edit]:
    words = text.words
    order = select = -1
    depth = 0
    offset: range | None = None
    for at in range(fetch - 1, -1, -1):
        word = words[at]
        depth += (word in _CLOSERS) - (word in _OPENERS)
        if depth < 0:
            break
        if depth or words[at - 1] == ".":
            continue
        if word in _SET_OPERATIONS or word in {"QUALIFY", "LIMIT"}:
            raise _refusal(text, fetch, f"FETCH WITH TIES behind {word}")
        if word == "OFFSET":
            offset = range(at + 1, fetch - (words[fetch - 1] in _ROWS))
        if word == "ORDER" and order < 0:
            order = at
        if word == "SELECT":
            select = at
            break
    if order < 0:
        raise text.error(fetch, "FETCH WITH TIES needs ORDER BY, which tells what ties; it stands")
    if select < 0 or words[select + 1] == "DISTINCT":
        raise _refusal(text, fetch, "FETCH WITH TIES of DISTINCT rows, or of no SELECT,")
    keys = [part for key in _split(text, order + 2) for part in _write_key(text, key, select)]
    count_end = last - 1 - (words[last - 2] in _ROWS)
    count = (
        [Copy(text.start(fetch + 2), text.end(count_end - 1))]
        if count_end > fetch + 2
        else [_say(text, fetch, "1")]
    )
    pieces = [
        _say(text, order, "QUALIFY rank() OVER (ORDER BY "),
        *keys[:-1],
        _say(text, order, ") <= "),
        *count,
    ]
    if offset is not None:
        pieces += [_say(text, order, " + "), Copy(text.start(offset.start), text.end(offset.stop - 1))]
    yield Edit(text.start(order), text.start(order), [*pieces, _say(text, order, " ")])
    yield Edit.replace(text.start(fetch), text.end(last), "")


def _split(text: SqlText, first: int) -> Iterator[range]:
    """Yield the tokens between the commas of a list that ends before OFFSET, LIMIT, FETCH or FROM."""
    words = text.words
    depth, begin, at = 0, first, first
    while words[at]:
        word = words[at]
        if depth == 0 and (word in _ENDS or word == "FROM") and words[at - 1] != ".":
            break
        depth += (word in _OPENERS) - (word in _CLOSERS)
        if depth < 0:
            break
        if word == "," and depth == 0:
            yield range(begin, at)
            begin = at + 1
        at += 1
    yield range(begin, at)


def _write_key(text: SqlText, key: range, select: int) -> Sequence[Piece | Copy]:
    """Return the pieces of a sort key, and a comma; an output stands for its expression."""
    words = text.words
    end = key.stop
    while end - 1 > key.start and (words[end - 1] in _DIRECTIONS or words[end - 2] == "NULLS"):
        end -= 1
    meant = range(key.start, end)
    if len(meant) == 1:
        meant = _find_output(text, key.start, select) or meant
    pieces: list[Piece | Copy] = [Copy(text.start(meant.start), text.end(meant.stop - 1))]
    if end < key.stop:
        pieces += [_say(text, key.start, " "), Copy(text.start(end), text.end(key.stop - 1))]
    return [*pieces, _say(text, key.start, ", ")]


def _find_output(text: SqlText, key: int, select: int) -> range | None:
    """Return the expression of the output that a key of one token stands for; None if it is none."""
    words = text.words
    items = list(_split(text, select + 1 + (words[select + 1] == "ALL")))
    if words[key] == "0":
        number = int(text.tokens[key].text) if text.tokens[key].text.isdecimal() else 0
        if not 1 <= number <= len(items) or any(
            words[item.stop - 1] == "*" for item in items[:number] if item
        ):
            raise _refusal(text, key, "FETCH WITH TIES by the number of an output behind *")
        return _without_alias(text, items[number - 1])[0]
    for item in items:
        expression, alias = _without_alias(text, item)
        if alias == text.name(key):
            return expression
    return None


def _without_alias(text: SqlText, item: range) -> tuple[range, str | None]:
    """Return the expression of an output, and its alias."""
    words, last = text.words, item.stop - 1
    if len(item) > 2 and words[last - 1] == "AS":
        return range(item.start, last - 1), text.name(last)
    before = words[last - 1]
    is_alias = len(item) > 1 and text.is_name(last) and words[last] != "END"
    if is_alias and (before in {")", "]", "0", STRING, QUOTED, "END"} or text.is_name(last - 1)):
        return range(item.start, last), text.name(last)
    return item, None


def _say(text: SqlText, at: int, words: str) -> Piece:
    return Piece(words, text.start(at), verbatim=False)


def _refusal(text: SqlText, at: int, what: str) -> UnsupportedError:
    message = (
        f"{what} is not offered: rank the rows in a subquery, and keep those with rank() <= n; it stands"
    )
    return UnsupportedError(at_position(text.sql, text.start(at), message))
