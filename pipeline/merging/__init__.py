"""Flushed generations into the base table: the specification's MemTable merger.

- `batches`: which generations go into which commit.
- `newest`: the newest row of each key among generations, and the keys that were deleted.
- `committing`: one batch, into the base table, with its progress.
- `job`: all batches of a table.
"""

from pipeline.merging.batches import MergePolicy
from pipeline.merging.committing import MergedBatch
from pipeline.merging.job import MergeReport, merge

__all__ = ["MergePolicy", "MergeReport", "MergedBatch", "merge"]
