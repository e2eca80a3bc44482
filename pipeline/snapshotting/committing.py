"""Snapshots of all regions as the next version of the base table."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

import lance
from lance.dataset import Index

from memwal.base.index_details import MEM_WAL_INDEX, MEM_WAL_INDEX_TYPE, read_base_manifest
from memwal.base.versions import commit_next
from memwal.regions.region_snapshots import encode_region_snapshots
from pipeline.jobs.state import TableState


@dataclass(frozen=True, slots=True)
class CommittedSnapshots:
    """What one commit recorded.

    Attributes:
        version: of the base table that has the snapshots.
        taken_millis: when they were taken, Unix time in ms.
        num_bytes: of the Lance file that they are.
    """

    version: int
    taken_millis: int
    num_bytes: int


def commit(state: TableState, now_millis: int) -> CommittedSnapshots | None:
    """Record regions on top of the very version that was read with them.

    Nothing else of the index changes, and nothing that others commit meanwhile can be lost: the version after
    the one that was read is made by this call, or by somebody else.

    Args:
        state: the table, its manifests read before its version.
        now_millis: when they were read.

    Returns:
        None when somebody else made the next version.

    Raises:
        LanceGatewayError: it can't be done.
    """
    storage, details = state.table.storage, state.details
    manifests = [one.manifest for one in state.regions.values()]
    rows = encode_region_snapshots(manifests, details.region_specs)
    taken = max(now_millis, details.snapshot_ts_millis + 1)
    encoded = details.encode_with_snapshots(taken, len(manifests), rows)
    found = read_base_manifest(storage, state.version)
    operation = lance.LanceOperation.CreateIndex(
        [_index(str(uuid.uuid4()), state.version, encoded)],
        [_index(found.index_id or str(uuid.uuid4()), state.version, b"")],
    )
    # On the version that was read, or not at all: Lance would rebase it over others' progress (ADR 27).
    if commit_next(storage, state.version, operation):
        return CommittedSnapshots(state.version + 1, taken, len(rows))
    return None


def _index(index_id: str, version: int, encoded: bytes) -> Index:
    return Index(
        uuid=index_id,
        name=MEM_WAL_INDEX,
        fields=[],
        dataset_version=version,
        # Covers no fragment: compaction doesn't concern it.
        fragment_ids=set(),
        index_version=0,
        created_at=datetime.now(UTC),
        index_details=(MEM_WAL_INDEX_TYPE, encoded),
    )
