"""Merges flushed generations into the base table: the specification's MemTable merger."""

from pipeline.merging.batches import MergePolicy
from pipeline.merging.committing import MergedBatch
from pipeline.merging.job import MergeReport, merge

__all__ = ["MergePolicy", "MergeReport", "MergedBatch", "merge"]
