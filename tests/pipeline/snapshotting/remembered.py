"""What tests of snapshots of regions share: rows, policies, and what a table says."""

import pyarrow as pa

from lance_gateway.memwal.base.index_details import MemWalIndexDetails, read_base_manifest
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.snapshotting import SnapshotPolicy
from tests.support.lake.tables import key_field

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])
ALWAYS = SnapshotPolicy(max_age_seconds=0)


def rows(*ids: int, v: str) -> list[dict[str, object]]:
    return [{"id": one, "v": v} for one in ids]


def details_of(table: LakeTable) -> MemWalIndexDetails:
    details = read_base_manifest(table.storage, table.dataset().version).details
    assert details is not None
    return details


def newest(table: LakeTable) -> dict[int, str]:
    return {row["id"]: row["v"] for row in table.dataset().to_table().to_pylist()}
