r"""Rewrites FETCH as LIMIT, which is the only form that DataFusion supports.

    SELECT id FROM orders ORDER BY id OFFSET 20 ROWS FETCH NEXT ? ROWS ONLY
->  SELECT id FROM orders ORDER BY id OFFSET 20 ROWS LIMIT ?

Rewrites LIKE with an escape character, of which DataFusion supports only the backslash.

    name LIKE 'a!_%' ESCAPE '!'
->  name LIKE 'a\_%'
    name LIKE ? ESCAPE '!'
->  name LIKE replace(replace(...(?)...))
    name LIKE (? || '%') ESCAPE '!'
->  name LIKE replace(replace(...((? || '%'))...))
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot.tokenizer_core import TokenType

from memwal.errors import UnsupportedError
from planner.sql.edits import Edit
from planner.sql.tokens import STRING, PlacedMessage, SqlText

_LIKES = frozenset({"LIKE", "ILIKE"})
_WILDCARDS = frozenset("%_")
_NO_NAMES = frozenset({"AND", "OR", "NOT", "WHERE", "SELECT", "CASE", "WHEN", "THEN", "ELSE", "ON", "IN"})
# A temporary replacement for a doubled escape character.
_DOUBLED = "chr(1)"
_PATTERNS = "ESCAPE follows literals, parameters, columns, calls and expressions in brackets with ||"


def rewrite_like_escapes(text: SqlText) -> Iterator[Edit]:
    """Yield edits that remove ESCAPE clauses, and escape their patterns with backslashes.

    Raises:
        UnsupportedError: a pattern is anything but literals, parameters, columns, calls and expressions in
            brackets with ||, or an escape character is not valid.
    """
    for i, word in enumerate(text.words):
        if word != "ESCAPE" or text.words[i + 1] != STRING:
            continue
        mark = text.tokens[i + 1].text
        if mark == "\\":
            continue
        if len(mark) > 1 or mark in _WILDCARDS:
            raise _refusal(text, i, f"ESCAPE takes one character that is no wildcard; {mark!r} stands")
        first = _find_pattern(text, i)
        begin, end = text.start(first), text.end(i + 1)
        is_literal = first == i - 1 and text.tokens[first].token_type is TokenType.STRING
        if is_literal and text.sql.startswith("'", begin):
            pattern = _translate_pattern(text.tokens[first].text, mark).replace("'", "''")
            yield Edit.replace(begin, end, f"'{pattern}'")
        elif is_literal:
            raise _refusal(text, i, f"{_PATTERNS}; something else stands")
        else:
            before, after = _make_calls(mark)
            yield Edit.insert(begin, before)
            yield Edit.replace(text.start(i), end, after)


def _find_pattern(text: SqlText, escape: int) -> int:
    """Return the index of the first token of the pattern that ends before ESCAPE.

    Raises:
        UnsupportedError: it has something else than literals, parameters, columns, calls and brackets.
    """
    words, at = text.words, escape
    while at == escape or words[at] == "||":
        at = _find_operand(text, at) - 1
        if words[at] in _LIKES:
            return at + 1
    raise _refusal(text, escape, f"{_PATTERNS}; something else stands")


def _find_operand(text: SqlText, end: int) -> int:
    """Return the index of the first token of the operand that ends before a token.

    Raises:
        UnsupportedError: it is none of a pattern.
    """
    words = text.words
    first = _find_opening(text, end - 1)
    if words[first] == "0" and words[first - 1] == "$":
        return first - 1
    if words[first] == "(" or _is_name(text, first):
        while words[first - 1] == "." or _is_name(text, first - 1):
            first -= 1
    elif words[first] not in {"?", STRING}:
        raise _refusal(text, end, f"{_PATTERNS}; something else stands")
    return first


def _is_name(text: SqlText, at: int) -> bool:
    return text.is_name(at) and text.words[at] not in _LIKES | _NO_NAMES


def _find_opening(text: SqlText, index: int) -> int:
    """Return the index of the bracket that a closing one belongs to; the same index for another token."""
    depth, first = 0, index
    while first > 0:
        depth += (text.words[first] == ")") - (text.words[first] == "(")
        if depth <= 0:
            break
        first -= 1
    return first


def _translate_pattern(pattern: str, mark: str) -> str:
    """Return the pattern with backslashes for the escape character; an empty one escapes nothing."""
    chars = iter(pattern)
    return "".join(
        f"\\{next(chars, '')}" if mark and char == mark else "\\\\" if char == "\\" else char
        for char in chars
    )


def _make_calls(mark: str) -> tuple[str, str]:
    """Return the texts before and behind an expression that translate its pattern at run time."""
    if not mark:
        return "replace(", r", '\', '\\')"
    quoted = "'" + mark.replace("'", "''") + "'"
    return (
        "replace(replace(replace(replace(",
        rf", '\', '\\'), {quoted} || {quoted}, {_DOUBLED}), {quoted}, '\'), {_DOUBLED}, {quoted})",
    )


def _refusal(text: SqlText, index: int, message: str) -> UnsupportedError:
    return UnsupportedError(PlacedMessage(text.sql, text.start(index), message))


_ROWS = frozenset({"ROW", "ROWS"})


def rewrite_fetch(text: SqlText) -> Iterator[Edit]:
    """Yield edits that replace FETCH clauses with LIMIT.

    Raises:
        UnsupportedError: FETCH with PERCENT.
    """
    for i, word in enumerate(text.words):
        if word != "FETCH" or text.words[i + 1] not in {"FIRST", "NEXT"}:
            continue
        last = _skip_count(text, i + 2)
        if text.words[last] == "PERCENT":
            message = "FETCH with PERCENT is not offered; it stands"
            raise UnsupportedError(PlacedMessage(text.sql, text.start(i), message))
        if text.words[last] not in _ROWS or text.words[last + 1] != "ONLY":
            continue
        limit = "LIMIT" if last > i + 2 else "LIMIT 1"
        yield Edit.replace(text.start(i), text.end(i + 1), limit)
        yield Edit.replace(text.start(last), text.end(last + 1), "")


def _skip_count(text: SqlText, index: int) -> int:
    """Return the index behind a number, a parameter or brackets; the same index if there is none."""
    word = text.words[index]
    if word in {"0", "?"}:
        return index + 1
    if word == "$" and text.words[index + 1] == "0":
        return index + 2
    return text.closing(index) + 1 if word == "(" else index
