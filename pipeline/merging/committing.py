"""One batch of generations into the base table, with its progress in the same commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from lance.mem_wal import CompactedSsTable

from memwal.creating import key_columns
from memwal.errors import UnavailableError
from pipeline.lake import LakeTable
from pipeline.merging.batches import Batch
from pipeline.merging.newest import newest


@dataclass(frozen=True, slots=True)
class MergedBatch:
    """What a commit did.

    Attributes:
        generations: region id -> newest generation that is merged now.
        upserted: rows inserted or updated.
        deleted: rows deleted.
    """

    generations: Mapping[str, int]
    upserted: int
    deleted: int


def commit(batch: Batch) -> MergedBatch:
    """Merge a batch.

    Deletes go first. They are committed on the very version that they were computed from, and never tried
    again on a newer one: a merger that lags would delete what a faster one has merged since.

    Raises:
        UnavailableError: others changed the same rows; look at the table again.
    """
    table = LakeTable.at(batch.uri, batch.options)
    base = table.dataset()
    key = list(key_columns(base.schema))
    parts = [newest(table.storage, one, found, base, key) for one, found in batch.generations.items()]
    rows = pa.concat_tables([part.rows for part in parts])
    deleted = pa.concat_tables([part.deleted for part in parts])
    merged = {one: found[-1].generation for one, found in batch.generations.items()}
    marks = [CompactedSsTable(one, generation) for one, generation in merged.items()]
    removed = upserted = 0
    try:
        if deleted.num_rows or not rows.num_rows:
            delete = base.merge_insert(key).when_matched_delete().conflict_retries(0)
            if not rows.num_rows:
                delete.mark_sstables_as_compacted(marks)
            removed = delete.execute(deleted)["num_deleted_rows"]
        if rows.num_rows:
            upsert = table.dataset().merge_insert(key).when_matched_update_all()
            upsert.when_not_matched_insert_all().mark_sstables_as_compacted(marks)
            done = upsert.execute(rows)
            upserted = done["num_inserted_rows"] + done["num_updated_rows"]
    except OSError as error:
        msg = f"table {table.name!r}: the merge was not committed: {error}"
        raise UnavailableError(msg) from error
    return MergedBatch(merged, upserted, removed)
