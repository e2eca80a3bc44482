"""What errors of Lance mean.

Lance's bindings raise OSError, ValueError and RuntimeError, without a code or a kind: for the questions here,
the text is all that tells. Whoever can look up a state instead does that. `tests/memwal/test_lance_errors.py`
provokes every text, so that a version of Lance that says something else fails there.
"""

from __future__ import annotations

import re
from typing import Final

_ABSENT: Final = re.compile(
    r"\bNot found: |\bwas not found\b|\bRef not found\b|\bObject at location .* not found\b|\b404 Not Found\b"
    r"|\bNo such file or directory\b|\(os error 2\)"
)
_CONFLICT: Final = re.compile(
    r"\b[Cc]ommit conflict for version\b|\bpreempted by concurrent transaction\b"
    r"|\bToo many concurrent writers\b"
)
_REPLACED: Final = re.compile(r"\bIncompatible transaction: ")
_CONTESTED: Final = re.compile(
    r"\bpeer claimed epoch\b|\banother writer claimed\b|\b[Cc]ommit conflict for version\b"
)
_TOO_LONG: Final = re.compile(r"\bpast what the memtable replaying it can hold\b")
_DAMAGED: Final = re.compile(
    r"corrupt|invalid|magic|decode|does not match|does not have sufficient data", re.IGNORECASE
)


def is_absent(error: BaseException) -> bool:
    """Return whether a dataset, a version, a tag or a file is not there."""
    return isinstance(error, FileNotFoundError) or _ABSENT.search(str(error)) is not None


def is_commit_conflict(error: BaseException) -> bool:
    """Return whether a commit failed because another one came first, and may be tried again."""
    from lance.commit import CommitConflictError  # noqa: PLC0415 - clients have these errors without Lance

    if is_replaced(error):
        return False
    return isinstance(error, CommitConflictError) or _CONFLICT.search(str(error)) is not None


def is_replaced(error: BaseException) -> bool:
    """Return whether a commit failed because another one replaced what it was based on.

    Such as a version that was restored, or rows that were overwritten: to try again is another change.
    """
    return _REPLACED.search(str(error)) is not None


def is_contested_claim(error: BaseException) -> bool:
    """Return whether a region could not be claimed because others claimed it at the same time."""
    return _CONTESTED.search(str(error)) is not None


def is_log_too_long(error: BaseException) -> bool:
    """Return whether a region could not be claimed because its unflushed log exceeds one MemTable."""
    return _TOO_LONG.search(str(error)) is not None


def is_invalid_input(error: BaseException) -> bool:
    """Return whether rows were refused since they don't fit the table."""
    return str(error).startswith("Invalid user input")


def is_damaged(error: BaseException) -> bool:
    """Return whether a file violates its format; ask first whether it is absent."""
    return _DAMAGED.search(str(error)) is not None


def is_read_alone(error: BaseException) -> bool:
    """Return whether a column of lists of fixed size, of structs, was read together with others."""
    return "cannot read columns of differing lengths together" in str(error)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the pool of memory of Lance's plans was too small."""
    return "Resources exhausted" in str(error)
