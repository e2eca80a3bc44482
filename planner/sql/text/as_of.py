"""Reads AS OF behind a table name, and states of a table among the arguments of a call.

FOR VERSION AS OF 12                    FOR SYSTEM_VERSION AS OF 12         VERSION AS OF 12
FOR VERSION AS OF 'release'             (a tag, or a token of lance_changes)
FOR TIMESTAMP AS OF '2026-05-01 12:00'  FOR SYSTEM_TIME AS OF TIMESTAMP '2026-05-01'
TIMESTAMP AS OF now() - INTERVAL '1 hour'

lance_changes('orders', since => 12, until => 'release')
lance_changes('orders', since => TIMESTAMP '2026-05-01 12:00')
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from datafusion import SessionContext

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.sql.text.tokens import QUOTED, STRING, SqlText

AS_OF_STARTS = frozenset({"FOR", "VERSION", "TIMESTAMP"})
"""The words with which AS OF clauses begin."""
_VERSIONS = frozenset({"VERSION", "SYSTEM_VERSION"})
_MOMENTS = frozenset({"TIMESTAMP", "SYSTEM_TIME"})
_TYPED = frozenset({"TIMESTAMP", "TIMESTAMPTZ", "DATE"})
_OPENING = {"(": ")", "[": "]", "{": "}"}
_QUERIES = frozenset({"SELECT", "FROM", "WITH", "VALUES"})
TOKEN_START = "lance-changes:"  # noqa: S105 - no secret
"""Tokens of states begin so; the names of tags have no colon."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_VERSION = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class AsOf:
    """A version, a tag, a moment, or a token: exactly one of them.

    Attributes:
        version: of the base table.
        tag: that names a version.
        moment: microseconds since 1970, UTC.
        expression: SQL that gives a moment when it is evaluated.
        token: of a state that the gateway named (see `planner.tables.state.past.noted_tables`).
    """

    version: int | None = None
    tag: str | None = None
    moment: int | None = None
    expression: str | None = None
    token: str | None = None

    def __post_init__(self) -> None:
        values = (self.version, self.tag, self.moment, self.expression, self.token)
        if sum(value is not None for value in values) != 1:
            msg = f"the past of a table is a version, a tag or a moment, and not {values}"
            raise InvalidInputError(msg)

    def evaluate_moment(self) -> int | None:
        """Return the moment in microseconds since 1970; None for a version, a tag or a token.

        Raises:
            InvalidInputError: the value of the expression is not a moment.
        """
        return _evaluate_moment(self.expression) if self.expression is not None else self.moment


def read_as_of(text: SqlText, i: int) -> tuple[AsOf, int] | None:
    """Read AS OF behind a table name.

    Args:
        text: the statement.
        i: index of the token behind the name.

    Returns:
        The past version, and the index behind it; None if there is no AS OF.

    Raises:
        InvalidInputError: the clause is not valid; the message has its place.
    """
    words = text.words
    is_explicit = words[i] == "FOR"
    kind = words[i + 1] if is_explicit else words[i]
    after = i + 2 if is_explicit else i + 1
    if kind not in (_VERSIONS | _MOMENTS if is_explicit else {"VERSION", "TIMESTAMP"}):
        return None
    if words[after : after + 2] != ("AS", "OF"):
        if not is_explicit:
            return None  # an alias
        raise text.error(after, f"FOR {kind} is followed by AS OF")
    start = after + 2
    if words[start] in {"$", "?"}:
        raise text.error(start, f"{kind} AS OF takes a constant, and no parameter")
    return _read_version(text, start) if kind in _VERSIONS else _read_moment(text, start)


def read_state(text: SqlText, i: int) -> tuple[AsOf, int]:
    """Read a state of a table: a version, a tag, a token, or a moment.

    A text is a tag or a token; moments are written as TIMESTAMP '2026-05-01 12:00', a call, or in brackets.

    Args:
        text: the statement.
        i: index of its first token.

    Returns:
        The state, and the index behind it.

    Raises:
        InvalidInputError: there is no state; the message has the place.
    """
    if text.words[i] in {"$", "?"}:
        raise text.error(i, "A state of a table is a constant: write it into the text")
    return _read_version(text, i) if text.words[i] in {STRING, "0"} else _read_moment(text, i)


