"""Commits that are done again when somebody else's came first, and Lance's errors in our words."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from memwal.errors import LanceGatewayError, PreconditionError, UnavailableError
from pipeline.lake import LakeTable

Outcome = TypeVar("Outcome")

ATTEMPTS = 8
_PAUSE = 0.05
_CONFLICTS = (
    "commit conflict",
    "conflicted",
    "preempted by concurrent",
    "please retry",
    "concurrent writers",
)


def committed(table: LakeTable, what: str, change: Callable[[], Outcome]) -> Outcome:
    """Do something that ends with a commit; again from its beginning if another commit came first.

    Args:
        table: that is changed.
        what: is done, for messages: "build index 'x'".
        change: opens the newest version of the table, works, and commits.

    Raises:
        PreconditionError: Lance refuses it; says why.
        UnavailableError: others were first, time after time.
    """
    failure: Exception | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            # Whoever lost waits a little longer each time, and not all for the same time.
            time.sleep(random.uniform(0.5, 1.0) * _PAUSE * 2**attempt)  # noqa: S311 - no secret
        try:
            return change()
        except LanceGatewayError:
            raise
        except (OSError, ValueError, RuntimeError, KeyError, TypeError, NotImplementedError) as error:
            reason = brief(error)
            if not any(word in reason.lower() for word in _CONFLICTS):
                msg = f"table {table.name!r}: can't {what}: {reason}"
                raise PreconditionError(msg) from error
            failure = error
    msg = f"table {table.name!r}: can't {what}: {ATTEMPTS} times another change came first; try again later"
    raise UnavailableError(msg) from failure


def brief(error: Exception) -> str:
    """An error of Lance in one line, without places in its source."""
    text = " ".join(str(part) for part in error.args) or type(error).__name__
    text = text.split(", /home/")[0].split(", rust/")[0].split(", /")[0]
    return " ".join(text.split()).rstrip(".")
