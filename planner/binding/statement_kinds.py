"""Tells what kind of statement a text is, and where its query begins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.binding.bound_statement import StatementKind
from lance_gateway.planner.sql.text.limits import QUERY_STARTS
from lance_gateway.planner.sql.text.tokens import PlacedMessage, SqlText

_OFFERED: Final = (
    "there are SELECT, WITH, VALUES, EXPLAIN [ANALYZE], DESCRIBE, SHOW, SET, RESET, USE, and INSERT, UPDATE, "
    "DELETE, MERGE, TRUNCATE, CREATE, ALTER, DROP, OPTIMIZE, FLUSH TABLE, RESTORE, ANALYZE, KILL QUERY"
)
_WORD: Final = re.compile("[A-Z]+")
_WAYS_OUT: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(("GRANT", "REVOKE"), "rights are in the policy file of the gateway (auth.policy_file)")
    | dict.fromkeys(
        ("PREPARE", "EXECUTE", "DEALLOCATE"), "clients prepare statements by Flight SQL, not by statements"
    )
    | dict.fromkeys(
        ("DECLARE", "FETCH", "CLOSE", "MOVE"), "results are read as they arrive: there are no cursors"
    )
    | dict.fromkeys(("LISTEN", "NOTIFY", "UNLISTEN"), "lance_changes(.., follow => true) tells what changes")
    | {
        "PIVOT": "write sum(n) FILTER (WHERE k = 'a') AS a, .. and GROUP BY for each value",
        "COPY": "load rows by bulk ingestion or INSERT .. SELECT, and save results in the client",
        "LOCK": "COMMIT fails if others changed the rows that a transaction changed: repeat it then",
        "VACUUM": "OPTIMIZE compacts a table, and `lance-gateway pipeline clean` removes old files",
        "REINDEX": "OPTIMIZE t INDEXES brings the indexes of a table up to date",
        "CALL": "there are no procedures: send their statements",
        "DO": "there are no procedures: send their statements",
    }
)
"""What to do in the place of statements of other databases."""
_NO_QUERIES: Final = re.compile(
    "INSERT|UPDATE|DELETE|MERGE|CREATE|DROP|ALTER|TRUNCATE|OPTIMIZE|FLUSH|RESTORE|REPLACE"
    "|BEGIN|START|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|ABORT|END"
)
_AS_JSON: Final = ("FORMAT", "JSON")
_FORMATS: Final = (
    "EXPLAIN has INDENT, TREE, PGJSON and GRAPHVIZ, and EXPLAIN ANALYZE has JSON, or none; this format"
)
_SHOWN: Final = frozenset({"COLUMNS", "FUNCTIONS"})


def classify_statement(text: SqlText) -> tuple[StatementKind, int | None]:
    """Return the kind, and the index of the first token of the query; None if there is no query.

    Raises:
        InvalidInputError: EXPLAIN of something else than a query.
        UnsupportedError: a statement that is not supported, or changes something.
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
        if words[i] == "FORMAT":
            is_json = words[i + 1] == "JSON"
            if is_json != (kind is StatementKind.EXPLAIN_ANALYZE):
                raise text.error(i, _FORMATS)
            i, kind = i + 2, StatementKind.EXPLAIN_ANALYZE_JSON if is_json else kind
        if words[min(i, len(words) - 1)] in QUERY_STARTS or words[i] == "(":
            return kind, i
        raise text.error(min(i, len(text.tokens)), "EXPLAIN takes a query (SELECT ...)")
    if word in {"DESCRIBE", "DESC"}:
        return StatementKind.DESCRIBE, 1 if words[1] in QUERY_STARTS else None
    if word == "SHOW" and words[1] in _SHOWN:
        return StatementKind.SHOW, None
    if _NO_QUERIES.fullmatch(word):
        raise UnsupportedError(f"{word} is not a query, and a query is expected here: SELECT, WITH or VALUES")
    shown = " ".join(token.text for token in text.tokens[: 2 if word == "SHOW" else 1])
    near = get_close_matches(word, _WORD.findall(_OFFERED), 1)
    hint = f"did you mean {near[0]}?" if near and near[0] != word else _OFFERED
    message = f"The statement {shown!r} is not supported; {_WAYS_OUT.get(word, hint)}"
    raise UnsupportedError(PlacedMessage(text.sql, text.start(0), message))


def find_prefix(text: SqlText, start: int) -> str:
    """Return the words before the query, without an EXPLAIN format that DataFusion lacks."""
    end = start - 2 if text.words[:start][-2:] == _AS_JSON else start
    return "".join(f"{token.text} " for token in text.tokens[:end])
