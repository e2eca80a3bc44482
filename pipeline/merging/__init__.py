"""Merges flushed generations into the base table: the specification's MemTable merger."""

from lance_gateway.pipeline.merging.batches import MergePolicy
from lance_gateway.pipeline.merging.committing import MergedBatch
from lance_gateway.pipeline.merging.job import MergeReport, merge

__all__ = ["MergePolicy", "MergeReport", "MergedBatch", "merge"]
