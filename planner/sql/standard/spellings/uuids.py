"""Casts texts to UUIDs, which columns hold as texts of 36 characters in lower case.

    SELECT id::uuid FROM t
->  SELECT CASE WHEN CAST(CASE WHEN NOT regexp_like(lower(CAST(id AS VARCHAR)), '^[0-9a-f]{8}-...') THEN
    concat('no UUID ..: ', CAST(id AS VARCHAR)) END AS BIGINT) IS NULL THEN lower(CAST(id AS VARCHAR)) END

The inner cast fails for a text of another form, and for no other. A literal is checked at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from memwal.rules import UUID_PATTERN
from planner.sql.edits import Copy, Edit, Piece
from planner.sql.standard.query_bodies import find_column
from planner.sql.standard.spellings.results import find_cast_operand, is_result
from planner.sql.tokens import STRING, SqlText, quote

_FORM: Final = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"


def cast_to_uuids(text: SqlText) -> Iterator[Edit]:
    """Yield edits that replace casts to UUID.

    Raises:
        InvalidInputError: a literal is no UUID.
    """
    words = text.words
    for i, word in enumerate(words):
        if word in {"CAST", "TRY_CAST"} and words[i + 1] == "(":
            closing = text.closing(i + 1)
            if words[closing - 2 : closing] == ("AS", "UUID") and words[closing]:
                yield _cast(text, range(i, closing + 1), range(i + 2, closing - 2), fails=word == "CAST")
        elif word == "::" and i and words[i + 1] == "UUID" and words[i + 2] != "[":
            first = find_cast_operand(text, i)
            yield _cast(text, range(first, i + 2), range(first, i), fails=True)
        elif word == "UUID" and words[i + 1] == STRING and i and words[i - 1] not in {".", "AS"}:
            yield _cast(text, range(i, i + 2), range(i + 1, i + 2), fails=True)


def _cast(text: SqlText, whole: range, operand: range, *, fails: bool) -> Edit:
    begin = text.start(whole.start)
    pieces = _write_literal(text, operand.start, fails=fails) if _is_literal(text, operand) else None
    if pieces is None:
        value = Copy(text.start(operand.start), text.end(operand.stop - 1))
        parts = _write_failing(value) if fails else _write_trying(value)
        pieces = [Piece(part, begin, verbatim=False) if isinstance(part, str) else part for part in parts]
    if is_result(text, whole.start, whole.stop - 1):
        pieces.append(Piece(f" AS {quote(find_column(text, operand) or 'uuid')}", begin, verbatim=False))
    return Edit(begin, text.end(whole.stop - 1), pieces)


def _is_literal(text: SqlText, operand: range) -> bool:
    return text.words[operand.start : operand.stop] == (STRING,)


def _write_literal(text: SqlText, at: int, *, fails: bool) -> list[Piece | Copy]:
    """Return the text of a literal in the form of columns, which here may also have braces or no hyphens."""
    written = text.tokens[at].text
    try:
        shown = f"'{UUID(written)}'"
    except ValueError as error:
        if fails:
            raise text.error(at, f"{written!r} is no UUID, which is written {_FORM}; it stands") from error
        shown = "CAST(NULL AS VARCHAR)"
    return [Piece(shown, text.start(at), verbatim=False)]


def _write_failing(value: Copy) -> tuple[str | Copy, ...]:
    return (
        "CASE WHEN CAST(CASE WHEN NOT regexp_like(lower(CAST(",
        value,
        f" AS VARCHAR)), '{UUID_PATTERN}') THEN concat('no UUID, which is written {_FORM}: ', CAST(",
        value,
        " AS VARCHAR)) END AS BIGINT) IS NULL THEN lower(CAST(",
        value,
        " AS VARCHAR)) END",
    )


def _write_trying(value: Copy) -> tuple[str | Copy, ...]:
    return (
        "CASE WHEN regexp_like(lower(CAST(",
        value,
        f" AS VARCHAR)), '{UUID_PATTERN}') THEN lower(CAST(",
        value,
        " AS VARCHAR)) END",
    )
