"""Commits of base tables: done again when somebody else's came first, and errors in the gateway's words."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from memwal.errors import LanceGatewayError, PreconditionError, UnavailableError
from memwal.lance_errors import brief
from planner.table import Table

Outcome = TypeVar("Outcome")
ATTEMPTS = 12
_CONFLICTS = ("commit conflict", "conflicted", "preempted by concurrent", "please retry", "concurrent")


def committed(table: Table, what: str, change: Callable[[Any], Outcome]) -> Outcome:
    """Apply a change to the newest version of a base table, again if a merge or another change came first.

    Args:
        table: that is changed.
        what: is done, for messages: "add a column".
        change: takes the `lance.LanceDataset` and commits.

    Raises:
        PreconditionError: Lance refuses it; says why.
        UnavailableError: others were first, time after time.
    """
    failure: Exception | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            # Whoever lost a race waits a little, and not all for the same time.
            time.sleep(random.uniform(0.0, 0.02 * attempt))  # noqa: S311 - no secret
        dataset = table.base().dataset
        try:
            outcome = change(dataset.checkout_version(dataset.latest_version))
            table.base()  # This gateway's next statement knows, also where versions are looked for rarely.
        except LanceGatewayError:
            raise
        except (OSError, ValueError, RuntimeError, KeyError, TypeError, NotImplementedError) as error:
            reason = brief(error)
            if not any(word in reason.lower() for word in _CONFLICTS):
                msg = f"can't {what} of table {table.name!r}: {reason}"
                raise PreconditionError(msg) from error
            failure = error
        else:
            return outcome
    msg = f"can't {what} of table {table.name!r}: {ATTEMPTS} times another change came first; retry"
    raise UnavailableError(msg) from failure
