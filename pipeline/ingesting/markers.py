"""Which batches of a job are complete: an empty file each, in the table's directory."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

from memwal.errors import InvalidInputError
from memwal.storage.files import Storage

DIRECTORY = "_gateway/ingest"
_KEPT = 3
"""Markers of a stream that stay: one would do, the others tell whoever looks how it goes."""
_NAME = re.compile(r"(\d{1,19})\.done")
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class BatchMarkers:
    """Markers of one job; batches count upwards, so a later one that is complete vouches for all before.

    Attributes:
        storage: directory of the table.
        job: a name for the job that it keeps over restarts.
    """

    storage: Storage
    job: str

    def __post_init__(self) -> None:
        if not _JOB.fullmatch(self.job):
            msg = (
                f"{self.job!r} can't be the name of a job or stream: give up to 128 letters, digits, dots, "
                "'_' and '-'"
            )
            raise InvalidInputError(msg)

    @staticmethod
    def one_shot(storage: Storage) -> BatchMarkers:
        """Markers of a job that nobody repeats under the same name."""
        return BatchMarkers(storage, f"once-{uuid.uuid4()}")

    @staticmethod
    def jobs(storage: Storage) -> tuple[str, ...]:
        """Names of all jobs that left markers in a table, sorted."""
        return tuple(sorted(storage.directories(DIRECTORY)))

    @property
    def directory(self) -> str:
        """Below the table's directory."""
        return f"{DIRECTORY}/{self.job}"

    def path(self, batch: int) -> str:
        """Of a batch's marker, below the table's directory."""
        return f"{self.directory}/{batch}.done"

    def batches(self) -> tuple[int, ...]:
        """Batches whose markers are there, ascending.

        Raises:
            UnavailableError: storage failed to answer.
        """
        found = (_NAME.fullmatch(one.name) for one in self.storage.list(self.directory))
        return tuple(sorted(int(one[1]) for one in found if one is not None))

    def is_complete(self, batch: int) -> bool:
        """Whether a batch is complete, or one after it: markers of older ones may have been cleaned up.

        Raises:
            UnavailableError: storage failed to answer.
        """
        return any(one >= batch for one in self.batches())

    def complete(self, batch: int) -> None:
        """Note that all rows of a batch are durable; may be repeated.

        Markers that later ones vouch for are removed, so that a long stream leaves few.

        Raises:
            UnavailableError: storage failed to answer.
        """
        self.storage.put_if_absent(self.path(batch), b"")
        if batch >= _KEPT:
            self.storage.delete(self.path(batch - _KEPT))
