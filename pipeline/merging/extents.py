"""Mergers of one region agree on how far its next merge goes, before any of them begins.

Lance takes a commit that records generation 7 of a region also where another merger has recorded 6 since the
first one looked. That is right where generations only add rows. But a key that 6 inserts and 7 deletes was
not there yet when the first merger deleted, and would come back. So the end of each merge is fixed by a file
that is created once: mergers that begin at the same generation end at the same one, and of two that record
the same generation Lance refuses the second.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress

from memwal.errors import CorruptDataError, UnavailableError
from memwal.regions.generation_numbers import EXTENTS, extent_path
from memwal.storage.files import Storage


def agree(storage: Storage, region_id: str, first: int, through: int) -> int:
    """The generation at which a merge ends that begins at `first`.

    It holds for whoever looks at the base table after this call, and finds that `first` is not merged yet.

    Args:
        storage: directory of the table.
        region_id: of the region.
        first: oldest generation that is pending.
        through: where it would end as far as the caller is concerned.

    Raises:
        CorruptDataError: the file says something else.
        UnavailableError: storage failed to answer.
    """
    path = extent_path(region_id, first)
    while not storage.put_if_absent(path, json.dumps({"through": through}).encode()):
        with suppress(FileNotFoundError):  # Another merger was done just now.
            return _read(storage.read(path), first, storage.locate(path))
    return through


def forget(storage: Storage, region_id: str, first: int) -> None:
    """Remove the file of a merge that is done; it stays where storage does not answer."""
    with suppress(UnavailableError):
        storage.delete(extent_path(region_id, first))


def forget_merged(storage: Storage, merged: Mapping[str, int]) -> None:
    """Remove files of merges that are done, by mergers that died after their commit or were slower.

    Args:
        storage: directory of the table.
        merged: newest generation by region that the base table contains.
    """
    done = [
        (region_id, int(first))
        for region_id, first in _names(storage)
        if first.isdecimal() and int(first) <= merged.get(region_id, 0)
    ]
    storage.each(lambda one: forget(storage, *one), done)


def _names(storage: Storage) -> Iterable[tuple[str, str]]:
    for entry in storage.list(EXTENTS):
        region_id, _, first = entry.name.rpartition(".")
        yield region_id, first


def _read(data: bytes, first: int, source: str) -> int:
    try:
        through = json.loads(data)["through"]
    except (ValueError, KeyError, TypeError):
        through = None
    if not isinstance(through, int) or through < first:
        msg = f"{source} does not say where a merge from generation {first} ends: remove the file"
        raise CorruptDataError(msg)
    return through
