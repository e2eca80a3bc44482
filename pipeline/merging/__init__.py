"""Flushed generations into the base table: the specification's MemTable merger.

- `policy`: when, and how much at once; `weighing`: what waits, how much it is, and for how long.
- `batches`: which generations share a commit; `extents`: how mergers of one region agree where it ends.
- `winners`: the newest row of each key among a region's generations, and the keys that were deleted.
- `generations`: a generation, read in the base table's columns.
- `committing`: one batch, into the base table, with its progress; what conflicts mean.
- `uniting`: regions with two ids, brought back to one; `key_times`: when their rows were written.
- `job`: all of a table.
"""

from pipeline.merging.committing import MergedBatch
from pipeline.merging.job import MergeReport, merge
from pipeline.merging.policy import MergePolicy

__all__ = ["MergePolicy", "MergeReport", "MergedBatch", "merge"]
