"""How often rows were added to a vector index since it was trained, and on how many rows that was.

Rows that are added find their place among centroids, and in a codebook, that were trained on older rows: the
index gets poorer the more the table changes. Lance does not record how far that has gone, so a small file
beside the table does. Nothing is lost with it: counting begins again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Final

from memwal.errors import InvalidInputError
from memwal.storage.files import Storage
from pipeline.indexing.indexes import IndexState
from pipeline.indexing.policy import IndexPolicy
from pipeline.jobs.progress import counted

DIRECTORY: Final = "_gateway/indexing"


@dataclass(frozen=True, slots=True)
class Training:
    """What is known of an index since it was trained.

    Attributes:
        version: of the base table that it was trained on.
        rows: of the table when it was first looked at.
        additions: how many times rows were added since.
    """

    version: int
    rows: int
    additions: int = 0

    def __post_init__(self) -> None:
        if min(self.version, self.rows, self.additions) < 0:
            msg = (
                f"an index trained at version {self.version} on {self.rows} rows, {self.additions} additions"
            )
            raise InvalidInputError(msg)

    def worn(self, rows: int, policy: IndexPolicy) -> str | None:
        """Why the index wants to be trained anew; None if it does not."""
        if self.additions >= policy.retrain_after:
            return f"rows were added {counted(self.additions, 'time')} since it was trained"
        if rows > self.rows * policy.retrain_growth:
            return f"it was trained on {counted(self.rows, 'row')}, and there are {rows:,}"
        return None


def recalled(storage: Storage, index: IndexState) -> Training | None:
    """What is recorded of an index; None where nothing is, or where it was trained since.

    Raises:
        UnavailableError: storage failed to answer.
    """
    try:
        found = Training(**json.loads(storage.read(_path(index.name))))
    except (FileNotFoundError, ValueError, TypeError, InvalidInputError):
        return None
    return found if found.version == index.trained_at else None


def record(storage: Storage, before: Training | None, index: IndexState, rows: int, *, added: bool) -> None:
    """Record an index as it is now.

    Args:
        storage: of the table.
        before: what was recorded before rows were added.
        index: as it is now.
        rows: of the table.
        added: whether rows were added to it.

    Raises:
        UnavailableError: storage failed to answer.
    """
    now = Training(index.trained_at, rows, int(added))
    if before is not None and before.version == now.version:
        now = replace(before, additions=before.additions + added)
    if now != before:
        storage.put(_path(index.name), json.dumps({name: getattr(now, name) for name in _FIELDS}).encode())


_FIELDS: Final = ("version", "rows", "additions")


def _path(name: str) -> str:
    # Any text may name an index; file names may not be any text.
    return f"{DIRECTORY}/{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}.json"
