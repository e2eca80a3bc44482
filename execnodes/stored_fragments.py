"""Fragments of one version of a dataset, and what is known of them for as long as it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from execnodes.data_files import Bases, Deletions, FragmentFiles, Place, StoredValues, bases_of

MAX_SESSIONS = 64
"""Fragments of one dataset that stay open to take rows: each holds its files, and 20 kB."""


@dataclass(frozen=True, eq=False, slots=True)
class StoredFragment:
    """A fragment whose metadata was read: pylance makes classes to tell it, whenever it is asked.

    Attributes:
        fragment_id: as Lance numbers it.
        handle: the `lance.LanceFragment`.
        physical_rows: rows stored, deleted ones included.
        files: names its rows; as long as they are the same, every physical row keeps its values.
        deletions: names its deleted rows; None where there are none.
    """

    fragment_id: int
    handle: Any
    physical_rows: int
    files: FragmentFiles
    deletions: Deletions | None
    _columns: dict[str, StoredValues] = field(default_factory=dict)

    @staticmethod
    def of(handle: Any, place: Place, bases: Bases) -> StoredFragment:  # noqa: ANN401 (lance types)
        """Read the metadata.

        Raises:
            CorruptDataError: a file lies in a base that the dataset does not have.
        """
        metadata = handle.metadata
        return StoredFragment(
            metadata.id,
            handle,
            metadata.physical_rows,
            FragmentFiles.of(metadata, place, bases),
            Deletions.of(metadata, bases),
        )

    def column(self, name: str, field_id: int, kind: pa.DataType) -> StoredValues:
        """What names a column's values.

        Args:
            name: of the stored column, in the dataset's version.
            field_id: of the same.
            kind: its type.
        """
        known = self._columns.get(name)
        if known is None:
            known = self._columns[name] = StoredValues(self.files, field_id, kind)
        return known


@dataclass(frozen=True, eq=False)
class StoredFragments:
    """Fragments by their ids; safe to share between threads.

    Args:
        dataset: a `lance.LanceDataset`.
        place: names it.
    """

    dataset: Any
    place: Place = field(default_factory=Place.unknown)
    _known: dict[int, StoredFragment] = field(default_factory=dict)
    _sessions: dict[tuple[int, tuple[str, ...]], Any] = field(default_factory=dict)

    @cached_property
    def all(self) -> tuple[StoredFragment, ...]:
        """In the order in which they are scanned."""
        return tuple([self._stored(one) for one in self.dataset.get_fragments()])

    def get(self, fragment_id: int) -> StoredFragment:
        """One of them."""
        known = self._known.get(fragment_id)
        return self._stored(self.dataset.get_fragment(fragment_id)) if known is None else known

    def _stored(self, handle: Any) -> StoredFragment:  # noqa: ANN401 (lance types)
        return self._known.setdefault(handle.fragment_id, StoredFragment.of(handle, self.place, self._bases))

    @cached_property
    def _bases(self) -> Bases:
        return bases_of(self.dataset)

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
