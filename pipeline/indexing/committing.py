"""Commits of jobs on indexes and files."""

from __future__ import annotations

from collections.abc import Callable

from memwal.base import versions
from memwal.base.versions import Outcome
from pipeline.jobs.lake import LakeTable


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
    return versions.committed(f"table {table.name!r}: can't {what}", change)
