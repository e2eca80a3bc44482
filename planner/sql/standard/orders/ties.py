"""Keeps the rows that tie with the last one of FETCH FIRST n ROWS WITH TIES, which DataFusion lacks.

    SELECT id, n FROM t ORDER BY n DESC OFFSET 2 ROWS FETCH FIRST 3 ROWS WITH TIES
->  SELECT id, n FROM t QUALIFY rank() OVER (ORDER BY n DESC) <= 3 + 2 ORDER BY n DESC OFFSET 2 ROWS
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memwal.errors import UnsupportedError
from planner.sql.edits import Copy, Edit, Piece
from planner.sql.standard.query_bodies import (
    QueryBody,
    find_bodies,
    find_outputs,
    find_sort_keys,
    split_alias,
)
from planner.sql.tokens import PlacedMessage, SqlText

_DIRECTIONS = frozenset({"ASC", "DESC", "NULLS"})
_ROWS = frozenset({"ROW", "ROWS"})


def keep_ties(text: SqlText) -> Iterator[Edit]:
    """Yield edits that keep rows by their rank.

    Raises:
        InvalidInputError: there is no ORDER BY.
        UnsupportedError: the ranks of the rows can't be written there.
    """
    for body in find_bodies(text):
        words = text.words[body.tail.start : body.tail.stop]
        if words[-2:] == ("WITH", "TIES") and "FETCH" in words:
            yield from _rank(text, body, body.tail.start + len(words) - 1 - words[::-1].index("FETCH"))


def _rank(text: SqlText, body: QueryBody, fetch: int) -> Iterator[Edit]:
    words, select = text.words, body.operands[0]
    if len(body.operands) > 1:
        raise _refusal(text, fetch, f"FETCH WITH TIES behind {body.operators[0].word}")
    keys = find_sort_keys(text, body.tail)
    if not keys:
        raise text.error(fetch, "FETCH WITH TIES needs ORDER BY, which tells what ties; it stands")
    if (
        words[select.start] != "SELECT"
        or words[select.start + 1] == "DISTINCT"
        or "QUALIFY" in _words(text, select)
    ):
        raise _refusal(text, fetch, "FETCH WITH TIES of DISTINCT rows, with QUALIFY, or of no SELECT,")
    outputs = find_outputs(text, select)
    written = [piece for key in keys for piece in _write_key(text, key, outputs)]
    order, last = body.tail.start, body.tail.stop - 1
    # FETCH FIRST [n] ROWS WITH TIES
    pieces = [
        _say(text, order, "QUALIFY rank() OVER (ORDER BY "),
        *written[:-1],
        _say(text, order, ") <= "),
        *(_copy(text, range(fetch + 2, last - 2)) or [_say(text, order, "1")]),
    ]
    if words[keys[-1].stop] == "OFFSET":
        skipped = range(keys[-1].stop + 1, fetch - (words[fetch - 1] in _ROWS))
        pieces += [_say(text, order, " + "), *_copy(text, skipped)]
    yield Edit(text.start(order), text.start(order), [*pieces, _say(text, order, " ")])
    yield Edit.replace(text.start(fetch), text.end(last), "")


def _words(text: SqlText, tokens: range) -> Sequence[str]:
    return text.words[tokens.start : tokens.stop]


def _write_key(text: SqlText, key: range, outputs: Sequence[range]) -> Sequence[Piece | Copy]:
    """Return the pieces of a sort key, and a comma; an output stands for its expression."""
    words, end = text.words, key.stop
    while end - 1 > key.start and (words[end - 1] in _DIRECTIONS or words[end - 2] == "NULLS"):
        end -= 1
    meant = range(key.start, end)
    if len(meant) == 1:
        meant = _find_output(text, key.start, outputs) or meant
    return [
        *_copy(text, meant),
        _say(text, key.start, " "),
        *_copy(text, range(end, key.stop)),
        _say(text, key.start, ", "),
    ]


def _find_output(text: SqlText, key: int, outputs: Sequence[range]) -> range | None:
    """Return the expression of the output that a key of one token stands for; None if it is none."""
    if text.words[key] == "0":
        number = text.tokens[key].text
        before = outputs[: int(number)] if number.isdecimal() else ()
        if not before or len(before) < int(number) or any(text.words[one.stop - 1] == "*" for one in before):
            raise _refusal(text, key, "FETCH WITH TIES by the number of an output behind *")
        return split_alias(text, before[-1])[0]
    for expression, alias in (split_alias(text, output) for output in outputs):
        if alias == text.name(key):
            return expression
    return None


def _copy(text: SqlText, tokens: range) -> list[Piece | Copy]:
    return [Copy(text.start(tokens.start), text.end(tokens.stop - 1))] if tokens else []


def _say(text: SqlText, at: int, words: str) -> Piece:
    return Piece(words, text.start(at), verbatim=False)


def _refusal(text: SqlText, at: int, what: str) -> UnsupportedError:
    message = (
        f"{what} is not offered: rank the rows in a subquery, and keep those with rank() <= n; it stands"
    )
    return UnsupportedError(PlacedMessage(text.sql, text.start(at), message))
