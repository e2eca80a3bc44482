r"""LIKE with an escape character of its own, for DataFusion, which knows the backslash alone.

    name LIKE 'a!_%' ESCAPE '!'
->  name LIKE 'a\_%'
    name LIKE ? ESCAPE '!'
->  name LIKE replace(replace(...(?)...))
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot.tokenizer_core import TokenType

from memwal.errors import UnsupportedError
from planner.splicing import Edit
from planner.statement import Piece
from planner.tokens import STRING, SqlText, at_position

__all__ = ["escaped_likes"]

_LIKES = frozenset({"LIKE", "ILIKE"})
_WILDCARDS = frozenset("%_")
# Stands for a doubled escape character meanwhile.
_DOUBLED = "chr(1)"


def escaped_likes(text: SqlText) -> Iterator[Edit]:
    """Yields what stands in place of ESCAPE clauses, and around or in place of their patterns.

    Raises:
        UnsupportedError: a pattern that is neither a literal nor a parameter, or an escape character that
            can't be one.
    """
    for i, word in enumerate(text.words):
        if word != "ESCAPE" or text.words[i + 1] != STRING:
            continue
        mark = text.tokens[i + 1].text
        if mark == "\\":
            continue
        if len(mark) > 1 or mark in _WILDCARDS:
            raise _unsupported(text, i, f"ESCAPE takes one character that is no wildcard; {mark!r} stands")
        first = i - 2 if text.words[i - 1] == "0" and text.words[i - 2] == "$" else i - 1
        if text.words[first - 1] not in _LIKES:
            raise _unsupported(text, i, "ESCAPE follows a literal or a parameter; something else stands")
        begin, end = text.start(first), text.end(i + 1)
        if text.words[first] in {"?", "$"}:
            before, after = _around(mark)
            yield begin, begin, [Piece(before, begin, verbatim=False)]
            yield text.start(i), end, [Piece(after, text.start(i), verbatim=False)]
        elif text.tokens[first].token_type is TokenType.STRING and text.sql.startswith("'", begin):
            pattern = _translated(text.tokens[first].text, mark).replace("'", "''")
            yield begin, end, [Piece(f"'{pattern}'", begin, verbatim=False)]
        else:
            raise _unsupported(text, i, "ESCAPE follows a literal or a parameter; something else stands")


def _translated(pattern: str, mark: str) -> str:
    """The pattern with backslashes for the mark; an empty mark escapes nothing."""
    marks = iter(pattern)
    return "".join(
        f"\\{next(marks, '')}" if mark and one == mark else "\\\\" if one == "\\" else one for one in marks
    )


def _around(mark: str) -> tuple[str, str]:
    """The same, as calls around an expression: what goes before it and what behind."""
    if not mark:
        return "replace(", r", '\', '\\')"
    quoted = "'" + mark.replace("'", "''") + "'"
    return (
        "replace(replace(replace(replace(",
        rf", '\', '\\'), {quoted} || {quoted}, {_DOUBLED}), {quoted}, '\'), {_DOUBLED}, {quoted})",
    )


def _unsupported(text: SqlText, index: int, message: str) -> UnsupportedError:
    return UnsupportedError(at_position(text.sql, text.start(index), message))