def format_moment(moment: int) -> str:
    """Format a moment (microseconds since 1970) for messages."""
    at = _EPOCH + timedelta(microseconds=moment)
    return f"{at:%Y-%m-%d %H:%M:%S.%f}".rstrip("0").rstrip(".") + " UTC"


def to_microseconds(at: datetime) -> int:
    """Return the microseconds since 1970 of a time; one without a zone is in UTC."""
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def _read_version(text: SqlText, i: int) -> tuple[AsOf, int]:
    token = text.tokens[i].text if i < len(text.tokens) else ""
    if text.words[i] == STRING:
        return (AsOf(token=token) if token.startswith(TOKEN_START) else AsOf(tag=token)), i + 1
    if text.words[i] == "0" and token.isdigit() and 1 <= int(token) <= _MAX_VERSION:
        return AsOf(version=int(token)), i + 1
    message = "A version is a number from 1 on, or the name of a tag in single quotes"
    raise text.error(i, message)


def _read_moment(text: SqlText, i: int) -> tuple[AsOf, int]:
    words = text.words
    if words[i] == STRING:
        return _read_literal(text, i), i + 1
    if words[i] in _TYPED:
        at = i + 1
        if words[at : at + 3] in {("WITH", "TIME", "ZONE"), ("WITHOUT", "TIME", "ZONE")}:
            at += 3
        if words[at] == STRING:
            end = _skip_intervals(text, at + 1)
            return (
                (_read_literal(text, at), at + 1) if end == at + 1 else (_read_expression(text, i, end), end)
            )
    end = _skip_intervals(text, _skip_primary(text, i))
    return _read_expression(text, i, end), end


def _read_literal(text: SqlText, i: int) -> AsOf:
    written = text.tokens[i].text.strip()
    try:
        return AsOf(moment=to_microseconds(datetime.fromisoformat(written)))
    except (ValueError, OverflowError):
        message = (
            f"{written!r} is not a moment: write it like '2026-05-01 12:00:00' (UTC) or "
            "'2026-05-01T12:00:00+02:00'"
        )
        raise text.error(i, message) from None


def _skip_primary(text: SqlText, i: int) -> int:
    """Return the index behind a bracketed expression or a call."""
    opening = i if text.words[i] == "(" else i + 1
    if (
        i >= len(text.tokens)
        or text.words[opening] != "("
        or (opening > i and (not text.is_name(i) or text.words[i] == QUOTED))
    ):
        message = "A moment is a text like '2026-05-01 12:00:00', a call, or in brackets"
        raise text.error(i, message)
    closing: list[str] = []
    for at in range(opening, len(text.tokens)):
        word = text.words[at]
        if word in _QUERIES:
            raise text.error(at, "A moment is a constant: it can't be read from a table")
        if word in {"$", "?"}:
            raise text.error(at, "A moment is a constant")
        if word in _OPENING:
            closing.append(_OPENING[word])
        elif closing and word == closing[-1]:
            closing.pop()
            if not closing:
                return at + 1
    raise text.error(opening, "The bracket is not closed")


def _skip_intervals(text: SqlText, i: int) -> int:
    """Return the index behind any number of `+ INTERVAL '..'` and `- INTERVAL '..'`."""
    while text.words[i] in {"+", "-"} and text.words[i + 1 : i + 3] == ("INTERVAL", STRING):
        i += 3
    return i


def _read_expression(text: SqlText, start: int, end: int) -> AsOf:
    return AsOf(expression=text.sql[text.start(start) : text.end(end - 1)])


def _evaluate_moment(expression: str) -> int:
    try:
        context = SessionContext()
        batches = context.sql(
            f"SELECT arrow_cast({expression}, 'Timestamp(Microsecond, Some(\"UTC\"))') AS moment"
        ).collect()
        value = pa.Table.from_batches(batches).column("moment")[0].cast(pa.int64()).as_py()
    except Exception as error:
        reason = str(error).partition("\n")[0]
        msg = f"AS OF {expression}: this is not a constant moment ({reason})"
        raise InvalidInputError(msg) from error
    if value is None:
        msg = f"AS OF {expression}: this is NULL, and no moment"
        raise InvalidInputError(msg)
    return int(value)
