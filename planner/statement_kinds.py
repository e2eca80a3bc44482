"""What a statement does, by its first words; what is no query is refused with the way out."""

from __future__ import annotations

import re

from memwal.errors import UnsupportedError
from planner.references import QUERY_STARTS
from planner.statement import StatementKind
from planner.tokens import SqlText

__all__ = ["statement_kind"]

_OFFERED = (
    "there are SELECT, WITH, VALUES, EXPLAIN [ANALYZE], DESCRIBE, SHOW TABLES | COLUMNS | FUNCTIONS, and "
    "INSERT, UPDATE, DELETE, MERGE, TRUNCATE, CREATE, ALTER, DROP, OPTIMIZE, ANALYZE, KILL QUERY"
)
_WRITES = re.compile("INSERT|UPDATE|DELETE|MERGE|CREATE|DROP|ALTER|TRUNCATE|OPTIMIZE|REPLACE")
_TRANSACTIONS = re.compile("BEGIN|START|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|ABORT|END")
_SHOWN = frozenset({"TABLES", "COLUMNS", "FUNCTIONS"})


def statement_kind(text: SqlText) -> tuple[StatementKind, int | None]:
    """The kind, and the index of the query's first token; None where the statement is no query.

    Raises:
        InvalidInputError: EXPLAIN of something else than a query.
        UnsupportedError: a statement that is not offered, or changes something.
    """
    words = text.words
    word = words[0]
    if word in QUERY_STARTS or word == "(":
        return StatementKind.QUERY, 0
    if word == "EXPLAIN":
        i, kind = 1, StatementKind.EXPLAIN
        if words[i] == "ANALYZE":
            i, kind = 2, StatementKind.EXPLAIN_ANALYZE
        i += words[i] == "VERBOSE"
        i += 2 * (words[i] == "FORMAT")
        if words[min(i, len(words) - 1)] in QUERY_STARTS or words[i] == "(":
            return kind, i
        raise text.error(min(i, len(text.tokens)), "EXPLAIN takes a query (SELECT ...), which should stand")
    if word in {"DESCRIBE", "DESC"}:
        return StatementKind.DESCRIBE, 1 if words[1] in QUERY_STARTS else None
    if word == "SHOW" and words[1] in _SHOWN:
        return StatementKind.SHOW, None
    if _WRITES.fullmatch(word):
        raise UnsupportedError(f"{word} is no query, and a query is expected here: SELECT, WITH or VALUES")
    if _TRANSACTIONS.fullmatch(word):
        raise UnsupportedError(
            f"{word}: there are no transactions: each statement stands alone, and what it writes stays; "
            "connect with autocommit"
        )
    shown = " ".join(token.text for token in text.tokens[: 2 if word == "SHOW" else 1])
    raise UnsupportedError(f"The statement {shown!r} is not offered; {_OFFERED}")
