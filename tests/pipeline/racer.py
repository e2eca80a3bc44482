"""A process that does one job on a table again and again, until a file says that it is over.

Run as ``python racer.py TABLE JOB STOP``; prints how often it did something.
"""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.pipeline.cleaning import CleanPolicy, clean
from lance_gateway.pipeline.indexing import IndexPolicy, maintain
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging import MergePolicy, merge
from lance_gateway.pipeline.snapshotting import SnapshotPolicy, snapshot

GRACE_SECONDS = 5.0
"""Longer than any query of the tests that race."""


def _merge(table: LakeTable) -> int:
    return merge(table, MergePolicy(batch_rows=8)).generations


def _index(table: LakeTable) -> int:
    return len(maintain(table, IndexPolicy(target_rows=1_000, max_spare_fragments=2)).reasons)


def _clean(table: LakeTable) -> int:
    policy = CleanPolicy(grace_seconds=GRACE_SECONDS, retain_versions=1)
    return len(clean(table, policy, delete=True).garbage)


def _snapshot(table: LakeTable) -> int:
    return snapshot(table, SnapshotPolicy(0)).committed is not None


JOBS: Mapping[str, Callable[[LakeTable], int]] = {
    "merge": _merge,
    "index": _index,
    "clean": _clean,
    "snapshot": _snapshot,
}


def main(uri: str, job: str, stop: str) -> None:
    table = LakeTable.at(uri)
    done = 0
    while not Path(stop).exists():
        with suppress(UnavailableError):  # Others were faster too often: that is told, and tried again.
            done += JOBS[job](table)
        os.sched_yield()
    print(done)  # noqa: T201 - what is waited for


if __name__ == "__main__":
    main(*sys.argv[1:])
