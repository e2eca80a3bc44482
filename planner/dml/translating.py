"""Writing statements of other dialects, as they are written here."""

from __future__ import annotations

import re

from planner.dialect_names import KnownNames

__all__ = ["is_dml", "native_dml"]

_WRITES = re.compile(r"\b(?:insert|replace|update|delete|merge|truncate)\b", re.IGNORECASE)
_WORDS = frozenset({"insert", "replace", "update", "delete", "merge", "truncate"})
_MAYBE_QUERY = frozenset({"with", "explain"})


def is_dml(word: str, sql: str) -> bool:
    """Whether a statement with this first word may write rows."""
    return word in _WORDS or (word in _MAYBE_QUERY and _WRITES.search(sql) is not None)


def native_dml(sql: str, dialect: str, known: KnownNames) -> str:
    """Translate one statement."""
    raise NotImplementedError
