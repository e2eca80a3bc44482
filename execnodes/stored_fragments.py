"""Fragments of one version of a dataset, and what is known of them for as long as it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

MAX_SESSIONS = 64
"""Fragments of one dataset that stay open to take rows: each holds its files, and 20 kB."""


@dataclass(frozen=True, eq=False, slots=True)
class StoredFragment:
    """A fragment whose metadata was read: pylance makes classes to tell it, whenever it is asked.

    Attributes:
        handle: the `lance.LanceFragment`.
        physical_rows: rows stored, deleted ones included.
        files: paths of its data files.
        deletions: what tells its deleted rows from those of other versions; None where there are none.
    """

    handle: Any
    physical_rows: int
    files: tuple[str, ...]
    deletions: str | None

    @staticmethod
    def of(handle: Any) -> StoredFragment:  # noqa: ANN401 (lance types)
        """Read the metadata."""
        metadata = handle.metadata
        deletions = metadata.deletion_file
        return StoredFragment(
            handle,
            metadata.physical_rows,
            tuple(file.path for file in metadata.files),
            None if deletions is None else str(deletions),
        )


@dataclass(frozen=True, eq=False)
class StoredFragments:
    """Fragments by their ids; safe to share between threads.

    Args:
        dataset: a `lance.LanceDataset`.
    """

    dataset: Any
    _known: dict[int, StoredFragment] = field(default_factory=dict)
    _sessions: dict[tuple[int, tuple[str, ...]], Any] = field(default_factory=dict)

    def get(self, fragment_id: int) -> StoredFragment:
        """One of them."""
        known = self._known.get(fragment_id)
        if known is None:
            known = self._known[fragment_id] = StoredFragment.of(self.dataset.get_fragment(fragment_id))
        return known

    def take(self, fragment_id: int, offsets: np.ndarray, columns: Sequence[str]) -> pa.Table | None:
        """Rows at ascending offsets, in stored columns; None where deletions move the offsets.

        To open a fragment costs as much as to take a row of it: the first ones that are asked for stay open.
        """
        key = (fragment_id, tuple(columns))
        session = self._sessions.get(key)
        if session is None:
            fragment = self.get(fragment_id)
            if fragment.deletions is not None:
                return None
            if len(self._sessions) >= MAX_SESSIONS:
                return fragment.handle.take(offsets.tolist(), columns=list(columns))
            session = self._sessions.setdefault(key, fragment.handle.open_session(columns=list(columns)))
        return session.take(offsets.tolist())
