"""Moves generations of tables without a key to the base table: each row is appended once.

The rows and the record that they are merged are one version; see `memwal.writing.base_rows`.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lance_gateway.memwal.writing import BaseRows, commit_moved_rows
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging.batches import Batch
from lance_gateway.pipeline.merging.committing import MergedBatch
from lance_gateway.pipeline.merging.generations import Reader


def move_batches(table: LakeTable, planned: Sequence[Batch]) -> Iterator[MergedBatch]:
    """Move batches in order, one commit each; end where others were faster.

    Raises:
        LanceGatewayError: rows can't be read, written or committed; batches before this one are moved.
    """
    for batch in planned:
        moved = _move(table, batch)
        if moved is None:
            return
        yield moved


def _move(table: LakeTable, batch: Batch) -> MergedBatch | None:
    def find_newest() -> BaseRows:
        return BaseRows(table.name, table.storage, table.dataset())

    read = find_newest()
    reader, rows = Reader.of(table, read.dataset), 0

    def read_rows() -> Iterator[pa.Table]:
        nonlocal rows
        for prefix in batch.prefixes:
            for generation in prefix.generations:
                for found in reader.read(prefix.region_id, generation, None):
                    rows += found.num_rows
                    yield pa.Table.from_batches([found])

    added = read.write_files(read_rows())
    before = {prefix.region_id: prefix.after for prefix in batch.prefixes}
    merged = {prefix.region_id: prefix.through for prefix in batch.prefixes}
    if not commit_moved_rows(read, find_newest, added, before, merged):
        return None
    count = sum(len(prefix.generations) for prefix in batch.prefixes)
    return MergedBatch(merged, count, rows, 0)
