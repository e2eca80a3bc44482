"""Commits of base tables, done again when somebody else's came first, and Lance's refusals in our words."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from memwal.errors import LanceGatewayError, PreconditionError, UnavailableError
from memwal.lance_errors import brief

Outcome = TypeVar("Outcome")

ATTEMPTS: Final = 12
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 1.0
_CONFLICTS: Final = (
    "commit conflict",
    "conflicted",
    "preempted by concurrent",
    "please retry",
    "concurrent writers",
    "concurrent transaction",
)


def committed(failing: str, change: Callable[[], Outcome]) -> Outcome:
    """Do something that ends with a commit; again from its beginning if another commit came first.

    Args:
        failing: begins the message of an error: "table 't': can't build index 'x'".
        change: opens the newest version of a table, works, and commits.

    Raises:
        PreconditionError: Lance refuses it; says why.
        UnavailableError: others were first, time after time.
    """
    failure: Exception | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            # Whoever lost waits a little longer each time, and not all for the same time.
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**attempt)
            time.sleep(random.uniform(0.5, 1.0) * pause)  # noqa: S311 - no secret
        try:
            return change()
        except LanceGatewayError:
            raise
        except (OSError, ValueError, RuntimeError, KeyError, TypeError, NotImplementedError) as error:
            reason = brief(error)
            if not any(word in reason.lower() for word in _CONFLICTS):
                msg = f"{failing}: {reason}"
                raise PreconditionError(msg) from error
            failure = error
    msg = f"{failing}: {ATTEMPTS} times another change came first; try again later"
    raise UnavailableError(msg) from failure
