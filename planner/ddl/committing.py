"""Commits of statements that change base tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memwal import contention
from memwal.contention import Outcome
from planner.table import Table


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

    def attempt() -> Outcome:
        dataset = table.base().dataset
        outcome = change(dataset.checkout_version(dataset.latest_version))
        table.base()  # This gateway's next statement knows, also where versions are looked for rarely.
        return outcome

    return contention.committed(f"can't {what} of table {table.name!r}", attempt)
