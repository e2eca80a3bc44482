"""Small files that were left behind.

- Drafts: files that were being written under another name when their writer was stopped.
- Records of owners whose claims are over.
- Markers of batches that Spark brought in: those below the newest batch of a stream, and those of jobs that
  ran once. They keep a straggler from writing a batch again, for a day.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from memwal.regions.manifest import manifest_directory
from memwal.storage.files import Entry, Storage
from memwal.writing.region.ownership import OWNERS
from pipeline.cleaning.garbage import Garbage, Kept, Kind
from pipeline.cleaning.view import RegionView

MARKERS: Final = "_gateway/ingest"
_DAY: Final = 86_400_000_000
_DRAFT: Final = re.compile(r".+(\.tmp\.[0-9a-f-]+|#[0-9]+)")
_MARKER: Final = re.compile(r"([^/]+)/(\d{1,19})\.done")
_ONCE: Final = "once-"


def region_leftovers(view: RegionView) -> Iterator[Garbage | Kept]:
    """Drafts and records of one region."""
    listed = {view.log_directory: view.log, manifest_directory(view.region_id): view.history.others}
    for path, names in listed.items():
        for one in names:
            if _DRAFT.fullmatch(one.name) and _is_older(one, view.now - view.policy.grace):
                reason = "a draft, whose writer was stopped"
                yield Garbage(Kind.LEFTOVERS, f"{path}/{one.name}", one.size, reason, view.region_id)
    owners = f"{OWNERS}/{view.region_id}"
    for one in view.storage.list(owners):
        if not one.is_dir and _is_older(one, view.now - view.policy.grace):
            epoch = _epoch(view.storage, f"{owners}/{one.name}")
            if epoch is None or epoch < view.newest.writer_epoch:
                reason = "the record of a claim that is over"
                yield Garbage(Kind.LEFTOVERS, f"{owners}/{one.name}", one.size, reason, view.region_id)


def markers(storage: Storage, now: int) -> Iterator[Garbage]:
    """Markers of batches.

    Args:
        storage: directory of the table.
        now: microseconds since 1970.
    """
    jobs: dict[str, list[tuple[int, Entry]]] = {}
    for one in storage.files(MARKERS):
        match = _MARKER.fullmatch(one.name)
        if match is not None:
            jobs.setdefault(match[1], []).append((int(match[2]), one))
    for job, found in sorted(jobs.items()):
        # The newest vouches for those before it; a job that ran once never comes back.
        newest = None if job.startswith(_ONCE) else max(batch for batch, _ in found)
        for batch, one in sorted(found, key=lambda pair: pair[1].name):
            if batch != newest and _is_older(one, now - _DAY):
                reason = "the marker of a batch that nobody brings in again"
                yield Garbage(Kind.LEFTOVERS, f"{MARKERS}/{one.name}", one.size, reason)


def _is_older(one: Entry, moment: int) -> bool:
    return one.written // 1000 <= moment


def _epoch(storage: Storage, path: str) -> int | None:
    """Of a record; None where it is none."""
    try:
        epoch = json.loads(storage.read(path))["epoch"]
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    return epoch if isinstance(epoch, int) else None
